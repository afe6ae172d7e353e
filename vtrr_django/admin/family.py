"""The job that made a job, and those it made: in whichever queue they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from vtrr_django.admin import markup
from vtrr_django.admin.history_names import History, queue_names, rows_in
from vtrr_django.admin.history_search import database_of
from vtrr_django.conf import get_settings
from vtrr_django.engines.sql.store import Store
from vtrr_django.exceptions import VTRRError
from vtrr_django.models import CompletedJob, FailedJob
from vtrr_django.overview import TROUBLE
from vtrr_django.registry import all_queues, live_jobs

MOST: Final = 20
"""Relatives of each kind that are listed."""

Address = Callable[[History | None, str, str], str]
"""Returns where the page of a job is, by its table (None: it is live), queue and id; "": none."""


class Family:
    """The relatives of one job.

    Ids are unique within a queue; those of another queue are found where the job's own has none.

    Args:
        queue: the job's.
        alias: the database that has, or will have, the job's history.
        address: where the page of a relative is.
    """

    def __init__(self, queue: str, alias: str, address: Address) -> None:
        self._queue = queue
        self._alias = alias
        self._address = address
        self._names: dict[tuple[History, str], list[str]] = {}

    def parents(self, parent_id: str | None) -> list[dict[str, Any]]:
        """Return the job of that id, where something is known of it.

        Raises:
            StoreUnavailable: the database of the job's history does not answer.
        """
        if not parent_id:
            return []
        found = self._ended(id=parent_id) or self._live(parent_id)
        return [one for one in found if one["queue_name"] == self._queue] or found

    def children(self, job_id: str) -> list[dict[str, Any]]:
        """Return the newest of the ended jobs that the job of this id made.

        Raises:
            StoreUnavailable: the database of the job's history does not answer.
        """
        return self._ended(parent_id=job_id)

    def _ended(self, **condition: str) -> list[dict[str, Any]]:
        found = self._ended_in(self._alias, condition)
        used = {config.database for config in get_settings().queues.values()}
        for alias in sorted(used - {self._alias}):
            with suppress(*TROUBLE):  # what it has is missed; the rest is there to be shown
                found += self._ended_in(alias, condition)
        return found

    def _ended_in(self, alias: str, condition: dict[str, str]) -> list[dict[str, Any]]:
        found, store = [], Store(alias)
        for model in (FailedJob, CompletedJob):
            rows = rows_in(model, alias).filter(queue__in=self._queues(model, alias), **condition)
            newest = rows.order_by("-seq").values_list("queue", "id", "task_name")[:MOST]
            read: list[tuple[str, str, str]] = store.persist(partial(list, newest))
            state = "failed" if model is FailedJob else "completed"
            for queue, job_id, task in read:
                there = self._address(model, queue, job_id) if database_of(queue) == alias else ""
                found.append(_relative(queue, job_id, task, state, there))
        return found

    def _queues(self, model: History, alias: str) -> Sequence[str]:
        """Return the queues that have rows: every index begins with them."""
        if (model, alias) not in self._names:
            names = Store(alias).persist(partial(queue_names, model, alias))
            self._names[model, alias] = names
        return self._names[model, alias]

    def _live(self, job_id: str) -> list[dict[str, Any]]:
        """Return the live jobs of that id: of the job's own queue, else of any."""
        try:
            queues = all_queues()
            own = [queue for queue in queues if queue.name == self._queue]
            others = [queue for queue in queues if queue.name != self._queue]
            found = live_jobs(own, job_id) or live_jobs(others, job_id)
        except VTRRError:  # it is no id
            return []
        return [
            _relative(
                one.queue,
                one.id,
                one.task_name,
                one.state.name.lower(),
                self._address(None, one.queue, one.id),
            )
            for one in found
        ]


def _relative(queue: str, job_id: str, task: str, state: str, there: str) -> dict[str, Any]:
    return {
        "id": markup.name(job_id),
        "queue": markup.name(queue),
        "queue_name": queue,
        "task": markup.name(task),
        "state": state,
        "url": there,
    }
