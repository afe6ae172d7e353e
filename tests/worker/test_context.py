from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.worker.fakes import FakeTask, MemorySource, burst
from vtrr_django.domain.job import OutcomeKind
from vtrr_django.exceptions import Retry, ValidationError
from vtrr_django.worker import MaxRetriesExceeded, TaskContext


def context_of(*args: Any, direct: bool = False, **fields: Any) -> TaskContext:
    source = MemorySource()
    source.put(*args, **fields)
    task = FakeTask(lambda context: None, time_limit=9, soft_time_limit=5, max_retries=3)
    return TaskContext(task, source.ready[0], "worker-1", called_directly=direct)


def test_request_tells_about_the_run() -> None:
    context = context_of(1, "b", kwargs={"c": 3}, delivery_count=2, timeouts=1, id="x")
    request = context.request
    assert (context.name, context.max_retries, context.default_retry_delay) == ("task", 3, 180)
    assert (request.id, request.task, request.hostname) == ("x", "task", "worker-1")
    assert (request.args, request.kwargs) == ([1, "b"], {"c": 3})
    assert (request.retries, request.vtrr_timeouts) == (2, 1)
    assert request.timelimit == (9, 5)
    assert request.vtrr_job is context.job
    assert request.is_eager is request.called_directly is False
    assert request.get("retries") == 2
    assert request.get("unheard", "of") == "of"
    assert context.request is request


def test_request_is_frozen() -> None:
    request = context_of().request
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.retries = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("options", "delay"), [({}, 180), ({"countdown": 4}, 4), ({"countdown": -4}, 0)]
)
def test_retry_raises_with_its_delay(options: dict[str, Any], delay: float) -> None:
    with pytest.raises(Retry) as info:
        context_of().retry(**options)
    assert info.value.delay == delay


@pytest.mark.parametrize("zone", [UTC, None])
def test_retry_at_a_moment(zone: Any) -> None:
    eta = (datetime.now(UTC) + timedelta(hours=1)).replace(tzinfo=zone)
    with pytest.raises(Retry) as info:
        context_of().retry(eta=eta)
    assert 3500 < info.value.delay <= 3600


def test_retry_in_the_past_is_at_once() -> None:
    with pytest.raises(Retry) as info:
        context_of().retry(eta=datetime(2020, 1, 1, tzinfo=UTC))
    assert info.value.delay == 0


def test_retry_accepts_the_jobs_own_arguments() -> None:
    context = context_of(1, kwargs={"a": 2})
    with pytest.raises(Retry):
        context.retry(args=(1,), kwargs={"a": 2})


@pytest.mark.parametrize("change", [{"args": [2]}, {"kwargs": {"a": 3}}, {"args": []}])
def test_retry_refuses_other_arguments(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="enqueue a new job instead"):
        context_of(1, kwargs={"a": 2}).retry(**change)


def test_the_last_retry_raises_the_reason() -> None:
    error = OSError("disk")
    with pytest.raises(OSError, match="disk") as info:
        context_of(delivery_count=3).retry(exc=error)
    assert info.value is error


def test_the_last_retry_without_a_reason() -> None:
    with pytest.raises(MaxRetriesExceeded, match="max_retries is 3"):
        context_of(delivery_count=3).retry()


def test_max_retries_of_the_call_counts_more() -> None:
    with pytest.raises(Retry):
        context_of(delivery_count=3).retry(max_retries=4)
    with pytest.raises(MaxRetriesExceeded):
        context_of(delivery_count=1).retry(max_retries=1)


def test_a_task_called_like_a_function_does_not_retry() -> None:
    assert context_of(direct=True).request.called_directly
    with pytest.raises(OSError, match="disk"):
        context_of(direct=True).retry(exc=OSError("disk"))
    with pytest.raises(Retry):
        context_of(direct=True).retry()


def run(function: Callable[[TaskContext], object], **fields: Any) -> Any:
    source = MemorySource()
    source.task(function, retry_delay=1.0)  # a policy that would retry for ever
    source.put(**fields)
    burst(source)
    return source.outcomes[0]


def test_retry_in_a_job() -> None:
    outcome = run(lambda self: self.retry(exc=OSError("disk"), countdown=8))
    assert (outcome.kind, outcome.delay) == (OutcomeKind.RETRY, 8)
    assert outcome.reason == "OSError: disk"


def test_retry_that_is_returned_counts_when_the_job_returns() -> None:
    def job(self: TaskContext) -> str:
        self.retry(countdown=8, throw=False)
        return "done"

    outcome = run(job)
    assert (outcome.kind, outcome.delay) == (OutcomeKind.RETRY, 8)


@pytest.mark.parametrize("exc", [None, OSError("disk")])
def test_no_retry_left_is_a_dead_letter_whatever_the_policy(exc: BaseException | None) -> None:
    outcome = run(lambda self: self.retry(exc=exc), delivery_count=3)
    assert outcome.kind is OutcomeKind.FAIL


def test_other_arguments_are_a_dead_letter() -> None:
    outcome = run(lambda self: self.retry(args=["other"]))
    assert outcome.kind is OutcomeKind.FAIL
    assert outcome.reason.startswith("ValidationError: retry.args:")
