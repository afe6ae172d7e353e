"""A liteworks file, opened to be read only, as it was at one moment."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from vtrr_django.domain.values import describe
from vtrr_django.exceptions import ValidationError, VTRRError

JOBS: Final = "jobs"
FAILED: Final = "failed_jobs"
COMPLETED: Final = "completed_jobs"

_COMMON = (
    *("id", "payload", "msg_id", "parent_id", "delivery_count", "scheduled_at"),
    *("claimed_by", "claimed_at", "created_at"),
)
COLUMNS: Final = {
    JOBS: _COMMON,
    FAILED: (*_COMMON, "reason", "failed_at"),
    COMPLETED: (*_COMMON, "worker_id", "completed_at"),
}
"""Each table, in the order in which they are taken over, and what liteworks 0.1.0 has in it."""

_NEEDED = {
    JOBS: ("id", "payload", "scheduled_at"),
    FAILED: ("id", "payload", "failed_at"),
    COMPLETED: ("id", "payload", "completed_at"),
}
_ORDER = {JOBS: "scheduled_at", FAILED: "failed_at", COMPLETED: "completed_at"}
"""What rows are ordered by, as liteworks claims them."""

_ID = "CAST(id AS TEXT)"

_MAGIC = b"SQLite format 3\0"
_BUSY_SECONDS = 10
_SOME = 3


class SourceError(VTRRError):
    """The file is no liteworks file, or cannot be read."""


class Row(NamedTuple):
    """One row.

    Attributes:
        table: where it is.
        number: its rowid, None where the table has none.
        values: by column; text and blobs as bytes, None also where there is no such column.
        live_again: a dead letter whose job waits, or has ended, since: its end does not count.
        shares_id: another row has its id, of this table or of one taken over before it.
    """

    table: str
    number: int | None
    values: dict[str, Any]
    live_again: bool = False
    shares_id: bool = False

    def __str__(self) -> str:
        number = "" if self.number is None else f" row {self.number}"
        value = self.values["id"]
        shown = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        return f"{self.table}{number} (id {describe(shown)})"

    @property
    def mark(self) -> str:
        """What tells this job from another one that has its id, whatever becomes of it."""
        digest = hashlib.blake2b(digest_size=16)
        for column in ("payload", "created_at"):
            digest.update(repr(self.values[column]).encode() + b"\0")
        return digest.hexdigest()

    def text(self, column: str) -> str | None:
        """Return what a column holds as text.

        Raises:
            ValidationError: it holds bytes that are no UTF-8.
        """
        value = self.values[column]
        if isinstance(value, bytes):
            try:
                return value.decode()
            except UnicodeDecodeError as error:
                raise ValidationError(column, f"expected UTF-8, got an error: {error}") from None
        return None if value is None else str(value)

    def value(self, column: str) -> str | int | float | None:
        """Return what a column holds; bytes as text."""
        value: str | int | float | None = self.values[column]
        return self.text(column) if isinstance(value, bytes) else value


class Claims(NamedTuple):
    """Jobs that somebody has claimed.

    Attributes:
        jobs: how many.
        workers: some of the workers' names.
    """

    jobs: int
    workers: list[str]


class LiteworksFile:
    """The file; between :func:`open_file` and its end it stands still.

    Attributes:
        path: where it is.
        remarks: what is missing from it, or more than is known of.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.remarks: list[str] = []
        self._connection = connection
        self._version = self._one("PRAGMA data_version")
        connection.execute("BEGIN")
        self._columns = self._look()
        self._rowid = {table: self._has_rowid(table) for table in self._columns}

    @property
    def tables(self) -> list[str]:
        """Those that there are, in the order in which they are taken over."""
        return [table for table in COLUMNS if table in self._columns]

    def rows(self, table: str) -> Iterator[Row]:
        """Yield the rows of a table, in the order in which liteworks would take them."""
        known = self._columns[table]
        values = [f"t.{name}" if name in known else "NULL" for name in COLUMNS[table]]
        rowid = "t.rowid" if self._rowid[table] else "NULL"
        order = [f"t.{_ORDER[table]}", *(["t.created_at"] if "created_at" in known else [])]
        order.append(rowid if self._rowid[table] else "t.id")
        live_again, shares_id = self._kin(table)
        sql = (
            f"SELECT {rowid}, {live_again}, {shares_id}, {', '.join(values)} "
            f"FROM main.{table} t ORDER BY {', '.join(order)}"
        )
        with _explained(self.path):
            for number, again, shares, *found in self._connection.execute(sql):
                named = dict(zip(COLUMNS[table], found, strict=True))
                yield Row(table, number, named, bool(again), bool(shares))

    def repeated_msg_ids(self) -> set[str]:
        """Return the msg_ids that more than one waiting job has."""
        if "msg_id" not in self._columns[JOBS]:
            return set()
        rows = self._all(
            f"SELECT CAST(msg_id AS TEXT) FROM main.{JOBS} WHERE msg_id IS NOT NULL "
            "GROUP BY 1 HAVING COUNT(*) > 1"
        )
        return {_shown(value) for (value,) in rows}

    def contested_ids(self, start: str) -> set[str]:
        """Return the ids that begin with ``start``, and go on with the id of another row."""
        if not start.isascii():  # nor can an id here be
            return set()
        ids = " UNION ALL ".join(f"SELECT {_ID} AS id FROM main.{table}" for table in self._columns)
        rows = self._all(
            f"WITH ids AS ({ids}) SELECT id FROM ids WHERE substr(id, 1, length(?1)) = ?1 "
            "AND substr(id, length(?1) + 1) IN ids",
            start,
        )
        return {_shown(value) for (value,) in rows}

    def claims(self) -> Claims:
        """Return who has claimed waiting jobs."""
        if "claimed_by" not in self._columns[JOBS]:
            return Claims(0, [])
        where = f"FROM main.{JOBS} WHERE claimed_by IS NOT NULL"
        names = self._all(f"SELECT DISTINCT claimed_by {where} LIMIT {_SOME}")
        return Claims(self._one(f"SELECT COUNT(*) {where}"), [_shown(name) for (name,) in names])

    def is_in_use(self) -> bool:
        """Return whether somebody has left, or is writing, a log of changes beside the file."""
        log = self.path.with_name(self.path.name + "-wal")
        with contextlib.suppress(OSError):
            return log.stat().st_size > 0
        return False

    def has_changed(self) -> bool:
        """Stop standing still; return whether somebody has written to the file meanwhile."""
        with _explained(self.path):
            self._connection.rollback()
        return bool(self._one("PRAGMA data_version") != self._version)

    def _look(self) -> dict[str, set[str]]:
        """Return the columns of the tables that are known.

        Raises:
            SourceError: what is needed is missing.
        """
        found = {
            _shown(name)
            for (name,) in self._all("SELECT name FROM main.sqlite_master WHERE type = 'table'")
        }
        if JOBS not in found:
            raise _no_liteworks(self.path, f"tables: {', '.join(sorted(found)) or 'none'}")
        for table in COLUMNS.keys() - found:
            self.remarks.append(f"There is no table {table}.")
        more = sorted(name for name in found - COLUMNS.keys() if not name.startswith("sqlite_"))
        if more:
            self.remarks.append(f"Not taken over, for liteworks has no such table: {_list(more)}.")
        return {table: self._look_at(table) for table in COLUMNS if table in found}

    def _look_at(self, table: str) -> set[str]:
        columns = [_shown(row[1]) for row in self._all(f"PRAGMA main.table_info({table})")]
        lacking = [name for name in COLUMNS[table] if name not in columns]
        needed = [name for name in _NEEDED[table] if name in lacking]
        if needed:
            raise _no_liteworks(
                self.path, f"{table} without {_list(needed)}, with {_list(columns)}"
            )
        if lacking:
            self.remarks.append(f"Table {table} has no column {_list(lacking)}.")
        more = [name for name in columns if name not in COLUMNS[table]]
        if more:
            self.remarks.append(
                f"Not taken over, for liteworks has no such column in {table}: {_list(more)}."
            )
        return {name for name in columns if name in COLUMNS[table]}

    def _has_rowid(self, table: str) -> bool:
        try:
            self._connection.execute(f"SELECT rowid FROM main.{table} LIMIT 0")
        except sqlite3.OperationalError:
            return False
        return True

    def _kin(self, table: str) -> tuple[str, str]:
        """Return two expressions: the fields ``live_again`` and ``shares_id`` of a row."""
        before = {FAILED: (JOBS, COMPLETED), COMPLETED: (JOBS,)}.get(table, ())
        others = [f"main.{other}" for other in before if other in self._columns]
        ids = [f"SELECT {_ID} FROM {other}" for other in others]
        ids.append(f"SELECT {_ID} FROM main.{table} GROUP BY 1 HAVING COUNT(*) > 1")
        jobs = [f"SELECT {_ID}, payload FROM {other}" for other in others if table == FAILED]
        live_again = [f"(CAST(t.id AS TEXT), t.payload) IN ({job})" for job in jobs]
        shares_id = [f"CAST(t.id AS TEXT) IN ({one})" for one in ids]
        return " OR ".join(live_again) or "0", " OR ".join(shares_id)

    def _all(self, sql: str, *values: str) -> list[tuple[Any, ...]]:
        with _explained(self.path):
            return self._connection.execute(sql, values).fetchall()

    def _one(self, sql: str) -> Any:
        return self._all(sql)[0][0]


@contextlib.contextmanager
def open_file(path: str | Path) -> Iterator[LiteworksFile]:
    """Open a liteworks file so that it cannot be written to.

    Raises:
        SourceError: there is none, or it is something else.
    """
    where = Path(path).absolute()
    _check(where)
    with _explained(where):
        connection = sqlite3.connect(
            f"{where.as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=_BUSY_SECONDS
        )
    # Text may hold anything; as bytes one value that is no UTF-8 does not end the reading.
    connection.text_factory = bytes
    with contextlib.closing(connection):
        with _explained(where):
            # A file of somebody else's: its views and triggers must not run functions.
            connection.execute("PRAGMA trusted_schema = OFF")
        yield LiteworksFile(where, connection)


def _check(path: Path) -> None:
    try:
        if path.exists() and not path.is_file():
            what = "a directory" if path.is_dir() else "a pipe or a device"
            raise SourceError(f"expected {path} to be a liteworks file, got {what}")
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except (OSError, ValueError) as error:  # NUL in the path
        raise SourceError(f"expected {path} to be a liteworks file, got: {error}") from error
    if start != _MAGIC:
        what = "something else" if start else "an empty file"
        raise SourceError(f"expected {path} to be a liteworks file, which SQLite wrote, got {what}")


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        cure = {
            sqlite3.SQLITE_BUSY: "; stop the liteworks server and its workers, and try again",
            sqlite3.SQLITE_CANTOPEN: "; SQLite keeps a -shm file beside it: copy it, with its -wal "
            "file if there is one, to a directory that can be written to",
            sqlite3.SQLITE_CORRUPT: "; nothing more can be read: try sqlite3's .recover",
        }.get(code, "")
        raise SourceError(f"{path} cannot be read: {error}{cure}") from error


def _no_liteworks(path: Path, got: str) -> SourceError:
    return SourceError(
        f"expected {path} to be a liteworks file, with a table jobs that has at least "
        f"{_list(_NEEDED[JOBS])}, got {got}"
    )


def _list(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names)


def _shown(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
