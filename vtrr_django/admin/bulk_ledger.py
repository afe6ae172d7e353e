"""How far a run has come: one entry of the admin's log, which each batch brings up to date.

The log has to tell of it anyway, and it is in a database that all processes share. (That it
began is told in the log of each queue as well, where people look first.) Its text
is a sentence for people and then, in brackets, what the next batch has to know; it
changes from one value to the next in one statement that names both, so of two tabs that take
letters at the same time each takes its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
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

_MARK: Final = "[run "
_LONGEST_REPR: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a run has come.

    Attributes:
        state: RUNNING, DONE or STOPPED.
        taken: letters it has come to.
        done: letters that were there and with which it was done.
        refused: letters of queues with which nothing can be done, by queue.
        reached: number of the last letter it has come to.
    """

    state: str = RUNNING
    taken: int = 0
    done: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    reached: int = 0


def for_people(text: str) -> str:
    """Return the text of an entry without what only a run reads."""
    return text.rpartition(_MARK)[0].rstrip() if _MARK in text else text


class Ledger:
    """The log entry of one run."""

    def __init__(self, run: Run, entry_id: int) -> None:
        self._run = run
        self._id = entry_id

    @classmethod
    def of(cls, run: Run, subject: Mapping[str, str] | None = None) -> Ledger:
        """Return the ledger of a run; it is made when the run begins, once.

        Args:
            run: the run.
            subject: ``object_id`` and ``object_repr`` of the entry, if it is about one letter.
        """
        alias = router.db_for_write(LogEntry)
        mine = LogEntry.objects.using(alias).filter(pk__gt=run.logged, user_id=run.user)
        found = mine.filter(change_message__contains=_key(run)).values_list("pk", flat=True)
        kinds = ContentType.objects.db_manager(alias)

        def find_or_make(cursor: object) -> int:
            # Two clicks at once: the second waits here for the first.
            get_user_model()._base_manager.using(alias).select_for_update().get(pk=run.user)
            known = found.first()
            if known is not None:
                return known
            many = {"object_id": None, "object_repr": run.words[:_LONGEST_REPR]}
            entry = LogEntry(
                user_id=run.user,
                content_type=kinds.get_for_model(FailedJob),
                action_flag=run.action.flag,
                change_message=_text(run, Progress()),
                **(subject or many),
            )
            entry.save(using=alias)
            kind = kinds.get_for_model(QueueState)
            LogEntry.objects.using(alias).bulk_create(
                LogEntry(
                    user_id=run.user,
                    content_type=kind,
                    object_id=queue,
                    object_repr=queue,
                    action_flag=CHANGE,
                    change_message=f"{run.action.label}: {count(n, 'failed job')} of this queue, "
                    f"of {run.words}. How far it came is said in the log of failed jobs.",
                )
                for queue, n in run.counts.items()
            )
            return int(entry.pk)

        return cls(run, found.first() or Store(alias).transact(find_or_make))

    def read(self) -> Progress:
        """Return how far the run has come.

        Raises:
            NotOurs: somebody has deleted the entry.
        """
        return self._parsed(self._read())

    def take(self, seen: Progress, *, reached: int, count: int) -> bool:
        """Claim the letters up to a number; False: the run has come further since ``seen``."""
        taken = replace(seen, reached=reached, taken=seen.taken + count)
        return self._swap(_text(self._run, seen), taken)

    def change(self, new: Callable[[Progress], Progress]) -> Progress:
        """Bring the entry up to date, whatever others write meanwhile; return what it says."""
        while True:
            text = self._read()
            changed = new(self._parsed(text))
            if self._swap(text, changed):
                return changed

    def _swap(self, old: str, new: Progress) -> bool:
        entries = self._entries().filter(change_message=old)
        return bool(entries.update(change_message=_text(self._run, new)))

    def _read(self) -> str:
        text = self._entries().values_list("change_message", flat=True).first()
        if text is None:
            raise NotOurs("The log entry of this run was deleted; choose the jobs again.")
        return str(text)

    def _parsed(self, text: str) -> Progress:
        return Progress(**json.loads(text.rpartition(_key(self._run))[2][:-1]))

    def _entries(self) -> Any:
        alias = router.db_for_write(LogEntry)
        return LogEntry.objects.using(alias).filter(pk=self._id).order_by()


def last_entry() -> int:
    """Return the number of the last entry of the admin's log."""
    newest = LogEntry.objects.using(router.db_for_write(LogEntry)).order_by("-pk")
    return newest.values_list("pk", flat=True).first() or 0


def _key(run: Run) -> str:
    return f"{_MARK}{run.key} "


def _text(run: Run, progress: Progress) -> str:
    """Return a sentence, and then in brackets what the next batch reads."""
    state = {RUNNING: "Not ended yet", DONE: "Done", STOPPED: "Stopped"}[progress.state]
    told = f"{run.action.label}: {run.words}. {state}: {progress.done:,} {run.action.done}"
    refused = sum(progress.refused.values())
    if refused:
        told += f", nothing was done with {refused:,}"
    return f"{told}. {_key(run)}{json.dumps(asdict(progress))}]"
