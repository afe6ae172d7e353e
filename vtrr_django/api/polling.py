"""Long polls: requests that wait for jobs, a bounded number of them at a time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from django.db import connections
from django.http import HttpRequest

from vtrr_django.connections import DjangoHooks

LONGEST_WAIT: Final = 20.0
"""Seconds a request may wait: less than what proxies and load balancers take for a hang."""

MOST_WAITING: Final = 8
"""Requests of one process that wait at once, unless :func:`limit_waits` says otherwise.

Each occupies a thread of the server. One too many is answered at once.
"""

_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.02, 0.5, 1.5


class Waits:
    """The requests of one process that wait.

    Args:
        most: how many may at once.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._count = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def poll(
        self, look: Callable[[], list[Any]], seconds: float, request: HttpRequest | None = None
    ) -> list[Any]:
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
            return []
        found = look()
        if found or seconds <= 0 or _in_transaction() or not self._enter():
            return found
        try:
            return self._wait(look, deadline, request)
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
            if self._ended.wait(min(pause, left)) or _has_hung_up(request):
                return []
            hooks.before_store()
            if found := look():
                return found
            pause = min(pause * _GROWTH, _LONGEST_PAUSE)

    def _enter(self) -> bool:
        with self._lock:
            if self._count >= self.most or self._ended.is_set():
                return False
            self._count += 1
            return True

    def _leave(self) -> None:
        with self._lock:
            self._count -= 1

    @property
    def count(self) -> int:
        """How many wait now."""
        return self._count

    def end(self) -> None:
        """Have all answered now, and let nobody wait any more: the process is to stop."""
        self._ended.set()


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


waits = Waits(MOST_WAITING)
"""Those of this process."""


def limit_waits(most: int) -> None:
    """Say how many requests of this process may wait at once; whoever starts a server does."""
    waits.most = most
