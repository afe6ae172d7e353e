from __future__ import annotations

import gc
import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from tests.worker.fakes import FakeTask, MemorySource, Running, burst, running, wait_until
from vtrr_django.domain.job import OutcomeKind
from vtrr_django.exceptions import SoftTimeLimitExceeded
from vtrr_django.worker import NoHooks, TaskContext, Worker
from vtrr_django.worker.lanes import Lane, Lease
from vtrr_django.worker.limits import Guard, Watchdog


def spin(context: TaskContext) -> None:
    """Run Python code until interrupted."""
    while True:
        time.sleep(0.0005)


def test_a_soft_limit_interrupts_the_job_which_is_then_retried() -> None:
    source = MemorySource()
    source.task(spin, soft_time_limit=0.02, retry_delay=9.0)
    source.task(lambda context: None, name="after")
    source.put()
    source.put(task="after")
    summary = burst(source)
    outcome = source.outcomes[0]
    assert (outcome.kind, outcome.delay) == (OutcomeKind.RETRY, 9.0)
    assert outcome.error_class == "vtrr_django.exceptions.SoftTimeLimitExceeded"
    assert outcome.reason == "SoftTimeLimitExceeded: it ran for more than 0.02 s"
    assert "in spin" in outcome.traceback
    assert (summary.retried, summary.succeeded) == (1, 1)


def test_a_job_may_clean_up_after_its_soft_limit() -> None:
    cleaned = []

    def job(context: TaskContext) -> None:
        try:
            spin(context)
        except SoftTimeLimitExceeded:
            cleaned.append(context.job.id)

    source = MemorySource()
    source.task(job, soft_time_limit=0.01)
    job_id = source.put()
    assert burst(source).succeeded == 1
    assert cleaned == [job_id]


def test_a_job_within_its_limits_is_left_alone() -> None:
    source = MemorySource()
    source.task(lambda context: None, soft_time_limit=60.0, time_limit=90.0)
    for _ in range(50):
        source.put()
    assert burst(source).succeeded == 50


@contextmanager
def eager_switching() -> Iterator[None]:
    """Switch threads as often as possible, and without callbacks of the garbage collector.

    Hypothesis leaves one behind, in Python: an exception that arrives in it is lost.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        sys.setswitchinterval(before)


def test_the_exception_never_reaches_the_worker() -> None:
    """Jobs end within microseconds of their soft limit, thousands of times."""
    source = MemorySource()
    lane = Lane(source, "w", NoHooks())
    source.put()
    watchdog = Watchdog(lambda lease: None, NoHooks(), "w")
    watchdog.start()
    rng = random.Random(7)
    interrupted = completed = 0
    with eager_switching():
        for _ in range(3000):
            limit = rng.uniform(0.00005, 0.0006)
            length = limit + rng.gauss(0, 0.0001)

            def job(context: TaskContext, length: float = length) -> None:
                end = time.monotonic() + length
                while time.monotonic() < end:
                    pass

            task = FakeTask(job, soft_time_limit=limit)
            lease = Lease(source.ready[0], lane, time.monotonic())
            try:
                watchdog.call(lease, task, TaskContext(task, lease.job, "w"))
                completed += 1
            except SoftTimeLimitExceeded:
                interrupted += 1
            # Worker code: nothing may arrive here. It would end this test.
            for _ in range(200):
                len("worker")
    watchdog.end()
    watchdog.join()
    assert interrupted
    assert completed


def test_a_late_exception_leaves_what_the_job_did_alone() -> None:
    """Through the whole worker: every job ends somehow, and the worker never by accident."""
    source = MemorySource(prefetch=5)
    rng = random.Random(11)

    def job(context: TaskContext) -> None:
        end = time.monotonic() + rng.uniform(0.0001, 0.0009)
        while time.monotonic() < end:
            pass

    source.task(job, soft_time_limit=0.0005)
    ids = {source.put() for _ in range(1500)}
    with eager_switching():
        summary = burst(source, concurrency=3)
    assert {outcome.job_id for outcome in source.outcomes} == ids
    assert summary.jobs == 1500
    assert summary.died == summary.lost == 0
    assert summary.succeeded
    assert summary.failed


def test_an_exception_that_comes_while_closing_is_dropped_and_the_guard_closed() -> None:
    class Late(Guard):
        closings = 0

        def _close(self) -> None:
            self.closings += 1
            if self.closings == 1:
                raise SoftTimeLimitExceeded
            super()._close()

    source = MemorySource()
    source.put()
    lane = Lane(source, "w", NoHooks())
    for function in (lambda context: None, fail):
        lease = Lease(source.ready[0], lane, time.monotonic())
        task = FakeTask(function)
        guard = Late(lease, 60.0, 60.0)
        with suppress(ZeroDivisionError):
            guard.call(task, TaskContext(task, lease.job, "w"))
        assert not guard.write_off(), "the job has ended"
        assert not lease.overdue


def fail(context: TaskContext) -> None:
    raise ZeroDivisionError


class Stuck:
    """A job that no exception reaches until the test lets it go."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.go = threading.Event()

    def __call__(self, context: TaskContext) -> None:
        self.began.set()
        self.go.wait(60)


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    job = Stuck()
    yield job
    job.go.set()


def test_a_hard_limit_ends_the_worker_which_asks_to_be_replaced(stuck: Stuck) -> None:
    source = MemorySource()
    source.task(stuck, time_limit=0.05)
    stuck_id = source.put()
    replaced = []
    run = Running(
        Worker(
            [source],
            poll_interval=0.005,
            replace=lambda: replaced.append(source.kinds_of(stuck_id)),
        )
    )
    summary = run.end()
    assert replaced == [[]]
    assert (summary.stuck, summary.jobs) == (1, 1)
    assert not summary.aborted
    stuck.go.set()


def test_a_job_beyond_its_hard_limit_is_not_renewed_and_its_late_result_is_dropped(
    stuck: Stuck,
) -> None:
    source = MemorySource(lease_seconds=0.03)
    other = Stuck()
    source.task(stuck, time_limit=0.05)
    source.task(other, name="other")
    held = source.put(task="other")
    with running([source], concurrency=2) as run:
        wait_until(other.began.is_set)  # no job begins once the other is stuck
        late = source.put()
        wait_until(stuck.began.is_set)
        wait_until(lambda: run.worker._crew and run.worker._crew.tally.stuck)
        before = len(source.renewals)
        wait_until(lambda: len(source.renewals) > before + 5, "renewals of the other job")
        assert {renewal.job_id for renewal in source.renewals[before + 2 :]} == {held}
        stuck.go.set()
        crew: Any = run.worker._crew
        wait_until(lambda: not any(slot.is_stuck for slot in crew._slots))
        other.go.set()
        summary = run.end()
    assert source.kinds_of(late) == []
    assert source.refused == []
    assert source.kinds_of(held) == [OutcomeKind.ACK]
    assert (summary.stuck, summary.succeeded, summary.died) == (1, 1, 0)


def test_no_job_is_leased_after_a_hard_limit(stuck: Stuck) -> None:
    source = MemorySource()
    source.task(stuck, time_limit=0.03)
    source.task(lambda context: None, name="later")
    source.put()
    with running([source], concurrency=3) as run:
        run.end()
        source.put(task="later")
    assert len(source.ready) == 1


def test_jobs_that_do_not_end_before_the_replacement_are_released(stuck: Stuck) -> None:
    source = MemorySource()
    other = Stuck()
    source.task(stuck, time_limit=0.05)
    source.task(other, name="other")
    held = source.put(task="other")
    replaced = threading.Event()
    with running([source], concurrency=2, replace=replaced.set, replace_grace=0.05) as run:
        wait_until(other.began.is_set)  # no job begins once the other is stuck
        source.put()
        summary = run.end()
    assert replaced.is_set()
    assert source.kinds_of(held) == [OutcomeKind.RELEASE]
    assert summary.aborted
    other.go.set()


def test_a_worker_that_was_asked_to_stop_is_not_replaced(stuck: Stuck) -> None:
    source, runs = MemorySource(), list[Running]()

    def job(context: TaskContext) -> None:
        runs[0].worker.stop()  # before its limit, however slow this machine is
        stuck(context)

    source.task(job, time_limit=0.1)
    replaced = threading.Event()
    with running([source], replace=replaced.set) as run:
        runs.append(run)
        source.put()
        summary = run.end()
    assert summary.stuck == 1
    assert not replaced.is_set()


def test_stop_after_a_hard_limit_lets_the_others_finish(stuck: Stuck) -> None:
    source = MemorySource()
    other = Stuck()
    source.task(stuck, time_limit=0.05)
    source.task(other, name="other")
    held = source.put(task="other")
    replaced = threading.Event()
    with running([source], concurrency=2, replace=replaced.set, replace_grace=600.0) as run:
        wait_until(other.began.is_set)  # no job begins once the other is stuck
        source.put()
        wait_until(lambda: run.worker._crew and run.worker._crew._deadline)
        run.worker.stop()
        wait_until(lambda: run.worker._crew and run.worker._crew._deadline is None)
        other.go.set()
        summary = run.end()
    assert source.kinds_of(held) == [OutcomeKind.ACK]
    assert not summary.aborted
    assert not replaced.is_set()
