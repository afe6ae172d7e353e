"""What workers of a busy site have written down, and people done: figures, and the admin's log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.utils import timezone

from benchmarks.sites.pages.data import ALIVE, COMPLETED, QUEUES, Dice, worker
from vtrr_django.domain.histogram import Histogram
from vtrr_django.figures.keeping import MINUTE, TENANT_STEP, floor
from vtrr_django.figures.recorder import COUNTERS, MOST_PARTITIONS, REST
from vtrr_django.figures.trimming import KEPT, TENANTS_KEPT
from vtrr_django.models import (
    PartitionSample,
    QueueSample,
    QueueTotals,
    WorkerSighting,
)

ENTRIES = 5000
"""Changes in the admin's log, of one queue."""

_SEEN = 200
"""Workers of a queue that were seen in the last day."""


def fill_figures(scale: float) -> None:
    """Write what workers would have written down until now."""
    dice, now = Dice(scale), timezone.now()
    histograms = [_histogram(dice) for _ in range(50)]
    for name, trade in QUEUES.items():
        pace = max(1, round(60 * trade.part))
        minutes = _minutes(dice, name, now, pace)
        QueueSample.objects.bulk_create(minutes, batch_size=500)
        samples = _samples(dice, name, now, [one.dump() for one in histograms])
        PartitionSample.objects.bulk_create(samples, batch_size=500)
        totals = {"waits": histograms[0].dump(), "runs": histograms[1].dump()}
        totals |= dict.fromkeys(COUNTERS, round(COMPLETED * scale))
        QueueTotals.objects.update_or_create(queue=name, defaults=totals)
        day: list[Any] = [now - n * KEPT / _SEEN for n in range(_SEEN)]
        WorkerSighting.objects.bulk_create(
            WorkerSighting(queue=name, worker_id=worker(n), started_at=at, seen_at=at, jobs=900)
            for n, at in enumerate(day)
        )
    be_seen()


def be_seen(*, idle: bool = False) -> None:
    """Have the workers be seen just now, with or without something to do."""
    now: Any = timezone.now()
    took, holding = (now - timedelta(hours=1), 0) if idle else (now, 10)
    workers = [worker(number) for number in range(ALIVE)]
    WorkerSighting.objects.filter(worker_id__in=workers).update(
        seen_at=now, leased_at=took, holding=holding
    )


def _histogram(dice: Dice) -> Histogram:
    histogram = Histogram()
    for _ in range(20):
        histogram.add(dice.random.lognormvariate(2, 1.5))
    return histogram


def _minutes(dice: Dice, name: str, now: datetime, pace: int) -> Iterator[QueueSample]:
    last: Any = floor(now, MINUTE)
    for ago in range(KEPT // MINUTE + 1):
        lines = {key: dice.random.randrange(9000) for key in dice.tenants[name][:10]}
        yield QueueSample(
            queue=name,
            at=last - ago * MINUTE,
            leases=pace,
            completed=dice.random.randrange(2 * pace),
            failed=int(dice.random.random() < 0.2),
            ready=sum(lines.values()),
            scheduled=100,
            leased=8,
            oldest_wait=60.0,
            waiting=json.dumps(lines),
        )


def _samples(
    dice: Dice, name: str, now: datetime, waits: Sequence[str]
) -> Iterator[PartitionSample]:
    last: Any = floor(now, TENANT_STEP)
    for ago in range(TENANTS_KEPT // TENANT_STEP + 1):
        for key in (*dice.tenants[name][:MOST_PARTITIONS], REST):
            yield PartitionSample(
                queue=name,
                at=last - ago * TENANT_STEP,
                partition_key=key,
                leases=20,
                completed=19,
                failed=1,
                worker_seconds=dice.random.expovariate(1 / 10),
                waits=dice.random.choice(waits),
            )


def fill_log(user_id: int, about: Mapping[str, type[Model]], entries: int) -> None:
    """Write what somebody did, so often with each thing that ``about`` names."""
    LogEntry.objects.bulk_create(
        (
            LogEntry(
                user_id=user_id,
                content_type=ContentType.objects.get_for_model(model),
                object_id=name,
                object_repr=name,
                action_flag=CHANGE,
                change_message="Paused (partition tenant-00001).",
            )
            for name, model in about.items()
            for _ in range(entries)
        ),
        batch_size=100,
    )
