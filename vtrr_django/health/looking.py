"""Asking stores and databases how queues are: it never raises, and waits for none twice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Final, TypeVar

from vtrr_django.connections import DjangoHooks
from vtrr_django.domain.job import JobInfo, PartitionStats, QueueStats
from vtrr_django.engines.sql.store import Store
from vtrr_django.exceptions import VTRRError
from vtrr_django.figures.reading import ALIVE, SeenWorker, Totals, busy_workers
from vtrr_django.queue import Queue
from vtrr_django.registry import all_queues

T = TypeVar("T")

MOST_PARTITIONS: Final = 10_000
"""Partitions that are looked at to tell whether one of them has a job that may run."""

_LONGEST_PROBLEM = 300


@dataclass(slots=True)
class Looker:
    """Asks for one check, or one scrape, of any number of queues.

    A place that did not answer is not asked again: who waits for one that hangs, waits for
    its timeout, and is to wait once and not once for each queue.
    """

    _away: dict[Hashable, str] = field(default_factory=dict)
    _looks: dict[str, Look] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A connection that broke since the last request is no outage. One that cannot even be
        # closed is forgotten all the same.
        with contextlib.suppress(Exception):
            DjangoHooks().before_store()

    def look(self, queue: Queue) -> Look:
        """Return what can be found out about a queue; nothing is asked yet."""
        found = self._looks.get(queue.name)
        if found is None:
            found = self._looks[queue.name] = Look(queue, self)
        return found

    def ask(self, place: Hashable, question: Callable[[], T]) -> tuple[T | None, str]:
        """Return the answer of a place, or None and why there is none."""
        problem = self._away.get(place)
        if problem is not None:
            return None, problem
        try:
            return question(), ""
        except Exception as error:  # noqa: BLE001 - whatever it is, the report has to say it
            self._away[place] = problem = _described(error)
            return None, problem


class Look:
    """One queue. Each thing is asked for when it is needed, once."""

    def __init__(self, queue: Queue, looker: Looker) -> None:
        self.queue = queue
        self.looker = looker
        config = queue.config
        self._store = config.place
        self._in_database = config.place == (config.engine, config.database)
        self._figures = ("figures", config.database)

    @classmethod
    def knowing(
        cls,
        queue: Queue,
        depth: QueueStats,
        workers: Sequence[SeenWorker],
        partitions: Sequence[PartitionStats],
    ) -> Look:
        """Return a look that need not ask again for what somebody has found out already.

        Args:
            queue: which.
            depth: how it stands.
            workers: those that are alive.
            partitions: those with the most ready jobs, ``MOST_PARTITIONS`` at least.
        """
        look = Looker().look(queue)
        # As a cached property keeps what it has computed.
        vars(look).update(
            _depth=(depth, ""),
            workers=list(workers),
            waiting=[one for one in partitions if one.ready],
        )
        return look

    @cached_property
    def _depth(self) -> tuple[QueueStats | None, str]:
        return self.looker.ask(self._store, self.queue.depth)

    @property
    def depth(self) -> QueueStats | None:
        """How the queue stands; None: its store does not answer."""
        return self._depth[0]

    @property
    def store_problem(self) -> str:
        """Why the store does not answer, for people; empty where it does."""
        return self._depth[1]

    @cached_property
    def _totals(self) -> tuple[Totals | None, str]:
        if self._in_database and self.store_problem:
            return None, self.store_problem
        return self.looker.ask(self._figures, self.queue.figures.totals)

    @property
    def totals(self) -> Totals | None:
        """What has happened so far; None: the database of the figures does not answer."""
        return self._totals[0]

    @property
    def database_problem(self) -> str:
        """Why that database does not answer, for people; empty where it does."""
        return self._totals[1]

    @cached_property
    def workers(self) -> list[SeenWorker]:
        """Workers that are alive."""
        totals = self.totals
        seen, _ = self.looker.ask(self._figures, self.queue.figures.workers)
        if totals is None or seen is None:
            return []
        return [worker for worker in seen if totals.now - worker.seen_at <= ALIVE]

    @cached_property
    def waiting(self) -> list[PartitionStats]:
        """Partitions with ready jobs, those with most of them first."""
        count = 0 if self.depth is None else self.depth.partitions_waiting
        found = self.partitions(min(count, MOST_PARTITIONS)) if count else []
        return [one for one in found if one.ready]

    def waited(self, partition: PartitionStats) -> float:
        """Return for how many seconds the head of a partition has been ready."""
        if partition.oldest_ready_at is None or self.depth is None or self.depth.now is None:
            return 0.0
        return (self.depth.now - partition.oldest_ready_at).total_seconds()

    def partitions(self, limit: int) -> list[PartitionStats]:
        """Return those with the most ready jobs; none where the store does not answer."""
        found, _ = self.looker.ask(self._store, lambda: self.queue.partitions(limit=limit))
        return found or []

    def first(self, state: str, limit: int = 1) -> list[JobInfo]:
        """Return the scheduled jobs that are due first, or the leases that run out first."""
        page, _ = self.looker.ask(self._store, lambda: self.queue.jobs(state, limit=limit))
        return [] if page is None else page.jobs

    def busy(self, since: datetime) -> set[str]:
        """Return the workers of any queue, seen since then, that hold a lease."""
        busy: set[str] = set()
        names: dict[str, list[str]] = {}
        for queue in all_queues():
            names.setdefault(queue.config.database, []).append(queue.name)
        for alias, queues in names.items():
            found, _ = self.looker.ask(
                ("figures", alias), partial(busy_workers, Store(alias), queues, since)
            )
            busy |= found or set()
        return busy

    def ended(self, past: timedelta) -> int:
        """Return how many jobs were completed or became dead letters in the time ``past``."""
        found, _ = self.looker.ask(self._figures, lambda: self.queue.figures.minutes(past))
        return sum(one.completed + one.failed for one in found or ())

    def worker_seconds(self, partition_keys: list[str]) -> tuple[dict[str, float], float]:
        """Return the worker time of partitions in the last hour, and that of all."""
        found, _ = self.looker.ask(
            self._figures, lambda: self.queue.figures.worker_seconds(partition_keys)
        )
        return found or ({}, 0.0)


def _described(error: Exception) -> str:
    """Return what went wrong, in one line.

    Only errors of this package are quoted: another may hold anything.
    """
    if not isinstance(error, VTRRError):
        return type(error).__name__
    text = " ".join(str(error).split())
    return text if len(text) <= _LONGEST_PROBLEM else text[:_LONGEST_PROBLEM] + "…"
