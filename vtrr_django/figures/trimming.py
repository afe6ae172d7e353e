"""Deleting figures that are too old, and workers that are too many."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from vtrr_django.engines.sql.known import MOST_KEYS
from vtrr_django.engines.sql.store import Cursor
from vtrr_django.figures.recorder import MOST_WORKERS
from vtrr_django.figures.statements import MICROSECOND, MINUTES, TENANTS, WORKERS

KEPT: Final = timedelta(hours=24)
"""How long minutes and workers are kept: at most 1,441 minutes of a queue."""

TENANTS_KEPT: Final = timedelta(hours=2)
"""How long the figures of tenants are kept: at most 25 times ``MOST_PARTITIONS`` rows."""

_MOST_ROWS = 5000


def trim(cursor: Cursor, queue: str) -> None:
    """Delete what is too old, a bounded number: there is another time in a minute."""
    now = cursor.now()
    for table, column, kept in (
        (MINUTES, "at", KEPT),
        (TENANTS, "at", TENANTS_KEPT),
        (WORKERS, "seen_at", KEPT),
    ):
        _delete_before(cursor, queue, table, column, now - kept // MICROSECOND)
    newest_first = f"SELECT seen_at FROM {WORKERS} WHERE queue = %s ORDER BY seen_at DESC"
    for (seen_at,) in cursor.rows(f"{newest_first} LIMIT 1 OFFSET %s", [queue, MOST_WORKERS]):
        _delete_before(cursor, queue, WORKERS, "seen_at", seen_at)


def _delete_before(cursor: Cursor, queue: str, table: str, column: str, moment: int) -> None:
    # Found first, without locks: a DELETE may stop at the rows beside its own.
    rows = cursor.rows(
        f"SELECT id FROM {table} WHERE queue = %s AND {column} < %s LIMIT %s",
        [queue, moment, _MOST_ROWS],
    )
    for start in range(0, len(rows), MOST_KEYS):
        ids = [row[0] for row in rows[start : start + MOST_KEYS]]
        cursor.delete(table, "id", ids, f" AND {column} < {moment}")
