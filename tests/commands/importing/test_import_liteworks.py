"""What is taken over out of a liteworks file, into each store."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from tests.commands import manage
from tests.commands.importing.calling import (
    apply,
    call,
    drain,
    is_empty,
    refusal,
    sqlite_only,
)
from tests.commands.importing.conftest import MakeQueue
from tests.commands.importing.files import START, File, SendEmail, envelope
from tests.contract.stores import Store
from vtrr_django import Queue, get_queue
from vtrr_django.models import CompletedJob
from vtrr_django.signals import job_enqueued

# -- what is taken over ----------------------------------------------------------------


def test_a_dry_run_says_what_there_is_and_writes_nothing(
    store: Store, queue: Queue, file: File
) -> None:
    file.jobs({}, {}, {"payload": envelope(type_name="app.messages.SendEmail")})
    file.add("failed_jobs", {})
    file.add("completed_jobs", {}, {"payload": envelope(type_name="Gone")})
    before = file.path.read_bytes()
    told = call(file)
    assert [line.split() for line in told.splitlines()[1:-1]] == [
        ["jobs", "SendEmail", "3", "3", "0", "0"],
        ["failed_jobs", "SendEmail", "1", "1", "0", "0"],
        ["completed_jobs", "SendEmail", "1", "1", "0", "0"],
        ["completed_jobs", "Gone", "1", "1", "0", "0"],
    ]
    assert "nothing was written" in told
    assert "3 waiting jobs, 1 dead letter, 2 completed jobs. Run it again with --apply" in told
    assert is_empty(store, queue)
    assert file.path.read_bytes() == before


def test_waiting_jobs_keep_what_they_are(store: Store, queue: Queue, file: File) -> None:
    due = datetime.now(UTC) + timedelta(days=1)
    ids = file.jobs(
        {"payload": envelope("ü@\N{ROCKET}"), "msg_id": "m-1", "delivery_count": 2},
        {"claimed_by": "w-1", "claimed_at": START.timestamp(), "parent_id": "p-1"},
        {"scheduled_at": due.isoformat(), "msg_id": "m-3"},
    )
    assert f"Taken over into queue {queue.name}: 3 waiting jobs" in apply(file)
    live = store.live(queue.name)
    assert [live[job_id]["state"] for job_id in ids] == ["ready", "ready", "scheduled"]
    assert [live[job_id]["claimed_by"] for job_id in ids] == [None] * 3
    info = queue.job(ids[2])
    assert info is not None
    assert info.ready_at is not None
    assert abs(info.ready_at - due) < timedelta(milliseconds=1)
    first, second = queue.lease(3)
    assert (first.id, first.task_name, first.partition_key) == (ids[0], "SendEmail", "")
    assert (first.args, first.kwargs) == ([], {"to": "ü@\N{ROCKET}"})
    assert (first.msg_id, first.delivery_count, first.parent_id) == ("m-1", 2, None)
    assert (second.id, second.parent_id, second.delivery_count) == (ids[1], "p-1", 0)


def test_jobs_run_in_the_order_in_which_liteworks_would_run_them(queue: Queue, file: File) -> None:
    at = START.timestamp()
    ids = file.jobs(*({"scheduled_at": at - (7 * i) % 250, "created_at": at} for i in range(250)))
    apply(file)
    due = {job_id: at - (7 * i) % 250 for i, job_id in enumerate(ids)}
    assert [job.id for job in drain(queue)] == sorted(ids, key=lambda job_id: due[job_id])


def test_the_message_arrives(queue: Queue, file: File) -> None:
    got: list[SendEmail] = []

    def receive(message: SendEmail) -> None:
        got.append(message)

    queue._runnables.clear()
    queue.handler(receive)
    file.jobs({"payload": envelope("a@b.c", copies=2)})
    apply(file)
    queue.worker(poll_interval=0.01).run_burst()
    assert got == [SendEmail("a@b.c", copies=2)]


def test_history_is_taken_over(store: Store, queue: Queue, file: File) -> None:
    at = START.timestamp()
    trace = "Traceback (most recent call last):\n  File x\nValueError: no"
    failed = file.add(
        "failed_jobs",
        {"reason": trace, "delivery_count": 3, "msg_id": "m", "failed_at": at + 90},
        {"reason": "plain", "failed_at": at + 80, "claimed_by": "w-9", "claimed_at": at + 75},
    )
    [done] = file.add(
        "completed_jobs",
        {"worker_id": "w-1", "claimed_at": at + 10, "completed_at": at + 12.5, "parent_id": "p"},
    )
    apply(file)
    history = store.history(queue.name)
    second, first = history["failed"]
    assert [first["id"], second["id"]] == failed
    assert (first["reason"], first["traceback"]) == ("ValueError: no", trace)
    assert (first["delivery_count"], first["msg_id"], first["runtime"]) == (3, "m", None)
    assert first["failed_at"] == START + timedelta(seconds=90)
    assert (second["reason"], second["traceback"], second["worker_id"]) == ("plain", "", "w-9")
    assert (second["runtime"], second["claimed_at"]) == (5.0, START + timedelta(seconds=75))
    [row] = history["completed"]
    assert (row["id"], row["worker_id"], row["runtime"], row["parent_id"]) == (
        done,
        "w-1",
        2.5,
        "p",
    )
    assert row["completed_at"] == START + timedelta(seconds=12.5)
    assert json.loads(row["payload"]) == {"args": [], "kwargs": {"to": "a@b.c"}}
    assert store.live(queue.name) == {}
    assert set(queue.requeue()) == set(failed)
    assert {(job.id, job.delivery_count) for job in drain(queue)} == {(i, 0) for i in failed}


@pytest.mark.parametrize("store", ["sqlite", "mariadb"], indirect=True)
def test_history_without_time_zones(queue: Queue, file: File, settings: Any) -> None:
    file.add("failed_jobs", {})
    file.add("completed_jobs", {"claimed_at": START.timestamp()})
    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo"):
        apply(file)
    [row] = CompletedJob.objects.using(queue.config.database).filter(queue=queue.name)
    assert row.claimed_at is not None
    local = START.replace(tzinfo=None) + timedelta(hours=9)
    assert row.claimed_at.replace(tzinfo=None) == local


@sqlite_only
def test_listeners_hear_of_the_jobs(queue: Queue, file: File) -> None:
    heard: list[str] = []

    def listen(ids: list[str], **kwargs: Any) -> None:
        heard.extend(ids)

    job_enqueued.connect(listen, sender=queue)
    try:
        ids = file.jobs({}, {})
        apply(file)
        apply(file)
        assert heard == ids
    finally:
        job_enqueued.disconnect(listen, sender=queue)


# -- retention -------------------------------------------------------------------------


def test_no_completed_jobs_where_none_are_kept(
    store: Store, make_queue: MakeQueue, file: File, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = make_queue(COMPLETED_RETENTION=0)
    file.add("completed_jobs", {})
    assert "0 completed jobs" in apply(file)
    assert "COMPLETED_RETENTION is 0" in capsys.readouterr().err
    assert store.history(queue.name)["completed"] == []


@sqlite_only
def test_more_history_than_is_kept_is_told(
    make_queue: MakeQueue, file: File, capsys: pytest.CaptureFixture[str]
) -> None:
    make_queue(COMPLETED_RETENTION=1, FAILED_RETENTION=2)
    file.add("completed_jobs", {}, {})
    file.add("failed_jobs", {}, {}, {})
    call(file)
    err = capsys.readouterr().err
    assert "COMPLETED_RETENTION keeps 1: workers and vtrr_prune will trim the oldest of" in err
    assert "FAILED_RETENTION keeps 2" in err


# -- the command -----------------------------------------------------------------------


@sqlite_only
def test_an_empty_file_of_liteworks(queue: Queue, file: File) -> None:
    assert "The file holds no jobs." in call(file)


@sqlite_only
def test_quiet(queue: Queue, file: File, capsys: pytest.CaptureFixture[str]) -> None:
    file.jobs({"claimed_by": "w"})
    assert apply(file, "--verbosity=0") == ""
    assert capsys.readouterr().err == ""
    assert len(queue.lease()) == 1


@sqlite_only
def test_the_queue_must_be_declared(queue: Queue, file: File) -> None:
    assert "expected a queue declared" in refusal(file, "--queue=emials")


def test_from_the_command_line(tmp_path: Path, transactional_db: None) -> None:
    file = File(tmp_path)
    file.jobs({"payload": json.dumps({"began": "x"})})
    arguments = ("vtrr_import_liteworks", str(file.path), "--task=tests.app.tasks.get_stuck")
    ended = manage.run(tmp_path, *arguments)
    assert (ended.status, ended.err) == (0, "")
    assert "1 waiting job" in ended.out
    ended = manage.run(tmp_path, *arguments, "--apply")
    assert (ended.status, ended.err) == (0, "")
    [job] = get_queue("default").lease()
    assert job.kwargs == {"began": "x"}
    ended = manage.run(tmp_path, "vtrr_import_liteworks", str(tmp_path / "no.db"))
    assert ended.status == 1
    assert ended.err.startswith("CommandError: expected")


def test_many_large_rows_are_taken_over(store: Store, queue: Queue, file: File) -> None:
    """MariaDB takes no statement over 16 MiB, unless told otherwise."""
    large = {"payload": envelope("x" * 900_000)}
    ids = {table: file.add(table, *[large] * 20) for table in ("jobs", "failed_jobs")}
    apply(file)
    assert sorted(store.live(queue.name)) == sorted(ids["jobs"])
    failed = store.history(queue.name)["failed"]
    assert [row["id"] for row in failed] == ids["failed_jobs"]
    assert min(len(row["payload"]) for row in failed) > 900_000
