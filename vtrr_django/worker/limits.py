"""Soft and hard time limits of jobs that run in threads.

A soft limit raises ``SoftTimeLimitExceeded`` in the running thread, between two of its
bytecodes: it cannot interrupt a C call such as ``time.sleep`` or a read from a socket, and
it may hit a library in the middle of something; in a finalizer (``__del__``) or a callback of the
garbage collector it is lost, as any exception there. A coroutine that runs for the thread is
cancelled instead, at its next ``await``, and ends in ``SoftTimeLimitExceeded``. A hard limit cannot
end a thread at all: the job is written off (its lease is left to run out) and the process is asked
to replace itself.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from vtrr_django.exceptions import SoftTimeLimitExceeded
from vtrr_django.worker import coroutines
from vtrr_django.worker.context import TaskContext
from vtrr_django.worker.lanes import Lease
from vtrr_django.worker.logs import call_hook
from vtrr_django.worker.source import Runnable, WorkerHooks

LONGEST_WAIT = 3600.0
NOT_YET = 0.01
"""Seconds until the next look at a job whose limit passed before its first instruction."""


class Guard:
    """One run under limits, and the handshake that keeps a late exception out of the worker.

    The watchdog raises only between ``_open`` and ``_closed``, and decides under the lock
    that the runner takes to close. An exception that was raised but not yet delivered is
    waited for there: it comes at the next jump or call. It comes only once, so what it
    interrupts can simply be done again. (Taking it back, with NULL, is not an option: up to
    Python 3.12 that makes every thread look for it for ever, and 3.11 hangs if it is traced.)

    The lock is reentrant because the interruption may fall between taking it and entering
    the ``with`` block, and then it stays taken; nobody else needs it any more.
    """

    __slots__ = (
        "_closed",
        "_exception",
        "_fired",
        "_lock",
        "_open",
        "_outer",
        "_thread",
        "hard_at",
        "lease",
        "soft_at",
    )

    def __init__(
        self,
        lease: Lease,
        soft: float | None,
        hard: float | None,
        exception: type[SoftTimeLimitExceeded] = SoftTimeLimitExceeded,
    ) -> None:
        now = time.monotonic()
        self.lease = lease
        self._exception = exception
        self.soft_at = math.inf if soft is None else now + soft
        self.hard_at = math.inf if hard is None else now + hard
        self._thread = threading.get_ident()
        self._outer = coroutines.depth()
        self._lock = threading.RLock()
        self._open = self._closed = self._fired = False

    @property
    def due(self) -> float:
        """When the watchdog must look again."""
        return min(self.soft_at, self.hard_at)

    def call(self, runnable: Runnable, context: TaskContext) -> None:
        """Run the job; raise what it raises, and no ``SoftTimeLimitExceeded`` later than that."""
        returned = False
        failure: BaseException | None = None
        try:
            try:
                self._open = True
                runnable.run(context, context.job)
                returned = True
            except BaseException as exc:  # noqa: BLE001 - raised again below
                failure = exc
            self._close()
        except SoftTimeLimitExceeded as late:
            # It came after the job, in one of the lines above or inside _close().
            self._close()
            if not returned and failure is None:
                failure = late
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # a frame that holds its own exception is a reference cycle

    def _close(self) -> None:
        with self._lock:
            self._closed = True
        if self._fired:
            for _ in range(coroutines.JUMPS):
                pass

    def fire_soft(self, now: float) -> None:
        """Raise ``SoftTimeLimitExceeded`` in the job, unless it ended."""
        with self._lock:
            if not self._open:
                self.soft_at = now + NOT_YET
                return
            self.soft_at = math.inf
            if not self._closed:
                self._fired = True
                coroutines.interrupt(self._thread, self._exception, self._outer)

    def write_off(self) -> bool:
        """Mark the job as overdue; False: it ended just in time."""
        with self._lock:
            self.hard_at = self.soft_at = math.inf
            self.lease.overdue = not self._closed
            return self.lease.overdue


class Watchdog(threading.Thread):
    """The thread that enforces limits. It does no I/O, so a hung store delays no limit.

    Args:
        on_overdue: called in this thread with the lease of a job beyond its hard limit.
        hooks: of the worker.
        worker_id: of the worker.
        exception: what a soft limit raises.
    """

    def __init__(
        self,
        on_overdue: Callable[[Lease], None],
        hooks: WorkerHooks,
        worker_id: str,
        exception: type[SoftTimeLimitExceeded] = SoftTimeLimitExceeded,
    ) -> None:
        super().__init__(name="vtrr-limits", daemon=True)
        self._on_overdue = on_overdue
        self._hooks = hooks
        self._worker_id = worker_id
        self._exception = exception
        self._changed = threading.Condition()
        self._guards: set[Guard] = set()
        self._wakes_at = math.inf
        self._ended = False
        self.calling_since = math.inf
        """It never calls the store."""

    def call(self, lease: Lease, runnable: Runnable, context: TaskContext) -> None:
        """Run a job under the limits of ``runnable``; ``lease.overdue`` tells afterwards.

        The lock here is taken only while the guard cannot raise: in an interrupted
        ``Condition.__exit__`` it would stay locked.
        """
        guard = Guard(lease, runnable.soft_time_limit, runnable.time_limit, self._exception)
        with self._changed:
            self._guards.add(guard)
            if guard.due < self._wakes_at:
                self._wakes_at = guard.due
                self._changed.notify()
        try:
            guard.call(runnable, context)
        finally:
            with self._changed:
                self._guards.discard(guard)

    def end(self) -> None:
        """Let the thread end."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def run(self) -> None:
        """Enforce limits until :meth:`end`."""
        try:
            with self._changed:
                while not self._ended:
                    now = time.monotonic()
                    for guard in [guard for guard in self._guards if guard.due <= now]:
                        self._enforce(guard, now)
                    self._wakes_at = min((guard.due for guard in self._guards), default=math.inf)
                    self._changed.wait(min(LONGEST_WAIT, max(0.0, self._wakes_at - now)))
        finally:
            call_hook(self._hooks.thread_exit, self._worker_id)

    def _enforce(self, guard: Guard, now: float) -> None:
        if guard.hard_at <= now:
            if guard.write_off():
                self._on_overdue(guard.lease)
        elif guard.soft_at <= now:
            guard.fire_soft(now)
