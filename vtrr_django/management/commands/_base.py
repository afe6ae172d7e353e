"""What the commands share: choosing queues, and errors for people."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DatabaseFailure
from django.db import connections

from vtrr_django.conf import get_config
from vtrr_django.domain.job import PartitionStats
from vtrr_django.exceptions import StoreUnavailable, VTRRError
from vtrr_django.intake import declared_shares
from vtrr_django.models import Job
from vtrr_django.queue import Queue
from vtrr_django.registry import all_queues, get_queue


class QueueCommand(BaseCommand):
    """A command about queues. What they or their database refuse is no traceback.

    Attributes:
        what: with how many of which it may be half way when an error stops it; "": none.
        did: what it had done with those.
    """

    what, did = "", "done"

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command.

        Raises:
            CommandError: it cannot do what it was asked to.
        """
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # A tenant's name may hold what the terminal cannot show.
                stream.reconfigure(errors="backslashreplace")
        try:
            return super().execute(*args, **options)
        except BrokenPipeError:
            # Whoever read has seen enough. Python would complain again when it flushes.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return None
        except (StoreUnavailable, DatabaseFailure) as error:
            refuse_without_tables(all_queues())
            raise CommandError(self._told(error)) from error
        except VTRRError as error:
            raise CommandError(self._told(error)) from error

    def _told(self, error: Exception) -> str:
        return told_of(error, self.what, self.did)

    def say(self, text: str, options: dict[str, Any]) -> None:
        """Print what was done, unless ``--verbosity 0``."""
        if options["verbosity"] >= 1:
            self.stdout.write(text)


class EachQueue:
    """Does things for several queues, one after the other; one that fails holds up no other.

    With a queue for which something failed nothing more is done.

    Args:
        queues: those that were chosen.
    """

    def __init__(self, queues: Sequence[Queue]) -> None:
        self._queues = queues
        self._failed: dict[Queue, str] = {}
        self._first: Exception | None = None

    def do(self, act: Callable[[Queue], object], what: str = "", did: str = "done") -> None:
        """Do it for each; ``what`` and ``did`` are as in :class:`QueueCommand`."""
        for queue in self._queues:
            if queue in self._failed:
                continue
            try:
                act(queue)
            except (VTRRError, DatabaseFailure) as error:
                self._first = self._first or error
                self._failed[queue] = self._why(queue, told_of(error, what, did))

    def _why(self, queue: Queue, told: str) -> str:
        with contextlib.suppress(VTRRError):  # without an engine, as ``told`` says
            try:
                refuse_without_tables([queue])
            except CommandError as refusal:
                return str(refusal)
        # Where there is but one queue, everybody knows which.
        return told if len(self._queues) == 1 else f"queue {queue.name}: {told}"

    def complain(self) -> None:
        """Say of which queues something failed, if any.

        Raises:
            CommandError: some did; what each had done before is told.
        """
        if self._failed:
            raise CommandError("\n".join(dict.fromkeys(self._failed.values()))) from self._first


def told_of(error: Exception, what: str, did: str) -> str:
    """Return what is said of an error, and how much was done before it."""
    done = error.done if isinstance(error, VTRRError) else 0
    before = f"{count(done, what) if what else 'it was'} {did}; then: "
    return (before if done else "") + str(error).strip()


def add_queues_argument(parser: CommandParser, what: str = "all that are declared") -> None:
    """Add ``--queue``, for any number of queues."""
    parser.add_argument(
        "--queue",
        action="extend",
        nargs="+",
        metavar="NAME",
        help=f"A queue; may be given more than once. Default: {what}.",
    )


def add_queue_argument(parser: CommandParser) -> None:
    """Add ``--queue``, for one queue."""
    parser.add_argument(
        "--queue", metavar="NAME", help="The queue; not needed where only one is declared."
    )


def add_partition_argument(parser: CommandParser, *, required: bool = False) -> None:
    """Add ``--partition``."""
    parser.add_argument(
        "--partition",
        metavar="KEY",
        required=required,
        help='The partition; "" is that of jobs published without one.'
        + ("" if required else " Default: the whole queue."),
    )


def chosen_queues(names: str | Sequence[str] | None) -> list[Queue]:
    """Return the queues of these names; None: all that are declared.

    Raises:
        UnknownQueueError: settings declare no queue of such a name; the nearest is named.
    """
    if names is None:
        return all_queues()
    given = [names] if isinstance(names, str) else names
    return [declared_queue(name) for name in dict.fromkeys(given)]


def chosen_queue(name: str | None) -> Queue:
    """Return the queue of that name; None: the only one.

    Raises:
        UnknownQueueError: settings declare no queue of that name.
        CommandError: no name was given and several are declared.
    """
    if name is not None:
        return declared_queue(name)
    queues = all_queues()
    if len(queues) > 1:
        raise CommandError(
            f"expected --queue NAME, for settings declare {len(queues)}: "
            f"{', '.join(queue.name for queue in queues)}"
        )
    return queues[0]


def declared_queue(name: str) -> Queue:
    """Return the queue of that name.

    Raises:
        UnknownQueueError: settings declare no queue of that name.
    """
    get_config(name)
    return get_queue(name)


def refuse_without_tables(queues: Iterable[Queue]) -> None:
    """Refuse databases that were never migrated; leave those that do not answer alone.

    Raises:
        CommandError: a database has no tables of this app; the cure is named.
    """
    for alias in dict.fromkeys(queue.engine.transaction_alias for queue in queues):
        if alias is None:
            continue
        with contextlib.suppress(DatabaseFailure):
            if Job._meta.db_table not in connections[alias].introspection.table_names():
                raise CommandError(
                    f"expected the tables of vtrr_django in database {alias!r}, got none; run "
                    f"manage.py migrate --database={alias} first"
                )


def of_partition(key: str | None, queue: Queue) -> str:
    """Return ``partition KEY of queue NAME``, or ``queue NAME``."""
    return f"queue {queue.name}" if key is None else f"partition {shown(key)} of queue {queue.name}"


def shown(partition_key: str) -> str:
    """Return a partition key as one would type it."""
    return partition_key or '""'


def count(number: int, what: str, plural: str = "") -> str:
    """Return ``1 job``, ``1,200 jobs``."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}"


def waiting(queue: Queue, key: str | None) -> tuple[int, int]:
    """Return how many jobs of a queue, or of one partition, are ready and scheduled."""
    if key is None:
        stats = queue.stats()
        return stats["ready"], stats["scheduled"]
    found = queue.partitions(key)
    return sum(one.ready for one in found), sum(one.scheduled for one in found)


def what_waits(queue: Queue, key: str | None) -> str:
    """Return the same in words, after something was done: that it cannot be seen undoes nothing."""
    try:
        ready, scheduled = waiting(queue, key)
    except StoreUnavailable as error:
        return f"what waits could not be seen ({error})"
    return f"{count(ready, 'job')} ready, {scheduled:,} scheduled"


def in_force(queue: Queue, key: str) -> str:
    """Return the settings of a partition that count now, and its jobs."""
    known = queue.partitions(key)
    if known:
        one = known[0]
    else:  # without jobs and settings of its own: what it would get
        share = declared_shares(queue.config.shares, [key]).get(key, 1.0)
        one = PartitionStats(partition_key=key, share=share, limit=queue.config.default_limit)
    limit = "no limit" if one.limit is None else f"limit {one.limit:,}"
    paused = ", paused" if one.paused else ""
    return (
        f"Partition {shown(key)} of queue {queue.name}: share {one.share:g}, {limit}{paused}; "
        f"{count(one.ready, 'job')} ready, {one.scheduled:,} scheduled, {one.leased:,} leased."
    )


PRUNED = ("ended job", "removed")
"""What :func:`pruned` may be half way with."""


def pruned(queue: Queue) -> str:
    """Prune a queue's history; return what that removed."""
    removed = queue.prune()
    return (
        f"Queue {queue.name}: {count(removed['completed'], 'completed job')} and "
        f"{count(removed['failed'], 'dead letter')} removed."
    )
