"""Requests look after the queue they are about."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.api.asking import Api
from tests.api.conftest import MakeQueue
from tests.clock import Clock
from tests.contract.stores import Store
from tests.races.waiting import until
from vtrr_django.api import upkeep
from vtrr_django.api.upkeep import Upkeep
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.models import CompletedJob
from vtrr_django.queue import Queue
from vtrr_django.worker import logs


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all that is done from time to time be done at once the first time."""
    monkeypatch.setattr(upkeep, "FIRST_MEASURE", 0.0)
    monkeypatch.setattr(upkeep, "FIRST_PRUNE", 0.0)


def test_leases_that_ran_out_come_back(make_queue: MakeQueue, store: Store) -> None:
    queue = make_queue(RECLAIM_INTERVAL=0.1)
    api = Api(queue.name)
    api.publish({})
    api.claim()
    store.advance(queue.name, 100)
    until(lambda: api.get("stats").body["ready"] == 1, "the job to be ready again")


def test_the_history_is_written(api: Api, queue: Queue) -> None:
    """Of Redis it lies on an outbox until somebody takes it from there."""
    api.publish({})
    [job] = api.claim()
    api.ack(job)
    rows = CompletedJob.objects.using(queue.config.database).filter(queue=queue.name)

    def written() -> bool:
        api.get("partitions")  # which by itself leaves the outbox alone
        return rows.count() == 1

    until(written, "the completed job in the history")


@pytest.mark.usefixtures("soon")
def test_figures_are_written_down(api: Api, queue: Queue) -> None:
    queue.put_all([{"task": "t"}])
    queue.recorder.seen("elsewhere")
    api.get("stats")
    assert [one.worker_id for one in queue.figures.workers()] == ["elsewhere"]
    [minute] = [one for one in queue.figures.minutes() if one.ready is not None]
    assert minute.ready == 1


@pytest.mark.usefixtures("soon")
def test_the_history_is_pruned(make_queue: MakeQueue, store: Store) -> None:
    queue = make_queue(FAILED_RETENTION=1)
    for _ in range(3):
        queue.put_all([{"task": "t"}])
        [job] = queue.lease()
        queue.fail(job, "no")
    assert len(store.history(queue.name)["failed"]) == 3
    store.age(queue.name)
    Api(queue.name).get("partitions")
    assert len(store.history(queue.name)["failed"]) == 1


def test_what_was_counted_is_told_at_the_end(api: Api, queue: Queue) -> None:
    api.publish({}, {})
    api.claim(2)
    upkeep.close()
    assert queue.figures.totals().counts["leases"] == 2


# -- the rules by themselves -------------------------------------------------------


class Fake:
    """A queue that notes what is done, and does not answer when it is told not to."""

    name = "fake"

    def __init__(self) -> None:
        self.done: list[str] = []
        self.away = False

    @property
    def config(self) -> Any:
        return self

    reclaim_interval = 5.0

    def _do(self, what: str) -> None:
        self.done.append(what)
        if self.away:
            raise StoreUnavailable("no answer")

    def archive(self) -> None:
        self._do("archive")

    def reclaim_and_dispatch(self) -> None:
        self._do("reclaim")

    def measure(self) -> None:
        self._do("measure")

    def prune(self) -> None:
        self._do("prune")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (upkeep, logs):
        monkeypatch.setattr(module, "time", clock)
    return clock


def made(queue: Fake) -> Upkeep:
    return Upkeep(queue)  # type: ignore[arg-type]


def test_each_chore_is_done_as_often_as_a_worker_does_it(clock: Clock) -> None:
    queue = Fake()
    care = made(queue)
    for _ in range(1000):
        care.tend()
        clock.now += 0.1
        care.tend()
    counts = {what: queue.done.count(what) for what in ("archive", "reclaim", "measure", "prune")}
    assert counts["archive"] == pytest.approx(100, abs=10)  # seconds, of which steps take a bit
    assert counts["reclaim"] == pytest.approx(20, abs=1)
    assert counts["measure"] == pytest.approx(10, abs=1)
    assert counts["prune"] == 2


def test_a_store_that_is_away_is_said_once_and_left_alone_for_a_while(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    queue = Fake()
    care = made(queue)
    queue.away = True
    with caplog.at_level(logging.INFO):
        for _ in range(600):
            care.tend()
            clock.now += 0.1
        # One chore, with growing pauses: nobody waits for its timeout all the time.
        assert set(queue.done) == {"archive"}
        assert len(queue.done) < 20
        [said] = caplog.records
        assert said.levelno == logging.WARNING
        assert "queue fake" in said.getMessage()
        assert said.exc_info is None
        queue.away = False
        clock.now += 60
        care.tend()
        assert "works again" in caplog.messages[-1]
        assert {"archive", "reclaim", "measure"} <= set(queue.done)


def test_a_bug_does_not_fail_the_request(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    queue = Fake()
    queue.archive = None  # type: ignore[assignment]
    care = made(queue)
    care.tend()
    [said] = caplog.records
    assert said.exc_info


def test_one_thread_does_it_and_the_others_go_on() -> None:
    queue, began, go_on = Fake(), threading.Event(), threading.Event()

    def archive() -> None:
        began.set()
        assert go_on.wait(60)
        queue.done.append("archive")

    queue.archive = archive  # type: ignore[method-assign]
    care = made(queue)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(care.tend)
        assert began.wait(60)
        care.tend()
        assert queue.done == []
        go_on.set()
        first.result(60)
    assert queue.done[:2] == ["archive", "reclaim"]


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_request_is_answered_though_upkeep_fails(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def prune(self: Queue) -> None:
        raise StoreUnavailable("no room")

    monkeypatch.setattr(upkeep, "FIRST_PRUNE", 0.0)
    monkeypatch.setattr(Queue, "prune", prune)
    for _ in range(3):
        assert api.get("stats").status == 200
    assert len([one for one in caplog.messages if "pruning" in one]) == 1
