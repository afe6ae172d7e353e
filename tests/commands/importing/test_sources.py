"""Files that are hostile, broken, somebody else's or in use."""

from __future__ import annotations

import os
import sqlite3
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.commands.importing.calling import (
    apply,
    call,
    drain,
    is_empty,
    refusal,
    sqlite_only,
)
from tests.commands.importing.files import File, envelope
from tests.contract.stores import Store
from vtrr_django import Queue
from vtrr_django.contrib.liteworks.source import open_file
from vtrr_django.contrib.liteworks.takeover import TakeOver

# -- hostile files ---------------------------------------------------------------------

HOSTILE = {
    "NUL": '{"type": "SendEmail", "data": {"to": "a\\u0000b"}}',
    "lone surrogate": '{"type": "SendEmail", "data": {"to": "\\ud800"}}',
    "NaN": '{"type": "SendEmail", "data": {"to": "x", "extra": NaN}}',
    "infinite": '{"type": "SendEmail", "data": {"to": "x", "extra": 1e999}}',
    "nested": '{"type": "SendEmail", "data": {"to": "x", "extra": ' + "[" * 40 + "]" * 40 + "}}",
    "very nested": "[" * 40_000,
    "digits": '{"type": "SendEmail", "data": {"to": "x", "extra": ' + "9" * 5000 + "}}",
    "large": envelope("x" * 1024 * 1024),
    "no JSON": "hello",
    "empty": "",
    "UTF-16": envelope().encode("utf-16"),
    "bytes": b"\xff\xfe\x00",
    "null": None,
    "number": 17,
}


@pytest.mark.parametrize("table", ["jobs", "completed_jobs"])
def test_hostile_payloads_are_refused_with_their_row(
    store: Store, queue: Queue, file: File, table: str
) -> None:
    file.add(table, *({"id": name, "payload": payload} for name, payload in HOSTILE.items()))
    file.jobs({"id": "good"})
    told = refusal(file)
    for name in HOSTILE:
        [line] = [line for line in told.splitlines() if f"(id {name!r})" in line]
        assert "payload" in line
        assert len(line) < 500
    assert f"{len(HOSTILE)} rows left out" in told
    assert is_empty(store, queue)
    apply(file, "--skip-unreadable")
    assert [job.id for job in drain(queue)] == ["good"]


@sqlite_only
def test_no_more_rows_are_named_than_anybody_reads(queue: Queue, file: File) -> None:
    file.jobs(*[{"payload": "?"}] * 33)
    told = refusal(file)
    assert told.count("jobs row") == 20
    assert "... and 13 more" in told


@sqlite_only
def test_ten_thousand_jobs_in_bounded_memory(store: Store, queue: Queue, file: File) -> None:
    file.many({"payload": envelope("x" * 3000)} for _ in range(10_000))
    assert file.path.stat().st_size > 30_000_000
    call(file)  # what is loaded once
    tracemalloc.start()
    try:
        apply(file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000
    assert queue.stats()["ready"] == 10_000


@pytest.mark.parametrize(
    "make",
    [
        lambda path: None,
        lambda path: path.touch(),
        lambda path: path.mkdir(),
        lambda path: path.write_text("SELECT 1"),
        lambda path: path.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096),
        lambda path: path.symlink_to("nowhere"),
        os.mkfifo,
    ],
    ids=["missing", "empty", "directory", "text", "damaged", "dangling", "pipe"],
)
@sqlite_only
def test_what_is_no_file_of_sqlite(
    queue: Queue, tmp_path: Path, make: Callable[[Path], Any]
) -> None:
    path = tmp_path / "emails.db"
    make(path)
    told = refusal(path)
    assert str(path) in told
    assert "expected" in told or "cannot be read" in told
    assert not list(tmp_path.glob("*-wal"))


@sqlite_only
def test_a_path_that_cannot_be(queue: Queue) -> None:
    assert "expected" in refusal("a\0b.db")


@sqlite_only
def test_a_path_with_everything(queue: Queue, tmp_path: Path) -> None:
    file = File(tmp_path, "a b?mode=rwc#%41.db")
    file.jobs({"id": 1})
    apply(file)
    assert len(queue.lease()) == 1
    assert [path.name for path in tmp_path.iterdir()] == [file.path.name]


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({"jobs": None}, "got tables: completed_jobs, failed_jobs"),
        ({"jobs": "id, payload"}, "got jobs without scheduled_at, with id, payload"),
        ({"failed_jobs": "id, payload"}, "got failed_jobs without failed_at"),
        ({"completed_jobs": "number"}, "got completed_jobs without id, payload, completed_at"),
    ],
)
@sqlite_only
def test_files_of_other_programs(
    queue: Queue, tmp_path: Path, tables: dict[str, str | None], told: str
) -> None:
    assert told in refusal(File(tmp_path, **tables))


@sqlite_only
def test_what_is_missing_or_more_is_told(
    queue: Queue, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = File(
        tmp_path,
        jobs="id TEXT PRIMARY KEY, payload, scheduled_at, priority",
        completed_jobs=None,
        settings="name",
    )
    with closing(sqlite3.connect(file.path)) as raw, raw:
        raw.execute("INSERT INTO jobs VALUES ('j', ?, 17, 5)", [envelope()])
    apply(file)
    err = capsys.readouterr().err
    assert "There is no table completed_jobs." in err
    assert "no such table: settings." in err
    assert "Table jobs has no column msg_id, parent_id, delivery_count" in err
    assert "no such column in jobs: priority." in err
    assert [job.id for job in drain(queue)] == ["j"]


@sqlite_only
def test_a_table_without_row_numbers(queue: Queue, tmp_path: Path) -> None:
    file = File(tmp_path, jobs="id PRIMARY KEY, payload, scheduled_at) WITHOUT ROWID --")
    with closing(sqlite3.connect(file.path)) as raw, raw:
        for job_id in "ba":
            raw.execute("INSERT INTO jobs VALUES (?, ?, 17)", [job_id, envelope()])
    apply(file)
    assert [job.id for job in drain(queue)] == ["a", "b"]


# -- live files ------------------------------------------------------------------------


def test_claims_are_told_of(queue: Queue, file: File, capsys: pytest.CaptureFixture[str]) -> None:
    file.jobs(*({"claimed_by": f"w-{i}", "claimed_at": 1} for i in range(5)), {})
    call(file)
    assert "5 waiting jobs are claimed (by w-0, w-1, w-2, ...)" in capsys.readouterr().err
    apply(file)
    assert len(queue.lease(10)) == 6


@sqlite_only
def test_a_file_that_a_server_has_open(
    queue: Queue, file: File, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(file.path)) as server:
        server.execute("PRAGMA journal_mode=WAL")
        server.execute("SELECT * FROM jobs").fetchall()
        file.jobs({}, {})
        look = TakeOver.look

        def look_then_write(self: TakeOver) -> Any:
            report = look(self)
            file.jobs({})
            return report

        monkeypatch.setattr(TakeOver, "look", look_then_write)
        assert "2 waiting jobs" in apply(file)
        err = capsys.readouterr().err
        assert "emails.db-wal is there" in err
        assert "The file has changed meanwhile" in err
        assert len(queue.lease(10)) == 2
    assert "1 waiting job" in apply(file)


@sqlite_only
def test_a_file_that_is_locked(queue: Queue, file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtrr_django.contrib.liteworks.source._BUSY_SECONDS", 0)
    file.jobs({})
    with closing(sqlite3.connect(file.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "stop the liteworks server and its workers" in refusal(file)


@sqlite_only
def test_the_file_is_opened_to_be_read_only(queue: Queue, file: File) -> None:
    with open_file(file.path) as source, pytest.raises(sqlite3.OperationalError, match="readonly"):
        source._connection.execute("DELETE FROM jobs")
