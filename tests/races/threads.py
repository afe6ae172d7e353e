"""Threads with connections of their own, and places where one waits for another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from django.db import connections

from tests.races.waiting import PATIENCE

T = TypeVar("T")


class Background(Generic[T]):
    """Runs a function in a thread of its own, at once."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._result: T
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:
            self._error = error
        finally:
            connections.close_all()

    @property
    def runs(self) -> bool:
        return self._thread.is_alive()

    def result(self, seconds: float = PATIENCE) -> T:
        """Wait for the end; return what the function returned, or raise what it raised."""
        self._thread.join(seconds)
        assert not self.runs, f"a thread did not end within {seconds:.0f} s"
        if self._error is not None:
            raise self._error
        return self._result


def together(*functions: Callable[[], T]) -> list[T]:
    """Run functions at the same time, each in its thread; return their results in order."""
    barrier = threading.Barrier(len(functions))

    def started(function: Callable[[], T]) -> Callable[[], T]:
        def run() -> T:
            barrier.wait(PATIENCE)
            return function()

        return run

    threads = [Background(started(function)) for function in functions]
    return [thread.result() for thread in threads]


class Halt:
    """A place in the code where the first thread that comes by waits until told to go on.

    ``place`` wraps a function so that the thread waits behind it (or before it); other
    threads and later calls pass.
    """

    def __init__(self) -> None:
        self._free = threading.Lock()
        self._reached = threading.Event()
        self._go = threading.Event()

    def behind(self, function: Callable[..., T]) -> Callable[..., T]:
        def wrapped(*args: Any, **kwargs: Any) -> T:
            result = function(*args, **kwargs)
            self._wait()
            return result

        return wrapped

    def before(self, function: Callable[..., T]) -> Callable[..., T]:
        def wrapped(*args: Any, **kwargs: Any) -> T:
            self._wait()
            return function(*args, **kwargs)

        return wrapped

    def _wait(self) -> None:
        if self._free.acquire(blocking=False):
            self._reached.set()
            assert self._go.wait(PATIENCE), "nobody let the thread go on"

    def reached(self) -> None:
        """Wait until a thread has come to the place."""
        assert self._reached.wait(PATIENCE), "no thread came to the place"

    def go_on(self) -> None:
        """Let it go on."""
        self._go.set()
