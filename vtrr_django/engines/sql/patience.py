"""How long a call waits for a database that somebody else has locked.

A worker waits for as long as ``Store`` tries. Whoever answers a request cannot: it says how long
with :func:`patience`, for what it calls in the same thread, or task.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Final

from django.db.backends.base.base import BaseDatabaseWrapper

BRIEF: Final = 0.25
"""Seconds for what can as well be done later, and for a database that was found locked."""

_seconds: ContextVar[float | None] = ContextVar("vtrr_patience", default=None)

_locked: set[str] = set()


@contextlib.contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Let each transaction or statement of a store give up after ``seconds`` of contention."""
    token = _seconds.set(seconds)
    try:
        yield
    finally:
        _seconds.reset(token)


def patience_with(alias: str) -> float | None:
    """Return the seconds to wait for a database; None: nobody has said.

    Of many requests that come for one that is locked, the first wait in the hope that it will not
    be for long. The others are not kept, nor are the threads that others need.
    """
    seconds = _seconds.get()
    return min(seconds, BRIEF) if seconds is not None and alias in _locked else seconds


def found_locked(alias: str, seconds: float) -> None:
    """Remember that a database was locked for all of ``seconds``; of a short wait, nothing."""
    if seconds > BRIEF:
        _locked.add(alias)


def found_open(alias: str) -> None:
    """Forget it: somebody has written."""
    _locked.discard(alias)


@contextlib.contextmanager
def busy_until(connection: BaseDatabaseWrapper, deadline: float) -> Iterator[None]:
    """Have SQLite wait for its lock until ``deadline`` (``time.monotonic()``) at most."""
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    raw = connection.connection
    before = raw.execute("PRAGMA busy_timeout").fetchone()[0]
    left = max(1, round((deadline - time.monotonic()) * 1000))
    raw.execute(f"PRAGMA busy_timeout = {min(left, before)}")
    try:
        yield
    finally:
        with contextlib.suppress(sqlite3.ProgrammingError):  # it was closed meanwhile
            raw.execute(f"PRAGMA busy_timeout = {before}")
