"""What the pages are about: live jobs and the history of a busy site with many tenants.

The history is rows, inserted many at a time. Live jobs come in and are leased through their
queues, so that they are the same in every store.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate, islice
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from vtrr_django import get_queue
from vtrr_django.domain.ids import IdGenerator, new_job_ids
from vtrr_django.domain.job import NewJob
from vtrr_django.models import CompletedJob, FailedJob

COMPLETED, FAILED, PARTITIONS = 1_000_000, 50_000, 10_000
READY, SCHEDULED, LEASED = 100_000, 10_000, 500
"""Live jobs of all queues."""

PRIORITIES = {1: 10, 2: -10}
"""Of two jobs in ten; all others have none."""

DAYS = 60
_CHUNK = 10_000
ALIVE = 40
"""Workers of each queue."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trade:
    """One queue of the site.

    Attributes:
        part: its part of all rows.
        partitions: its part of all partitions.
        tasks: from the one run most often to one that only the oldest rows name.
    """

    part: float
    partitions: float
    tasks: tuple[str, ...]


QUEUES: Mapping[str, Trade] = {
    "uploads": Trade(
        part=0.6,
        partitions=1,
        tasks=("uploads.tasks.scan", "uploads.tasks.thumbnail", "uploads.tasks.convert"),
    ),
    "emails": Trade(part=0.25, partitions=0.2, tasks=("mails.tasks.send", "mails.tasks.digest")),
    "reports": Trade(part=0.12, partitions=0.05, tasks=("reports.tasks.monthly",)),
    "exports": Trade(part=0.03, partitions=0.002, tasks=("exports.tasks.write",)),
}
OLD_TASK, OLD_ERROR = "uploads.tasks.migrate", "uploads.MigrationFailed"
"""What only the oldest hundredth of the rows names: a filter by it looks far back."""

ERRORS = (
    ("builtins.TimeoutError", "the scanner did not answer within 30 s"),
    ("builtins.ValueError", "invoice 2291: expected a PDF, got text/html"),
    ("builtins.ConnectionError", "SMTP connection closed by mx.example.com"),
    ("builtins.KeyError", "'customer_id'"),
    ("vtrr_django.LeaseTimeout", "lease ran out 5 times, the most MAX_TIMEOUTS allows"),
)

_TRACEBACK = "Traceback (most recent call last):\n" + "".join(
    f'  File "/srv/site/uploads/steps/step_{n}.py", line {40 + n}, in step_{n}\n'
    f"    return step_{n + 1}(document, options, pages=pages)\n"
    for n in range(12)
)
_FIELDS = (
    *("id", "queue", "partition_key", "task_name", "payload", "weight", "delivery_count"),
    *("timeouts", "msg_id", "parent_id", "priority", "worker_id", "created_at", "ready_at"),
    *("claimed_at", "runtime"),
)


class Dice:
    """Draws tenants and tasks: the first ones far more often, in every run the same."""

    def __init__(self, scale: float) -> None:
        self.random = random.Random(7)
        self.tenants = {name: tenants_of(name, scale) for name in QUEUES}
        self._weights = {
            name: list(accumulate(1 / (rank + 3) for rank in range(len(keys))))
            for name, keys in self.tenants.items()
        }

    def keys(self, queue: str, n: int) -> list[str]:
        """Return the tenants of ``n`` jobs."""
        return self.random.choices(self.tenants[queue], cum_weights=self._weights[queue], k=n)

    def queues(self, n: int) -> list[str]:
        """Return the queues of ``n`` jobs."""
        return self.random.choices([*QUEUES], [one.part for one in QUEUES.values()], k=n)

    def task(self, queue: str) -> str:
        """Return the task of a job."""
        tasks = QUEUES[queue].tasks
        return tasks[min(int(self.random.expovariate(2)), len(tasks) - 1)]


def tenants_of(queue: str, scale: float) -> list[str]:
    """Return the partitions of a queue, the busiest first."""
    count = max(20, round(PARTITIONS * scale * QUEUES[queue].partitions))
    return [f"tenant-{number:05}" for number in range(count)]


def payload(number: int) -> str:
    """Return arguments as they are stored."""
    return json.dumps({"args": [f"incoming/{number:07}.pdf"], "kwargs": {"pages": number % 40}})


# -- live jobs -------------------------------------------------------------------------


def fill_live(scale: float) -> None:
    """Let jobs come into every queue, and workers of the largest take some."""
    dice = Dice(scale)
    for name, trade in QUEUES.items():
        queue, tenants = get_queue(name), dice.tenants[name]
        ready = max(len(tenants), round(READY * scale * trade.part))
        keys = [*tenants, *dice.keys(name, ready - len(tenants))]
        dice.random.shuffle(keys)
        later = dice.keys(name, round(SCHEDULED * scale * trade.part))
        jobs = [
            *(_new(dice, name, key, None) for key in keys),
            *(_new(dice, name, key, dice.random.uniform(7200, 400_000)) for key in later),
        ]
        for start in range(0, len(jobs), _CHUNK):
            chunk = jobs[start : start + _CHUNK]
            ids = new_job_ids(len(chunk))
            named = [job._replace(id=job_id) for job, job_id in zip(chunk, ids, strict=True)]
            queue.engine.enqueue(named, {})
    uploads = get_queue("uploads")
    for n in range(max(10, round(LEASED * scale)) // 10):
        uploads.lease(10, worker_id=worker(n % ALIVE))
    for key in dice.tenants["uploads"][5:15]:
        uploads.set_partition(key, share=2)
    uploads.set_partition(dice.tenants["uploads"][15], limit=3)
    uploads.pause(dice.tenants["uploads"][16])


def _new(dice: Dice, queue: str, key: str, delay: float | None) -> NewJob:
    number = dice.random.randrange(10**6)
    return NewJob(
        id="",
        task_name=dice.task(queue),
        payload=payload(number),
        partition_key=key,
        priority=PRIORITIES.get(number % 10, 0),
        delay=delay,
    )


def worker(number: int) -> str:
    """Return the id of a worker."""
    return f"worker-{number:03}.example.net:{4000 + number}"


# -- history ---------------------------------------------------------------------------


def fill_history(scale: float) -> None:
    """Write what has ended, the oldest first, as it would have come in."""
    for model, count in ((CompletedJob, COMPLETED), (FailedJob, FAILED)):
        more: tuple[str, ...] = ("completed_at",)
        if model is FailedJob:
            more = ("failed_at", "reason", "error_class", "traceback")
        rows = _ended(Dice(scale), model is FailedJob, round(count * scale))
        _insert(model._meta.db_table, (*_FIELDS, *more), rows)


def _ended(dice: Dice, dead: bool, count: int) -> Iterator[tuple[Any, ...]]:
    adapt: Any = connection.ops.adapt_datetimefield_value
    step, start = timedelta(days=DAYS) / count, timezone.now() - timedelta(days=DAYS)
    at, rolls, parents = start, dice.random, dict[str, str]()
    ids = IdGenerator(clock=lambda: int(at.timestamp() * 1e9))
    names, keys = list[str](), dict[str, Iterator[str]]()
    for made in range(count):
        if made % _CHUNK == 0:
            names = dice.queues(_CHUNK)
            keys = {name: iter(dice.keys(name, _CHUNK)) for name in QUEUES}
        name, old = names[made % _CHUNK], made * 100 < count
        at = start + (made + 1) * step
        wait, ran = rolls.expovariate(1 / 60), rolls.expovariate(1 / 2)
        [job_id] = ids.take(1)
        task = OLD_TASK if old and name == "uploads" else dice.task(name)
        ready = adapt(at - timedelta(seconds=wait + ran))
        row = (
            *(job_id, name, next(keys[name]), task, payload(made), 1, 3 if dead else 0, 0),
            *(f"{name}-{dead:d}-{made}" if made % 3 == 0 else None,),
            *(parents.get(name) if made % 20 == 0 else None, 0, worker(made % ALIVE)),
            *(ready, ready, adapt(at - timedelta(seconds=ran)), ran, adapt(at)),
        )
        if made % 50 == 0:
            parents[name] = job_id
        yield (*row, *_death(dice, old)) if dead else row


def _death(dice: Dice, old: bool) -> tuple[str, str, str]:
    kind, text = ERRORS[min(int(dice.random.expovariate(1)), len(ERRORS) - 1)]
    kind = OLD_ERROR if old else kind
    return text, kind, f"{_TRACEBACK}{kind}: {text}\n"


def _insert(table: str, columns: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> None:
    names, marks = ", ".join(columns), ", ".join(["%s"] * len(columns))
    sql = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - names of ours
    while chunk := list(islice(rows, _CHUNK)):
        with transaction.atomic(), connection.cursor() as cursor:
            if connection.vendor != "postgresql":
                cursor.executemany(sql, chunk)
                continue
            raw: Any = cursor
            with raw.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                for row in chunk:
                    copy.write_row(row)
