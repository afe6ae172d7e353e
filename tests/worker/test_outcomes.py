from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.test_readme import BLOCKS
from tests.worker.fakes import FakeTask, MemorySource, burst
from vtrr_django.domain.job import LeasedJob, Outcome, OutcomeKind
from vtrr_django.exceptions import Discard, Retry, Snooze, ValidationError
from vtrr_django.worker import TaskContext, WorkerSummary
from vtrr_django.worker.source import NoHooks

LOGGER = "vtrr_django.worker"


def raising(error: BaseException | Callable[[], BaseException]) -> Callable[..., None]:
    def job(context: TaskContext) -> None:
        raise error() if callable(error) else error

    return job


def run_one(
    function: Callable[..., object], retry_delay: Any = None, **fields: Any
) -> tuple[Outcome, WorkerSummary]:
    source = MemorySource()
    source.task(function, retry_delay=retry_delay)
    source.put(**fields)
    summary = burst(source)
    assert len(source.outcomes) == 1
    assert source.started == [source.outcomes[0].job_id]
    return source.outcomes[0], summary


def test_a_job_that_returns_is_acked() -> None:
    seen = []
    source = MemorySource()
    source.task(lambda context, a, b: seen.append((a, b)))
    source.put(1, kwargs={"b": 2})
    summary = burst(source)
    assert seen == [(1, 2)]
    assert [outcome.kind for outcome in source.outcomes] == [OutcomeKind.ACK]
    assert summary == WorkerSummary(jobs=1, succeeded=1)
    assert source.outcomes[0].runtime is not None


def test_the_token_of_the_lease_is_handed_in() -> None:
    outcome, _ = run_one(lambda context: None, token="the-token")
    assert outcome.token == "the-token"


def test_snooze_keeps_the_attempt() -> None:
    outcome, summary = run_one(raising(Snooze(7.5)))
    assert (outcome.kind, outcome.delay) == (OutcomeKind.SNOOZE, 7.5)
    assert summary.snoozed == 1


def test_discard_is_a_dead_letter_with_its_reason_whatever_the_policy() -> None:
    outcome, summary = run_one(raising(Discard("no such\0file")), retry_delay=1.0)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAIL, "no such�file")
    assert outcome.error_class == "vtrr_django.exceptions.Discard"
    assert summary.failed == 1


def test_retry_tells_the_exception_behind_it() -> None:
    outcome, summary = run_one(raising(Retry(3, KeyError("x"))))
    assert (outcome.kind, outcome.delay) == (OutcomeKind.RETRY, 3)
    assert outcome.error_class == "builtins.KeyError"
    assert outcome.reason == "KeyError: 'x'"
    assert summary.retried == 1


def test_retry_without_an_exception() -> None:
    outcome, _ = run_one(raising(Retry(3)))
    assert outcome.reason == "the job asked for a retry"
    assert outcome.error_class == outcome.traceback == ""


def test_an_exception_is_retried_as_the_policy_says() -> None:
    asked: list[tuple[str, int]] = []

    def policy(exc: BaseException, job: LeasedJob) -> float:
        asked.append((repr(exc), job.delivery_count))
        return 12.0

    outcome, _ = run_one(raising(OSError("disk")), retry_delay=policy, delivery_count=2)
    assert asked == [("OSError('disk')", 2)]
    assert (outcome.kind, outcome.delay) == (OutcomeKind.RETRY, 12.0)
    assert outcome.reason == "OSError: disk"
    assert "raise error" in outcome.traceback


def test_an_exception_that_the_policy_does_not_retry_is_a_dead_letter() -> None:
    outcome, _ = run_one(raising(ZeroDivisionError("boom")))
    assert outcome.kind is OutcomeKind.FAIL
    assert outcome.error_class == "builtins.ZeroDivisionError"
    assert outcome.reason == "ZeroDivisionError: boom"
    assert outcome.traceback.endswith("ZeroDivisionError: boom\n")
    assert "vtrr_django/worker" not in outcome.traceback


def test_a_payload_that_cannot_be_decoded_is_not_retried() -> None:
    outcome, _ = run_one(raising(ValidationError("payload", "broken")), retry_delay=1.0)
    assert outcome.kind is OutcomeKind.FAIL


def test_cancelled_error_is_an_ordinary_failure() -> None:
    outcome, _ = run_one(raising(asyncio.CancelledError()), retry_delay=1.0)
    assert outcome.kind is OutcomeKind.RETRY


@pytest.mark.parametrize("delay", [float("nan"), float("inf"), -1, "soon", None])
@pytest.mark.parametrize("signal", [Snooze, Retry])
def test_a_delay_that_is_none_is_a_dead_letter_not_a_broken_store(signal: Any, delay: Any) -> None:
    outcome, _ = run_one(raising(signal(delay)))
    assert outcome.kind is OutcomeKind.FAIL
    assert f"{signal.__name__}.delay" in outcome.reason


@pytest.mark.parametrize("answer", [float("nan"), "soon", -3.0])
def test_a_policy_that_answers_nonsense_loses_no_job(answer: Any) -> None:
    outcome, _ = run_one(raising(OSError("disk")), retry_delay=lambda exc, job: answer)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAIL, "OSError: disk")


def test_a_policy_that_raises_loses_no_job() -> None:
    def policy(exc: BaseException, job: LeasedJob) -> float:
        raise SystemExit

    outcome, _ = run_one(raising(OSError("disk")), retry_delay=policy)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAIL, "OSError: disk")


@pytest.mark.parametrize(
    "death",
    [
        SystemExit(1),
        KeyboardInterrupt(),
        GeneratorExit(),
        BaseExceptionGroup("both", [ValueError("x"), SystemExit(2)]),
    ],
    ids=lambda death: type(death).__name__,
)
def test_death_hands_nothing_in_and_the_thread_goes_on(death: BaseException) -> None:
    source = MemorySource()
    source.task(raising(death), name="dying")
    source.task(lambda context: None)
    dead = source.put(task="dying", token="dead")
    alive = source.put()
    summary = burst(source)
    assert source.kinds_of(dead) == []
    assert list(source.leased) == ["dead"]
    assert source.kinds_of(alive) == [OutcomeKind.ACK]
    assert (summary.jobs, summary.died, summary.succeeded) == (2, 1, 1)


def test_an_unknown_task_is_put_back_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource()
    source.task(lambda context: None)
    unknown = [source.put(task="from.the.future") for _ in range(3)]
    known = source.put()
    with caplog.at_level(logging.ERROR, LOGGER):
        summary = burst(source)
    assert {outcome.job_id: outcome.delay for outcome in source.put_back} == dict.fromkeys(
        unknown, 5.0
    )
    assert source.kinds_of(known) == [OutcomeKind.ACK]
    assert summary.snoozed == 3
    assert source.started == [known]
    said = [record for record in caplog.records if "from.the.future" in record.getMessage()]
    assert len(said) == 1
    assert "restart this worker" in said[0].getMessage()


def test_a_task_that_cannot_be_loaded_is_put_back(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MemorySource):
        def resolve(self, task_name: str) -> FakeTask | None:
            raise ImportError("no module named shop")

    source = Broken()
    source.put()
    source.put()
    burst(source)
    assert [outcome.kind for outcome in source.outcomes] == [OutcomeKind.SNOOZE] * 2
    assert caplog.text.count("cannot be loaded") == 1


def test_a_failing_listener_or_hook_harms_no_job(caplog: pytest.LogCaptureFixture) -> None:
    class Deaf(MemorySource):
        def job_started(self, job: LeasedJob, worker_id: str) -> None:
            raise RuntimeError("listener")

    class Hooks(NoHooks):
        def before_job(self) -> None:
            raise RuntimeError("before_job")

        def after_job(self) -> None:
            raise SystemExit("after_job")

        def before_store(self) -> None:
            pass

        def thread_exit(self) -> None:
            raise RuntimeError("thread_exit")

    source = Deaf()
    source.task(lambda context: None)
    source.put()
    assert burst(source, hooks=Hooks()).succeeded == 1
    assert "listener of job_started failed" in caplog.text
    assert caplog.text.count("hook") >= 3


def test_hooks_surround_every_job_in_its_thread() -> None:
    import threading

    events: list[tuple[str, str]] = []

    class Hooks(NoHooks):
        def before_job(self) -> None:
            self._note("before_job")

        def after_job(self) -> None:
            self._note("after_job")

        def before_store(self) -> None:
            self._note("before_store")

        def thread_exit(self) -> None:
            self._note("thread_exit")

        def _note(self, what: str) -> None:
            if threading.current_thread().name.startswith("vtrr-slot"):
                events.append((what, threading.current_thread().name))

    source = MemorySource()

    def job(context: TaskContext) -> None:
        events.append(("job", threading.current_thread().name))
        raise ZeroDivisionError

    source.task(job)
    source.put()
    burst(source, hooks=Hooks())
    names = [what for what, _ in events]
    assert names[:4] == ["before_store", "before_job", "job", "after_job"]
    assert names[-1] == "thread_exit"
    assert len({thread for _, thread in events}) == 1


def test_records_carry_the_job_and_never_its_arguments(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource("uploads")
    source.task(lambda context, secret: 1 / 0)
    source.put("hunter2", partition_key="acme", id="upload-1")
    with caplog.at_level(logging.DEBUG, LOGGER):
        burst(source, worker_id="w1")
    records = [record for record in caplog.records if "upload-1" in record.getMessage()]
    assert len(records) >= 2
    for record in records:
        context = {
            name: getattr(record, name)
            for name in ("queue", "job_id", "task_name", "partition_key", "worker_id")
        }
        assert context == {
            "queue": "uploads",
            "job_id": "upload-1",
            "task_name": "task",
            "partition_key": "acme",
            "worker_id": "w1",
        }
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("retry_delay", [None, 60.0])
def test_what_a_task_raises_is_logged_unless_the_filter_of_the_readme_keeps_it_out(
    caplog: pytest.LogCaptureFixture, retry_delay: float | None
) -> None:
    [code] = [code for *_, code in BLOCKS if "class NoErrorTexts" in code]
    made: dict[str, Any] = {}
    exec(code, made)  # noqa: S102 - ours
    kept_out = made["NoErrorTexts"]()
    logger = logging.getLogger(LOGGER)

    def said() -> str:
        caplog.clear()
        with caplog.at_level(logging.DEBUG, LOGGER):
            run_one(lambda context: int("CANARY"), retry_delay=retry_delay, id="job-x")
        return caplog.text

    assert "CANARY" in said()
    logger.addFilter(kept_out)
    try:
        text = said()
    finally:
        logger.removeFilter(kept_out)
    assert "CANARY" not in text
    assert "job job-x: builtins.ValueError" in text


def test_a_deep_recursion_is_a_dead_letter() -> None:
    def ping(context: TaskContext) -> None:
        pong(context)

    def pong(context: TaskContext) -> None:
        ping(context)

    outcome, _ = run_one(ping)
    assert outcome.kind is OutcomeKind.FAIL
    assert outcome.error_class == "builtins.RecursionError"
    assert len(outcome.traceback) <= 50_000
    assert sys.getrecursionlimit() > 100


def test_a_message_that_cannot_be_shown_is_a_dead_letter() -> None:
    class Nasty(Exception):
        def __str__(self) -> str:
            raise SystemExit("gotcha")

        __repr__ = __str__

    outcome, _ = run_one(raising(Nasty()))
    assert outcome.kind is OutcomeKind.FAIL
    assert outcome.reason.startswith("Nasty: ")
    assert outcome.error_class.endswith(".Nasty")
