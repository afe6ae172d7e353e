"""The statements that write figures: each adds many rows, or to the rows that exist, at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from vtrr_django.engines.sql.models import (
    FailedAttempt,
    PartitionSample,
    QueueSample,
    QueueTotals,
    WorkerSighting,
)
from vtrr_django.engines.sql.store import Cursor, marks

TOTALS: Final = QueueTotals._meta.db_table
MINUTES: Final = QueueSample._meta.db_table
TENANTS: Final = PartitionSample._meta.db_table
WORKERS: Final = WorkerSighting._meta.db_table
ATTEMPTS: Final = FailedAttempt._meta.db_table

MICROSECOND: Final = timedelta(microseconds=1)

_MOST_ROWS = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Addition:
    """An INSERT that, where a row of the key exists, changes that instead.

    Attributes:
        table: its name.
        key: columns of a unique constraint.
        added: columns whose value is added to what is there.
        replaced: columns that take the new value.
        kept: columns that take the new value unless it is NULL.
        fixed: columns that only a new row takes.
    """

    table: str
    key: tuple[str, ...]
    added: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()

    def run(self, cursor: Cursor, rows: Sequence[Sequence[Any]]) -> None:
        """Add rows; their values in the order of the attributes' columns, no key twice."""
        if not rows or (len(rows) == 1 and self._change(cursor, rows[0])):
            return
        if cursor.dialect.clock_is_parameter:
            # SQLite prepares the statement once and steps it for each row.
            cursor.run_each(self._sql(cursor, 1), rows)
            return
        for start in range(0, len(rows), _MOST_ROWS):
            chunk = rows[start : start + _MOST_ROWS]
            cursor.run(self._sql(cursor, len(chunk)), [value for row in chunk for value in row])

    def _change(self, cursor: Cursor, row: Sequence[Any]) -> bool:
        """Change the row that exists, if one does: in InnoDB that locks nothing beside it."""
        changes = [
            *(f"{column} = {column} + %s" for column in self.added),
            *(f"{column} = %s" for column in self.replaced),
            *(f"{column} = COALESCE(%s, {column})" for column in self.kept),
        ]
        condition = " AND ".join(f"{column} = %s" for column in self.key)
        first, end = len(self.key), len(self.key) + len(changes)
        sql = f"UPDATE {self.table} SET {', '.join(changes)} WHERE {condition}"
        return bool(cursor.run(sql, [*row[first:end], *row[:first]]))

    def _sql(self, cursor: Cursor, rows: int) -> str:
        incoming = cursor.dialect.incoming.format
        changes = [
            *(f"{name} = {self.table}.{name} + {incoming(column=name)}" for name in self.added),
            *(f"{name} = {incoming(column=name)}" for name in self.replaced),
            *(
                f"{name} = COALESCE({incoming(column=name)}, {self.table}.{name})"
                for name in self.kept
            ),
        ]
        columns = (*self.key, *self.added, *self.replaced, *self.kept, *self.fixed)
        return (
            f"INSERT INTO {self.table} ({', '.join(columns)}) VALUES "
            + ", ".join([marks(columns)] * rows)
            + cursor.dialect.on_conflict.format(key=", ".join(self.key))
            + ", ".join(changes)
        )


ADD_MINUTE: Final = Addition(
    table=MINUTES,
    key=("queue", "at"),
    added=("leases", "completed", "failed", "reclaimed"),
    fixed=("waiting",),
)

NOTE_MINUTE: Final = Addition(
    table=MINUTES,
    key=("queue", "at"),
    replaced=("ready", "scheduled", "leased", "oldest_wait", "waiting"),
    fixed=("leases", "completed", "failed", "reclaimed"),
)

ADD_TENANTS: Final = Addition(
    table=TENANTS,
    key=("queue", "at", "partition_key"),
    added=("leases", "completed", "failed", "worker_seconds"),
    replaced=("waits",),
)

SEE_WORKERS: Final = Addition(
    table=WORKERS,
    key=("queue", "worker_id"),
    added=("jobs",),
    replaced=("seen_at", "holding"),
    kept=("leased_at",),
    fixed=("started_at",),
)

ADD_ATTEMPT: Final = (
    f"INSERT INTO {ATTEMPTS} (queue, job_id, at, worker_id, error_class, reason) "
    "VALUES (%s, %s, %s, %s, %s, %s)"
)
