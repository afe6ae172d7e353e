"""Taking a file over again, after a crash, and at the same time."""

from __future__ import annotations

import re
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from tests.commands.importing.calling import (
    apply,
    call,
    drain,
    imported,
    refusal,
    shared,
    sqlite_only,
)
from tests.commands.importing.conftest import MakeQueue
from tests.commands.importing.files import File, envelope
from tests.contract.stores import Store
from tests.races.processes import Crew
from tests.races.threads import Background, Halt, together
from tests.races.waiting import PATIENCE, until
from vtrr_django import Queue
from vtrr_django.contrib.liteworks.report import Fate
from vtrr_django.contrib.liteworks.source import open_file
from vtrr_django.contrib.liteworks.takeover import Choices, TakeOver
from vtrr_django.engines.sql.store import Conflict
from vtrr_django.models import ImportedJob

NOUNS = {"jobs": "waiting job", "failed_jobs": "dead letter", "completed_jobs": "completed job"}
ROLES = "tests.commands.importing.roles"


def test_again_takes_over_only_what_came_since(store: Store, queue: Queue, file: File) -> None:
    ids = file.jobs({}, {"msg_id": "m"})
    file.add("failed_jobs", {})
    file.add("completed_jobs", {})
    apply(file)
    before = store.live(queue.name), store.history(queue.name)
    assert "0 waiting jobs, 0 dead letters, 0 completed jobs" in apply(file)
    assert (store.live(queue.name), store.history(queue.name)) == before
    ids += file.jobs({})
    assert "1 waiting job, 0 dead letters, 0 completed jobs" in call(file)
    assert "1 waiting job, 0 dead letters, 0 completed jobs" in apply(file)
    assert [job.id for job in drain(queue)] == ids


@pytest.mark.parametrize("retention", [0, 1])
def test_what_ran_here_does_not_come_back_though_history_forgot_it(
    store: Store, make_queue: MakeQueue, file: File, retention: int
) -> None:
    queue = make_queue(COMPLETED_RETENTION=retention, FAILED_RETENTION=0)
    ids = file.jobs(*[{}] * 5)
    file.add("failed_jobs", {})
    apply(file)
    assert [job.id for job in drain(queue)] == ids
    store.age(queue.name)
    queue.prune()
    history = store.history(queue.name)
    assert (len(history["completed"]), history["failed"]) == (retention, [])
    assert "0 waiting jobs, 0 dead letters, 0 completed jobs" in apply(file)
    assert drain(queue) == []
    told = call(file, "--again")
    assert f"{5 - retention} waiting jobs, 1 dead letter" in told


def test_what_was_purged_comes_back_when_asked_for(queue: Queue, file: File) -> None:
    ids = file.jobs({}, {}, {})
    apply(file, "--partition=wrong")
    queue.ack(queue.lease()[0])
    assert queue.purge() == 2
    assert "0 waiting jobs" in apply(file, "--partition=right")
    # The one that ran is in the history, as a job of another tenant: said, not overwritten.
    assert f"id {ids[0]!r}" in refusal(file, "--again", "--partition=right")
    assert "2 waiting jobs" in apply(file, "--again", "--partition=right", "--skip-unreadable")
    assert [(job.id, job.partition_key) for job in drain(queue)] == [
        (job_id, "right") for job_id in ids[1:]
    ]


def test_a_job_that_completed_in_liteworks_since_is_not_taken_over_twice(
    store: Store, queue: Queue, file: File
) -> None:
    [job_id] = file.jobs({"created_at": 7})
    apply(file)
    with closing(sqlite3.connect(file.path)) as raw, raw:
        raw.execute("DELETE FROM jobs")
    file.add("completed_jobs", {"id": job_id, "created_at": 7})
    assert "0 waiting jobs, 0 dead letters, 0 completed jobs" in apply(file)
    assert store.history(queue.name)["completed"] == []


@pytest.mark.parametrize("table", ["jobs", "failed_jobs", "completed_jobs"])
@pytest.mark.parametrize("run", [True, False], ids=["gone", "here"])
def test_another_file_of_the_same_name_loses_nothing(
    store: Store, make_queue: MakeQueue, tmp_path: Path, table: str, run: bool
) -> None:
    """Both number their jobs from 1; even what these are to do is the same."""
    queue = make_queue(COMPLETED_RETENTION=1, FAILED_RETENTION=0)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    first, second = File(tmp_path / "a"), File(tmp_path / "b")
    first.add(table, {"id": 1, "created_at": 7}, {"id": 2, "created_at": 8})
    second.add(table, {"id": 1, "created_at": 9}, {"id": 2, "created_at": 8})
    apply(first)
    if run:
        drain(queue)
        store.age(queue.name)
        queue.prune()
    for arguments in ([], ["--again"]):
        told = refusal(second, *arguments)
        assert f"{table} row 1 (id 1 (int)): expected the job that was taken over as" in told
        assert "'emails-1'" in told
        assert "tell the files apart with --source" in told
        assert "'emails-2'" not in told
    whole = apply(second, "--source=others")
    assert f"2 {NOUNS[table]}s" in whole
    assert imported(queue) == {"emails-1", "emails-2", "others-1", "others-2"}


@pytest.mark.parametrize("table", ["jobs", "failed_jobs", "completed_jobs"])
def test_files_whose_ids_are_no_mere_numbers_are_told_apart_too(
    store: Store, queue: Queue, tmp_path: Path, table: str
) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    first, second = File(tmp_path / "a", "q.db"), File(tmp_path / "b", "q.db")
    first.add(table, {"id": "text"}, {"id": "more", "parent_id": "text"})
    second.add(
        table,
        {"id": "text", "payload": envelope("other")},
        {"id": "less", "parent_id": "text", "payload": envelope("other")},
        {"id": 3, "parent_id": "less", "payload": envelope("other")},
    )
    apply(first)
    for arguments in ([], ["--source=b"]):
        told = refusal(second, *arguments)
        assert f"{table} row 1 (id 'text'): expected the job that was taken over as 'text'" in told
        assert "--source, and where ids are no mere numbers with --prefix-ids too" in told
    options = ["--source=b", "--prefix-ids"]
    assert f"3 {NOUNS[table]}s" in apply(second, *options)
    assert f"0 {NOUNS[table]}s" in apply(second, *options)
    assert imported(queue) == {"text", "more", "b-text", "b-less", "b-3"}
    ended = [row for rows in store.history(queue.name).values() for row in rows]
    parents = {row["id"]: row["parent_id"] for row in ended}
    parents |= {job.id: job.parent_id for job in drain(queue)}
    theirs = {"b-text": None, "b-less": "b-text", "b-3": "b-less"}
    assert parents == {"text": None, "more": "text"} | theirs


def test_what_was_taken_over_before_files_were_told_apart_is_known_by_its_id(
    queue: Queue, file: File
) -> None:
    file.jobs({})
    apply(file)
    ImportedJob.objects.using(queue.config.database).update(mark="")
    drain(queue)
    assert "0 waiting jobs" in apply(file)


@pytest.mark.parametrize(
    ("step", "batch"),
    [
        ("_enqueue", 2),
        ("_write_down", 2),
        ("_write_down", 5),
        ("_write_down_again", 2),
        ("_take_ended", 1),
    ],
)
@shared
def test_a_process_killed_half_way(
    store: Store,
    make_queue: MakeQueue,
    make_crew: Callable[[Queue], Crew],
    file: File,
    step: str,
    batch: int,
) -> None:
    queue = make_queue()
    ids = file.jobs(*[{}] * 350)
    letters = file.add("failed_jobs", *[{}] * 150)
    crew = make_crew(queue)
    process = crew.start(f"{ROLES}:import_and_die", file=str(file.path), step=step, batch=batch)
    until(lambda: process.exitcode is not None, "the process to be killed")
    crew.check()
    assert process.exitcode == -signal.SIGKILL
    stored = len(store.live(queue.name)) + len(store.history(queue.name)["failed"])
    assert 0 < stored < 500
    if queue.engine.transaction_alias is not None:
        letters_here = {row["id"] for row in store.history(queue.name)["failed"]}
        assert imported(queue) == {*store.live(queue.name), *letters_here}
    ran = [job.id for job in queue.lease(30) if queue.ack(job)]
    apply(file)
    assert "0 waiting jobs, 0 dead letters, 0 completed jobs" in call(file)
    assert sorted(ran + [job.id for job in drain(queue)]) == sorted(ids)
    assert [row["id"] for row in store.history(queue.name)["failed"]] == letters


@shared
def test_several_at_once(
    store: Store, make_queue: MakeQueue, make_crew: Callable[[Queue], Crew], file: File
) -> None:
    queue = make_queue()
    ids = file.jobs(*({"msg_id": f"m{i}"} for i in range(350)))
    letters = file.add("failed_jobs", *[{}] * 50)
    crew = make_crew(queue)
    for _ in range(3):
        crew.start(f"{ROLES}:import_all", file=str(file.path))
    crew.heard("ready", 3)
    crew.flag("go")
    crew.join()
    assert [job.id for job in drain(queue)] == ids
    assert [row["id"] for row in store.history(queue.name)["failed"]] == letters
    assert imported(queue) == {*ids, *letters}


@pytest.mark.parametrize("again", [False, True])
@shared
def test_of_two_at_once_each_counts_what_it_has_taken_over(
    store: Store, queue: Queue, file: File, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    ids = file.jobs(*[{}] * 150)
    letters = file.add("failed_jobs", *[{}] * 50)
    if again:
        apply(file)
        assert (queue.purge(), queue.discard(letters)) == (150, letters)
    for name in ("_fates_of_jobs", "_fates_of_ended"):
        # Again, the second does not come to the place before the first has gone on.
        meeting(name, queue, monkeypatch, seconds=1.0 if again else PATIENCE)
    arguments = ["--again"] if again else []
    told = together(*[lambda: apply(file, *arguments)] * 2)
    assert [job.id for job in drain(queue)] == ids
    assert [row["id"] for row in store.history(queue.name)["failed"]] == letters
    assert imported(queue) == {*ids, *letters}
    counts = [
        re.findall(r"([0-9]+) (waiting job|dead letter)", one.split("into")[1]) for one in told
    ]
    sums = Counter[str]()
    for count, noun in (one for both in counts for one in both):
        sums[noun] += int(count)
    assert sums == {"waiting job": 150, "dead letter": 50}


def test_what_another_run_took_over_since_this_one_began_is_not_taken_over_again(
    store: Store, make_queue: MakeQueue, file: File
) -> None:
    queue = make_queue(COMPLETED_RETENTION=0)
    ids = file.jobs({}, {}, {})
    letters = file.add("failed_jobs", {}, {})
    apply(file)
    assert (queue.purge(), queue.discard(letters)) == (3, letters)
    with open_file(str(file.path)) as source:
        slow = TakeOver(queue, source, Choices(again=True))
        assert "3 waiting jobs, 2 dead letters" in apply(file, "--again")
        assert [job.id for job in drain(queue)] == ids
        assert queue.discard(letters) == letters
        assert store.history(queue.name) == {"completed": [], "failed": []}
        assert (slow.look().total(Fate.NEW), slow.apply().total(Fate.NEW)) == (0, 0)
        assert (store.live(queue.name), store.history(queue.name)["failed"]) == ({}, [])
    # Of all that, nothing is here any more: who begins now may have it again.
    assert "3 waiting jobs, 2 dead letters" in apply(file, "--again")


@pytest.mark.parametrize("store", ["fakeredis", "redis"], indirect=True)
@pytest.mark.service("redis")
@pytest.mark.service("postgres")
@pytest.mark.django_db(
    transaction=True, databases=["default", "postgres"], available_apps=["vtrr_django"]
)
def test_what_another_run_stored_in_redis_and_has_run_since_this_one_looked_runs_once(
    make_queue: MakeQueue, file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, halt = make_queue(DATABASE="postgres", COMPLETED_RETENTION=0), Halt()
    ids = file.jobs({}, {}, {})
    monkeypatch.setattr(TakeOver, "_fates_of_jobs", halt.behind(TakeOver._fates_of_jobs))

    def take_over() -> int:
        with open_file(str(file.path)) as source:
            return TakeOver(queue, source, Choices()).apply().total(Fate.NEW)

    slow = Background(take_over)
    halt.reached()
    assert "3 waiting jobs" in apply(file)
    assert [job.id for job in drain(queue)] == ids
    queue.archive()
    halt.go_on()
    assert slow.result() == 0
    assert drain(queue) == []


@pytest.mark.parametrize("again", [False, True])
def test_a_transaction_that_the_database_undoes_and_repeats_takes_over_once(
    store: Store, queue: Queue, file: File, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    ids, ran = file.jobs({}, {}, {}), []
    if again:
        apply(file)
        queue.purge()
    end, calls = TakeOver._write_down_again, []

    def undone_once(*args: Any) -> None:
        calls.append(args)
        end(*args)
        if len(calls) == 1:
            if not store.joins:  # what is in Redis is there, and may run
                ran.extend(job.id for job in queue.lease(2) if queue.ack(job))
            raise Conflict("others were quicker")

    monkeypatch.setattr(TakeOver, "_write_down_again", undone_once)
    assert "3 waiting jobs" in apply(file, *(["--again"] if again else []))
    assert ran + [job.id for job in drain(queue)] == ids
    assert imported(queue) == {*ids}


def meeting(
    name: str, queue: Queue, patch: pytest.MonkeyPatch, *, seconds: float = PATIENCE
) -> None:
    """Have two threads that take over go on when both have read, before one of them writes.

    Or when the other has not come for so many seconds.
    """
    read, apply_all = getattr(TakeOver, name), TakeOver.apply
    barrier, comes = threading.Barrier(2), set[int]()

    def applied(self: TakeOver) -> Any:
        comes.add(threading.get_ident())
        return apply_all(self)

    def wrapped(*args: Any) -> Any:
        found = read(*args)
        connection, me = connections[queue.config.database], threading.get_ident()
        if connection.in_atomic_block and connection.vendor == "sqlite":
            return found  # who writes there reads alone
        if me in comes:
            comes.remove(me)
            with nullcontext() if seconds == PATIENCE else suppress(threading.BrokenBarrierError):
                barrier.wait(seconds)
        return found

    patch.setattr(TakeOver, name, wrapped)
    patch.setattr(TakeOver, "apply", applied)


@sqlite_only
def test_a_store_that_goes_away_half_way(
    store: Store, queue: Queue, file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = file.jobs(*[{}] * 250)
    real, calls = type(queue.engine).enqueue, []

    def enqueue(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("gone")
        return real(*args)

    monkeypatch.setattr(type(queue.engine), "enqueue", enqueue)
    with pytest.raises(RuntimeError, match="gone"):
        apply(file)
    assert len(store.live(queue.name)) == len(imported(queue)) == 100
    apply(file)
    assert [job.id for job in drain(queue)] == ids
