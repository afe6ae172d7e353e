"""Queues in Redis, and vtrr-queue beside them, on one server of their own.

Queues ``default`` and ``large`` are run by ``vtrr_worker``, so that nothing is sent to a
broker; ``ours`` is run by Celery, like vtrr-queue's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import django
import redis
from celery import Celery
from django.conf import settings

from benchmarks.sites import common
from benchmarks.sites.common import prepare
from vtrr_django import get_queue
from vtrr_django.domain.ids import new_job_ids
from vtrr_django.domain.job import LeasedJob, NewJob, Outcome, OutcomeKind

try:
    from vtrr_queue import VTRRQueue
except ImportError:  # benchmarks.peers says why, and asks for nothing of it
    VTRRQueue = None

__all__ = ["prepare"]

django.setup()
app = Celery("benchmark", set_as_current=True)
app.config_from_object("django.conf:settings", namespace="CELERY")

default, large, ours = map(get_queue, ("default", "large", "ours"))
server = redis.Redis.from_url(settings.CELERY_BROKER_URL, socket_timeout=60)
TASK_NAME = "shop.tasks.process"
"""A name as projects have them, for jobs that nobody runs: it takes memory too."""

WORKER_ID = "benchmark"


def one_argument(self: Any, number: int) -> None:
    """Do nothing with a number."""


def their_one_argument(self: Any, number: int) -> None:
    """Do as little: a Celery app knows one task by each name."""


their_one_argument.__module__, _, their_one_argument.__name__ = TASK_NAME.rpartition(".")

our_task = ours.task(one_argument)
if VTRRQueue is not None:
    their_task = VTRRQueue(
        server,
        app,
        name="theirs",
        celery_queue="theirs",
        max_concurrency=ours.config.max_concurrency,
    ).task(their_one_argument)


def _empty() -> None:
    """Empty the server; what a million jobs took is freed before anything is measured."""
    server.flushall(asynchronous=True)
    while True:
        told: Any = server.info("memory")
        if not told["lazyfree_pending_objects"]:
            return
        time.sleep(0.1)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


# -- leasing ---------------------------------------------------------------------------


def _ack(job: LeasedJob) -> Outcome:
    return Outcome(kind=OutcomeKind.ACK, job_id=job.id, token=job.token, runtime=0.001)


def _ack_and_lease(leased: list[LeasedJob], n: int) -> list[LeasedJob]:
    return default.finish_and_lease(list(map(_ack, leased)), n, worker_id=WORKER_ID)[1]


def _jobs(count: int, partitions: int, payload: str = '{"args":[1],"kwargs":{}}') -> list[NewJob]:
    return [
        NewJob(
            id=one, task_name=TASK_NAME, payload=payload, partition_key=f"tenant {n % partitions}"
        )
        for n, one in enumerate(new_job_ids(count))
    ]


def cycle_beside_bare(batch: int, blocks: int, size: int) -> list[tuple[float, float]]:
    """Time blocks of ``size`` jobs leased and acked, and of ``size`` bare scripts, in turn.

    Both by the same client; each call of ours acks the batch before and leases the next.

    Returns:
        Seconds of either for each block.
    """
    _empty()
    default.engine.enqueue(_jobs((blocks + 1) * size, 20), {})
    client = default.engine.commands.client  # type: ignore[attr-defined]
    digest = client.script_load("return 1")
    leased: list[LeasedJob] = default.lease(batch)

    def cycle() -> None:
        nonlocal leased
        for _ in range(0, size, batch):
            leased = _ack_and_lease(leased, batch)

    def bare() -> None:
        for _ in range(size):
            client.execute_command("EVALSHA", digest, 0)

    pairs = []
    for block in range(blocks):
        if block % 2:
            pairs.append((_timed(cycle), _timed(bare)))
        else:
            seconds = _timed(bare)
            pairs.append((_timed(cycle), seconds))
    if len(leased) < batch:
        raise RuntimeError("expected more jobs to be leased")
    return pairs


# -- enqueueing ------------------------------------------------------------------------


def _set_brokers(waiting: int) -> None:
    """Have so many triggers wait in the broker on either side."""
    server.delete("ours", "theirs")
    for name in ("ours", "theirs") if waiting else ():
        server.lpush(name, *["a trigger"] * waiting)


def enqueue_singly(blocks: int, size: int, *, waiting: bool) -> list[tuple[float, float]]:
    """Time blocks of calls with one job, ours and vtrr-queue's in turn.

    Args:
        blocks: how many of each.
        size: calls in a block.
        waiting: whether ``MAX_CONCURRENCY`` triggers wait in the broker already, so that none
            is sent; else each call finds it empty and sends one.

    Returns:
        Seconds of either for each block.
    """
    _empty()

    def block(task: Any, name: str) -> float:
        seconds = 0.0
        for number in range(size):
            tasks = [{"args": [number]}]
            if not waiting:
                server.delete(name)
            seconds += _timed(lambda: task.queue(partition_key="acme", tasks=tasks))  # noqa: B023
        return seconds

    _set_brokers(ours.config.max_concurrency if waiting else 0)
    sides = ((our_task, "ours"), (their_task, "theirs"))
    return list(_in_turn(blocks, block, sides))


def enqueue_in_bulk(n: int, blocks: int, *, waiting: bool) -> list[tuple[float, float]]:
    """Time calls with ``n`` jobs, ours and vtrr-queue's in turn; see :func:`enqueue_singly`."""

    def block(task: Any, name: str) -> float:
        _empty()
        _set_brokers(ours.config.max_concurrency if waiting else 0)
        tasks = [{"args": [number]} for number in range(n)]
        return _timed(lambda: task.queue(partition_key="acme", tasks=tasks))

    return list(_in_turn(blocks, block, ((our_task, "ours"), (their_task, "theirs"))))


def _in_turn(
    blocks: int, block: Callable[[Any, str], float], sides: tuple[tuple[Any, str], ...]
) -> Iterator[tuple[float, float]]:
    for number in range(blocks):
        spent = {name: block(task, name) for task, name in (sides if number % 2 else sides[::-1])}
        yield spent["ours"], spent["theirs"]


# -- memory ----------------------------------------------------------------------------


def bytes_per_job(n: int, partitions: int, bulk: int, payload_bytes: int) -> float:
    """Return how much memory of Redis one waiting job takes, stored ``bulk`` at a time."""
    _empty()
    payload = '{"args":["","force"],"kwargs":{}}'
    payload = payload.replace('""', '"' + "x" * (payload_bytes - len(payload)) + '"')
    before = _used_memory()
    each = n // partitions
    for start in range(0, each, bulk) if bulk > 1 else [0]:
        count = min(bulk, each - start) if bulk > 1 else each
        for partition in range(partitions):
            jobs = [
                NewJob(
                    id=one,
                    task_name=TASK_NAME,
                    payload=payload,
                    partition_key=f"tenant {partition}",
                )
                for one in new_job_ids(count)
            ]
            for batch in [jobs] if bulk > 1 else [[job] for job in jobs]:
                default.engine.enqueue(batch, {})
    return (_used_memory() - before) / n


def their_bytes_per_job(n: int, partitions: int, payload_bytes: int) -> float:
    """Return what one takes that vtrr-queue has stored, whose payload names the task too."""
    _empty()
    _set_brokers(ours.config.max_concurrency)
    shortest = len('{"args": [""], "kwargs": {}}')
    tasks = [{"args": ["x" * (payload_bytes - shortest)]}] * (n // partitions)
    before = _used_memory()
    for partition in range(partitions):
        their_task.queue(partition_key=f"tenant {partition}", tasks=tasks)
    return (_used_memory() - before) / n


def _used_memory() -> int:
    told: Any = server.info("memory")
    # A hash table that grows is two, until all has moved; Redis goes on when it is idle.
    while True:
        time.sleep(0.2)
        now: Any = server.info("memory")
        if abs(now["used_memory"] - told["used_memory"]) < 4096:
            return int(now["used_memory"])
        told = now


# -- backlog ---------------------------------------------------------------------------


def fill_beside(jobs: int, partitions: int) -> None:
    """Have 1,000 jobs of 100 partitions wait in ``default``, and ``jobs`` in ``large``."""
    _empty()
    default.engine.enqueue(_jobs(1000, 100), {})
    for _ in range(0, jobs, 100_000):
        large.engine.enqueue(_jobs(min(jobs, 100_000), partitions), {})


def lease_beside(rounds: int, n: int) -> dict[str, list[float]]:
    """Time leases of both queues in turn; what was leased is acked and replaced."""
    spent: dict[str, list[float]] = {"default": [], "large": []}
    for turn in range(rounds):
        for queue in (default, large) if turn % 2 else (large, default):
            began = time.perf_counter()
            jobs = queue.lease(n)
            spent[queue.name].append(time.perf_counter() - began)
            queue.finish_and_lease([_ack(job) for job in jobs], 0, worker_id=WORKER_ID)
            queue.engine.enqueue(
                [
                    NewJob(
                        id=one,
                        task_name=TASK_NAME,
                        payload='{"args":[1],"kwargs":{}}',
                        partition_key=job.partition_key,
                    )
                    for one, job in zip(new_job_ids(len(jobs)), jobs, strict=True)
                ],
                {},
            )
    return spent


# -- blocking --------------------------------------------------------------------------


def _longest(act: Callable[[], object]) -> tuple[float, str]:
    """Return the milliseconds of the longest command while ``act`` runs, and its name."""
    server.config_set("slowlog-log-slower-than", 1000)
    server.config_set("slowlog-max-len", 100_000)
    server.slowlog_reset()
    act()
    entries: Any = server.slowlog_get(100_000)
    took = [(one["duration"] / 1000, one["command"].split()[0].decode()) for one in entries]
    # What was not logged took less than the least that is; reading the log is not ours.
    return max((one for one in took if one[1] != "SLOWLOG"), default=(1.0, ""))


def block_by_enqueue(n: int) -> tuple[float, str]:
    """Enqueue ``n`` jobs in one call."""
    _empty()
    jobs = _jobs(n, 1)
    return _longest(lambda: default.engine.enqueue(jobs, {}))


def block_by_purge(n: int) -> tuple[float, str]:
    """Purge ``n`` jobs of 100 partitions."""
    _empty()
    default.engine.enqueue(_jobs(n, 100), {})
    return _longest(default.purge)


def block_by_due(n: int) -> tuple[float, str]:
    """Lease and reclaim until ``n`` jobs that fell due at once are ready."""
    _empty()
    jobs = [job._replace(delay=0.1) for job in _jobs(n, 100)]
    default.engine.enqueue(jobs, {})
    time.sleep(0.2)

    def fall_due() -> None:
        default.lease(1)
        for _ in range(0, n, 400):
            default.engine.reclaim()
        if default.engine.stats().scheduled:
            raise RuntimeError("expected all jobs to be ready")

    return _longest(fall_due)


# -- profiles --------------------------------------------------------------------------


def profile_redis_lease(n: int) -> str:
    """Return where the client's time goes in single leases with acks."""
    _empty()
    default.engine.enqueue(_jobs(n + 1, 20), {})
    leased = default.lease(1)

    def cycle() -> None:
        nonlocal leased
        for _ in range(n):
            leased = _ack_and_lease(leased, 1)

    return _with_commands(n, lambda: common.profiled(cycle, n))


def profile_redis_enqueue(n: int) -> str:
    """Return where the client's time goes in single enqueues."""
    _empty()
    _set_brokers(ours.config.max_concurrency)

    def enqueue() -> None:
        for number in range(n):
            our_task.queue(partition_key="acme", tasks=[{"args": [number]}])

    return _with_commands(n, lambda: common.profiled(enqueue, n))


def profile_redis_bulk(n: int) -> str:
    """Return where the client's time goes in one call with many jobs."""
    _empty()
    _set_brokers(ours.config.max_concurrency)
    tasks = [{"args": [number]} for number in range(n)]
    return _with_commands(
        n,
        lambda: common.profiled(lambda: our_task.queue(partition_key="acme", tasks=tasks), n),
    )


def _with_commands(jobs: int, profile: Callable[[], str]) -> str:
    """Return a profile, and below it what Redis did meanwhile for each job."""
    server.config_resetstat()
    told = profile()
    return f"{told}\n{common.commands_per_job(server, jobs)}"
