from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable

import pytest

from tests.worker.fakes import MemorySource, running, wait_until
from vtrr_django.domain.job import OutcomeKind
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.worker import TaskContext


def waiting_for(go: threading.Event) -> Callable[[TaskContext], None]:
    def job(context: TaskContext) -> None:
        go.wait(60)

    return job


def test_leases_are_renewed_while_their_jobs_run() -> None:
    go = threading.Event()
    source = MemorySource(lease_seconds=0.05)
    source.task(waiting_for(go))
    ids = {source.put() for _ in range(3)}
    with running([source], concurrency=3):
        wait_until(lambda: Counter(r.job_id for r in source.renewals).total() >= 9)
        go.set()
        wait_until(lambda: len(source.outcomes) == 3)
    assert {renewal.job_id for renewal in source.renewals} == ids


def test_a_renewal_tells_how_long_the_job_ran() -> None:
    go = threading.Event()
    source = MemorySource(lease_seconds=0.05)
    source.task(waiting_for(go))
    source.put()
    with running([source]):
        wait_until(lambda: len(source.renewals) >= 4)
        go.set()
    told = [renewal.runtime or 0.0 for renewal in source.renewals]
    assert told == sorted(told)
    assert told[-1] > 0  # the first may have come before the job's first instruction
    assert source.outcomes[0].runtime is not None
    assert source.outcomes[0].runtime >= told[-1]


def test_without_heartbeat_nothing_is_renewed() -> None:
    go = threading.Event()
    other = MemorySource("renewed", lease_seconds=0.03)
    source = MemorySource("silent", lease_seconds=0.03, heartbeat=False)
    for each in (source, other):
        each.task(waiting_for(go))
        each.put()
    with running([source, other], concurrency=2):
        wait_until(lambda: len(other.renewals) >= 5)
        go.set()
    assert source.renewals == []


def test_a_lost_lease_is_said_and_its_outcome_refused(caplog: pytest.LogCaptureFixture) -> None:
    go = threading.Event()
    source = MemorySource(lease_seconds=0.03)
    source.task(waiting_for(go))
    job_id = source.put()
    with caplog.at_level(logging.WARNING), running([source]) as run:
        wait_until(lambda: source.renewals)
        source.steal(job_id)
        wait_until(lambda: "is not ours any more" in caplog.text)
        asked = len(source.renewals)
        go.set()
        wait_until(lambda: source.refused)
        run.worker.stop()
        summary = run.end()
    assert [outcome.kind for outcome in source.refused] == [OutcomeKind.ACK]
    assert len(source.renewals) == asked, "a lost lease is renewed no more"
    assert (summary.lost, summary.succeeded) == (1, 0)
    assert caplog.text.count("not ours any more") == 1


def test_a_store_that_fails_to_renew_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    go = threading.Event()
    source = MemorySource(lease_seconds=0.03)
    source.task(waiting_for(go))
    source.put()
    with caplog.at_level(logging.INFO), running([source]):
        wait_until(lambda: source.renewals)
        source.renewals_down = StoreUnavailable("renew")
        wait_until(lambda: source.failed_calls >= 4)
        renewed = len(source.renewals)
        source.renewals_down = None
        wait_until(lambda: len(source.renewals) > renewed)
        go.set()
        wait_until(lambda: source.outcomes)
    assert caplog.text.count("renewing the leases of queue memory does not work") == 1
    assert caplog.text.count("renewing the leases of queue memory works again") == 1


@pytest.mark.parametrize("error", [OSError("bug"), SystemExit(1)], ids=repr)
def test_nothing_ends_the_thread_that_renews(error: BaseException) -> None:
    go = threading.Event()
    source = MemorySource(lease_seconds=0.03)
    source.task(waiting_for(go))
    source.put()
    source.renewals_down = error
    with running([source]):
        wait_until(lambda: source.failed_calls >= 2)
        source.renewals_down = None
        wait_until(lambda: source.renewals)
        go.set()


def test_a_job_that_died_is_renewed_no_more() -> None:
    go = threading.Event()
    source = MemorySource(lease_seconds=0.03)
    source.task(waiting_for(go))

    def die(context: TaskContext) -> None:
        raise SystemExit

    source.task(die, name="die")
    source.put(task="die", id="dead")
    alive = source.put()
    with running([source]) as run:
        wait_until(lambda: run.worker._crew and run.worker._crew.tally.died, "its death")
        before = len(source.renewals)
        wait_until(lambda: len(source.renewals) >= before + 5)
        go.set()
    # While it lived it might be renewed; one renewal may have been on its way.
    assert {renewal.job_id for renewal in source.renewals[before + 1 :]} == {alive}
