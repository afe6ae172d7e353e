"""How far a run has come: one entry of the admin's log, which each batch brings up to date.

The log has to tell of it anyway, and it is in a database that all processes share. Its text
is a sentence for people and then, in brackets, what was asked for, signed, and what the next
batch has to know; it changes from one value to the next in one statement that names both, so
of two processes at the same letters one writes down that the run has passed them. The log of
each queue tells of the run as well, where people look first: how it ended there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.db import router

from vtrr_django.admin.bulk import NotOurs, Run
from vtrr_django.admin.markup import count
from vtrr_django.engines.sql.store import Store
from vtrr_django.models import FailedJob, QueueState

RUNNING: Final = "running"
DONE: Final = "done"
STOPPED: Final = "stopped"

_ENDED: Final = {RUNNING: "Not ended yet", DONE: "Done", STOPPED: "Stopped"}
_GONE: Final = "The log entry of this run was deleted; choose the jobs again."
_UNREADABLE: Final = (
    "The log entry of this run cannot be read any more, as when SECRET_KEY has changed; "
    "choose the jobs again."
)
_MARK: Final = "[run "
_LONGEST_REPR: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a run has come.

    Attributes:
        state: RUNNING, DONE or STOPPED.
        taken: letters it has come to.
        done: letters that were there and with which it was done, by queue.
        kept: letters that were there and with which it could not be done.
        refused: letters of queues with which nothing can be done, by queue.
        reached: number of the last letter it has come to.
        at_work: names the process that is at the next letters; "": nobody is.
        entries: numbers of the entries in the logs of its queues.
    """

    state: str = RUNNING
    taken: int = 0
    done: Mapping[str, int] = field(default_factory=dict)
    kept: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    reached: int = 0
    at_work: str = ""
    entries: Mapping[str, int] = field(default_factory=dict)

    @property
    def all_done(self) -> int:
        """Letters with which it was done, of all queues."""
        return sum(self.done.values())


def for_people(text: str) -> str:
    """Return the text of an entry without what only a run reads."""
    return text.rpartition(_MARK)[0].rstrip() if _MARK in text else text


def name_of(number: int) -> str:
    """Return what the log calls a run that is about more than one letter.

    No job has that name: those begin with that of their queue.
    """
    return f":{number}"


def number_of(name: str) -> int | None:
    """Undo :func:`name_of`; None: it is no name of a run."""
    digits = name.removeprefix(":")
    is_run = name != digits and digits.isascii() and digits.isdecimal() and len(digits) <= 18
    return int(digits) if is_run else None


class Ledger:
    """The log entry of one run.

    Attributes:
        run: what was asked for.
        number: the entry's.
    """

    def __init__(self, run: Run, number: int) -> None:
        self.run = run
        self.number = number

    @classmethod
    def of(cls, run: Run, subject: Mapping[str, str] | None = None) -> Ledger:
        """Return the ledger of a run; it is made when the run begins, once.

        Args:
            run: the run.
            subject: ``object_id`` and ``object_repr`` of the entry, if it is about one letter.
        """
        alias = router.db_for_write(LogEntry)
        mine = LogEntry.objects.using(alias).filter(pk__gt=run.logged, user_id=run.user)
        found = mine.filter(change_message__contains=f"{_MARK}{run.key} ")
        numbers = found.values_list("pk", flat=True)

        def find_or_make(cursor: object) -> int:
            # Two clicks at once: the second waits here for the first.
            get_user_model()._base_manager.using(alias).select_for_update().get(pk=run.user)
            return numbers.first() or _make(alias, run, subject)

        return cls(run, numbers.first() or Store(alias).transact(find_or_make))

    @classmethod
    def find(cls, number: int) -> Ledger:
        """Return the ledger that is the entry of this number.

        Raises:
            NotOurs: there is none, or it cannot be read any more.
        """
        entries = _entries(number).filter(content_type=_kind(FailedJob))
        text = entries.values_list("change_message", flat=True).first() or ""
        _, mark, tail = text.rpartition(_MARK)
        if not mark:
            raise NotOurs(_GONE)
        try:
            return cls(Run.kept(tail.split(" ")[1]), number)
        except (NotOurs, IndexError) as error:
            raise NotOurs(_UNREADABLE) from error

    def who(self) -> str:
        """Return the name of the user whose run it is."""
        users = get_user_model()._base_manager.using(router.db_for_read(LogEntry))
        user = users.filter(pk=self.run.user).first()
        return "somebody who is gone" if user is None else str(user.get_username())

    def read(self) -> Progress:
        """Return how far the run has come.

        Raises:
            NotOurs: somebody has deleted the entry.
        """
        return _parsed(self._read())

    def change(self, new: Callable[[Progress], Progress]) -> Progress:
        """Bring the entry up to date, whatever others write meanwhile; return what it says."""
        while True:
            text = self._read()
            old = _parsed(text)
            changed = new(old)
            if changed == old or self._swap(text, changed):
                return changed

    def _swap(self, old: str, new: Progress) -> bool:
        def swap(cursor: object = None) -> bool:
            entries = _entries(self.number).filter(change_message=old)
            if not entries.update(change_message=_text(self.run, new)):
                return False
            if new.state != RUNNING:
                for queue, number in new.entries.items():
                    told = _text_of_queue(self.run, queue, new)
                    _entries(number).update(change_message=told)
            return True

        if new.state == RUNNING:
            return swap()
        return Store(router.db_for_write(LogEntry)).transact(swap)

    def _read(self) -> str:
        text = _entries(self.number).values_list("change_message", flat=True).first()
        if text is None:
            raise NotOurs(_GONE)
        return str(text)


def last_entry() -> int:
    """Return the number of the last entry of the admin's log."""
    newest = LogEntry.objects.using(router.db_for_write(LogEntry)).order_by("-pk")
    return newest.values_list("pk", flat=True).first() or 0


def _make(alias: str, run: Run, subject: Mapping[str, str] | None) -> int:
    """Write the entries of a run that begins; return the number of its own."""
    entry = LogEntry(
        user_id=run.user,
        content_type=_kind(FailedJob),
        action_flag=run.action.flag,
        **(subject or {"object_repr": run.words[:_LONGEST_REPR]}),
    )
    entry.save(using=alias)
    entries = {}
    for queue in run.counts:
        told = LogEntry(
            user_id=run.user,
            content_type=_kind(QueueState),
            object_id=queue,
            object_repr=queue,
            action_flag=CHANGE,
            change_message=_text_of_queue(run, queue, Progress()),
        )
        told.save(using=alias)
        entries[queue] = int(told.pk)
    if subject is None:
        entry.object_id = name_of(entry.pk)
    entry.change_message = _text(run, Progress(entries=entries))
    entry.save(using=alias)
    return int(entry.pk)


def _kind(model: Any) -> ContentType:
    kinds = ContentType.objects.db_manager(router.db_for_write(LogEntry))
    return kinds.get_for_model(model)


def _entries(number: int) -> Any:
    alias = router.db_for_write(LogEntry)
    return LogEntry.objects.using(alias).filter(pk=number).order_by()


def _parsed(text: str) -> Progress:
    _, _, values = text.rpartition(_MARK)[2].split(" ", 2)
    return Progress(**json.loads(values[:-1]))


def _text(run: Run, progress: Progress) -> str:
    """Return a sentence, and then in brackets what the next batch reads."""
    told = f"{run.action.label}: {run.words}. {_ENDED[progress.state]}"
    told += f": {progress.all_done:,} {run.action.done}"
    refused = sum(progress.refused.values())
    if refused:
        told += f", nothing was done with {refused:,}"
    return f"{told}. {_MARK}{run.key} {run.signed()} {json.dumps(asdict(progress))}]"


def _text_of_queue(run: Run, queue: str, progress: Progress) -> str:
    letters = count(run.counts[queue], "failed job")
    told = f"{run.action.label}: {letters} of this queue, of {run.words}. {_ENDED[progress.state]}"
    if progress.state == RUNNING:
        return f"{told}."
    return f"{told}: {progress.done.get(queue, 0):,} {run.action.done}."
