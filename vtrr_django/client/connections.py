"""The httpx clients of one transport: one for threads, and one for each event loop."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator
from typing import Any, TypeVar

import httpx

from vtrr_django.domain.forks import at_fork
from vtrr_django.exceptions import ConfigurationError

T = TypeVar("T", httpx.Client, httpx.AsyncClient)

_Client = tuple[httpx.Client, "weakref.finalize[Any, Connections]"]
_LoopClient = tuple[httpx.AsyncClient, AsyncGenerator[None, None]]

_lock = threading.RLock()
"""Held while a client is made or put away; reentrant, for a signal handler may fork.

A fork waits for it: what a client is made of, such as certificates and modules that httpx
imports then, has locks of its own, which a child would find held by a thread it has not got.
"""

_all: weakref.WeakSet[Connections] = weakref.WeakSet()


class Connections:
    """Clients that are made at their first use; safe between threads, and over a fork.

    Args:
        options: of ``httpx.Client`` and ``httpx.AsyncClient``. Where no client can be made of
            them, the first use raises ConfigurationError.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._of_threads: _Client | None = None
        self._of_loops: dict[asyncio.AbstractEventLoop, _LoopClient] = {}
        self._inherited: list[object] = []
        _all.add(self)

    def of_threads(self) -> httpx.Client:
        """Return the client that the threads of this process share."""
        known = self._of_threads
        if known is not None:
            return known[0]
        with _lock:
            if self._of_threads is None:
                client = self._made(httpx.Client)
                # For whoever does not close the queue; at the latest when Python ends.
                self._of_threads = client, weakref.finalize(self, client.close)
            return self._of_threads[0]

    async def of_loop(self) -> httpx.AsyncClient:
        """Return the client of the event loop that runs."""
        loop = asyncio.get_running_loop()
        known = self._of_loops.get(loop)
        if known is not None:
            return known[0]
        with _lock:
            self._forget_ended_loops()
            client = self._made(httpx.AsyncClient)
            keeper = self._keep(client, loop)
            self._of_loops[loop] = client, keeper
        await anext(keeper)
        return client

    async def _keep(
        self, client: httpx.AsyncClient, loop: asyncio.AbstractEventLoop
    ) -> AsyncGenerator[None, None]:
        """Close a client when its loop ends: an event loop that ends finishes its generators."""
        try:
            yield
        finally:
            with _lock:
                mine = self._of_loops.pop(loop, None)
            if mine is not None:
                await client.aclose()

    def close(self) -> None:
        """Close the connections of threads; those of event loops are closed when these end."""
        with _lock:
            known, self._of_threads = self._of_threads, None
            self._forget_ended_loops()
        if known is not None:
            client, at_the_end = known
            at_the_end.detach()
            client.close()

    async def aclose(self) -> None:
        """Close the connections of the event loop that runs, and those of threads."""
        self.close()
        known = self._of_loops.get(asyncio.get_running_loop())
        if known is not None:
            await known[1].aclose()

    def _forget_ended_loops(self) -> None:
        """Let go of loops that were closed without having finished their generators."""
        for loop in [loop for loop in self._of_loops if loop.is_closed()]:
            del self._of_loops[loop]

    def _made(self, kind: type[T]) -> T:
        """Make a client; what takes a tenth of a second to make, certificates, only once."""
        try:
            if self._options.get("verify", True) is True and "transport" not in self._options:
                self._options["verify"] = httpx.create_ssl_context()
            return kind(**self._options)
        except (ImportError, OSError, TypeError, ValueError) as error:  # it connects to nothing
            raise ConfigurationError(
                f"http_options: expected what httpx can make a client of, got: {error}"
            ) from error

    def _begin_anew(self) -> None:
        """Leave the parent's clients alone: to close one would end its connections there."""
        known, self._of_threads = self._of_threads, None
        if known is not None:
            known[1].detach()
        self._inherited += [known, self._of_loops]
        self._of_loops = {}


def _before_fork() -> None:
    _lock.acquire()


def _after_fork_in_parent() -> None:
    _lock.release()


def _after_fork_in_child() -> None:
    global _lock  # noqa: PLW0603 - those who wait for it are threads that are not here
    _lock = threading.RLock()
    for connections in list(_all):
        connections._begin_anew()


at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
