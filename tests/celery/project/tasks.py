"""Tasks that do what a test tells them, and say so in the journal."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async
from celery import Task
from celery.exceptions import Ignore, Reject, SoftTimeLimitExceeded
from celery.signals import after_task_publish, before_task_publish
from django.db import IntegrityError, transaction
from django.utils import timezone, translation

from tests.celery.project.plan import current
from tests.races.journal import Journal
from vtrr_django import Discard, Snooze, get_queue
from vtrr_django import exceptions as ours
from vtrr_django.models import Partition

tenant = ContextVar("tenant", default="nobody")
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


def _stubborn_retry(self: Any, label: str) -> None:
    """Ask for a retry after the hard limit."""
    with suppress(SoftTimeLimitExceeded):
        _sleep(self, label, 30)
    _sleep(self, label, 2.5)
    self.retry(countdown=0)


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
        "ValidationError": lambda: ours.ValidationError("args[0]", "expected better"),
    }
    error = exceptions[what]()
    raise error


def _retry(self: Any, label: str, countdown: float, throw: bool = True) -> None:
    self.retry(countdown=countdown, throw=throw)


def _retry_twice(self: Any, label: str) -> None:
    self.retry(countdown=0.1, throw=False)
    self.retry(countdown=0.1)


def _retry_and_raise(self: Any, label: str) -> None:
    self.retry(countdown=0.1, throw=False)
    raise Wanted(label)


def _retry_and_exit(self: Any, label: str) -> None:
    self.retry(countdown=0, throw=False)
    raise SystemExit(3)


def _retry_delivered_twice(self: Any, label: str) -> None:
    """Ask for a retry, and have its message delivered twice."""
    sender = threading.get_ident()

    def repeat(headers: Any, body: Any, **more: Any) -> None:
        if threading.get_ident() == sender:
            after_task_publish.disconnect(repeat)
            args, kwargs, _ = body
            self.app.send_task(
                self.name,
                args,
                kwargs,
                queue=self.vtrr_queue.config.celery_queue,
                task_id=headers["id"],
                retries=headers["retries"],
            )

    after_task_publish.connect(repeat, weak=False)
    self.retry(countdown=0)


def _retry_from_a_broken_transaction(self: Any, label: str) -> None:
    """Do what everybody does about a row that is there already."""
    alias = self.vtrr_queue.config.database
    taken = {"queue": self.vtrr_queue.name, "partition_key": f"taken by {label}"}
    Partition.objects.using(alias).get_or_create(**taken)
    with transaction.atomic(using=alias):
        try:
            Partition.objects.using(alias).create(**taken)
        except IntegrityError as error:
            raise self.retry(exc=error, countdown=0) from error


def _retry_in_a_transaction(self: Any, label: str, countdown: float) -> None:
    with transaction.atomic(using=self.vtrr_queue.config.database):
        raise self.retry(countdown=countdown)


def _retry_and_leave_a_transaction(self: Any, label: str, countdown: float) -> None:
    transaction.atomic(using=self.vtrr_queue.config.database).__enter__()
    raise self.retry(countdown=countdown)


def _retry_and_clean_up(self: Any, label: str, flag: str) -> None:
    try:
        raise self.retry(countdown=0)
    finally:
        say("cleaning", label)
        _wait_for(self, label, flag)
        say("cleaned", label)


def _retry_and_catch_it(self: Any, label: str) -> None:
    with suppress(Exception):
        self.retry(countdown=0.1)


def _retry_without_a_broker(self: Any, label: str, then: str) -> None:
    """Ask for a retry whose message cannot be sent, once, and do something else."""
    app, sender = self.app, threading.get_ident()

    def refuse(*args: Any, **options: Any) -> Any:
        if threading.get_ident() != sender:
            return type(app).send_task(app, *args, **options)
        del app.send_task
        raise OSError("the broker is away")

    app.send_task = refuse
    self.retry(countdown=0.1, throw=then == "throw")
    if then == "raise":
        raise Wanted(label)


def _retry_and_spoil(self: Any, label: str, rows: list[Any], options: dict[str, Any]) -> None:
    """Change what it was given, in place, and ask for a retry twice."""
    say("given", label, rows, options)
    rows.append("header")
    options["nested"].pop()
    self.request.args.append("more")
    if self.request.retries < 2:
        self.retry(countdown=0.1)


def _wait_and_retry(self: Any, label: str, flag: str) -> None:
    _wait_for(self, label, flag)
    self.retry(countdown=0)


def _retry_or_raise(self: Any, label: str, max_retries: int = 1) -> None:
    raise self.retry(exc=Wanted(label), countdown=0, max_retries=max_retries)


def _send_retry_slowly(self: Any, label: str, flag: str) -> None:
    """Ask for the only retry, whose message is on its way until there is a flag."""
    sender = threading.get_ident()

    def hold(**kwargs: Any) -> None:
        if threading.get_ident() == sender:
            before_task_publish.disconnect(hold)
            say("sending", label)
            _wait_for(self, label, flag)

    before_task_publish.connect(hold, weak=False)
    raise self.retry(exc=Wanted(label), countdown=0, max_retries=1)


def _limit_at_the_end(self: Any, label: str) -> None:
    """Have Celery's soft limit come in the moment in which the lease ends."""
    engine = self.vtrr_queue.engine
    finish = engine.finish_and_lease

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        del engine.finish_and_lease
        try:
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.01)  # its handler runs here
        except SoftTimeLimitExceeded:
            say("limit", label, "raised")
            raise
        say("limit", label, "kept out")
        return finish(*args, **kwargs)

    engine.finish_and_lease = interrupted


def _hang_upkeep(self: Any, label: str, flag: str) -> None:
    """Wait, while what writes the history hangs."""

    def hang(*args: Any) -> int:
        say("hangs", label)
        _wait_for(self, label, flag)
        return 0

    self.vtrr_queue.engine.archive = hang
    _wait_for(self, label, flag)


def _snooze_once(self: Any, label: str, flag: str) -> None:
    if not Path(flag).exists():
        Path(flag).touch()
        raise Snooze(0.1)


def _set_context(label: str) -> None:
    translation.activate("de")
    timezone.activate("Asia/Tokyo")
    tenant.set(label)


def _context() -> tuple[str, str, str]:
    return translation.get_language(), timezone.get_current_timezone_name(), tenant.get()


def _leave_on_the_request(self: Any, label: str) -> None:
    """Say what the job before has left there, and leave something."""
    request = self.request
    say("found", label, getattr(request, "customer", None), len(request.children or ()))
    request.customer = label
    request.children.append(label)


_STEPS = {
    "end": lambda self, label: None,
    "sleep": _sleep,
    "wait": _wait_for,
    "patient": _patient,
    "stubborn": _stubborn,
    "stubborn retry": _stubborn_retry,
    "raise": _raise,
    "retry": _retry,
    "retry twice": _retry_twice,
    "retry and raise": _retry_and_raise,
    "retry and exit": _retry_and_exit,
    "wait and retry": _wait_and_retry,
    "retry or raise": _retry_or_raise,
    "send retry slowly": _send_retry_slowly,
    "retry delivered twice": _retry_delivered_twice,
    "retry from a broken transaction": _retry_from_a_broken_transaction,
    "retry in a transaction": _retry_in_a_transaction,
    "retry and leave a transaction": _retry_and_leave_a_transaction,
    "retry and clean up slowly": _retry_and_clean_up,
    "retry and catch it": _retry_and_catch_it,
    "retry without a broker": _retry_without_a_broker,
    "retry and spoil": _retry_and_spoil,
    "set context": lambda self, label: _set_context(label),
    "context": lambda self, label: say("context", label, *_context()),
    "leave on the request": _leave_on_the_request,
    "snooze once": _snooze_once,
    "hang upkeep": _hang_upkeep,
    "limit at the end": _limit_at_the_end,
    "kill": lambda self, label: os.kill(os.getpid(), signal.SIGKILL),
    "pid": lambda self, label: say("pid", os.getpid(), os.getppid()),
}


async def act_async(self: Any, label: str, *steps: Any) -> None:
    """Do a step as :func:`act` does, in a coroutine."""
    await asyncio.sleep(0)
    request = self.request
    say("start", label, request.retries, request.vtrr_timeouts, request.vtrr_job.id)
    number = request.retries + request.vtrr_timeouts
    step, *more = steps[min(number, len(steps) - 1)] if steps else ["end"]
    if step in _ASYNC_STEPS:
        await _ASYNC_STEPS[step](self, label, *more)
    else:
        _STEPS[step](self, label, *more)
    say("end", label)


async def _async_sleep(self: Any, label: str, seconds: float) -> None:
    try:
        await asyncio.sleep(seconds)
    finally:
        await sync_to_async(say)("cleaned", label)


async def _async_patient(self: Any, label: str) -> None:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        say("soft", label)


async def _async_stubborn(self: Any, label: str) -> None:
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            say("soft", label)


async def _async_retry(self: Any, label: str) -> None:
    try:
        raise self.retry(exc=Wanted(label), countdown=0.1)
    finally:
        await asyncio.sleep(0)
        say("cleaned", label)


async def _async_request(self: Any, label: str) -> None:
    """Ask for the job's id everywhere a coroutine may come to be."""

    def look() -> str:
        return str(self.request.vtrr_job.id)

    async def look_later() -> str:
        await asyncio.sleep(0)
        return look()

    seen = await asyncio.gather(look_later(), sync_to_async(look)(), asyncio.to_thread(look))
    threads = {await sync_to_async(threading.get_ident)(), threading.get_ident()}
    say("seen", label, sorted(set(seen)), len(threads))


async def _async_cancelled(self: Any, label: str) -> None:
    raise asyncio.CancelledError


_ASYNC_STEPS: dict[str, Any] = {
    "sleep": _async_sleep,
    "patient": _async_patient,
    "stubborn": _async_stubborn,
    "retry and clean up": _async_retry,
    "request": _async_request,
    "cancelled": _async_cancelled,
}

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "auto": {"autoretry_for": (Wanted,), "retry_kwargs": {"max_retries": 2, "countdown": 0}},
    "autonever": {"autoretry_for": (Wanted,), "retry_kwargs": {"max_retries": 0}},
    "always": {
        "autoretry_for": (BaseException,),
        "retry_kwargs": {"max_retries": 5, "countdown": 0},
    },
    "never": {"max_retries": 0},
    "limits": {"soft_time_limit": 1, "time_limit": 3},
    "async": {},
    "asyncauto": {"autoretry_for": (Wanted,), "retry_kwargs": {"max_retries": 2, "countdown": 0}},
    "asynclimits": {"soft_time_limit": 1, "time_limit": 3},
    "woven": {"base": Woven},
    "late": {"acks_late": True, "reject_on_worker_lost": True},
}
"""Options of the task of a queue, by the queue's short name."""


def _declare(queue: str) -> Any:
    def sync_task(self: Any, label: str, *steps: Any) -> None:
        act(self, label, *steps)

    async def async_task(self: Any, label: str, *steps: Any) -> None:
        await act_async(self, label, *steps)

    kind = queue.partition("-")[0]
    task: Any = async_task if kind.startswith("async") else sync_task
    task.__qualname__ = task.__name__ = f"do_{queue.replace('-', '_')}"
    task.__module__ = plan.run  # so that the task of another run has another name
    return get_queue(plan.name_of(queue)).task(**OPTIONS.get(kind, {}))(task)


TASKS = {queue: _declare(queue) for queue in plan.queues}
