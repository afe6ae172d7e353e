"""One database as the engine uses it: short transactions of its own, retried as a whole."""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from django.conf import settings
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import InterfaceError, OperationalError, ProgrammingError
from django.utils import timezone
from django.utils.connection import ConnectionDoesNotExist
from django.utils.functional import cached_property

from vtrr_django.engines.sql.dialect import Dialect, dialect_of
from vtrr_django.engines.sql.fields import from_microseconds
from vtrr_django.engines.sql.patience import busy_until, found_locked, found_open, patience_with
from vtrr_django.exceptions import ConfigurationError, StoreUnavailable

T = TypeVar("T")
Row = tuple[Any, ...]

Read = Callable[[str, Sequence[object]], list[Row]]
"""Reads rows: a cursor's ``rows`` inside a transaction, a store's ``read`` outside."""

MAX_ATTEMPTS = 8
"""How often one transaction is tried before its caller hears of the contention."""

_MAX_ATTEMPTS_INSIDE = 3

_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.25

_POSTGRESQL_CONTENTION = {"40001", "40P01", "55P03"}
_MYSQL_CONTENTION = {1020, 1205, 1213}
_POSTGRESQL_NO_TABLE, _MYSQL_NO_TABLE = "42P01", 1146
_SQLITE_BUSY, _SQLITE_LOCKED = 5, 6


class Conflict(Exception):
    """Rows changed between reading and writing them; the transaction starts again."""


class Cursor:
    """A database cursor that hands out whole results."""

    def __init__(self, raw: Any, store: Store) -> None:
        self._raw = raw
        self.store = store
        self.dialect = store.dialect

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Run a statement and return all its rows."""
        self._raw.execute(sql, params)
        found: list[Row] = self._raw.fetchall()
        return found

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run a statement and return how many rows it touched."""
        self._raw.execute(sql, params)
        touched: int = self._raw.rowcount
        return touched

    def run_each(self, sql: str, params: Sequence[Sequence[Any]]) -> int:
        """Run a statement once for each set of parameters; return how many rows it touched."""
        if not params:
            return 0
        if len(params) == 1:
            return self.run(sql, params[0])
        self._raw.executemany(sql, params)
        touched: int = self._raw.rowcount
        return touched

    def delete(self, table: str, column: str, values: Sequence[Any], condition: str = "") -> int:
        """Delete rows by a unique column, if they meet a condition; return how many."""
        if not values:
            return 0
        sql = self.dialect.delete_rows(table, column, len(values))
        return self.run(sql + condition, values)

    def now(self) -> int:
        """Return the database's time in microseconds since the epoch."""
        if self.dialect.clock_is_parameter:
            return self.dialect.clock_params()[0]
        return int(self.rows(f"SELECT {self.dialect.clock}")[0][0])


def field_time(microseconds: int) -> datetime:
    """Return microseconds since the epoch as a ``DateTimeField`` has them: naive without USE_TZ."""
    value = from_microseconds(microseconds)
    if settings.USE_TZ:
        return value
    return timezone.make_naive(value, timezone.get_default_timezone())


class Store:
    """Transactions on one ``DATABASES`` alias; connections are Django's, one per thread."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    @property
    def connection(self) -> BaseDatabaseWrapper:
        """The calling thread's connection.

        Raises:
            ConfigurationError: ``DATABASES`` has no such alias.
        """
        try:
            return connections[self.alias]
        except ConnectionDoesNotExist as error:
            raise ConfigurationError(
                f"expected DATABASE to be one of {', '.join(connections)}, got {self.alias!r}"
            ) from error

    @cached_property
    def dialect(self) -> Dialect:
        """How this database spells things."""
        return dialect_of(self.connection)

    @property
    def in_transaction(self) -> bool:
        """Whether the caller has a transaction open."""
        return self.connection.in_atomic_block

    def read(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Run one reading statement outside any transaction of ours."""
        return self.persist(lambda: self.in_cursor(lambda cursor: cursor.rows(sql, params)))

    def write(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run one writing statement that needs no transaction around it."""
        touched = self.persist(lambda: self.in_cursor(lambda cursor: cursor.run(sql, params)))
        found_open(self.alias)
        return touched

    def transact(self, work: Callable[[Cursor], T], *, durable: bool = True) -> T:
        """Run ``work`` in one transaction, again from the start while the store is contended.

        Args:
            work: free of side effects outside the database.
            durable: False: what it writes can be found out again, so that its commit need
                not wait for the disk where the database knows the difference.

        Raises:
            StoreUnavailable: the store cannot be reached, or the attempts are used up.
        """
        relaxed = not durable and not self.in_transaction and self.dialect.relax_commit

        def attempt() -> T:
            with self._begin():
                if relaxed:
                    self.in_cursor(lambda cursor: cursor.run(self.dialect.relax_commit))
                return self.in_cursor(work)

        result = self.persist(attempt)
        found_open(self.alias)
        return result

    def now(self) -> int:
        """Return the database's time in microseconds since the epoch."""
        return self.persist(lambda: self.in_cursor(lambda cursor: cursor.now()))

    def moment(self, microseconds: int | None) -> Any:
        """Return a time as a ``DateTimeField`` parameter of this database."""
        if microseconds is None:
            return None
        return self.connection.ops.adapt_datetimefield_value(field_time(microseconds))

    def in_cursor(self, work: Callable[[Cursor], T]) -> T:
        """Run ``work`` with a cursor, in whatever transaction is open."""
        with self.connection.cursor() as raw:
            return work(Cursor(raw, self))

    @contextlib.contextmanager
    def _begin(self) -> Iterator[None]:
        connection = self.connection
        if connection.in_atomic_block:
            with transaction.atomic(using=self.alias):
                yield
            return
        connection.ensure_connection()
        if connection.vendor == "sqlite":
            with _immediate(connection), transaction.atomic(using=self.alias):
                yield
            return
        demote = not _is_read_committed(connection)
        if demote and connection.vendor == "mysql":
            self.in_cursor(lambda cursor: cursor.run(_READ_COMMITTED))
        with transaction.atomic(using=self.alias):
            if demote and connection.vendor == "postgresql":
                self.in_cursor(lambda cursor: cursor.run(_READ_COMMITTED))
            yield

    def persist(self, attempt: Callable[[], T]) -> T:
        """Call ``attempt`` until it gets through, a bounded number of times.

        And for a bounded time, where the caller has said so with :func:`patience`.
        """
        pause = _FIRST_PAUSE
        if self.connection.in_atomic_block:
            return self._persist_inside(attempt)
        seconds = patience_with(self.alias)
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        for tries_left in reversed(range(MAX_ATTEMPTS)):
            try:
                if seconds is None:
                    return attempt()
                with busy_until(self.connection, deadline):
                    return attempt()
            except Conflict as error:
                problem: Exception = error
            except (OperationalError, InterfaceError, ProgrammingError) as error:
                problem = error
                self._raise_unless_contended(error)
            if time.monotonic() >= deadline:
                break
            if tries_left:
                time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreads retries only
                pause = min(pause * 2, _LONGEST_PAUSE)
        if seconds is not None and self.dialect.serial:
            found_locked(self.alias, seconds)
        raise StoreUnavailable(
            f"database {self.alias!r} is still contended after {MAX_ATTEMPTS - tries_left} "
            f"attempts: {problem}"
        ) from problem

    def _raise_unless_contended(self, error: Exception) -> None:
        """Raise what it is if trying the same again is no use."""
        if is_missing_table(error):
            raise StoreUnavailable(
                f"database {self.alias!r} lacks tables of vtrr_django; run "
                f"manage.py migrate --database {self.alias} ({error})"
            ) from error
        if isinstance(error, ProgrammingError):
            raise error
        if not is_contention(error):
            self._drop_broken_connection()
            raise StoreUnavailable(f"database {self.alias!r} did not answer: {error}") from error

    def _persist_inside(self, attempt: Callable[[], T]) -> T:
        """Call ``attempt`` inside the caller's transaction, which only the caller can restart."""
        for _ in range(_MAX_ATTEMPTS_INSIDE):
            try:
                return attempt()
            except Conflict as error:
                problem = error
        raise StoreUnavailable(
            f"{problem}, and this transaction does not see them: others stored them after it "
            "began, and its isolation level shows it the past. Enqueue in a transaction of its "
            "own, or use READ COMMITTED"
        ) from problem

    def _drop_broken_connection(self) -> None:
        connection = self.connection
        if connection.connection is not None and not connection.is_usable():
            connection.close()


_READ_COMMITTED = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"


def _is_read_committed(connection: BaseDatabaseWrapper) -> bool:
    level = getattr(connection, "isolation_level", None)
    name = str(getattr(level, "name", level)).lower().replace("_", " ")
    return name == "read committed"


@contextlib.contextmanager
def _immediate(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Let the next SQLite transaction take its write lock at BEGIN.

    A transaction that reads first and writes later cannot wait for the lock: SQLite
    answers "database is locked" at once. Projects are advised to set
    ``OPTIONS["transaction_mode"]``; the engine does not depend on it.
    """
    before = getattr(connection, "transaction_mode", None)
    connection.transaction_mode = "IMMEDIATE"  # type: ignore[attr-defined]
    try:
        yield
    finally:
        connection.transaction_mode = before  # type: ignore[attr-defined]


def is_missing_table(error: Exception) -> bool:
    """Return whether a statement named a table that does not exist."""
    cause = error.__cause__ or error
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    args = getattr(cause, "args", ()) or ("",)
    return (
        state == _POSTGRESQL_NO_TABLE
        or args[0] == _MYSQL_NO_TABLE
        or str(args[0]).startswith("no such table")
    )


def is_contention(error: Exception) -> bool:
    """Return whether trying the same transaction again may succeed."""
    cause = error.__cause__ or error
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    if state is not None:
        return state in _POSTGRESQL_CONTENTION
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None:
        return (code & 0xFF) in (_SQLITE_BUSY, _SQLITE_LOCKED)
    return bool(cause.args) and cause.args[0] in _MYSQL_CONTENTION


def marks(values: Sequence[Any]) -> str:
    """Return ``(%s, %s, ...)`` with one placeholder per value."""
    return "(" + ", ".join(["%s"] * len(values)) + ")"
