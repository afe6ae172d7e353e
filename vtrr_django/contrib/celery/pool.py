"""What kind of pool runs this process, and what the worker around it has told."""

from __future__ import annotations

import mmap
import signal
import threading
from types import FrameType
from typing import Any, Final

from billiard.exceptions import SoftTimeLimitExceeded as CelerySoftTimeLimitExceeded
from billiard.process import current_process
from celery import signals
from kombu.utils.compat import detect_environment

from vtrr_django import exceptions
from vtrr_django.worker import coroutines


class SoftTimeLimitExceeded(
    exceptions.SoftTimeLimitExceeded,
    CelerySoftTimeLimitExceeded,  # type: ignore[misc]
):
    """Raised in a job; caught by either name, so that a task need not know its runner."""


_shutting_down = mmap.mmap(-1, 1)
"""One byte that the pool's processes share with the worker that forked them."""

_worker_limits: tuple[float | None, float | None] = (None, None)


def _on_worker_init(sender: Any = None, **kwargs: Any) -> None:
    """Note the limits that hold for tasks without their own, before the pool is forked."""
    global _worker_limits  # noqa: PLW0603 - one worker a process
    _worker_limits = (getattr(sender, "time_limit", None), getattr(sender, "soft_time_limit", None))
    _shutting_down[0] = 0


def _on_shutting_down(**kwargs: Any) -> None:
    _shutting_down[0] = 1


signals.worker_init.connect(_on_worker_init, weak=False)
signals.worker_shutting_down.connect(_on_shutting_down, weak=False)


def is_shutting_down() -> bool:
    """Return whether the worker was told to stop."""
    return _shutting_down[0] != 0


def is_prefork() -> bool:
    """Return whether this is a process of a prefork pool, whose limits Celery enforces."""
    return getattr(current_process(), "index", None) is not None


def is_green() -> bool:
    """Return whether threads are greenlets: none of them can be interrupted by another."""
    return bool(detect_environment() != "default")  # type: ignore[no-untyped-call]


class SoftLimit:
    """Celery's soft limit in a prefork process, let through only while a job runs.

    Celery raises it by a signal, wherever the process is. In the middle of ending a lease
    it would leave the end in doubt. The handler is Celery's but for that, for the class that it
    raises, and for coroutines, which it interrupts where they run. A process has one signal, so
    there is one of these for all its queues.
    """

    def __init__(self) -> None:
        self._ours = False
        self._open = False

    def install(self) -> None:
        """Take the signal over; Celery installs its handler last of all when it forks."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGUSR1) != self._handle:
            signal.signal(signal.SIGUSR1, self._handle)

    def enter(self) -> tuple[bool, bool]:
        """Keep the signal out from now on, until :meth:`open`: a trigger begins.

        Returns what :meth:`leave` wants: a job may run another queue's eagerly.
        """
        before = self._ours, self._open
        self._ours, self._open = True, False
        return before

    def leave(self, before: tuple[bool, bool]) -> None:
        """Let those have the signal again who had it before :meth:`enter`."""
        self._ours, self._open = before

    def open(self) -> None:
        """Let the signal through: the job begins."""
        self._open = True

    def close(self) -> None:
        """Keep the signal out: the job has ended."""
        self._open = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._open or not self._ours:
            self._open = False
            if not coroutines.interrupt_own(SoftTimeLimitExceeded):
                raise SoftTimeLimitExceeded


soft_limit: Final = SoftLimit()
"""That of this process."""


def limits_of(task: Any) -> tuple[float | None, float | None]:
    """Return the hard and the soft limit in force for a task, in seconds."""
    hard, soft = _worker_limits
    conf = task.app.conf
    return (
        task.time_limit or hard or conf.task_time_limit or None,
        task.soft_time_limit or soft or conf.task_soft_time_limit or None,
    )
