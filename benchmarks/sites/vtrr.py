"""The app's side."""

from __future__ import annotations

import cProfile
import functools
import json
import pstats
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management import call_command, get_commands
from django.db import connection, transaction

from benchmarks.sites import common
from benchmarks.sites.common import prepare, waits
from vtrr_django import get_queue
from vtrr_django.domain.job import LeasedJob, Outcome, OutcomeKind
from vtrr_django.domain.states import State
from vtrr_django.models import Job
from vtrr_django.worker.slot import Slot

__all__ = ["prepare", "waits"]

queue = get_queue("default")
TASK_NAME = "benchmarks.sites.vtrr.one_argument"
WORKER_ID = "benchmark"


@queue.task
def no_op(self: Any) -> None:
    """Do nothing."""
    common.no_op()


@queue.task
def one_argument(self: Any, number: int) -> None:
    """Do nothing with a number."""


@queue.task
def timed_job(self: Any, tenant: str, sent_at: float, seconds: float) -> None:
    """Note how long this job waited, then take some time."""
    common.timed_job(tenant, sent_at, seconds)


# -- enqueueing ------------------------------------------------------------------------


def _row(number: int, tenant: str) -> dict[str, Any]:
    """Return the columns an enqueue fills, made the way a project would for itself."""
    now = time.time_ns() // 1000
    return {
        "id": str(uuid.uuid4()),
        "queue": "default",
        "partition_key": tenant,
        "task_name": TASK_NAME,
        "payload": json.dumps({"args": [number], "kwargs": {}}),
        "state": State.READY.value,
        "scheduled_at": now,
        "created_at": now,
    }


def _create(numbers: range) -> None:
    for number in numbers:
        Job.objects.create(**_row(number, "acme"))


def _enqueue(numbers: range) -> None:
    for number in numbers:
        one_argument.enqueue(number, partition_key="acme")


def _enqueue_to_idle(numbers: range) -> None:
    for place, number in enumerate(numbers):
        one_argument.enqueue(number, partition_key=f"idle {place}")


def _seconds(work: Callable[..., object], *arguments: Any) -> float:
    began = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - began


def enqueue_singly(blocks: int, size: int, *, idle: bool = False) -> list[tuple[float, float]]:
    """Time blocks of ``enqueue()`` and of ``create()`` in turn, on a fresh table.

    Args:
        blocks: how many of each.
        size: calls in a block.
        idle: whether the partition has nothing else to run, instead of a backlog.

    Returns:
        Seconds of ``enqueue()`` and of ``create()`` for each block.
    """
    common.empty_tables()
    one_argument.enqueue(-1, partition_key="acme")
    ours = _enqueue_to_idle if idle else _enqueue
    if idle:
        ours(range(size))
        queue.purge()
    pairs = []
    for block in range(blocks):
        numbers = range(block * size, (block + 1) * size)
        if block % 2:
            created, enqueued = _seconds(_create, numbers), _seconds(ours, numbers)
        else:
            enqueued, created = _seconds(ours, numbers), _seconds(_create, numbers)
        pairs.append((enqueued, created))
        if idle:
            queue.purge()
    return pairs


def enqueue_in_bulk(n: int, *, ours_first: bool) -> tuple[float, float]:
    """Time ``.queue()`` and ``bulk_create()`` of ``n`` jobs, each on a fresh table."""

    def ours() -> None:
        one_argument.queue(partition_key="acme", tasks=[{"args": [number]} for number in range(n)])

    def djangos() -> None:
        Job.objects.bulk_create([Job(**_row(number, "acme")) for number in range(n)])

    spent = {}
    for side in (ours, djangos) if ours_first else (djangos, ours):
        common.empty_tables()
        spent[side] = _seconds(side)
    return spent[ours], spent[djangos]


# -- leasing ---------------------------------------------------------------------------


def fill(tenants: int, each: int) -> None:
    """Start afresh with ``tenants`` partitions of ``each`` ready jobs."""
    common.empty_tables()
    for tenant in range(tenants):
        one_argument.queue(
            partition_key=f"tenant {tenant}", tasks=[{"args": [n]} for n in range(each)]
        )
    common.gather_statistics()


def cycle(batch: int, seconds: float) -> tuple[int, float, int]:
    """Lease batches, each call acking the one before, until time or jobs run out.

    Returns:
        How many jobs were acked, in how many seconds, and statements of one such call.
    """
    statements = 0

    def count(execute: Any, *args: Any) -> Any:
        nonlocal statements
        statements += 1
        return execute(*args)

    leased: list[LeasedJob] = queue.lease(batch)
    with connection.execute_wrapper(count):
        leased = queue.finish_and_lease(list(map(_ack, leased)), batch, worker_id=WORKER_ID)[1]
    done = 0
    began = now = time.perf_counter()
    while leased and now - began < seconds:
        done += len(leased)
        leased = queue.finish_and_lease(list(map(_ack, leased)), batch, worker_id=WORKER_ID)[1]
        now = time.perf_counter()
    return done, now - began, statements


def _ack(job: LeasedJob) -> Outcome:
    return Outcome(kind=OutcomeKind.ACK, job_id=job.id, token=job.token, runtime=0.001)


def fill_beside(tenants: int, heavy: int) -> None:
    """Fill two databases: in ``default`` 100 jobs wait, in ``large`` one tenant has ``heavy``.

    In both, ``tenants`` other partitions have a job each.
    """
    for name, jobs in (("default", 100 - tenants), ("large", heavy)):
        task = _task_of(name)
        task.queue(partition_key="heavy", tasks=[{"args": [n]} for n in range(jobs)])
        for tenant in range(tenants):
            task.enqueue(0, partition_key=f"tenant {tenant}")
    common.gather_statistics()


def set_heavy_share(share: float) -> None:
    """Change the share of the heavy tenant in both databases."""
    for name in ("default", "large"):
        get_queue(name).set_partition("heavy", share=share)


@functools.cache
def _task_of(name: str) -> Any:
    return get_queue(name).task(one_argument.function)


def lease_beside(rounds: int, n: int) -> dict[str, list[float]]:
    """Time leases on both databases in turn; what was leased is acked and replaced."""
    spent: dict[str, list[float]] = {"default": [], "large": []}
    for turn in range(rounds):
        for name in ("default", "large") if turn % 2 else ("large", "default"):
            one = get_queue(name)
            began = time.perf_counter()
            jobs = one.lease(n)
            spent[name].append(time.perf_counter() - began)
            if len(jobs) < n:
                raise RuntimeError(f"expected {n} jobs from {name}, got {len(jobs)}")
            one.finish_and_lease([_ack(job) for job in jobs], 0, worker_id=WORKER_ID)
            for job in jobs:
                _task_of(name).enqueue(0, partition_key=job.partition_key)
    return spent


# -- working ---------------------------------------------------------------------------


def _work() -> float:
    """Run the worker until nothing waits; return the seconds it took."""
    began = time.perf_counter()
    if "vtrr_worker" in get_commands():
        call_command("vtrr_worker", "--burst", "--queue", "default", verbosity=0)
    else:
        queue.worker(concurrency=1).run_burst()
    return time.perf_counter() - began


def end_to_end(n: int) -> dict[str, float]:
    """Enqueue no-op jobs one by one, then work them off."""
    common.empty_tables()
    began = time.perf_counter()
    for _ in range(n):
        no_op.enqueue(partition_key="acme")
    enqueued = time.perf_counter() - began
    common.gather_statistics()
    return {"enqueue": enqueued, "work": _work(), "megabytes": common.megabytes()}


def flood(n: int, seconds: float) -> None:
    """Enqueue the jobs of the heavy tenant at once."""
    with transaction.atomic():
        for _ in range(n):
            timed_job.enqueue("heavy", time.time(), seconds, partition_key="heavy")
    common.gather_statistics()


def trickle(n: int, pause: float, seconds: float) -> None:
    """Enqueue jobs of the light tenant one by one."""
    for _ in range(n):
        timed_job.enqueue("light", time.time(), seconds, partition_key="light")
        time.sleep(pause)


def work_timed_jobs() -> dict[str, Any]:
    """Work everything off; return how long each tenant's jobs waited."""
    seconds = _work()
    return {"seconds": seconds, "waits": waits}


# -- profiles --------------------------------------------------------------------------


def profile_enqueue(n: int) -> str:
    """Return where the time of single enqueues goes."""
    _enqueue_fresh()
    profile = cProfile.Profile()
    profile.runcall(_enqueue, range(n))
    return common.top(pstats.Stats(profile), n)


def profile_bulk(n: int) -> str:
    """Return where the time of one bulk enqueue goes."""
    _enqueue_fresh()
    tasks = [{"args": [number]} for number in range(n)]
    profile = cProfile.Profile()
    profile.runcall(one_argument.queue, partition_key="acme", tasks=tasks)
    return common.top(pstats.Stats(profile), n)


def profile_lease(n: int) -> str:
    """Return where the time of single leases goes."""
    fill(tenants=50, each=-(-n // 50))
    profile = cProfile.Profile()
    profile.runcall(lambda: [queue.lease(1) for _ in range(n)])
    return common.top(pstats.Stats(profile), n)


def profile_worker(n: int) -> str:
    """Return where the time of the worker's slot, the thread that runs jobs, goes."""
    fill(tenants=1, each=n)
    profile = cProfile.Profile()
    with _slots_profiled(profile):
        _work()
    return common.top(pstats.Stats(profile), n)


@contextmanager
def _slots_profiled(profile: cProfile.Profile) -> Iterator[None]:
    run = Slot.run
    only_one = threading.Lock()

    def profiled(slot: Slot) -> None:
        with only_one:
            profile.runcall(run, slot)

    Slot.run = profiled  # type: ignore[method-assign]
    try:
        yield
    finally:
        Slot.run = run  # type: ignore[method-assign]


def _enqueue_fresh() -> None:
    common.empty_tables()
    _enqueue(range(1))
