"""Long polls: requests that wait for jobs, a bounded number of them at a time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from django.db import connections
from django.http import HttpRequest

from vtrr_django.conf import get_settings
from vtrr_django.connections import DjangoHooks

LONGEST_WAIT: Final = 20.0
"""Seconds a request may wait: less than what proxies and load balancers take for a hang."""

MOST_WAITING: Final = 8
"""Requests of a process of ``vtrr_serve`` that wait at once, unless settings say otherwise.

Each occupies a thread of the server. One too many is answered at once, and told when to come
back.
"""

COME_BACK: Final = 2
"""Seconds after which who may not wait is to ask again: as workers look at an empty queue."""

_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.02, 0.5, 1.5


class Polled(NamedTuple):
    """What came of a wait.

    Attributes:
        found: what the last look found.
        come_back: seconds after which to ask again, of who wanted to wait and may not; None:
            whenever it likes.
    """

    found: list[Any]
    come_back: int | None = None


class Waits:
    """The requests of one process that wait.

    Args:
        most: how many may at once, where ``LONG_POLLS`` does not say.

    Attributes:
        threads: how many the server has, if it is ours: one is left to requests that do not wait.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.threads: int | None = None
        self._count = 0
        self._lock = threading.Lock()
        # No Event: a signal handler sets it, perhaps in the midst of another one that does.
        self._ended = False

    def poll(
        self, look: Callable[[], list[Any]], seconds: float, request: HttpRequest | None = None
    ) -> Polled:
        """Return what ``look`` finds, looking again until it finds something.

        It looks no more when the time is over, when too many wait already, inside a transaction,
        when the server is about to stop, or when nobody is there any more who would get what it
        finds; but it looks once at least, unless the last is so.

        Args:
            look: leases, say; what it raises ends the wait.
            seconds: most to wait.
            request: of whoever waits.
        """
        deadline = time.monotonic() + seconds
        if seconds > 0 and _has_hung_up(request):
            return Polled([])
        found = look()
        if found or seconds <= 0:
            return Polled(found)
        if _in_transaction() or not self._enter():
            return Polled([], come_back=COME_BACK)
        try:
            return Polled(self._wait(look, deadline, request))
        finally:
            self._leave()

    def _wait(
        self, look: Callable[[], list[Any]], deadline: float, request: HttpRequest | None
    ) -> list[Any]:
        hooks, pause = DjangoHooks(), _FIRST_PAUSE
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return []
            hooks.before_job()  # who waits leaves a pool's connection to others
            time.sleep(min(pause, left))
            if self._ended or _has_hung_up(request):
                return []
            hooks.before_store()
            if found := look():
                return found
            pause = min(pause * _GROWTH, _LONGEST_PAUSE)

    def _enter(self) -> bool:
        with self._lock:
            if self._count >= self._allowed() or self._ended:
                return False
            self._count += 1
            return True

    def _allowed(self) -> int:
        said = get_settings().long_polls
        if said is None:
            return self.most
        return said if self.threads is None else min(said, self.threads - 1)

    def _leave(self) -> None:
        with self._lock:
            self._count -= 1

    @property
    def count(self) -> int:
        """How many wait now."""
        return self._count

    def end(self) -> None:
        """Have all answered soon, and let nobody wait any more: the process is to stop.

        A signal handler may call it, at any moment.
        """
        self._ended = True


def _in_transaction() -> bool:
    return any(one.in_atomic_block for one in connections.all(initialized_only=True))


def _has_hung_up(request: HttpRequest | None) -> bool:
    """Return whether a client is gone, as far as the server tells: gunicorn gives its socket."""
    sock = None if request is None else request.META.get("gunicorn.socket")
    if sock is None:
        return False
    try:
        return not sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except (BlockingIOError, ValueError):  # nothing has come; it is one of TLS, which cannot tell
        return False
    except OSError:
        return True


waits = Waits(0)
"""Those of this process. None may wait until somebody says how many requests its server, whose
threads nobody here can count, serves at once: ``LONG_POLLS``, or :func:`limit_waits`."""


def limit_waits(threads: int) -> None:
    """Say how many requests this process serves at once; our own server does.

    Half of them may wait, 8 at most; all but one if ``LONG_POLLS`` says so.
    """
    waits.most = min(MOST_WAITING, threads // 2)
    waits.threads = threads
