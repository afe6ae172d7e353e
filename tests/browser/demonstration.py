"""A believable afternoon of three queues, for the pictures in the README."""

from __future__ import annotations

import json
import math
import random
from datetime import datetime, timedelta

from django.utils import timezone

from tests.browser.data import fail, payload, put, take
from tests.browser.demonstration_settings import SETTINGS
from vtrr_django import get_queue
from vtrr_django.domain.histogram import Histogram
from vtrr_django.domain.ids import new_job_id
from vtrr_django.domain.states import State
from vtrr_django.figures.keeping import MINUTE, TENANT_STEP, floor
from vtrr_django.models import (
    CompletedJob,
    FailedJob,
    Job,
    PartitionSample,
    QueueSample,
    WorkerSighting,
)
from vtrr_django.queue import Queue

WAITING = {
    "uploads": {"acme": 4180, "globex": 212, "initech": 96, "umbrella": 41, "hooli": 9, "stark": 4},
    "emails": {"initech": 12, "acme": 3, "wayne": 1},
    "reports": {"hooli": 6, "globex": 3},
}
"""Jobs that are ready, by queue and tenant."""

BUSY = {
    # Worker seconds of the last hour, and how long half of the jobs waited.
    "acme": (5210, 640.0),
    "globex": (4870, 31.0),
    "initech": (2380, 6.5),
    "hooli": (1220, 1.9),
    "stark": (640, 1.1),
    "wayne": (310, 0.9),
}

ERRORS = (
    (TimeoutError, "the scanner did not answer within 30 s"),
    (ValueError, "invoice 2291: expected a PDF, got text/html"),
    (ConnectionError, "SMTP connection closed by mx.example.com"),
    (KeyError, "customer_id"),
)

TASKS = {
    "uploads": ("uploads.tasks.scan", "uploads.tasks.make_thumbnails"),
    "emails": ("mails.tasks.send",),
    "reports": ("reports.tasks.statement",),
}

_dice = random.Random(4)  # the same pictures each time


def fill() -> None:
    """Fill the queues."""
    _dead_letters()
    for name in SETTINGS:
        queue = get_queue(name)
        _minutes(queue)
        _workers(queue)
        _completed(queue)
        _live(queue)
    _tenants(get_queue("uploads"))
    _age(get_queue("uploads"))
    get_queue("uploads").pause("umbrella")
    get_queue("uploads").set_partition("initech", limit=2)
    get_queue("reports").pause()


def refresh() -> None:
    """Have the workers be seen just now."""
    now = _now(get_queue("uploads"))
    WorkerSighting.objects.update(
        seen_at=now - timedelta(seconds=3), leased_at=now - timedelta(seconds=4)
    )


def _age(queue: Queue) -> None:
    """Let the jobs of a queue in the database have waited for as long as the figures say."""
    now = _now(queue)
    for key, (_, median) in BUSY.items():
        waiting = Job.objects.filter(queue=queue.name, partition_key=key, state=State.READY.value)
        rows = list(waiting.order_by("seq"))
        for place, row in enumerate(rows):
            ago = timedelta(seconds=2.2 * median * (1 - place / len(rows)))
            row.created_at = row.scheduled_at = now - ago
        Job.objects.bulk_update(rows, ["created_at", "scheduled_at"], batch_size=200)


def _now(queue: Queue) -> datetime:
    return queue.figures.totals().now


def _minutes(queue: Queue) -> None:
    """Write how the queue stood in each minute of the last hour."""
    last, waiting = floor(_now(queue), MINUTE), WAITING[queue.name]
    pace = {"uploads": 46, "emails": 18, "reports": 3}[queue.name]
    rows = []
    for ago in range(61):
        share = 1 - ago / 60
        # acme comes at twenty past with a great many; the others stay as they are.
        arrived = max(0.0, min(1.0, (share - 0.3) * 9)) * (1.15 - 0.15 * share)
        lines = {
            key: round(n * (arrived if n > 1000 else 0.55 + 0.45 * math.sin(ago / 5 + n)))
            for key, n in waiting.items()
        }
        done = max(0, round(_dice.gauss(pace, pace**0.5)))
        rows.append(
            QueueSample(
                queue=queue.name,
                at=last - ago * MINUTE,
                leases=done,
                completed=done,
                failed=int(_dice.random() < 0.12),
                ready=sum(max(0, n) for n in lines.values()),
                scheduled=20,
                leased=8,
                waiting=json.dumps({key: n for key, n in lines.items() if n > 0}),
            )
        )
    QueueSample.objects.bulk_create(rows)


def _tenants(queue: Queue) -> None:
    """Write what each tenant had of the workers in the last hour, and how long it waited."""
    last = floor(_now(queue), TENANT_STEP)
    rows = []
    for key, (seconds, median) in BUSY.items():
        for step in range(12):
            waits = Histogram()
            jobs = max(3, int(seconds / 60))
            for _ in range(jobs):
                waits.add(_dice.lognormvariate(math.log(median), 0.7))
            rows.append(
                PartitionSample(
                    queue=queue.name,
                    at=last - step * TENANT_STEP,
                    partition_key=key,
                    leases=jobs,
                    completed=jobs,
                    worker_seconds=seconds / 12,
                    waits=waits.dump(),
                )
            )
    PartitionSample.objects.bulk_create(rows)


def _workers(queue: Queue) -> None:
    now = _now(queue)
    count = {"uploads": 3, "emails": 2, "reports": 1}[queue.name]
    WorkerSighting.objects.bulk_create(
        WorkerSighting(
            queue=queue.name,
            worker_id=f"worker-{number}.example.net:{411 + number}",
            started_at=now - timedelta(hours=7, minutes=13 * number),
            seen_at=now,
            leased_at=now - timedelta(seconds=2 + number),
            jobs=18_240 // (number + 1),
            holding=4,
        )
        for number in range(1, count + 1)
    )


def _dead_letters() -> None:
    """Let jobs of all queues fail, one every twenty minutes or so."""
    names = ["uploads"] * 14 + ["emails"] * 7 + ["reports"] * 2
    _dice.shuffle(names)
    for index, name in enumerate(names):
        kind, text = ERRORS[_dice.choice((0, 1, 1, 2, 3))]
        [job_id] = fail(
            get_queue(name),
            _dice.choice(list(WAITING[name])),
            task_name=_dice.choice(TASKS[name]),
            reason=_raised(kind(text)),
            payload=payload(f"incoming/{index:04}.pdf"),
        )
        at = timezone.now() - timedelta(minutes=21 * (len(names) - index) - _dice.randrange(19))
        FailedJob.objects.filter(id=job_id).update(failed_at=at, delivery_count=3)


def _raised(error: Exception) -> Exception:
    try:
        raise error
    except type(error) as caught:
        return caught


def _completed(queue: Queue) -> None:
    now = timezone.now()
    CompletedJob.objects.bulk_create(
        CompletedJob(
            id=new_job_id(),
            queue=queue.name,
            partition_key=_dice.choice(list(WAITING[queue.name])),
            task_name=TASKS[queue.name][0],
            payload=payload(),
            worker_id="worker-1.example.net:412",
            created_at=now - timedelta(seconds=4 * ago + 9),
            ready_at=now - timedelta(seconds=4 * ago + 9),
            claimed_at=now - timedelta(seconds=4 * ago + 2),
            completed_at=now - timedelta(seconds=4 * ago),
            runtime=abs(_dice.gauss(1.6, 0.5)),
        )
        for ago in range(1000)
    )


def _live(queue: Queue) -> None:
    tasks = TASKS[queue.name]
    for key, count in WAITING[queue.name].items():
        put(queue, *[key] * count, task_name=tasks[0], payload=payload("incoming/0001.pdf"))
    put(queue, *["initech"] * 20, delay=3600, task_name=tasks[-1])
    for number, batch in enumerate((4, 4), 1):
        take(queue, batch, f"worker-{number}.example.net:{411 + number}")
