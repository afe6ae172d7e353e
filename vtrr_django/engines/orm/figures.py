"""What an operator is told: counts of a queue, and of each of its partitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.db.models import Count, Min, Model, Q

from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.fairness import FIRST_TAG
from vtrr_django.domain.job import PartitionStats, QueueStats
from vtrr_django.domain.states import State
from vtrr_django.engines.sql.fields import from_microseconds
from vtrr_django.engines.sql.history import History
from vtrr_django.engines.sql.known import MOST_KEYS
from vtrr_django.engines.sql.models import Job, Partition, QueueState
from vtrr_django.engines.sql.store import Store
from vtrr_django.engines.sql.tables import JOB, LEASED, QUEUE, READY, SCHEDULED

_LIVE = (State.SCHEDULED, State.READY, State.LEASED)

_SHOWN = (
    *("partition_key", "share", "declared_share", "in_flight_limit", "paused"),
    *("period", "virtual_time", "eligible"),
)
"""The columns of a partition that are told; ten thousand of them without the rest."""


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
        """Count live jobs: one walk through an index, of which no row of a job is read."""
        clock, clock_params = self.store.dialect.clock, self.store.dialect.clock_params()
        [(now, paused, oldest)] = self.store.read(
            f"SELECT {clock}, (SELECT paused FROM {QUEUE} WHERE queue = %s), "
            f"(SELECT MIN(scheduled_at) FROM {JOB} WHERE queue = %s AND state = %s)",
            [*clock_params, self.name, self.name, READY],
        )
        rows = self.store.read(
            "SELECT state, SUM(jobs), COUNT(*) FROM "
            f"(SELECT state, COUNT(*) AS jobs FROM {JOB} WHERE queue = %s "
            "GROUP BY state, partition_key) parts GROUP BY state",
            [self.name],
        )
        jobs = {state: int(count) for state, count, _ in rows}
        lines = {state: int(count) for state, _, count in rows}
        return QueueStats(
            paused=bool(paused),
            ready=jobs.get(READY, 0),
            scheduled=jobs.get(SCHEDULED, 0),
            leased=jobs.get(LEASED, 0),
            partitions_waiting=lines.get(READY, 0),
            oldest_ready_at=None if oldest is None else from_microseconds(oldest),
            now=from_microseconds(int(now)),
        )

    def partitions(self, partition_key: str | None, limit: int) -> list[PartitionStats]:
        """Return the partitions with live jobs or settings, most ready jobs first."""
        jobs, rows = self._rows(Job), self._rows(Partition)
        if partition_key is not None:
            jobs = jobs.filter(partition_key=partition_key)
            rows = rows.filter(partition_key=partition_key)
        state = self._rows(QueueState).first()
        period = 1 if state is None else state.period
        tags = self._rows(Partition).filter(period=period).order_by("-leased_tag")
        current = max(FIRST_TAG, tags.values_list("leased_tag", flat=True).first() or 0.0)
        if limit <= MOST_KEYS:
            busiest = self._busiest(jobs, limit)
            if len(busiest) == limit:
                # Counting those alone costs a fraction, where there are thousands.
                jobs = jobs.filter(partition_key__in=busiest, state__in=_LIVE)
            counts = {row["partition_key"]: row for row in self._counts(jobs)}
        else:
            # So many are picked and counted in one walk; picking them first takes two more.
            lines = self._counts(jobs).order_by("-ready", "partition_key")
            counts = {row["partition_key"]: row for row in lines[:limit]}
            busiest = list(counts)
        rows = rows.values_list(*_SHOWN, named=True)
        configured = rows.exclude(share=None, in_flight_limit=None, paused=False)
        known = {row.partition_key: row for row in rows.filter(partition_key__in=busiest)}
        known |= {row.partition_key: row for row in configured.order_by("partition_key")[:limit]}
        keys = (busiest + [key for key in sorted(known) if key not in counts])[:limit]
        return [
            self._one(key, known.get(key), counts.get(key, {}), period, current) for key in keys
        ]

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
    def _busiest(jobs: Any, limit: int) -> list[str]:
        """Return up to ``limit`` partitions of jobs: those with most ready ones come first."""
        ready = jobs.filter(state=State.READY).order_by().values("partition_key")
        lines = ready.annotate(count=Count("seq")).order_by("-count", "partition_key")
        busiest = list(lines.values_list("partition_key", flat=True)[:limit])
        if len(busiest) == limit:
            return busiest
        others = jobs.filter(state__in=(State.SCHEDULED, State.LEASED)).order_by("partition_key")
        known = set(busiest)
        keys = others.values_list("partition_key", flat=True).distinct()[:limit]
        return [*busiest, *(key for key in keys if key not in known)][:limit]

    def _one(
        self,
        key: str,
        row: Any,
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
            paused=row is not None and row.paused,
            oldest_ready_at=counts.get("oldest"),
            virtual_time=virtual_time,
            lag=max(0.0, virtual_time - current),
            candidate=row is not None and row.eligible,
        )
