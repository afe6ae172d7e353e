"""``vtrr_stats``: how many jobs wait, run and failed."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder
from django.db import Error as DatabaseFailure

from vtrr_django import strays
from vtrr_django.connections import DjangoHooks
from vtrr_django.domain.durations import duration
from vtrr_django.domain.job import PartitionStats
from vtrr_django.exceptions import VTRRError
from vtrr_django.management.commands._base import (
    QueueCommand,
    add_queues_argument,
    chosen_queues,
    shown,
)
from vtrr_django.management.commands._table import table
from vtrr_django.queue import Queue

DEFAULT_WATCH, LONGEST_WATCH = 2.0, 86_400
CLEAR = "\x1b[H\x1b[2J"

_AWAY = (VTRRError, DatabaseFailure)

QUEUE_HEADS = (
    *("queue", "ready", "scheduled", "leased", "failed", "completed"),
    *("partitions waiting", "longest wait", "state"),
)
PARTITION_HEADS = (
    *("partition", "ready", "scheduled", "leased", "share", "limit", "longest wait", "state"),
)


class Command(QueueCommand):
    """Print the counts of queues, and of their partitions."""

    help = "Print how many jobs wait, run, failed and are completed."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        add_queues_argument(parser)
        parser.add_argument(
            "--partitions", action="store_true", help="Print each queue's partitions as well."
        )
        how = parser.add_mutually_exclusive_group()
        how.add_argument(
            "--json", action="store_true", help="Print a JSON list with all that is known."
        )
        how.add_argument(
            "--watch",
            nargs="?",
            type=float,
            const=DEFAULT_WATCH,
            metavar="SECONDS",
            help="Print again and again, until Ctrl-C. Default: every 2 seconds.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Print them once, or until Ctrl-C."""
        queues = chosen_queues(options["queue"])
        partitions, watch = options["partitions"], options["watch"]
        if options["json"]:
            known = _look(queues, partitions=partitions)
            told = [one.everything() for one in known]
            self.stdout.write(json.dumps(told, cls=DjangoJSONEncoder, indent=2))
            _complain(known)
        elif watch is None:
            known = _look(queues, partitions=partitions)
            self.stdout.write(_report(known))
            if options["queue"] is None:
                for sentence in strays.told(strays.find(queues)):
                    self.stdout.write(f"\n{sentence}")
            _complain(known)
        elif not 0 < watch <= LONGEST_WATCH:
            raise CommandError(
                f"--watch: expected seconds from more than 0 to {LONGEST_WATCH:,}, got {watch:g}"
            )
        else:
            self._watch(queues, watch, partitions=partitions)

    def _watch(self, queues: Sequence[Queue], seconds: float, *, partitions: bool) -> None:
        clear = CLEAR if self.stdout.isatty() else ""
        hooks = DjangoHooks()
        try:
            while True:
                hooks.before_store()
                report = _report(_look(queues, partitions=partitions))
                self.stdout.write(f"{clear}{time.strftime('%X')}\n{report}\n")
                self.stdout.flush()
                time.sleep(seconds)
        except KeyboardInterrupt:
            return


@dataclass(slots=True)
class _Known:
    """What is known of a queue: its store, or that of its history, may not answer."""

    name: str
    stats: dict[str, Any] = field(default_factory=dict)
    partitions: list[PartitionStats] | None = None
    problem: VTRRError | DatabaseFailure | None = None

    def everything(self) -> dict[str, Any]:
        told = {"queue": self.name, **self.stats}
        if self.partitions is not None:
            told["partitions"] = [asdict(one) for one in self.partitions]
        if self.problem is not None:
            told["error"] = str(self.problem).strip()
        return told


def _look(queues: Sequence[Queue], *, partitions: bool) -> list[_Known]:
    """Ask all queues.

    Raises:
        VTRRError, DatabaseError: none of them says anything.
    """
    found = [_look_at(queue, partitions=partitions) for queue in queues]
    if not any(one.stats for one in found) and (problem := found[0].problem) is not None:
        raise problem
    return found


def _look_at(queue: Queue, *, partitions: bool) -> _Known:
    known = _Known(queue.name)
    try:
        known.stats = queue.stats()
    except _AWAY as error:
        known.problem = error
        with contextlib.suppress(*_AWAY):  # then it is the history alone that does not answer
            depth = queue.depth()
            known.stats = {
                "ready": depth.ready,
                "scheduled": depth.scheduled,
                "claimed": depth.leased,
                "partitions_waiting": depth.partitions_waiting,
                "oldest_wait_seconds": depth.oldest_wait_seconds,
                "paused": depth.paused,
            }
    if partitions and known.stats:
        try:
            known.partitions = queue.partitions()
        except _AWAY as error:  # it went away in the midst
            known.problem = known.problem or error
    return known


def _complain(known: Sequence[_Known]) -> None:
    told = [f"queue {one.name}: {str(one.problem).strip()}" for one in known if one.problem]
    if told:
        raise CommandError("\n".join(told))


def _report(known: Sequence[_Known]) -> str:
    parts = [table(QUEUE_HEADS, [_queue_row(one) for one in known])]
    for one in known:
        if one.partitions is not None:
            parts.append(_partition_report(one.name, one.partitions))
    return "\n\n".join(parts)


def _queue_row(known: _Known) -> list[object]:
    stats = known.stats
    state = "paused" if stats.get("paused") else ""
    if known.problem is not None:
        away = "its history does not answer" if stats else "does not answer"
        state = f"{state}, {away}" if state else away
    return [
        known.name,
        *(stats.get(key, "-") for key in ("ready", "scheduled", "claimed", "failed", "completed")),
        stats.get("partitions_waiting", "-"),
        _wait(stats["oldest_wait_seconds"] if stats.get("ready") else None),
        state,
    ]


def _partition_report(name: str, found: Sequence[PartitionStats]) -> str:
    if not found:
        return f"Queue {name} has no partitions with jobs or settings."
    return f"Queue {name}\n" + table(PARTITION_HEADS, [_partition_row(one) for one in found])


def _partition_row(one: PartitionStats) -> list[object]:
    oldest = one.oldest_ready_at
    return [
        shown(one.partition_key),
        one.ready,
        one.scheduled,
        one.leased,
        one.share,
        "-" if one.limit is None else f"{one.limit:,}",
        _wait(None if oldest is None else (datetime.now(UTC) - oldest).total_seconds()),
        "paused" if one.paused else "",
    ]


def _wait(seconds: float | None) -> str:
    return "-" if seconds is None else duration(max(0.0, seconds))
