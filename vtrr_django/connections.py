"""Keeping a worker's database connections: open while they work, replaced when they break.

``close_old_connections()`` is made for requests: with ``CONN_MAX_AGE = 0``, Django's
default, it would close the connection after every job, which costs a fast job more
than twice its own time. A worker keeps its connections and checks them after a rest.
"""

from __future__ import annotations

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from vtrr_django.worker.process import WorkerError
from vtrr_django.worker.source import NoHooks


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
        for connection in connections.all(initialized_only=True):
            if connection.connection is not None and pool_size(connection) is not None:
                connection.close()

    def after_job(self) -> None:
        """Undo what a job left behind: an open transaction, a broken connection."""
        for connection in connections.all(initialized_only=True):
            if connection.connection is not None:
                _tidy(connection)

    def before_store(self) -> None:
        """Replace connections that broke, or grew older than ``CONN_MAX_AGE``, meanwhile."""
        for connection in connections.all(initialized_only=True):
            if connection.connection is None or connection.in_atomic_block:
                continue
            if connection.settings_dict["CONN_MAX_AGE"] != 0:
                connection.close_if_unusable_or_obsolete()
            if connection.connection is not None and not connection.is_usable():
                connection.close()

    def thread_exit(self) -> None:
        """Close the thread's connections."""
        connections.close_all()


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
        if connection.is_usable():
            connection.errors_occurred = False
        else:
            connection.close()
