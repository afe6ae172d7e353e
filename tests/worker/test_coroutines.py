"""Jobs that are coroutines: their limits, and that none goes on by itself."""

from __future__ import annotations

import asyncio
import functools
import random
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from tests.worker.fakes import FakeTask, MemorySource, Running, burst, running, wait_until
from tests.worker.test_limits import eager_switching
from vtrr_django.domain.job import OutcomeKind
from vtrr_django.exceptions import SoftTimeLimitExceeded
from vtrr_django.worker import NoHooks, TaskContext, Worker, coroutines
from vtrr_django.worker.lanes import Lane, Lease
from vtrr_django.worker.limits import Watchdog

Job = Callable[[TaskContext], Coroutine[Any, Any, object]]


def declare(source: MemorySource, job: Job, **options: Any) -> None:
    source.task(functools.partial(coroutines.run, job), **options)


async def for_ever() -> None:
    await asyncio.Event().wait()


def test_a_soft_limit_cancels_the_coroutine_which_is_then_retried() -> None:
    seen: list[object] = []

    async def job(context: TaskContext) -> None:
        try:
            await for_ever()
        except asyncio.CancelledError as error:
            seen.append(error)
            raise
        finally:
            seen.append(await sync_to_async(threading.current_thread)())

    source = MemorySource()
    declare(source, job, soft_time_limit=0.02, retry_delay=9.0)
    source.put()
    assert burst(source).retried == 1
    [outcome] = source.outcomes
    assert (outcome.kind, outcome.delay) == (OutcomeKind.RETRY, 9.0)
    assert outcome.error_class == "vtrr_django.exceptions.SoftTimeLimitExceeded"
    assert outcome.reason == "SoftTimeLimitExceeded: it ran for more than 0.02 s"
    assert "in job" in outcome.traceback
    error, thread = seen
    assert isinstance(error, asyncio.CancelledError)
    assert isinstance(thread, threading.Thread)
    assert thread.name.startswith("vtrr-slot"), "where the connections are looked after"


def test_a_coroutine_may_end_well_after_its_soft_limit() -> None:
    async def job(context: TaskContext) -> None:
        with suppress(asyncio.CancelledError):
            await for_ever()
        await asyncio.sleep(0)

    source = MemorySource()
    declare(source, job, soft_time_limit=0.01)
    source.put()
    assert burst(source).succeeded == 1


def test_what_a_coroutine_raises_after_its_soft_limit_counts() -> None:
    async def job(context: TaskContext) -> None:
        try:
            await for_ever()
        finally:
            raise LookupError("gone")

    source = MemorySource()
    declare(source, job, soft_time_limit=0.01)
    source.put()
    assert burst(source).failed == 1
    assert source.outcomes[0].reason == "LookupError: gone"


def test_what_a_coroutine_started_ends_with_it() -> None:
    ended: list[str] = []

    async def helper() -> None:
        try:
            await for_ever()
        finally:
            ended.append("helper")

    async def job(context: TaskContext) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(helper())

    source = MemorySource()
    declare(source, job, soft_time_limit=0.01)
    source.put()
    assert burst(source).failed == 1
    assert source.outcomes[0].error_class.endswith("SoftTimeLimitExceeded")
    assert ended == ["helper"]


def test_a_coroutine_that_cancels_itself_was_not_interrupted() -> None:
    async def job(context: TaskContext) -> None:
        raise asyncio.CancelledError

    source = MemorySource()
    declare(source, job, soft_time_limit=60.0)
    source.put()
    assert burst(source).failed == 1
    assert source.outcomes[0].error_class.endswith("CancelledError")


class Deaf:
    """A coroutine that no cancelling ends until the test lets it go."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.go = threading.Event()
        self.cancelled = 0

    async def __call__(self, context: TaskContext) -> None:
        self.began.set()
        while not self.go.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                self.cancelled += 1


@pytest.fixture
def deaf() -> Iterator[Deaf]:
    job = Deaf()
    yield job
    job.go.set()


def test_a_coroutine_that_ignores_its_soft_limit_is_stuck_at_its_hard_one(deaf: Deaf) -> None:
    source = MemorySource()
    declare(source, deaf, soft_time_limit=0.02, time_limit=0.3)
    stuck_id = source.put()
    replaced: list[object] = []
    worker = Worker(
        [source], poll_interval=0.005, replace=lambda: replaced.append(source.kinds_of(stuck_id))
    )
    summary = Running(worker).end()
    assert replaced == [[]]
    assert (summary.stuck, summary.jobs) == (1, 1)
    assert deaf.cancelled == 1


def test_a_coroutine_that_blocks_its_loop_is_stuck_at_its_hard_limit() -> None:
    go = threading.Event()

    async def job(context: TaskContext) -> None:
        go.wait(60)

    source = MemorySource()
    declare(source, job, soft_time_limit=0.02, time_limit=0.1)
    source.put()
    with running([source]) as run:
        assert run.end().stuck == 1
        go.set()


# It may come in a callback of the garbage that a run leaves behind; there it is lost.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_coroutine_goes_on_and_no_exception_reaches_the_worker() -> None:
    """They end about when their soft limits pass, and some begin only then."""
    source = MemorySource()
    lane = Lane(source, "w", NoHooks())
    source.put()
    watchdog = Watchdog(lambda lease: None, NoHooks(), "w")
    watchdog.start()
    rng = random.Random(7)
    interrupted = completed = 0
    active: list[int] = []

    async def work(number: int, until: float) -> None:
        active.append(number)
        try:
            while time.monotonic() < until:  # noqa: ASYNC110 - it is to be interrupted anywhere
                await asyncio.sleep(0)
        finally:
            active.remove(number)

    with eager_switching():
        for number in range(500):
            limit = rng.uniform(0.0001, 0.003)

            def job(context: TaskContext, number: int = number, limit: float = limit) -> None:
                began = time.monotonic()
                while time.monotonic() < began + rng.uniform(0, limit):
                    pass
                coroutines.run(work, number, began + limit + rng.gauss(0, 0.001))

            task = FakeTask(job, soft_time_limit=limit)
            lease = Lease(source.ready[0], lane, time.monotonic())
            try:
                watchdog.call(lease, task, TaskContext(task, lease.job, "w"))
                completed += 1
            except SoftTimeLimitExceeded:
                interrupted += 1
            assert active == []
            for _ in range(200):
                len("worker")
    watchdog.end()
    watchdog.join()
    assert coroutines.depth() == 0
    assert interrupted
    assert completed


def test_an_interruption_that_comes_before_there_is_a_loop_is_not_lost() -> None:
    led = coroutines._Led()
    led.interrupt(SoftTimeLimitExceeded)
    with pytest.raises(SoftTimeLimitExceeded):
        async_to_sync(led.lead)(for_ever, (), {})
    led.interrupt(SoftTimeLimitExceeded)  # and one that comes after it does nothing


def test_an_interruption_that_comes_too_early_for_a_coroutine_that_never_waits_does_nothing() -> (
    None
):
    async def quick() -> int:
        return 7

    led = coroutines._Led()
    led.interrupt(SoftTimeLimitExceeded)
    assert async_to_sync(led.lead)(quick, (), {}) == 7


def test_a_coroutine_within_another_is_interrupted_alone() -> None:
    """As where a job enqueues one that runs eagerly: the limits of each are its own."""
    source = MemorySource()
    lane = Lane(source, "w", NoHooks())
    source.put()
    watchdog = Watchdog(lambda lease: None, NoHooks(), "w")
    watchdog.start()
    told: list[str] = []

    def inner() -> None:
        task = FakeTask(lambda context: coroutines.run(for_ever), soft_time_limit=0.02)
        lease = Lease(source.ready[0], lane, time.monotonic())
        with pytest.raises(SoftTimeLimitExceeded):
            watchdog.call(lease, task, TaskContext(task, lease.job, "w"))
        told.append("inner")

    async def outer() -> None:
        await sync_to_async(inner)()
        told.append("outer")

    task = FakeTask(lambda context: coroutines.run(outer), soft_time_limit=60.0)
    lease = Lease(source.ready[0], lane, time.monotonic())
    watchdog.call(lease, task, TaskContext(task, lease.job, "w"))
    watchdog.end()
    watchdog.join()
    assert told == ["inner", "outer"]


def test_a_coroutine_whose_thread_is_called_away_is_cancelled() -> None:
    """As by a handler of signals that raises, in the main thread of a process."""
    ended = threading.Event()

    class Away(BaseException):
        pass

    def handler(number: int, frame: FrameType | None) -> None:
        raise Away

    async def job() -> None:
        try:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR2)
            await for_ever()
        finally:
            ended.set()

    before = signal.signal(signal.SIGUSR2, handler)
    try:
        with pytest.raises(Away):
            coroutines.run(job)
    finally:
        signal.signal(signal.SIGUSR2, before)
    wait_until(ended.is_set, "the coroutine to end")
    assert coroutines.depth() == 0
