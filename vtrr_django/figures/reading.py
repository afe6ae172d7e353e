"""What pages, metrics and health checks ask of the figures. Reading changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from django.db.models import Case, Sum, When

from vtrr_django.domain.histogram import Histogram
from vtrr_django.engines.sql.fields import from_microseconds
from vtrr_django.engines.sql.known import MOST_KEYS
from vtrr_django.engines.sql.models import (
    FailedAttempt,
    PartitionSample,
    QueueSample,
    QueueTotals,
    WorkerSighting,
)
from vtrr_django.engines.sql.store import Store
from vtrr_django.figures.keeping import MINUTE, TENANT_STEP, floor
from vtrr_django.figures.recorder import COUNTERS, MOST_WORKERS, REST, Tenant

HOUR: Final = timedelta(hours=1)

ALIVE: Final = timedelta(seconds=60)
"""A worker that was seen within this time is alive. It says so every ten seconds."""


MOST_ATTEMPTS: Final = 20
"""Failed attempts of one job that are told."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """What has happened on a queue since it exists.

    Attributes:
        counts: by the names in ``COUNTERS``.
        waits: how long jobs waited for their lease.
        runs: how long jobs ran.
        leased_at: the last lease, None: there was none; so for the next two.
        reclaimed_at: the last look for leases that ran out, exact to about half a minute.
        beat_at: the last one that Celery's beat asked for.
        unknown_at: the last time a job was put back because its worker had no such task.
        resumed_at: the last time a pause was ended, or a limit set.
        now: the database's time.
    """

    counts: dict[str, int]
    waits: Histogram
    runs: Histogram
    leased_at: datetime | None
    reclaimed_at: datetime | None
    beat_at: datetime | None
    unknown_at: datetime | None
    resumed_at: datetime | None
    now: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Minute:
    """One minute. The gauges are None where nobody looked."""

    at: datetime
    leases: int = 0
    completed: int = 0
    failed: int = 0
    reclaimed: int = 0
    ready: int | None = None
    scheduled: int | None = None
    leased: int | None = None
    oldest_wait: float | None = None
    waiting: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenWorker:
    """A worker of the last day."""

    worker_id: str
    started_at: datetime
    seen_at: datetime
    leased_at: datetime | None
    jobs: int
    holding: int


class Reader:
    """The figures of one queue. Each method is one query, or two.

    Raises:
        StoreUnavailable: the database cannot be reached, or lacks the tables.
    """

    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self.store = store

    def _rows(self, model: Any) -> Any:
        return model._default_manager.using(self.store.alias).filter(queue=self.name)

    def totals(self) -> Totals:
        """Return what has happened since the queue exists."""
        row = self.store.persist(self._rows(QueueTotals).first) or QueueTotals()
        return Totals(
            counts={name: getattr(row, name) for name in COUNTERS},
            waits=Histogram.load(row.waits),
            runs=Histogram.load(row.runs),
            leased_at=row.leased_at,
            reclaimed_at=row.reclaimed_at,
            beat_at=row.beat_at,
            unknown_at=row.unknown_at,
            resumed_at=row.resumed_at,
            now=from_microseconds(self.store.now()),
        )

    def minutes(self, past: timedelta = HOUR) -> list[Minute]:
        """Return every minute of the time ``past`` and the current one, oldest first.

        A minute in which nothing happened and nobody looked is there as well, empty.
        """
        last = floor(from_microseconds(self.store.now()), MINUTE)
        first = floor(last - past, MINUTE)
        found = {
            row.at: row
            for row in self.store.persist(
                lambda: list(self._rows(QueueSample).filter(at__gte=first, at__lte=last))
            )
        }
        count = (last - first) // MINUTE + 1
        return [_minute(first + n * MINUTE, found.get(first + n * MINUTE)) for n in range(count)]

    def tenants(
        self, partition_keys: Sequence[str] | None = None, past: timedelta = HOUR
    ) -> dict[str, Tenant]:
        """Return what happened to partitions in about the time ``past``, by their keys.

        Args:
            partition_keys: which; None: all, and under ``recorder.REST`` all that were not
                told apart.
            past: at most ``trimming.TENANTS_KEPT``.
        """
        columns = ("partition_key", "leases", "completed", "failed", "worker_seconds", "waits")
        samples = self._samples(past)
        tenants: dict[str, Tenant] = {}
        for rows in [samples] if partition_keys is None else _of(partition_keys, samples):
            found: list[Any] = self.store.persist(partial(list, rows.values_list(*columns)))
            for key, leases, completed, failed, seconds, waits in found:
                tenant = tenants.get(key)
                if tenant is None:
                    tenant = tenants[key] = Tenant()
                tenant.leases += leases
                tenant.completed += completed
                tenant.failed += failed
                tenant.worker_seconds += seconds
                tenant.waits.merge_dump(waits)
        return tenants

    def worker_seconds(
        self, partition_keys: Sequence[str], past: timedelta = HOUR
    ) -> tuple[dict[str, float], float]:
        """Return the worker time of partitions, and that of all, in about the time ``past``.

        The database sums it up, however many partitions there are.
        """
        samples, of_all = self._samples(past).order_by(), Sum("worker_seconds")
        keys = list(dict.fromkeys(partition_keys))
        if not keys:
            found = self.store.persist(lambda: samples.aggregate(sum=of_all))
            return {}, found["sum"] or 0.0
        told, more = keys[:MOST_KEYS], keys[MOST_KEYS:]
        # One walk for both: the rows of all others are summed up under no name.
        name = Case(When(partition_key__in=told, then="partition_key"))
        sums = samples.annotate(name=name).values_list("name").annotate(sum=of_all)
        seconds: dict[Any, float] = self.store.persist(partial(dict, sums))
        total = sum(seconds.values(), 0.0)
        seconds.pop(None, None)
        for rows in _of(more, samples):
            sums = rows.values_list("partition_key").annotate(sum=of_all)
            seconds |= self.store.persist(partial(dict, sums))
        return seconds, total

    def _samples(self, past: timedelta) -> Any:
        first = floor(from_microseconds(self.store.now()) - past, TENANT_STEP)
        return self._rows(PartitionSample).filter(at__gte=first)

    def attempts(self, job_id: str) -> list[FailedAttempt]:
        """Return the newest attempts of a job that went wrong and were not its last one."""
        newest = self._rows(FailedAttempt).filter(job_id=job_id).order_by("-at", "-pk")
        return self.store.persist(lambda: list(newest[:MOST_ATTEMPTS]))

    def workers(self) -> list[SeenWorker]:
        """Return the workers of the last day, those first that were seen last."""
        names = tuple(SeenWorker.__dataclass_fields__)
        rows = self._rows(WorkerSighting).order_by("-seen_at", "worker_id")
        found = self.store.persist(lambda: list(rows.values(*names)[:MOST_WORKERS]))
        return [SeenWorker(**row) for row in found]


def busy_workers(store: Store, queues: Sequence[str], since: datetime) -> set[str]:
    """Return the workers of queues of one database, seen since then, that hold a lease.

    Raises:
        StoreUnavailable: the database cannot be reached, or lacks the tables.
    """
    rows = WorkerSighting.objects.using(store.alias).filter(
        queue__in=queues, seen_at__gte=since, holding__gt=0
    )
    return store.persist(lambda: set(rows.values_list("worker_id", flat=True)))


def _of(partition_keys: Sequence[str], samples: Any) -> Iterator[Any]:
    """Split a query into those that find the samples of so many keys as go into one."""
    keys = list(dict.fromkeys(partition_keys))
    for start in range(0, len(keys), MOST_KEYS):
        yield samples.filter(partition_key__in=keys[start : start + MOST_KEYS])


def _minute(at: datetime, row: QueueSample | None) -> Minute:
    if row is None:
        return Minute(at=at)
    return Minute(
        at=at,
        leases=row.leases,
        completed=row.completed,
        failed=row.failed,
        reclaimed=row.reclaimed,
        ready=row.ready,
        scheduled=row.scheduled,
        leased=row.leased,
        oldest_wait=row.oldest_wait,
        waiting=json.loads(row.waiting) if row.waiting else {},
    )


__all__ = ["HOUR", "REST", "Minute", "Reader", "SeenWorker", "Tenant", "Totals"]
