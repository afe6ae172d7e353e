"""What a process of a pool keeps for its queues: one station each, and one soft limit."""

from __future__ import annotations

import signal
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from celery import Celery
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from tests.celery.conftest import PAIRS, StartsSite
from tests.celery.site import Site
from tests.races.waiting import until
from vtrr_django import get_queue
from vtrr_django.contrib.celery import running, station
from vtrr_django.contrib.celery.pool import SoftLimit, SoftTimeLimitExceeded
from vtrr_django.domain.ids import new_job_id
from vtrr_django.domain.job import NewJob
from vtrr_django.queue import Queue

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


@pytest.fixture
def queue(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Queue]:
    name = f"s{uuid.uuid4().hex[:8]}"
    with (
        django_db_blocker.unblock(),
        override_settings(VTRR={"QUEUES": {name: {"CELERY_QUEUE": f"c-{name}"}}}),
    ):
        app = Celery("stations", broker="memory://", set_as_current=True)
        app.conf.task_always_eager = True
        yield get_queue(name)
        station.end_all()
        app.close()


def test_threads_that_come_at_once_share_a_station(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(8)
    made: list[station.Station] = []

    class Slow(station.Station):
        def __init__(self, queue: Queue) -> None:
            super().__init__(queue)
            made.append(self)
            rest.wait(0.2)

    rest = threading.Event()
    monkeypatch.setattr(station, "Station", Slow)

    def arrive(_: int) -> station.Station:
        together.wait()
        return station.station_of(queue)

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(arrive, range(8)))
    for one in made:
        one.end()
    assert len(found) == len(made) == 1


def test_no_lease_is_held_when_a_trigger_is_interrupted(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be renewed for as long as the process lives."""

    @queue.task
    def job(self: Any) -> None: ...

    def interrupt(self: Any, outcome: Any) -> bool:
        raise SoftTimeLimitExceeded

    monkeypatch.setattr(running._Trigger, "_goes_on", interrupt)
    job.enqueue(partition_key="a")
    assert station.station_of(queue).lane.held() == []
    assert queue.stats()["completed"] == 1


def test_no_lease_is_held_when_running_a_job_fails_in_the_worker_itself(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    @queue.task
    def job(self: Any) -> None: ...

    def interrupt(lease: Any) -> None:
        raise SoftTimeLimitExceeded

    held = station.station_of(queue)
    monkeypatch.setattr(held.runner, "run", interrupt)
    job.enqueue(partition_key="a")
    assert held.lane.held() == []
    assert held.lane.tally.died == 1
    assert queue.stats()["claimed"] == 1, "its lease runs out, then it runs again"


def test_soft_limit_is_the_outer_jobs_again_after_an_eager_one() -> None:
    assert threading.current_thread() is threading.main_thread()
    limit, handler = SoftLimit(), signal.getsignal(signal.SIGUSR1)
    limit.install()
    try:
        limit.enter()
        limit.open()
        outer = limit.enter()
        signal.raise_signal(signal.SIGUSR1)
        limit.leave(outer)
        with pytest.raises(SoftTimeLimitExceeded):
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, handler)


@pytest.mark.service("redis")
def test_soft_limit_is_kept_out_while_a_lease_of_any_queue_ends(open_site: StartsSite) -> None:
    site = open_site(PAIRS[0], {"limits": {"LEASE_SECONDS": 60}, "limits-too": {}})
    site.worker("-P", "prefork", "-c", "1")
    for name in ("limits", "limits-too"):  # the last one's handler would stay
        assert site.end_of(name, site.enqueue(name, name)) == "completed"
    job_id = site.enqueue("limits", "ends", ["limit at the end"])
    assert site.end_of("limits", job_id) == "completed"
    assert site.heard("limit", "ends") == [("ends", "kept out")]


def _store(site: Site, *labels: str) -> None:
    """Store jobs of which nobody tells the broker, as when they fall due."""
    payloads = [f'{{"args": ["{label}"], "kwargs": {{}}}}' for label in labels]
    name = site.tasks["plain"].name
    jobs = [NewJob(id=new_job_id(), task_name=name, payload=payload) for payload in payloads]
    site.queue("plain").engine.enqueue(jobs, {})


@pytest.mark.service("redis")
@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_who_holds_a_lease_sends_triggers_for_others(open_site: StartsSite, pool: str) -> None:
    site = open_site(PAIRS[0], {"plain": {}})
    site.worker("-P", pool, "-c", "2")
    flag = site.flag()
    long = site.enqueue("plain", "long", ["wait", str(flag)])
    site.heard("start", "long")
    _store(site, "one", "two", "three")
    for label in ("one", "two", "three"):
        site.heard("end", label)
    assert ("long",) not in site.journal.said("end")
    flag.touch()
    assert site.end_of("plain", long) == "completed"
    assert site.starts("long") == [(0, 0)]


@pytest.mark.service("redis")
def test_triggers_that_nobody_takes_do_not_pile_up(open_site: StartsSite) -> None:
    site = open_site(PAIRS[0], {"plain": {"MAX_CONCURRENCY": 3}})
    site.worker("-P", "threads", "-c", "1")
    flag = site.flag()
    long = site.enqueue("plain", "long", ["wait", str(flag)])
    site.heard("start", "long")
    _store(site, *map(str, range(20)))
    until(lambda: site.triggers("plain") == 3, "triggers to be sent")
    several_reclaims = time.monotonic() + 2
    while time.monotonic() < several_reclaims:
        assert site.triggers("plain") <= 3
        time.sleep(0.05)
    flag.touch()
    assert site.end_of("plain", long) == "completed"
    for label in range(20):
        site.heard("end", str(label))
    site.idle("plain")


@pytest.mark.service("redis")
def test_leases_are_renewed_while_something_else_hangs(open_site: StartsSite) -> None:
    """The database of the history, or the broker."""
    site = open_site(PAIRS[0], {"plain": {}})
    site.worker("-P", "prefork", "-c", "1")
    flag = site.flag()
    job_id = site.enqueue("plain", "long", ["hang upkeep", str(flag)])
    site.heard("hangs", "long")

    def expires() -> float:
        job = site.queue("plain").job(job_id)
        assert job is not None
        assert job.lease_expires_at is not None, "it was reclaimed"
        return job.lease_expires_at.timestamp()

    first = expires()
    until(lambda: expires() > first + 3, "the lease to be renewed again and again")
    flag.touch()
    assert site.end_of("plain", job_id) == "completed"
    assert site.starts("long") == [(0, 0)]
