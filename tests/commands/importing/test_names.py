"""Ids and msg_ids of liteworks, here."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from django.core.management import CommandError

from tests.commands.importing.calling import (
    apply,
    call,
    drain,
    imported,
    is_empty,
    refusal,
    sqlite_only,
)
from tests.commands.importing.conftest import MakeQueue
from tests.commands.importing.files import File, SendEmail, envelope
from tests.contract.stores import Store
from vtrr_django import Queue
from vtrr_django.domain.job import MAX_ID_LENGTH
from vtrr_django.domain.values import describe


def test_a_msg_id_that_is_known_here_stands_for_the_job(
    store: Store, queue: Queue, file: File
) -> None:
    mine = queue.publish(SendEmail("here"), msg_id="m")
    file.jobs({"msg_id": "m"}, {"msg_id": "n"})
    assert "1 waiting job" in apply(file)
    assert mine in store.live(queue.name)
    assert len(store.live(queue.name)) == 2


def test_jobs_that_share_a_msg_id_are_all_taken_over(
    queue: Queue, file: File, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = file.jobs({"msg_id": "m"}, {"msg_id": "m"}, {"msg_id": "n"}, {"msg_id": "m"})
    file.add("completed_jobs", {"msg_id": "n"})
    apply(file)
    assert "2 waiting jobs are taken over without msg_id" in capsys.readouterr().err
    assert [(job.id, job.msg_id) for job in drain(queue)] == list(
        zip(ids, ["m", None, "n", None], strict=True)
    )


def test_ids_that_are_mere_numbers_get_the_name_of_their_queue(
    store: Store, make_queue: MakeQueue, tmp_path: Path
) -> None:
    queue = make_queue()
    files = [File(tmp_path, f"{name}.db") for name in ("emails", "reports")]
    for one in files:
        one.jobs({"id": 1}, {"id": 2, "parent_id": 1}, {"id": "3"})
        one.add("failed_jobs", {"id": 4})
        apply(one)
        apply(one)
    expected = [f"{name}-{i}" for name in ("emails", "reports") for i in (1, 2, 3)]
    jobs = drain(queue)
    assert [job.id for job in jobs] == expected
    assert jobs[1].parent_id == "emails-1"
    letters = {row["id"] for row in store.history(queue.name)["failed"]}
    assert letters == {"emails-4", "reports-4"}
    assert "0 waiting jobs" in apply(files[1], "--source=reports")
    assert "3 waiting jobs" in call(files[1], "--source=other")


def test_ids_that_cannot_be_ids_here_become_others_always_the_same(
    queue: Queue, file: File, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = ["with space", "ümlaut", "x" * 65, "new\nline", "9" * 60]
    ids = file.jobs({"id": "a/b?c"}, *({"id": one, "parent_id": odd[0]} for one in odd))
    apply(file)
    assert "Id 'with space' is unique in this file only, or no id here" in capsys.readouterr().err
    assert "0 waiting jobs" in apply(file)
    jobs = drain(queue)
    assert jobs[0].id == ids[0]
    assert len({job.id for job in jobs}) == 6
    assert all(len(job.id) <= MAX_ID_LENGTH and job.id.isascii() for job in jobs)
    assert {job.parent_id for job in jobs[1:]} == {jobs[1].id}


def test_ends_of_jobs_that_live_again_or_ended_since_are_left_out(
    store: Store, queue: Queue, file: File
) -> None:
    file.jobs({"id": "back", "payload": envelope("b")})
    file.add("completed_jobs", {"id": "done", "payload": envelope("d")})
    file.add(
        "failed_jobs",
        {"id": "back", "payload": envelope("b")},
        {"id": "done", "payload": envelope("d")},
        {"id": "dead"},
    )
    assert "1 waiting job, 1 dead letter, 1 completed job" in apply(file)
    assert [row["id"] for row in store.history(queue.name)["failed"]] == ["dead"]
    assert [job.id for job in drain(queue)] == ["back"]


def test_different_jobs_of_one_id_are_all_taken_over(
    store: Store, queue: Queue, file: File
) -> None:
    file.jobs({"id": 1, "payload": envelope("new")})
    file.add("failed_jobs", {"id": 1, "payload": envelope("old")}, {"id": 2})
    file.add(
        "completed_jobs",
        {"id": 1, "payload": envelope("older")},
        {"id": 2, "payload": envelope("done")},
        {"id": 3},
        {"id": 3},
    )
    for _ in range(2):
        apply(file)
    assert list(store.live(queue.name)) == ["emails-1"]
    history = store.history(queue.name)
    assert (len(history["failed"]), len(history["completed"])) == (2, 4)
    completed = [row["id"] for row in history["completed"]]
    assert completed[1] == "emails-2"
    assert all(job_id.startswith("liteworks-") for job_id in completed[2:])


def test_an_id_of_a_different_job_here_is_refused(store: Store, queue: Queue, file: File) -> None:
    queue.publish(SendEmail("other"), id="mine")
    file.jobs({"id": "mine"}, {})
    told = refusal(file)
    assert "jobs row 1 (id 'mine'): expected id 'mine' to be new or to be this very job" in told
    assert len(store.live(queue.name)) == 1
    assert "1 waiting job" in apply(file, "--skip-unreadable")


@sqlite_only
def test_two_waiting_jobs_of_one_id_are_refused(store: Store, queue: Queue, file: File) -> None:
    file.jobs({"id": "twice"}, {"id": "twice"})
    assert refusal(file).count("expected it to be unique in jobs") == 2
    assert is_empty(store, queue)


# -- two ids that would be one here ----------------------------------------------------

TABLES = ["jobs", "failed_jobs", "completed_jobs"]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("ids", [(17, "emails-17"), ("emails-17", 17)], ids=str)
def test_two_ids_that_would_be_one_are_told_before_anything_is_written(
    store: Store, queue: Queue, file: File, table: str, ids: tuple[int | str, ...]
) -> None:
    file.add(table, *({"id": one, "payload": envelope(str(one))} for one in ids), {"id": "own"})
    for arguments in ([], ["--apply"]):
        with pytest.raises(CommandError) as error:
            call(file, *arguments)
        told = str(error.value)
        assert f"{table} row 2 (id {describe(ids[1])}): id: expected ids that stay" in told
        assert "'emails-17', which another row of this file becomes; give another name" in told
        assert "1 row left out" in told
    assert is_empty(store, queue)
    apply(file, "--skip-unreadable")
    assert imported(queue) == {"emails-17", "own"}
    apply(file, "--skip-unreadable")
    history = store.history(queue.name)
    jobs = [(job.id, job.kwargs["to"]) for job in drain(queue)]
    for row in (*history["failed"], *history["completed"]):
        jobs.append((row["id"], json.loads(row["payload"])["kwargs"]["to"]))
    assert dict(jobs) == {"emails-17": str(ids[0]), "own": "a@b.c"}
    assert len(jobs) == 2


def test_another_name_keeps_two_ids_different(queue: Queue, file: File) -> None:
    file.jobs({"id": 17}, {"id": "emails-17"})
    assert "2 waiting jobs" in apply(file, "--source=mails")
    assert [job.id for job in drain(queue)] == ["mails-17", "emails-17"]


def test_ids_of_several_tables_that_would_be_one(store: Store, queue: Queue, file: File) -> None:
    """What has the same id in the file, too, is the same job, as ever."""
    file.jobs({"id": 17})
    file.add("failed_jobs", {"id": "emails-17"}, {"id": 17, "payload": envelope("old")})
    file.add("completed_jobs", {"id": "17", "payload": envelope("older")})
    told = refusal(file)
    assert "failed_jobs row 1 (id 'emails-17')" in told
    assert "1 row left out" in told
    assert "1 waiting job, 1 dead letter, 1 completed job" in apply(file, "--skip-unreadable")
    assert list(store.live(queue.name)) == ["emails-17"]


@sqlite_only
def test_an_id_that_is_the_digest_of_another_one(queue: Queue, file: File) -> None:
    file.jobs({"id": "with space"})
    apply(file)
    [job] = drain(queue)
    file.jobs({"id": job.id, "payload": envelope("other")})
    assert f"expected ids that stay different, got {job.id[:40]!r}"[:-1] in refusal(file)


@sqlite_only
def test_a_row_that_is_refused_for_another_reason_takes_no_id(queue: Queue, file: File) -> None:
    file.jobs({"id": 17, "msg_id": "m", "parent_id": b"\xff"}, {"id": "emails-17", "msg_id": "m"})
    told = refusal(file)
    assert "jobs row 1 (id 17 (int)): parent_id" in told
    assert "1 row left out" in told
    apply(file, "--skip-unreadable")
    assert [(job.id, job.msg_id) for job in drain(queue)] == [("emails-17", "m")]


@sqlite_only
def test_a_file_whose_name_is_no_text(queue: Queue, tmp_path: Path) -> None:
    file = File(tmp_path, os.fsdecode(b"\xff.db"))
    file.jobs({"id": 17}, {"id": "own"})
    apply(file)
    assert len(drain(queue)) == 2
