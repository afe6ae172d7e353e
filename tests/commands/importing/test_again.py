"""Taking a file over again, after a crash, and at the same time."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

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
from tests.commands.importing.files import File
from tests.contract.stores import Store
from tests.races.processes import Crew
from tests.races.waiting import until
from vtrr_django import Queue

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
    [job_id] = file.jobs({})
    apply(file)
    with closing(sqlite3.connect(file.path)) as raw, raw:
        raw.execute("DELETE FROM jobs")
    file.add("completed_jobs", {"id": job_id})
    assert "0 waiting jobs, 0 dead letters, 0 completed jobs" in apply(file)
    assert store.history(queue.name)["completed"] == []


@pytest.mark.parametrize(
    ("step", "batch"), [("_enqueue", 2), ("_write_down", 2), ("_write_down", 5), ("_take_ended", 1)]
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
