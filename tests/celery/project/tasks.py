"""Tasks that do what a test tells them, and say so in the journal."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from celery import Task
from celery.exceptions import Ignore, Reject, SoftTimeLimitExceeded

from tests.celery.project.plan import current
from tests.races.journal import Journal
from vtrr_django import Discard, Snooze, get_queue
from vtrr_django import exceptions as ours

plan = current()
journal = Journal(Path(plan.journal))
say = journal.say


class Wanted(Exception):
    """What a test asked for."""


class Unloadable(Exception):
    """Can be pickled, but not back."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)


class Woven(Task):
    """A base class as projects have them."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        say("called", *args)
        return super().__call__(*args, **kwargs)

    def on_failure(
        self, exc: BaseException, task_id: str, args: Any, kwargs: Any, einfo: Any
    ) -> None:
        say("hook", type(exc).__name__, list(args))


def act(self: Any, label: str, *steps: Any) -> None:
    """Do a step: the one of this run, or the last one."""
    request = self.request
    say("start", label, request.retries, request.vtrr_timeouts, request.vtrr_job.id)
    number = request.retries + request.vtrr_timeouts
    step, *more = steps[min(number, len(steps) - 1)] if steps else ["end"]
    _STEPS[step](self, label, *more)
    say("end", label)


def _sleep(self: Any, label: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.01)


def _wait_for(self: Any, label: str, flag: str) -> None:
    while not Path(flag).exists():
        time.sleep(0.01)


def _patient(self: Any, label: str) -> None:
    try:
        _sleep(self, label, 30)
    except SoftTimeLimitExceeded as error:
        say("soft", label, isinstance(error, ours.SoftTimeLimitExceeded))


def _stubborn(self: Any, label: str) -> None:
    try:
        _sleep(self, label, 60)
    except SoftTimeLimitExceeded:
        _sleep(self, label, 60)


def _raise(self: Any, label: str, what: str) -> None:
    exceptions = {
        "Wanted": lambda: Wanted(label),
        "Unloadable": lambda: Unloadable("one", "two"),
        "Discard": lambda: Discard("no use"),
        "Snooze": lambda: Snooze(0.1),
        "SystemExit": lambda: SystemExit(3),
        "MemoryError": lambda: MemoryError("a huge file"),
        "Ignore": Ignore,
        "Reject": lambda: Reject("no"),
        "Requeue": lambda: Reject("later", requeue=True),
    }
    error = exceptions[what]()
    raise error


def _retry(self: Any, label: str, countdown: float, throw: bool = True) -> None:
    self.retry(countdown=countdown, throw=throw)


def _wait_and_retry(self: Any, label: str, flag: str) -> None:
    _wait_for(self, label, flag)
    self.retry(countdown=0)


def _retry_or_raise(self: Any, label: str, max_retries: int = 1) -> None:
    raise self.retry(exc=Wanted(label), countdown=0, max_retries=max_retries)


def _snooze_once(self: Any, label: str, flag: str) -> None:
    if not Path(flag).exists():
        Path(flag).touch()
        raise Snooze(0.1)


_STEPS = {
    "end": lambda self, label: None,
    "sleep": _sleep,
    "wait": _wait_for,
    "patient": _patient,
    "stubborn": _stubborn,
    "raise": _raise,
    "retry": _retry,
    "wait and retry": _wait_and_retry,
    "retry or raise": _retry_or_raise,
    "snooze once": _snooze_once,
    "kill": lambda self, label: os.kill(os.getpid(), signal.SIGKILL),
    "pid": lambda self, label: say("pid", os.getpid(), os.getppid()),
}

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "auto": {"autoretry_for": (Wanted,), "retry_kwargs": {"max_retries": 2, "countdown": 0}},
    "limits": {"soft_time_limit": 1, "time_limit": 3},
    "woven": {"base": Woven},
    "late": {"acks_late": True, "reject_on_worker_lost": True},
}
"""Options of the task of a queue, by the queue's short name."""


def _declare(queue: str) -> Any:
    def task(self: Any, label: str, *steps: Any) -> None:
        act(self, label, *steps)

    task.__qualname__ = task.__name__ = f"do_{queue.replace('-', '_')}"
    task.__module__ = plan.run  # so that the task of another run has another name
    kind = queue.partition("-")[0]
    return get_queue(plan.name_of(queue)).task(**OPTIONS.get(kind, {}))(task)


TASKS = {queue: _declare(queue) for queue in plan.queues}
