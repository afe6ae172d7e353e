"""Files as liteworks 0.1.0 writes them, as far as its README tells: names of columns."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2026, 11, 1, 12, tzinfo=UTC)
JOB = "id, payload, msg_id, parent_id, delivery_count, scheduled_at, claimed_by, claimed_at"
SCHEMA = {
    "jobs": f"{JOB}, created_at",
    "failed_jobs": f"{JOB}, created_at, reason, failed_at",
    "completed_jobs": f"{JOB}, created_at, worker_id, completed_at",
}


@dataclass
class SendEmail:
    """A message."""

    to: str
    tenant: str = ""
    copies: int = 1


def send_email(message: SendEmail) -> None:
    """Do nothing."""


def envelope(to: str = "a@b.c", type_name: str = "SendEmail", **fields: Any) -> str:
    return json.dumps({"type": type_name, "data": {"to": to, **fields}})


class File:
    """A file of one queue; every row is by default the next one of its table."""

    def __init__(self, folder: Path, name: str = "emails.db", **tables: str | None) -> None:
        self.path = folder / name
        self._numbers = 0
        with closing(sqlite3.connect(self.path)) as file, file:
            for table, columns in (SCHEMA | tables).items():
                if columns is not None:
                    file.execute(f"CREATE TABLE {table} ({columns})")

    def _row(self, table: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        self._numbers += 1
        at = START + timedelta(seconds=self._numbers)
        row = {
            "id": str(uuid.uuid4()),
            "payload": envelope(),
            "delivery_count": 0,
            "scheduled_at": at.timestamp(),
            "created_at": at.timestamp(),
        }
        if table == "failed_jobs":
            row |= {"reason": "broken", "failed_at": at.timestamp() + 5}
        elif table == "completed_jobs":
            row |= {"worker_id": "w", "completed_at": at.timestamp() + 5}
        return row | fields

    def add(self, table: str, *rows: Mapping[str, Any]) -> list[Any]:
        """Add rows; return their ids."""
        full = [self._row(table, fields) for fields in rows]
        with closing(sqlite3.connect(self.path)) as file, file:
            for row in full:
                marks = ", ".join("?" * len(row))
                sql = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"  # noqa: S608 - ours
                file.execute(sql, list(row.values()))
        return [row["id"] for row in full]

    def jobs(self, *rows: Mapping[str, Any]) -> list[Any]:
        return self.add("jobs", *rows)

    def many(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add waiting jobs quickly."""
        with closing(sqlite3.connect(self.path)) as file, file:
            file.executemany(
                "INSERT INTO jobs (id, payload, delivery_count, scheduled_at, created_at) "
                "VALUES (:id, :payload, :delivery_count, :scheduled_at, :created_at)",
                (self._row("jobs", row) for row in rows),
            )
