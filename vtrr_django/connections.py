"""Connections of workers and of views: open while they work, replaced when they break.

``close_old_connections()`` is made for requests that take long: with ``CONN_MAX_AGE = 0``, Django's
default, it closes the connection after every one, and would do so after every job, which costs a
fast job more than twice its own time. A worker keeps its connections and checks them after a rest;
a server of ours keeps them as Django does where it is told to.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from django.core.cache import caches
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from vtrr_django.worker.process import WorkerError
from vtrr_django.worker.source import NoHooks

KEPT: Final = 60
"""Seconds for which the threads of a server keep a connection."""

View = TypeVar("View", bound=Callable[..., Any])


def outside_transactions(view: View) -> View:
    """Mark a view whose requests are no transactions, in any database; return it.

    With ``ATOMIC_REQUESTS`` Django begins one in each database that has it before the view is
    called: one that is down would keep the view from saying so, and from all the others. And
    queues have transactions of their own.
    """
    for alias in connections:
        view = transaction.non_atomic_requests(using=alias)(view)
    return view


class _Thread(threading.local):
    """This thread.

    Attributes:
        lent: how many times over its connections are somebody else's.
        prepared: it has what it keeps from one job to the next.
    """

    lent = 0
    prepared = False


_thread = _Thread()


@contextmanager
def lent_connections() -> Iterator[None]:
    """Have no hook touch the connections of this thread, which runs jobs and is no worker's.

    They are the caller's, and so is a transaction that is open in them.
    """
    _thread.lent += 1
    try:
        yield
    finally:
        _thread.lent -= 1


def _own_connections() -> Sequence[BaseDatabaseWrapper]:
    return () if _thread.lent else connections.all(initialized_only=True)


class DjangoHooks(NoHooks):
    """What a worker's threads do about Django's connections."""

    def before_run(self) -> None:
        """Refuse to run jobs in threads that cannot see what the caller did.

        Raises:
            WorkerError: the calling thread has a transaction open, as in a ``TestCase``.
        """
        for connection in connections.all(initialized_only=True):
            if connection.in_atomic_block:
                raise WorkerError(
                    f"expected no open transaction on database {connection.alias!r}: a worker's "
                    "threads would not see what was enqueued in it. In a TestCase call "
                    "vtrr_django.testing.run_jobs(queue), or use a TransactionTestCase"
                )

    def before_job(self) -> None:
        """Give connections back to their pool: a job may run long, and renewals need one."""
        for connection in _own_connections():
            if connection.connection is None or connection.in_atomic_block:
                continue
            if pool_size(connection) is not None:
                connection.close()

    def after_job(self) -> None:
        """Undo what a job left behind: an open transaction, a broken connection."""
        for connection in _own_connections():
            if connection.connection is not None:
                _tidy(connection)

    def before_store(self) -> None:
        """Have connections replaced that broke, or grew older than ``CONN_MAX_AGE``, meanwhile."""
        if not (_thread.prepared or _thread.lent):
            _thread.prepared = True
            _make_caches()
        for connection in _own_connections():
            if connection.connection is None or connection.in_atomic_block:
                continue
            _ask_when_used(connection)
            if connection.settings_dict["CONN_MAX_AGE"] != 0:
                connection.close_if_unusable_or_obsolete()

    def thread_exit(self) -> None:
        """Close the thread's connections."""
        connections.close_all()


def _make_caches() -> None:
    """Make this thread's caches, before its first job: they are kept in a context variable.

    Made by a job, each would be gone with it, and its connections with it.
    """
    for alias in caches:
        with suppress(Exception):  # who asks for it is told
            caches[alias]


class KeptConnections:
    """The connections that the threads of a server keep from one request to the next.

    Each is asked before it serves another request whether it still lives, as Django does with
    ``CONN_HEALTH_CHECKS``: a database that was restarted costs no request its answer.
    """

    def __init__(self) -> None:
        self._known: set[BaseDatabaseWrapper] = set()

    def begin(self) -> None:
        """Have this process keep them; it has opened none.

        A ``CONN_MAX_AGE`` that settings choose stays, and a pool keeps its connections itself.
        """
        for settings in connections.settings.values():
            if settings["CONN_MAX_AGE"] == 0 and not settings["OPTIONS"].get("pool"):
                settings |= {"CONN_MAX_AGE": KEPT, "CONN_HEALTH_CHECKS": True}
        connection_created.connect(self._note)

    def _note(self, connection: BaseDatabaseWrapper, **_: Any) -> None:
        self._known.add(connection)  # one for each thread and database, however often it connects

    def close(self) -> None:
        """Close them all; the threads that used them have ended."""
        for connection in self._known:
            connection.inc_thread_sharing()
            connection.close()


def pool_size(connection: BaseDatabaseWrapper) -> int | None:
    """Return how many connections the pool of a database has; None: it has no pool.

    psycopg's pool has 4 unless ``OPTIONS["pool"]`` says otherwise.
    """
    pool = connection.settings_dict.get("OPTIONS", {}).get("pool")
    if not pool:
        return None
    said = pool if isinstance(pool, dict) else {}
    least = int(said.get("min_size", 4))
    most = said.get("max_size")
    return least if most is None else int(most)


def _tidy(connection: BaseDatabaseWrapper) -> None:
    if connection.in_atomic_block or not connection.get_autocommit():
        # Left by a job that entered a transaction by hand. Closing rolls it back.
        connection.needs_rollback = False
        connection.in_atomic_block = False
        connection.savepoint_ids = []
        connection.run_on_commit = []
        connection.close()
    elif connection.errors_occurred:
        _ask_when_used(connection)


def _ask_when_used(connection: BaseDatabaseWrapper) -> None:
    """Have Django ask a connection whether it works before it is used, as with its health checks.

    Not now: it may lead to another store than the one that is wanted, which hangs.
    """
    connection.errors_occurred = False
    connection.health_check_enabled = True  # type: ignore[attr-defined]
    connection.health_check_done = False  # type: ignore[attr-defined]
