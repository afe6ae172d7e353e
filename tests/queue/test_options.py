"""The options of tasks: those that Celery takes mean the same here, others are refused at once."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from celery import Celery

from vtrr_django import RetryPolicy, get_queue
from vtrr_django.client import Liteworks
from vtrr_django.exceptions import ConfigurationError, ValidationError
from vtrr_django.options import TaskOptions

WRONG: list[tuple[str, Any]] = [
    ("retry_jitter", "no"),
    ("retry_jitter", 2),
    ("retry_backoff", None),
    ("retry_backoff", "5"),
    ("retry_backoff", -1),
    ("retry_backoff", math.inf),
    ("retry_backoff_max", None),
    ("retry_backoff_max", -1),
    ("retry_backoff_max", "600"),
    ("retry_backoff_max", math.nan),
    ("retry_kwargs", None),
    ("retry_kwargs", [("countdown", 1)]),
    ("retry_kwargs.countdown", "0"),
    ("retry_kwargs.countdown", -1),
    ("retry_kwargs.countdown", timedelta(seconds=1)),
    ("retry_kwargs.max_retries", -1),
    ("retry_kwargs.max_retries", "3"),
    ("retry_kwargs.max_retry", 3),
    ("retry_kwargs.eta", 3),
    ("default_retry_delay", -1),
    ("default_retry_delay", "180"),
    ("default_retry_delay", timedelta(minutes=3)),
    ("max_retries", -1),
    ("max_retries", 2.0),
    ("max_retries", True),
    ("max_retries", 2**31),
    ("time_limit", math.inf),
    ("soft_time_limit", math.nan),
    ("acks_late", "no"),
    ("reject_on_worker_lost", "no"),
]


@pytest.mark.parametrize(("path", "value"), WRONG, ids=str)
@pytest.mark.parametrize("kind", ["task", "handler"])
def test_what_no_runner_can_use_is_refused_at_decoration(kind: str, path: str, value: Any) -> None:
    name, _, key = path.partition(".")
    decorator = getattr(get_queue(), kind)
    with pytest.raises(ValidationError, match=f"^{path}: expected "):
        decorator(**{name: {key: value} if key else value})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"default_retry_delay": 7, "max_retries": None},
        {"default_retry_delay": None},
        {"default_retry_delay": 0.5},
        {"retry_kwargs": {"countdown": 9, "max_retries": 5}},
        {"retry_kwargs": {"countdown": None, "max_retries": None}, "max_retries": 2},
        {"retry_kwargs": {"countdown": 9}, "retry_backoff": 3},
        {"retry_backoff": True},
        {"retry_backoff": 1},
        {"retry_backoff": 0, "default_retry_delay": 5},
        {"retry_backoff": 0.5},
        {"retry_backoff": 2.7},
        {"retry_backoff": 100, "retry_backoff_max": 150.9},
        {"retry_backoff": 100, "retry_backoff_max": 0},
        {"retry_backoff": 3, "retry_jitter": 0},
        {"retry_backoff": 3, "retry_jitter": None},
    ],
    ids=str,
)
def test_what_celery_takes_means_the_same(options: dict[str, Any]) -> None:
    options = {"retry_jitter": False} | options
    policy = TaskOptions.of({"autoretry_for": (KeyError,), **options}).autoretry_policy()
    for retries in range(5):
        countdown, most = celerys(options, retries)
        assert policy.delay(retries) == countdown
        assert policy.max_retries == most


def celerys(options: dict[str, Any], retries: int) -> tuple[float, int | None]:
    """Return the wait, and how many retries there may be, when Celery runs such a task."""
    app = Celery(set_as_current=False)

    @app.task(bind=True, shared=False, autoretry_for=(KeyError,), **options)
    def task(self: Any) -> None:
        raise KeyError

    said: dict[str, Any] = {}

    def retry(exc: BaseException, **more: Any) -> BaseException:
        said.update(more)
        return exc

    task.retry = retry
    task.push_request(retries=retries)
    with pytest.raises(KeyError):
        task.run()
    countdown, most = said.get("countdown"), said.get("max_retries")
    countdown = task.default_retry_delay if countdown is None else countdown
    return countdown or 0, task.max_retries if most is None else most


@pytest.mark.parametrize("jitter", [1, True])
def test_jitter_is_switched_on_as_celery_does(jitter: Any) -> None:
    policy = TaskOptions.of({"retry_backoff": 3, "retry_jitter": jitter}).autoretry_policy()
    assert policy.jitter is True


@pytest.mark.parametrize("policy", [3, "exponential", RetryPolicy, {"max_retries": 3}], ids=str)
def test_a_policy_that_is_none_is_refused(policy: Any) -> None:
    with pytest.raises(ValidationError, match=r"^policy: expected a RetryPolicy or None, got"):
        get_queue().handler(policy=policy)
    with pytest.raises(ConfigurationError, match=r"^retry: expected a RetryPolicy or None, got"):
        Liteworks(base_url="http://127.0.0.1:1", retry=policy)
