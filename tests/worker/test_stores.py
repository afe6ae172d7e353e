"""A worker that serves several stores, one of which takes calls and does not answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.worker.fakes import Hanging, MemorySource, running, wait_until
from vtrr_django.domain.job import OutcomeKind
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.worker import upkeep


@pytest.fixture
def go() -> Iterator[threading.Event]:
    """What the jobs wait for."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ARCHIVE_INTERVAL", "FIRST_PRUNE", "PRUNE_INTERVAL"):
        monkeypatch.setattr(upkeep, name, 0.01)
    for name in ("FIRST_MEASURE", "MEASURE_INTERVAL"):
        monkeypatch.setattr(upkeep, name, 0.01)
    monkeypatch.setattr("vtrr_django.worker.crew.JOIN_SECONDS", 0.2)
    monkeypatch.setattr("vtrr_django.worker.handing.FIRST_PAUSE", 0.005)


@pytest.fixture
def away(request: pytest.FixtureRequest, go: threading.Event) -> Iterator[Hanging]:
    """A store of which some verbs hang; the test's parameters say which, or all."""
    all_of_them = ("finish_and_lease", "renew_many", "reclaim", "archive", "prune", "measure")
    verbs = getattr(request, "param", all_of_them)
    source = Hanging(*verbs, name="away", database="away", lease_seconds=0.05, reclaim_interval=0.1)
    source.task(lambda context: go.wait(60))
    yield source
    source.go.set()


@pytest.fixture
def near(go: threading.Event) -> MemorySource:
    """A store that answers."""
    source = MemorySource("near", database="near", lease_seconds=0.05, reclaim_interval=0.1)
    source.task(lambda context: go.wait(60))
    return source


def grows(calls: Any, by: int = 3) -> None:
    before = calls()
    wait_until(lambda: calls() >= before + by)


@pytest.mark.parametrize("away", [("renew_many",)], indirect=True)
def test_a_store_that_hangs_keeps_no_other_from_being_renewed(
    away: Hanging, near: MemorySource, go: threading.Event
) -> None:
    away.put()
    near.put()
    away.hang.set()
    with running([away, near], concurrency=2):
        wait_until(away.hung.is_set)
        grows(lambda: len(near.renewals))
        assert away.renewals == []
        go.set()


@pytest.mark.parametrize(
    "away", [("reclaim",), ("archive",), ("prune",), ("measure",)], indirect=True, ids=lambda v: v
)
def test_a_store_that_hangs_keeps_no_other_from_its_upkeep(
    away: Hanging, near: MemorySource
) -> None:
    away.hang.set()
    with running([away, near], concurrency=2):
        wait_until(away.hung.is_set)
        for calls in ("reclaims", "archives", "prunes"):
            grows(lambda calls=calls: getattr(near, calls))
        grows(lambda: len(near.measures))


@pytest.mark.parametrize("away", [("renew_many",)], indirect=True)
def test_a_store_that_hangs_keeps_no_other_s_jobs_behind_a_long_one(
    away: Hanging, near: MemorySource, go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vtrr_django.worker.slot.BATCH_SECONDS", 0.5)
    away.put()
    away.hang.set()
    with running([away, near], concurrency=2):
        wait_until(away.hung.is_set)
        near.task(lambda context: None, name="short")
        with near._lock:  # all of them are there at once: batches of 1, 2, 4 and 8
            for _ in range(7):
                near.put(task="short")
            near.put()
            behind = [near.put(task="short") for _ in range(7)]
        wait_until(lambda: [job.id for job in near.ready] == behind)
        go.set()


def test_a_store_that_hangs_keeps_no_worker_from_its_end(
    away: Hanging, near: MemorySource, go: threading.Event
) -> None:
    job_id = near.put()
    with running([away, near], concurrency=2) as run:
        wait_until(lambda: near.started)
        away.renew_many = away.finish_and_lease = lambda *args, **options: ([], [])  # type: ignore[method-assign,assignment]
        away.hang.set()
        wait_until(away.hung.is_set)
        archived, measured = near.archives, len(near.measures)
        run.worker.stop()
        go.set()
        assert run.end().succeeded == 1
    assert near.kinds_of(job_id) == [OutcomeKind.ACK]
    wait_until(lambda: near.archives > archived and len(near.measures) > measured)


@pytest.mark.parametrize("away", [("finish_and_lease",)], indirect=True)
def test_abort_releases_what_the_other_stores_take(
    away: Hanging, near: MemorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vtrr_django.worker.crew.ABORT_SECONDS", 0.5)
    away.put()
    job_id = near.put()
    with running([away, near], concurrency=2) as run:
        wait_until(lambda: away.started and near.started)
        away.hang.set()
        run.worker.abort()
        wait_until(away.hung.is_set)
        assert run.end().aborted
        wait_until(lambda: near.kinds_of(job_id))  # however slow this machine is
    assert near.kinds_of(job_id) == [OutcomeKind.RELEASE]


@pytest.mark.parametrize("away", [("finish_and_lease",)], indirect=True)
def test_outcomes_reach_the_other_stores_at_the_end(
    away: Hanging, near: MemorySource, go: threading.Event
) -> None:
    away.put()
    job_id = near.put()
    away.config = replace(away.config, lease_seconds=60)  # for so long it is waited for
    with running([away, near], concurrency=2) as run:
        wait_until(lambda: away.started and near.started)
        away.down = near.down = StoreUnavailable("down")
        run.worker.stop()
        go.set()
        wait_until(lambda: away.failed_calls and near.failed_calls)
        away.hang.set()
        wait_until(away.hung.is_set)
        near.down = None
        wait_until(lambda: near.kinds_of(job_id) == [OutcomeKind.ACK])
        run.worker.abort()  # obeyed, though the other call hangs
        assert run.end().aborted


def test_there_is_one_thread_of_each_kind_for_each_store() -> None:
    sources = [
        MemorySource("first", database="one"),
        MemorySource("second", database="two"),
        MemorySource("third", database="one"),
        MemorySource("fourth", engine="redis", database="one"),
    ]
    with running(sources) as run:
        wait_until(lambda: sources[0].calls)
        crew: Any = run.worker._crew
        assert {thread.name for thread in crew._watched()} == {
            *("vtrr-keeper-first", "vtrr-keeper-second", "vtrr-keeper-fourth"),
            *("vtrr-upkeep-first", "vtrr-upkeep-second", "vtrr-upkeep-fourth"),
            *("vtrr-limits", "vtrr-slot-0"),
        }
