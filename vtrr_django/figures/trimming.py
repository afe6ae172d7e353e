"""Deleting figures that are too old, and workers and failed attempts that are too many."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from vtrr_django.engines.sql.known import MOST_KEYS
from vtrr_django.engines.sql.store import Cursor
from vtrr_django.figures.recorder import MOST_WORKERS
from vtrr_django.figures.statements import ATTEMPTS, MICROSECOND, MINUTES, TENANTS, WORKERS

KEPT: Final = timedelta(hours=24)
"""How long minutes and workers are kept: at most 1,441 minutes of a queue."""

TENANTS_KEPT: Final = timedelta(hours=2)
"""How long the figures of tenants are kept: at most 25 times ``MOST_PARTITIONS`` rows."""

ATTEMPTS_KEPT: Final = timedelta(days=7)
"""How long failed attempts are kept, but not more than ``MOST_ATTEMPTS`` of a queue."""

MOST_ATTEMPTS: Final = 10_000

_MOST_ROWS = 5000


def trim(cursor: Cursor, queue: str) -> None:
    """Delete what is too old, a bounded number: there is another time in a minute."""
    now = cursor.now()
    for table, column, kept in (
        (MINUTES, "at", KEPT),
        (TENANTS, "at", TENANTS_KEPT),
        (WORKERS, "seen_at", KEPT),
        (ATTEMPTS, "at", ATTEMPTS_KEPT),
    ):
        _delete_before(cursor, queue, table, column, now - kept // MICROSECOND)
    _keep_newest(cursor, queue, WORKERS, "seen_at", MOST_WORKERS)
    _keep_newest(cursor, queue, ATTEMPTS, "at", MOST_ATTEMPTS)


def _keep_newest(cursor: Cursor, queue: str, table: str, column: str, most: int) -> None:
    newest_first = f"SELECT {column} FROM {table} WHERE queue = %s ORDER BY {column} DESC"
    for (moment,) in cursor.rows(f"{newest_first} LIMIT 1 OFFSET %s", [queue, most]):
        # All of them: where everything fails, more may come in a minute than go at once.
        while _delete_before(cursor, queue, table, column, moment) == _MOST_ROWS:
            pass


def _delete_before(cursor: Cursor, queue: str, table: str, column: str, moment: int) -> int:
    """Delete rows, ``_MOST_ROWS`` at most; return how many were found."""
    # Found first, without locks: a DELETE may stop at the rows beside its own.
    rows = cursor.rows(
        f"SELECT id FROM {table} WHERE queue = %s AND {column} < %s LIMIT %s",
        [queue, moment, _MOST_ROWS],
    )
    for start in range(0, len(rows), MOST_KEYS):
        ids = [row[0] for row in rows[start : start + MOST_KEYS]]
        cursor.delete(table, "id", ids, f" AND {column} < {moment}")
    return len(rows)
