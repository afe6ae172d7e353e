"""Asking stores and databases how queues are: it never raises, and waits for none twice."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Final, TypeVar

from django.db import InterfaceError, OperationalError

from vtrr_django.connections import DjangoHooks
from vtrr_django.domain.job import JobInfo, PartitionStats, QueueStats
from vtrr_django.domain.places import Place
from vtrr_django.engines.sql.store import Store
from vtrr_django.exceptions import StoreUnavailable, VTRRError
from vtrr_django.figures.reading import ALIVE, SeenWorker, Totals, busy_workers
from vtrr_django.health import rows
from vtrr_django.queue import Queue
from vtrr_django.registry import all_queues, depths, place_of
from vtrr_django.worker.describe import format_frames

T = TypeVar("T")

MOST_PARTITIONS: Final = 10_000
"""Partitions that are looked at to tell whether one of them has a job that may run."""

_LONGEST_PROBLEM = 300

_AWAY = (StoreUnavailable, OperationalError, InterfaceError, OSError)
"""What a place raises that does not answer anybody; all else is about one question."""

_FORESEEN = (VTRRError, OperationalError, InterfaceError)
"""What is no bug."""

_said: dict[str, str] = {}
"""The bug that was logged last of each question, until there is an answer."""

logger = logging.getLogger("vtrr_django.health")


@dataclass(slots=True)
class Looker:
    """Asks for one check, or one scrape, of any number of queues.

    A place that did not answer is not asked again: who waits for one that hangs, waits for
    its timeout, and is to wait once and not once for each queue.
    """

    _away: dict[Hashable, str] = field(default_factory=dict)
    _looks: dict[str, Look] = field(default_factory=dict)
    _entries: rows.Entries | None = None

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

    def look_all(self, queues: Sequence[Queue]) -> list[Look]:
        """Return a look at each queue; live jobs of those in one database are counted at once."""
        looks = [self.look(queue) for queue in queues]
        try:
            found = depths(queues)
        except Exception as error:  # noqa: BLE001 - each is asked alone, to tell which it is about
            _say("counting the jobs of all queues", error)
            return looks
        for name, depth in found.items():
            look = self._looks[name]
            if isinstance(depth, VTRRError):
                look.take_depth(None, self._failed(look.place, depth))
            else:
                look.take_depth(depth)
        return looks

    def ask(self, place: Place, question: Callable[[], T], what: str) -> tuple[T | None, str]:
        """Return the answer of a place, or None and why there is none.

        What nobody foresaw is a bug, which is logged; the place is asked other things all the
        same.

        Args:
            place: what has to answer.
            question: asks it.
            what: that does, for the log.
        """
        problem = place.known(self._away)
        if problem is not None:
            return None, problem
        try:
            answer = question()
        except Exception as error:  # noqa: BLE001 - whatever it is, the report has to say it
            _say(what, error)
            return None, self._failed(place, error)
        _said.pop(what, None)
        return answer, ""

    def _failed(self, place: Place, error: Exception) -> str:
        """Return what is wrong; a place that is away is not asked again."""
        problem = _described(error)
        if not isinstance(error, _AWAY):
            return problem
        return self._away.setdefault(place.lost(error), problem)

    def entries(self) -> rows.Entries:
        """Return what the rows of django-celery-beat say, of all queues."""
        if self._entries is None:
            alias, self._entries = rows.database(), rows.Entries()
            if alias is not None:
                found, problem = self.ask(
                    _figures(alias), partial(rows.read, alias), "reading beat's periodic tasks"
                )
                self._entries = rows.Entries.of(found or (), problem)
        return self._entries


class Look:
    """One queue. Each thing is asked for when it is needed, once."""

    def __init__(self, queue: Queue, looker: Looker) -> None:
        self.queue = queue
        self.looker = looker
        config = queue.config
        self.place = place_of(config)
        self._in_database = config.place == (config.engine, config.database)
        self._figures = _figures(config.database)
        self._lost = {"store": "", "database": ""}

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
        look.take_depth(depth)
        # As a cached property keeps what it has computed.
        vars(look).update(
            workers=list(workers),
            waiting=[one for one in partitions if one.ready],
        )
        return look

    def take_depth(self, depth: QueueStats | None, problem: str = "") -> None:
        """Know how the queue stands, or why that could not be found out."""
        self._depth = depth, problem

    def _ask_store(self, question: Callable[[], T], what: str) -> T | None:
        found, problem = self.looker.ask(self.place, question, self._told(what))
        self._lost["store"] = self._lost["store"] or problem
        return found

    def _ask_figures(self, question: Callable[[], T], what: str) -> T | None:
        found, problem = self.looker.ask(self._figures, question, self._told(what))
        self._lost["database"] = self._lost["database"] or problem
        return found

    def _told(self, what: str) -> str:
        return f"{what} of queue {self.queue.name}"

    @cached_property
    def _depth(self) -> tuple[QueueStats | None, str]:
        return self.looker.ask(self.place, self.queue.depth, self._told("counting the jobs"))

    @property
    def depth(self) -> QueueStats | None:
        """How the queue stands; None: its store does not answer."""
        return self._depth[0]

    @cached_property
    def _totals(self) -> tuple[Totals | None, str]:
        problem = self._depth[1]
        if self._in_database and problem:
            return None, problem
        totals = self.queue.figures.totals
        return self.looker.ask(self._figures, totals, self._told("reading the figures"))

    @property
    def totals(self) -> Totals | None:
        """What has happened so far; None: the database of the figures does not answer."""
        return self._totals[0]

    @property
    def problems(self) -> tuple[str, str]:
        """Why the store, and the database of the figures, left a question unanswered, for people.

        Empty where they answered all that was asked so far. What could not be found out is
        taken for nothing to be there.
        """
        return self._depth[1] or self._lost["store"], self._totals[1] or self._lost["database"]

    @cached_property
    def workers(self) -> list[SeenWorker]:
        """Workers that are alive."""
        totals = self.totals
        seen = self._ask_figures(self.queue.figures.workers, "reading the workers")
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
        """Return those with the most ready jobs."""
        find = partial(self.queue.partitions, limit=limit)
        return self._ask_store(find, "looking at partitions") or []

    def partition(self, key: str) -> list[PartitionStats]:
        """Return one partition, if it has live jobs or settings."""
        find = partial(self.queue.partitions, key, limit=1)
        return self._ask_store(find, "looking at partitions") or []

    def first(self, state: str, limit: int = 1) -> list[JobInfo]:
        """Return the scheduled jobs that are due first, or the leases that run out first."""
        page = self._ask_store(lambda: self.queue.jobs(state, limit=limit), f"listing {state} jobs")
        return [] if page is None else page.jobs

    def busy(self, since: datetime) -> set[str] | None:
        """Return the workers of any queue, seen since then, that hold a lease; None: unknown."""
        busy: set[str] = set()
        names: dict[str, list[str]] = {}
        for queue in all_queues():
            names.setdefault(queue.config.database, []).append(queue.name)
        for alias, queues in names.items():
            find = partial(busy_workers, Store(alias), queues, since)
            what = f"reading the busy workers in database {alias}"
            found, _ = self.looker.ask(_figures(alias), find, what)
            if found is None:
                return None
            busy |= found
        return busy

    def ended(self, past: timedelta) -> int:
        """Return how many jobs were completed or became dead letters in the time ``past``."""
        find = partial(self.queue.figures.minutes, past)
        found = self._ask_figures(find, "reading the last minutes")
        return sum(one.completed + one.failed for one in found or ())

    def worker_seconds(self, partition_keys: list[str]) -> tuple[dict[str, float], float]:
        """Return the worker time of partitions in the last hour, and that of all."""
        find = partial(self.queue.figures.worker_seconds, partition_keys)
        return self._ask_figures(find, "adding up the worker time") or ({}, 0.0)


def _figures(alias: str) -> Place:
    """Return the place of the figures in a database."""
    return Place(store=("figures", alias), server=("figures", alias))


def _say(what: str, error: Exception) -> None:
    """Log a bug, once until the same question is answered.

    Neither what it says nor the place, whose address may hold a password.
    """
    name = type(error).__name__
    if isinstance(error, _FORESEEN) or _said.get(what) == name:
        return
    _said[what] = name
    logger.error(
        "%s failed with %s, which nobody foresaw; its text may quote anything and is left out\n%s",
        what,
        name,
        format_frames(error),
    )


def _described(error: Exception) -> str:
    """Return what went wrong, in one line.

    Only errors of this package are quoted: another may hold anything.
    """
    if not isinstance(error, VTRRError):
        return type(error).__name__
    text = " ".join(str(error).split())
    return text if len(text) <= _LONGEST_PROBLEM else text[:_LONGEST_PROBLEM] + "…"
