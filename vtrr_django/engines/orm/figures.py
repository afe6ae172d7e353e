"""What an operator is told: counts of a queue, and of each of its partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from django.db.models import Count, Min, Model, Q

from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.fairness import FIRST_TAG
from vtrr_django.domain.job import Due, PartitionStats, QueueStats
from vtrr_django.domain.states import State
from vtrr_django.engines.sql.fields import from_microseconds
from vtrr_django.engines.sql.history import History
from vtrr_django.engines.sql.known import MOST_KEYS
from vtrr_django.engines.sql.models import Job
from vtrr_django.engines.sql.store import Store, marks
from vtrr_django.engines.sql.tables import (
    JOB,
    LEASED,
    LINE,
    PARTITION,
    QUEUE,
    READY,
    SCHEDULED,
)


class _Known(NamedTuple):
    """The columns of a partition that are told; ten thousand of them without the rest."""

    partition_key: str
    share: float | None
    declared_share: float
    in_flight_limit: int | None
    paused: bool
    period: int
    virtual_time: float
    eligible: bool

    @property
    def is_set(self) -> bool:
        """Whether an operator has set something about it."""
        return self.share is not None or self.in_flight_limit is not None or bool(self.paused)


_AT_ONCE = 25
"""Queues in one statement, each row of whose answer repeats a little about all of them."""


def depths(store: Store, names: Sequence[str]) -> dict[str, QueueStats]:
    """Count the live jobs of queues of one database: of an index, of which no row is read."""
    found: dict[str, QueueStats] = {}
    for start in range(0, len(names), _AT_ONCE):
        found |= _depths(store, names[start : start + _AT_ONCE])
    return found


def _depths(store: Store, names: Sequence[str]) -> dict[str, QueueStats]:
    clock = store.dialect.clock
    told = ", ".join(
        f"(SELECT paused FROM {QUEUE} WHERE queue = %s) AS paused_{n}, "
        f"(SELECT MIN(scheduled_at) FROM {JOB} WHERE queue = %s AND state = %s) AS oldest_{n}"
        for n in range(len(names))
    )
    rows = store.read(
        f"SELECT parts.*, told.* FROM (SELECT {clock} AS now, {told}) told "
        "LEFT JOIN (SELECT queue, state, SUM(jobs), COUNT(*) FROM "
        f"(SELECT queue, state, COUNT(*) AS jobs FROM {JOB} WHERE queue IN {marks(names)} "
        "GROUP BY queue, state, partition_key) by_partition GROUP BY queue, state) parts ON 1 = 1",
        [
            *store.dialect.clock_params(),
            *(value for name in names for value in (name, name, READY)),
            *names,
        ],
    )
    # Without live jobs there is one row, in which all of a queue's columns are NULL.
    counts = {(row[0], row[1]): (int(row[2]), int(row[3])) for row in rows if row[0] is not None}
    _, _, _, _, now, *looks = rows[0]
    stats = {}
    for name, paused, oldest in zip(names, looks[::2], looks[1::2], strict=True):
        ready, waiting = counts.get((name, READY), (0, 0))
        stats[name] = QueueStats(
            paused=bool(paused),
            ready=ready,
            scheduled=counts.get((name, SCHEDULED), (0, 0))[0],
            leased=counts.get((name, LEASED), (0, 0))[0],
            partitions_waiting=waiting,
            oldest_ready_at=None if oldest is None else from_microseconds(oldest),
            now=from_microseconds(int(now)),
        )
    return stats


def dues(
    store: Store, configs: Mapping[str, QueueConfig], depths: Mapping[str, QueueStats]
) -> dict[str, Due]:
    """Return what keeps jobs of queues of one database waiting: two statements at most.

    Held partitions are counted, and compared with those that wait: this takes a probe for each
    of them, where a search for one that may run would go through all jobs to find none.
    """
    waiting = {name: config for name, config in configs.items() if depths[name].ready}
    held = _held(store, waiting) if waiting else {}
    late = _late(store, [name for name in configs if depths[name].scheduled])
    return {
        name: Due(
            held=0 < depths[name].partitions_waiting <= held.get(name, 0), overdue=name in late
        )
        for name in configs
    }


def _late(store: Store, names: Sequence[str]) -> set[str]:
    """Return the queues with a scheduled job that is due already."""
    if not names:
        return set()
    looks = ", ".join(
        f"(SELECT MIN(scheduled_at) FROM {JOB} WHERE queue = %s AND state = %s) AS due_{n}"
        for n in range(len(names))
    )
    [[now, *dues]] = store.read(
        f"SELECT {store.dialect.clock} AS now, {looks}",
        [*store.dialect.clock_params(), *(value for name in names for value in (name, SCHEDULED))],
    )
    return {
        name
        for name, due in zip(names, dues, strict=True)
        if due is not None and due <= now  # it may have been taken meanwhile
    }


def _held(store: Store, configs: Mapping[str, QueueConfig]) -> dict[str, int]:
    """Count the partitions of each queue whose ready jobs may not run.

    In one grouped statement: of one with an expression for each queue, PostgreSQL would compile
    them all, which takes seconds.
    """
    names = list(configs)
    by_limit: dict[str, list[str]] = {}
    for name, config in configs.items():
        by_limit.setdefault(_limit(config), []).append(name)
    limits = " ".join(
        f"WHEN p.queue IN {marks(queues)} THEN {limit}" for limit, queues in by_limit.items()
    )
    rows = store.read(
        f"SELECT p.queue, COUNT(CASE WHEN p.paused OR leased.jobs >= CASE {limits} END THEN ("
        f"SELECT 1 FROM {JOB} WHERE queue = p.queue AND state = %s "
        f"AND partition_key = p.partition_key ORDER BY {LINE} LIMIT 1"
        f") END) FROM {PARTITION} p LEFT JOIN ("
        f"SELECT queue, partition_key, COUNT(*) AS jobs FROM {JOB} "
        f"WHERE queue IN {marks(names)} AND state = %s GROUP BY queue, partition_key"
        ") leased ON leased.queue = p.queue AND leased.partition_key = p.partition_key "
        f"WHERE p.queue IN {marks(names)} GROUP BY p.queue",
        [
            *(name for queues in by_limit.values() for name in queues),
            READY,
            *names,
            LEASED,
            *names,
        ],
    )
    return dict(rows)


def _limit(config: QueueConfig) -> str:
    """Return the expression of a partition's limit, as ``QueueConfig.effective_limit`` says it."""
    own, none, most = "p.in_flight_limit", config.effective_limit(None), config.most_of_one
    if none is None:
        return own
    capped = own if most is None else f"CASE WHEN {own} > {most:d} THEN {most:d} ELSE {own} END"
    return f"COALESCE({capped}, {none:d})"


class Figures:
    """The looking side of one queue."""

    def __init__(self, name: str, config: QueueConfig, store: Store, history: History) -> None:
        self.name = name
        self.config = config
        self.store = store
        self.history = history

    def _rows(self, model: type[Model]) -> Any:
        return model._default_manager.using(self.store.alias).filter(queue=self.name)

    def stats(self) -> QueueStats:
        """Count everything once."""
        kept = self.history.counts()
        return replace(
            self.depth(),
            failed=kept["failed"],
            completed=kept["completed"],
            recent_failures=self.history.recent_failures(),
            recent_runs=self.history.recent_runs(),
        )

    def depth(self) -> QueueStats:
        """Count live jobs."""
        return depths(self.store, [self.name])[self.name]

    def partitions(self, partition_key: str | None, limit: int) -> list[PartitionStats]:
        """Return the partitions with live jobs or settings, most ready jobs first."""
        jobs = self._rows(Job)
        period, current = self._virtual_now()
        if partition_key is not None:
            jobs = jobs.filter(partition_key=partition_key)
            counts = {row["partition_key"]: row for row in self._counts(jobs)}
            busiest = list(counts)
        elif limit <= MOST_KEYS:
            counts = self._busiest(jobs, limit)
            busiest = list(counts)
        else:
            # So many are picked and counted in one walk; picking them first takes two more.
            lines = self._counts(jobs).order_by("-ready", "partition_key")
            counts = {row["partition_key"]: row for row in lines[:limit]}
            busiest = list(counts)
        known = {row.partition_key: row for row in self._known(partition_key, busiest, limit)}
        idle = sorted(key for key, row in known.items() if key not in counts and row.is_set)
        keys = [*busiest, *idle][:limit]
        return [
            self._one(key, known.get(key), counts.get(key, {}), period, current) for key in keys
        ]

    def _virtual_now(self) -> tuple[int, float]:
        """Return the busy period, and how far the queue's virtual time has come in it."""
        rows = self.store.read(
            f"SELECT period, (SELECT leased_tag FROM {PARTITION} WHERE queue = state.queue "
            f"AND period = state.period ORDER BY leased_tag DESC LIMIT 1) FROM {QUEUE} state "
            "WHERE queue = %s",
            [self.name],
        )
        period, tag = rows[0] if rows else (1, None)
        return period, max(FIRST_TAG, tag or 0.0)

    def _known(self, partition_key: str | None, busiest: Sequence[str], limit: int) -> list[_Known]:
        """Return the rows of partitions that have jobs, and of those that have settings."""
        columns = ", ".join(_Known._fields)
        if partition_key is not None:
            busiest = [partition_key]
        parts, params = [], list[Any]()
        if busiest:
            parts.append(
                f"SELECT {columns} FROM {PARTITION} WHERE queue = %s "
                f"AND partition_key IN {marks(busiest)}"
            )
            params += [self.name, *busiest]
        if partition_key is None:
            parts.append(
                f"SELECT * FROM (SELECT {columns} FROM {PARTITION} WHERE queue = %s "
                "AND (share IS NOT NULL OR in_flight_limit IS NOT NULL OR paused) "
                "ORDER BY partition_key LIMIT %s) configured"
            )
            params += [self.name, limit]
        return [_Known(*row) for row in self.store.read(" UNION ".join(parts), params)]

    @staticmethod
    def _counts(jobs: Any) -> Any:
        """Return jobs counted by partition, and since when the oldest ready one is so."""
        return (
            jobs.order_by()
            .values("partition_key")
            .annotate(
                ready=Count("seq", filter=Q(state=State.READY)),
                scheduled=Count("seq", filter=Q(state=State.SCHEDULED)),
                leased=Count("seq", filter=Q(state=State.LEASED)),
                oldest=Min("scheduled_at", filter=Q(state=State.READY)),
            )
        )

    @staticmethod
    def _busiest(jobs: Any, limit: int) -> dict[str, dict[str, Any]]:
        """Return what ``_counts`` does for up to ``limit`` partitions, by their keys.

        Those with most ready jobs come first; one walk over these tells which they are.
        """
        by_key = jobs.order_by().values("partition_key")
        ready = by_key.filter(state=State.READY).annotate(
            ready=Count("seq"), oldest=Min("scheduled_at")
        )
        lines = ready.order_by("-ready", "partition_key")[:limit]
        counts = {row.pop("partition_key"): row for row in lines}
        others = by_key.filter(state__in=(State.SCHEDULED, State.LEASED)).annotate(
            scheduled=Count("seq", filter=Q(state=State.SCHEDULED)),
            leased=Count("seq", filter=Q(state=State.LEASED)),
        )
        if len(counts) == limit:
            others = others.filter(partition_key__in=counts)
        for row in others.order_by("partition_key"):
            counts.setdefault(row.pop("partition_key"), {}).update(row)
        return dict(islice(counts.items(), limit))

    def _one(
        self,
        key: str,
        row: _Known | None,
        counts: dict[str, Any],
        period: int,
        current: float,
    ) -> PartitionStats:
        virtual_time = row.virtual_time if row is not None and row.period == period else 0.0
        own_share = None if row is None else row.share
        declared = 1.0 if row is None else row.declared_share
        return PartitionStats(
            partition_key=key,
            ready=counts.get("ready", 0),
            scheduled=counts.get("scheduled", 0),
            leased=counts.get("leased", 0),
            share=declared if own_share is None else own_share,
            limit=self.config.effective_limit(None if row is None else row.in_flight_limit),
            paused=row is not None and bool(row.paused),
            oldest_ready_at=counts.get("oldest"),
            virtual_time=virtual_time,
            lag=max(0.0, virtual_time - current),
            candidate=row is not None and bool(row.eligible),
        )
