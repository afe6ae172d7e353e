"""Coroutines that run for a thread, and what interrupts the one or the other.

``async_to_sync`` runs a coroutine in the event loop of another thread, while the thread that called
it waits, and runs what ``sync_to_async`` gives it: so the connections that the coroutine uses are
those of this thread. An exception raised in the waiting thread would end the wait and nothing else:
the coroutine would go on beside the job's next run. So what a thread is to be interrupted by
reaches the coroutine instead, as :func:`asyncio.timeout` does it: its task is cancelled, and what
leaves it is the exception.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import ctypes
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from asgiref.sync import async_to_sync

from vtrr_django.domain.forks import at_fork

JUMPS = 10
"""One is enough for a pending exception to be raised."""

# By subscript, for a function object of our own: the attribute is shared with other callers,
# and those who pass a c_long would fail over these argtypes.
_set_async_exc = ctypes.pythonapi["PyThreadState_SetAsyncExc"]
_set_async_exc.argtypes = (ctypes.c_ulong, ctypes.py_object)
_set_async_exc.restype = ctypes.c_int


class _Led:
    """One coroutine, from before its loop begins until after its loop has ended."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._exception: type[BaseException] | None = None
        self._cancelled = self._ended = False

    async def lead(
        self, function: Callable[..., Awaitable[object]], args: Any, kwargs: Any
    ) -> object:
        """Await the function in the running loop; raise what it was interrupted by."""
        _let_go()
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        if self._exception is not None:  # it came before there was a loop to tell
            # Not here and now: a task that ends without waiting would be cancelled as a whole.
            self._loop.call_soon(self._cancel)
        try:
            return await function(*args, **kwargs)
        except asyncio.CancelledError as error:
            if self._cancelled and self._exception is not None:
                raise self._exception from error
            raise
        finally:
            self._ended = True

    def interrupt(self, exception: type[BaseException]) -> None:
        """Cancel the coroutine; from any thread, and from a signal handler of its own."""
        self._exception = exception
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the coroutine has ended
                self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None and not (self._cancelled or self._ended):
            self._cancelled = True
            self._task.cancel()


class _Thread:
    """What runs for a thread: coroutines, one within the other where jobs run eagerly.

    A thread that begins with a coroutine and another that interrupts it take no lock: the
    exception may come between any two instructions, and a lock would stay taken.
    """

    def __init__(self) -> None:
        self.led: list[_Led] = []
        self.deciding = False

    def settle(self) -> None:
        """Raise here what was raised in this thread before a coroutine was there for it."""
        while self.deciding:
            time.sleep(0)
        for _ in range(JUMPS):
            pass


_threads: dict[int, _Thread] = {}
_interrupting = threading.Lock()
"""Held by those who interrupt other threads, whom nobody interrupts."""


def run(function: Callable[..., Awaitable[object]], /, *args: Any, **kwargs: Any) -> object:
    """Run a coroutine function to its end, in a loop of its own, while this thread waits.

    Raises:
        BaseException: what it raises, or what it was interrupted by.
    """
    thread, led = _threads.setdefault(threading.get_ident(), _Thread()), _Led()
    try:
        thread.led.append(led)  # from here on it is interrupted, and not the thread
        thread.settle()
        return async_to_sync(led.lead)(function, args, kwargs)
    except BaseException:
        # Raised in this thread, as by a handler of signals: it must not go on by itself.
        led.interrupt(asyncio.CancelledError)
        raise
    finally:
        if led in thread.led:
            thread.led.remove(led)


def depth() -> int:
    """Return how many coroutines run for this thread, one within the other."""
    thread = _threads.get(threading.get_ident())
    return 0 if thread is None else len(thread.led)


def interrupt(ident: int, exception: type[BaseException], outer: int = 0) -> None:
    """Raise an exception in another thread, or in the coroutine that runs for it.

    Args:
        ident: of the thread.
        exception: is raised without arguments.
        outer: how many coroutines ran for the thread when what is meant began.
    """
    thread = _threads.setdefault(ident, _Thread())
    with _interrupting:
        thread.deciding = True
        try:
            if not _interrupt_coroutine(thread, exception, outer):
                _set_async_exc(ident, ctypes.py_object(exception))
        finally:
            thread.deciding = False


def interrupt_own(exception: type[BaseException]) -> bool:
    """Interrupt the coroutine that runs for this thread; False: none does."""
    thread = _threads.get(threading.get_ident())
    return thread is not None and _interrupt_coroutine(thread, exception, 0)


def _interrupt_coroutine(thread: _Thread, exception: type[BaseException], outer: int) -> bool:
    led = thread.led[outer : outer + 1]
    for one in led:
        one.interrupt(exception)
    return bool(led)


def _let_go() -> None:
    """Let the process end without this thread, if it may end without the one that waits.

    A thread that runs jobs for a worker is a daemon, and so are those that it starts; but an
    executor's are waited for nevertheless, and a coroutine that never ends would keep a worker
    from ending, which a function does not.
    """
    thread, executors = threading.current_thread(), concurrent.futures.thread
    if thread.daemon:
        # Who started this thread holds the lock until it is among those that are waited for.
        # (Both are Python's own business, so a release may do without them.)
        with suppress(AttributeError), executors._global_shutdown_lock:
            waited_for: Any = executors._threads_queues
            waited_for.pop(thread, None)


def _forget() -> None:
    """Begin anew in a forked process: no coroutine of the parent's runs here."""
    global _interrupting  # noqa: PLW0603 - it may be held by a thread that was not forked
    _interrupting = threading.Lock()
    _threads.clear()


at_fork(after_in_child=_forget)
