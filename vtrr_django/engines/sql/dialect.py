"""What differs between the databases, as data: four small values instead of branches."""

from __future__ import annotations

import time
from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper

from vtrr_django.exceptions import ConfigurationError


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """How one kind of database spells what the engine needs.

    Attributes:
        clock: expression for the statement's time, microseconds since the epoch.
        clock_is_parameter: True when ``clock`` is a placeholder for :meth:`clock_params`:
            SQLite's own clock has milliseconds only, and the machine's clock is its clock.
        lock_skip: suffix that locks the rows read and passes over locked ones.
        lock_wait: suffix that locks the rows read and waits for locked ones.
        serial: one writing transaction at a time, so what it saw is true when it commits.
        delete_returning: whether DELETE can return the rows it removed.
        insert_new: how an INSERT begins that passes over rows that exist.
        ignore_conflict: how it ends.
        on_conflict: how an INSERT goes on that changes the row whose key (a format field) exists.
        incoming: the value of a column (a format field) that did not come in there.
        hints: whether statements that lock name the index they must use. MySQL and MariaDB
            read a small table from end to end where half of it matches, and stop at the
            first row of somebody's open transaction.
        skips_equal_keys: whether GROUP BY jumps from one key of an index to the next.
        named_locks: whether enqueues that may meet at one unique key queue up by GET_LOCK:
            in InnoDB, two that wait for a third deadlock when the third rolls back.
        relax_commit: statement that lets the transaction's commit return before it is on
            disk; "": there is none.
        token: expression for a token out of a prefix (parameter) and the row's ``seq``.
    """

    clock: str
    clock_is_parameter: bool = False
    lock_skip: str = " FOR UPDATE SKIP LOCKED"
    lock_wait: str = " FOR UPDATE"
    serial: bool = False
    delete_returning: bool = True
    insert_new: str = "INSERT INTO"
    ignore_conflict: str = " ON CONFLICT DO NOTHING"
    on_conflict: str = " ON CONFLICT ({key}) DO UPDATE SET "
    incoming: str = "excluded.{column}"
    hints: bool = False
    skips_equal_keys: bool = False
    named_locks: bool = False
    relax_commit: str = ""
    token: str = "CONCAT(%s, seq)"

    def using(self, index: str) -> str:
        """Return the hint, to stand after the table, that has a statement use an index."""
        return f" FORCE INDEX ({index})" if self.hints else ""

    def delete_rows(self, table: str, column: str, count: int) -> str:
        """Return a DELETE of ``count`` rows by a unique column; conditions may follow."""
        if not self.hints:
            return f"DELETE FROM {table} WHERE {column} IN ({', '.join(['%s'] * count)})"
        # An IN list is read as a range, and its end is found by looking at the row after it:
        # one by one, by way of a join, each row is looked up and no other is touched.
        listed = " UNION ALL ".join(["SELECT %s AS chosen", *["SELECT %s"] * (count - 1)])
        return (
            f"DELETE {table} FROM ({listed}) listed STRAIGHT_JOIN {table} "
            f"ON {table}.{column} = listed.chosen WHERE TRUE"
        )

    def clock_params(self) -> list[int]:
        """Return the parameters that ``clock`` stands for."""
        return [time.time_ns() // 1000] if self.clock_is_parameter else []


SQLITE = Dialect(
    clock="%s",
    clock_is_parameter=True,
    lock_skip="",
    lock_wait="",
    serial=True,
    token="%s || seq",
)

# statement_timestamp(): now() stands still inside a transaction, and a lease taken late in
# one would be born old. FOR NO KEY UPDATE does not stand in the way of foreign key checks.
POSTGRESQL = Dialect(
    clock="(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000)::bigint",
    lock_skip=" FOR NO KEY UPDATE SKIP LOCKED",
    lock_wait=" FOR NO KEY UPDATE",
    relax_commit="SET LOCAL synchronous_commit TO off",
)

# INSERT IGNORE turns other errors into warnings too; what is inserted was validated before.
# ON DUPLICATE KEY UPDATE would lock the row that exists against the worker that runs it.
MYSQL = Dialect(
    clock="TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))",
    delete_returning=False,
    insert_new="INSERT IGNORE INTO",
    ignore_conflict="",
    on_conflict=" ON DUPLICATE KEY UPDATE ",
    incoming="VALUES({column})",
    hints=True,
    skips_equal_keys=True,
    named_locks=True,
)
"""MySQL and MariaDB (whose DELETE ... RETURNING takes no hint)."""


def dialect_of(connection: BaseDatabaseWrapper) -> Dialect:
    """Return the dialect of an open or openable connection.

    Raises:
        ConfigurationError: the database is none of SQLite, PostgreSQL, MariaDB, MySQL.
    """
    if connection.vendor == "sqlite":
        return SQLITE
    if connection.vendor == "postgresql":
        return POSTGRESQL
    if connection.vendor == "mysql":
        return MYSQL
    raise ConfigurationError(
        f"expected DATABASES[{connection.alias!r}] to be SQLite, PostgreSQL, MariaDB or MySQL, "
        f"got {connection.vendor!r}; give the queue another DATABASE"
    )
