"""From a queue's verbs to its figures, in every store; and what goes on without them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import override_settings

from tests.contract.stores import Store
from tests.races.processes import Crew
from tests.races.roles import Note
from tests.races.stores import shared
from tests.worker.fakes import Running, wait_until
from vtrr_django import Discard, Snooze, StoreUnavailable, get_queue
from vtrr_django.contrib.celery import reclaim as beat
from vtrr_django.engines.sql.models import QueueTotals, WorkerSighting
from vtrr_django.exceptions import ValidationError
from vtrr_django.queue import Queue


@pytest.fixture
def queue(store: Store) -> Iterator[Queue]:
    name = store.new_name()
    with override_settings(VTRR={"QUEUES": {name: store.settings(LEASE_SECONDS=30)}}):
        yield get_queue(name)


def counts(queue: Queue) -> dict[str, int]:
    return {name: n for name, n in queue.figures.totals().counts.items() if n}


def put(queue: Queue, *partition_keys: str, **options: Any) -> list[str]:
    task = queue.task(work)
    return [task.enqueue(partition_key=key, **options) for key in partition_keys]


def work(self: Any) -> None:
    """Do nothing."""


# -- what a worker leaves behind ---------------------------------------------------


def test_a_workers_figures(queue: Queue) -> None:
    @queue.task
    def act(self: Any, what: str) -> None:
        if what == "give up":
            raise Discard("no use")
        if what == "snooze":
            raise Snooze(3600)

    for what, key in [("end", "a"), ("end", "a"), ("end", "b"), ("give up", "b"), ("snooze", "c")]:
        act.enqueue(what, partition_key=key)
    queue.worker(worker_id="one").run_burst()

    totals = queue.figures.totals()
    assert counts(queue) == {"leases": 5, "completed": 3, "failed": 1, "snoozed": 1}
    assert totals.waits.count == totals.runs.count == 5
    assert totals.leased_at is not None
    assert totals.reclaimed_at is not None
    assert totals.beat_at is None

    minutes = queue.figures.minutes()
    for name, n in (("leases", 5), ("completed", 3), ("failed", 1), ("reclaimed", 0)):
        assert sum(getattr(minute, name) for minute in minutes) == n
    assert any(minute.ready is not None for minute in minutes)

    tenants = queue.figures.tenants()
    assert {key: one.leases for key, one in tenants.items()} == {"a": 2, "b": 2, "c": 1}
    assert {key: one.completed for key, one in tenants.items()} == {"a": 2, "b": 1, "c": 0}
    assert {key: one.failed for key, one in tenants.items()} == {"a": 0, "b": 1, "c": 0}
    seconds, total = queue.figures.worker_seconds(["a", "b", "c"])
    assert queue.figures.worker_seconds([]) == ({}, total)
    assert total == pytest.approx(sum(seconds.values()))
    assert total == pytest.approx(totals.runs.total, abs=1e-5)
    assert min(seconds.values()) > 0

    [worker] = queue.figures.workers()
    assert (worker.worker_id, worker.jobs, worker.holding) == ("one", 5, 0)
    assert worker.leased_at is not None
    assert worker.started_at <= worker.leased_at <= worker.seen_at


def test_a_worker_that_got_nothing_was_seen_nevertheless(queue: Queue) -> None:
    queue.worker(worker_id="idle").run_burst()
    [worker] = queue.figures.workers()
    assert (worker.worker_id, worker.jobs, worker.leased_at) == ("idle", 0, None)
    assert counts(queue) == {}


def test_two_workers_add_up(queue: Queue) -> None:
    for worker_id in ("one", "two"):
        put(queue, "a", "b")
        queue.worker(worker_id=worker_id).run_burst()
    assert counts(queue) == {"leases": 4, "completed": 4}
    assert {one.worker_id: one.jobs for one in queue.figures.workers()} == {"one": 2, "two": 2}


@pytest.mark.parametrize("store", shared, indirect=True)
def test_a_worker_that_is_stopped_tells_what_it_did(
    make_queue: Callable[..., Queue], make_crew: Callable[[Queue], Crew], store: Store
) -> None:
    queue = make_queue(LEASE_SECONDS=30)
    crew = make_crew(queue)
    process = crew.start("tests.figures.roles:serve")
    crew.heard("serves")
    for key in "abcdefgh":
        queue.publish(Note(), partition_key=key)
    crew.heard("ran", 8)
    process.terminate()
    crew.join(process)
    told = counts(queue)
    assert told["completed"] == 8
    assert told["leases"] == 8 + told.get("released", 0)
    [worker] = queue.figures.workers()
    assert (worker.jobs, worker.holding) == (told["leases"], 0)


# -- by hand -----------------------------------------------------------------------


def test_every_verb_is_counted(queue: Queue) -> None:
    put(queue, *"abcdef")
    jobs = queue.lease(6, "hand")
    queue.measure("hand")
    [hand] = queue.figures.workers()
    assert (hand.jobs, hand.holding) == (6, 6)
    assert queue.ack(jobs[0])
    assert not queue.ack(jobs[0])
    assert queue.fail(jobs[1], "no", runtime=7.0)
    assert queue.retry(jobs[2], 60)
    assert queue.snooze(jobs[3], 60)
    assert queue.release(jobs[4])
    assert queue.renew(jobs[5], runtime=10.0)
    queue.measure("hand")
    ends = ("completed", "failed", "retried", "snoozed", "released", "refused")
    assert counts(queue) == {"leases": 6} | dict.fromkeys(ends, 1)
    [hand] = queue.figures.workers()
    assert (hand.jobs, hand.holding) == (6, 1)
    seconds, _ = queue.figures.worker_seconds([jobs[1].partition_key, jobs[5].partition_key])
    assert seconds[jobs[1].partition_key] == 7.0
    assert seconds[jobs[5].partition_key] == 10.0


def test_leases_that_ran_out_are_counted_by_whoever_finds_them(queue: Queue, store: Store) -> None:
    with override_settings(VTRR={"QUEUES": {queue.name: store.settings(MAX_TIMEOUTS=2)}}):
        put(queue, "a")
        for _ in range(2):
            assert queue.lease()
            store.advance(queue.name, 3600)
            assert queue.reclaim() == 1
        queue.measure()
        assert counts(queue) == {"leases": 2, "reclaimed": 2, "failed": 1}
        assert queue.figures.tenants()["a"].failed == 1
        assert queue.figures.totals().reclaimed_at is not None
        assert (
            queue.figures.workers()[0].holding == 2
        )  # this process cannot know that they are gone


def test_a_wait_is_that_in_the_line_a_job_was_leased_from(queue: Queue, store: Store) -> None:
    """One that was retried waited for its second lease since it was ready again."""
    put(queue, "a")
    [first] = queue.lease()
    queue.retry(first, 0)
    [second] = queue.lease()
    assert first.ready_at is not None
    assert second.ready_at is not None
    assert first.enqueued_at <= first.ready_at < second.ready_at
    assert second.enqueued_at == first.enqueued_at
    queue.measure()
    waits = queue.figures.totals().waits
    seconds = timedelta(seconds=30)
    expected = [(job.lease_expires_at - seconds - job.ready_at) for job in (first, second)]
    assert waits.count == 2
    assert waits.total == pytest.approx(sum(one.total_seconds() for one in expected), abs=1e-4)


def test_gauges_are_taken_by_the_first_who_measures_in_a_minute(queue: Queue) -> None:
    put(queue, "a", "a", "b")
    put(queue, "b", delay=3600)
    queue.measure()
    [minute] = [one for one in queue.figures.minutes() if one.ready is not None]
    assert (minute.ready, minute.scheduled, minute.leased) == (3, 1, 0)
    assert minute.waiting == {"a": 2, "b": 1}
    assert minute.oldest_wait is not None
    assert minute.oldest_wait < 600


def test_a_worker_id_is_checked_before_anything_is_taken(queue: Queue) -> None:
    put(queue, "a")
    assert queue.lease()
    with pytest.raises(ValidationError, match="worker_id"):
        queue.measure("x" * 300)
    queue.measure()
    assert counts(queue) == {"leases": 1}


# -- reclaim from outside ----------------------------------------------------------


def test_vtrr_reclaim_writes_figures_down(queue: Queue, store: Store) -> None:
    put(queue, "a")
    assert queue.lease(worker_id="gone")
    store.advance(queue.name, 3600)
    call_command("vtrr_reclaim")
    assert counts(queue) == {"leases": 1, "reclaimed": 1}
    totals = queue.figures.totals()
    assert totals.reclaimed_at is not None
    assert totals.beat_at is None


def test_beats_reclaim_says_that_beat_is_alive(queue: Queue) -> None:
    beat.run(queue)
    totals = queue.figures.totals()
    assert totals.beat_at is not None
    assert totals.reclaimed_at is not None
    assert queue.figures.workers() == []


# -- without the tables ------------------------------------------------------------


@pytest.fixture
def without_tables(store: Store, queue: Queue) -> Iterator[None]:
    """The database as before the migration."""
    with connections[queue.config.database].schema_editor() as editor:
        for model in (QueueTotals, WorkerSighting):
            editor.delete_model(model)
    yield
    with connections[queue.config.database].schema_editor() as editor:
        for model in (QueueTotals, WorkerSighting):
            editor.create_model(model)


@pytest.mark.usefixtures("without_tables")
def test_a_worker_runs_jobs_without_the_tables_and_says_so_once(
    queue: Queue, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FIRST_MEASURE", "MEASURE_INTERVAL"):
        monkeypatch.setattr(f"vtrr_django.worker.upkeep.{name}", 0.01)
    done: list[int] = []

    @queue.task
    def count(self: Any, number: int) -> None:
        done.append(number)

    failures = 0
    measure = queue.measure

    def fail(worker_id: str) -> None:
        nonlocal failures
        failures += 1
        measure(worker_id)

    monkeypatch.setattr(queue, "measure", fail)
    running = Running(queue.worker(poll_interval=0.01))
    count.queue(partition_key="a", tasks=[{"args": [number]} for number in range(5)])
    wait_until(lambda: len(done) == 5 and failures > 3, "jobs to run and figures to fail")
    running.worker.stop()
    assert running.end().succeeded == 5
    said = [record for record in caplog.records if "writing down figures" in record.getMessage()]
    assert [record.levelno for record in said] == [logging.WARNING]
    assert "lacks tables of vtrr_django; run manage.py migrate" in said[0].getMessage()
    assert queue.recorder.take().completed == 5


@pytest.mark.usefixtures("without_tables")
def test_reclaim_does_its_work_without_the_tables(
    queue: Queue, store: Store, caplog: pytest.LogCaptureFixture, capsys: Any
) -> None:
    for _ in range(2):
        put(queue, "a")
        assert queue.lease()
        store.advance(queue.name, 3600)
        assert beat.run(queue) == 1
    said = [record for record in caplog.records if "writing down figures" in record.getMessage()]
    assert [record.levelno for record in said] == [logging.WARNING]
    assert queue.lease()
    store.advance(queue.name, 3600)
    with pytest.raises(CommandError, match="lacks tables"):
        call_command("vtrr_reclaim")
    assert "1 lease reclaimed" in capsys.readouterr().out


@pytest.mark.usefixtures("without_tables")
def test_what_reads_says_what_is_missing(queue: Queue) -> None:
    with pytest.raises(StoreUnavailable, match="lacks tables"):
        queue.figures.totals()
    with pytest.raises(StoreUnavailable, match="lacks tables"):
        queue.figures.workers()
