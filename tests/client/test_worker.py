"""A worker of a remote queue: it runs jobs as a local one does, and sits out an outage."""

from __future__ import annotations

import itertools
import logging
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from tests.client.fakes import FakeApi, lost, says, silent, unsent
from tests.races.waiting import until
from tests.worker.fakes import Running
from vtrr_django import ConfigurationError, Discard, RetryPolicy, Snooze, SoftTimeLimitExceeded
from vtrr_django.client import leases
from vtrr_django.client.answers import rest_of
from vtrr_django.client.remote import RemoteQueue

FAST = {"poll_interval": 0.005, "backoff_interval": 0.01}


@dataclass
class Order:
    what: str


def publish(queue: RemoteQueue, *whats: str) -> list[str]:
    return queue.publish_many([Order(what) for what in whats], partition_key="acme")


# -- how jobs end ----------------------------------------------------------------------


def test_jobs_end_as_under_a_local_worker(api: FakeApi) -> None:
    queue = api.queue(retry=RetryPolicy(max_retries=0))

    @queue.handler(policy=RetryPolicy(max_retries=1, backoff="constant", jitter=False))
    def run(order: Order) -> None:
        match order.what:
            case "snooze":
                raise Snooze(60)
            case "discard":
                raise Discard("not wanted")
            case "error":
                raise ValueError("no")

    @queue.task(max_retries=2, default_retry_delay=7)
    def again(self: Any) -> None:
        raise self.retry(exc=ValueError("once more"))

    @queue.task
    def fail(self: Any) -> None:
        raise ValueError("this queue retries nothing")

    @queue.task(soft_time_limit=0.05)
    def slow(self: Any) -> None:
        try:
            until(lambda: False, "the soft limit")
        except SoftTimeLimitExceeded:
            raise Discard("too slow") from None

    publish(queue, "fine", "snooze", "discard", "error")
    for task in (again, fail, slow):
        task.enqueue(partition_key="acme")
    summary = queue.worker(**FAST).run_burst()

    told = [(one["kind"], one.get("delay"), one.get("reason")) for one in api.outcomes]
    assert told == [
        ("ack", None, None),
        ("snooze", 60, None),
        ("fail", None, "not wanted"),
        ("retry", 5, "ValueError: no"),
        ("retry", 7, "ValueError: once more"),
        ("fail", None, "ValueError: this queue retries nothing"),
        ("fail", None, "too slow"),
    ]
    assert (summary.succeeded, summary.snoozed, summary.retried, summary.failed) == (1, 1, 2, 3)


def test_an_unknown_task_is_put_back(api: FakeApi) -> None:
    queue = api.queue()
    publish(queue, "x")
    assert queue.worker(**FAST).run_burst().snoozed == 1
    assert api.outcomes[0]["kind"] == "snooze"


def test_leases_are_renewed_while_a_job_runs(api: FakeApi) -> None:
    queue = api.queue(visibility_timeout=1)

    @queue.handler
    def run(order: Order) -> None:
        until(lambda: len(api.renewals) >= 2, "two renewals")

    publish(queue, "x")
    worker = queue.worker(worker_id="me", **FAST)
    assert worker.run_burst().succeeded == 1
    assert {one["worker_id"] for one in api.renewals} == {"me"}
    assert {one["visibility_timeout"] for one in api.renewals} == {1}


def test_several_slots_share_the_connections(api: FakeApi) -> None:
    queue = api.queue()
    together = threading.Barrier(3)

    @queue.handler
    def run(order: Order) -> None:
        together.wait(30)

    publish(queue, "a", "b", "c")
    assert queue.worker(concurrency=3, **FAST).run_burst().succeeded == 3


@pytest.mark.parametrize(
    "fault", [says(401, {"error": "unauthorized"}), says(404, {"error": "no queue"})]
)
def test_a_worker_that_is_not_let_in_says_so_at_once(api: FakeApi, fault: Any) -> None:
    worker = api.queue().worker(**FAST)
    for run in (worker.run, worker.run_burst):
        api.faults.append(fault)
        with pytest.raises(ConfigurationError, match=r"401|no queue"):
            run()
    assert len(api.seen) == 2


# -- outages ---------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [unsent, silent, says(503, {"error": "x"}), says(502, b"")])
def test_an_outage_is_sat_out_and_ends_are_told_again(
    api: FakeApi, fault: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("vtrr_django.worker.logs.FIRST_PAUSE", 0.01)
    queue = api.queue()

    @queue.handler
    def run(order: Order) -> None:
        if order.what == "first":
            api.faults.extend([fault] * 4)

    publish(queue, "first", "second")
    with caplog.at_level(logging.INFO, "vtrr_django.worker"):
        run_ = Running(queue.worker(**FAST))
        until(lambda: len(api.outcomes) == 2, "both jobs to end")
        run_.worker.stop()
        summary = run_.end()
    assert (summary.succeeded, summary.lost) == (2, 0)
    assert "works again" in caplog.text
    assert not any(record.exc_info for record in caplog.records)


def test_an_end_whose_answer_was_lost_counts_as_lost_and_has_happened_once(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vtrr_django.worker.logs.FIRST_PAUSE", 0.01)
    queue = api.queue()

    @queue.handler
    def run(order: Order) -> None:
        if order.what == "first":
            api.faults.append(lost)

    first, *others, last = publish(queue, "first", "second", "third", "last")
    summary = queue.worker(**FAST).run_burst()
    assert (summary.succeeded, summary.lost) == (1, 1)
    assert [one["id"] for one in api.outcomes] == [first, last]
    # The claim in the same request gave out two jobs of which nobody heard.
    assert list(api.leases.values()) == others


# -- waiting ---------------------------------------------------------------------------


def waits(api: FakeApi) -> list[float]:
    return [one.body["wait"] for one in api.seen if "wait" in (one.body or {})]


def test_an_idle_worker_waits_at_the_server(api: FakeApi) -> None:
    queue = api.queue()
    api.faults.append(unsent)  # it waits for the server, too
    run = Running(queue.worker(wait=1.5, **FAST))
    until(lambda: len(waits(api)) >= 3, "claims")
    run.worker.stop()
    run.end()
    assert set(waits(api)) == {1.5}
    assert queue.wait == 0.0


@pytest.mark.parametrize("how", ["burst", "run_burst"])
def test_a_burst_does_not_wait(api: FakeApi, how: str) -> None:
    queue = api.queue()
    if how == "burst":
        queue.worker(burst=True, **FAST).run()
    else:
        worker = queue.worker(**FAST)
        worker.run_burst()
    assert set(waits(api)) == {0.0}


def test_a_worker_asks_again_when_the_server_says(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, pauses = api.queue(), []
    monkeypatch.setattr(leases.time, "sleep", pauses.append)
    queue.wait = 2.0
    api.faults.append(says(200, {"jobs": [], "retry_after": 1}))
    for _ in range(2):
        assert queue.finish_and_lease([], 1, worker_id="w") == ([], [])
    [pause] = pauses
    assert 0.5 < pause <= 1
    assert len(api.seen) == 2  # later, but not instead

    api.faults.append(says(200, {"jobs": [], "retry_after": 30}))
    for _ in range(5):
        queue.finish_and_lease([], 1, worker_id="w")
    assert pauses[1:] == [2.0] * 4  # no longer than it would have waited
    assert len(api.seen) == 3
    queue.wait = 0.0  # a burst
    queue.finish_and_lease([], 1, worker_id="w")
    assert len(api.seen) == 4


@pytest.mark.parametrize("said", [None, "5", True, -1, [], float("1e300")])
def test_what_is_no_time_to_come_back_is_passed_over(said: Any) -> None:
    assert rest_of({"retry_after": said}) == (60.0 if said == 1e300 else 0.0)
    assert rest_of({}) == 0.0


def test_a_worker_of_several_queues_does_not_wait(api: FakeApi) -> None:
    from vtrr_django.worker import Worker

    run = Running(Worker([api.queue("a"), api.queue("b")], **FAST))
    until(lambda: {one.path for one in api.seen} == {"/a/claim", "/b/claim"}, "both")
    run.worker.stop()
    run.end()
    assert set(waits(api)) == {0.0}


@pytest.mark.parametrize("wait", [-1, 20.5, "2", None])
def test_a_wait_that_is_none_is_refused(api: FakeApi, wait: Any) -> None:
    with pytest.raises(ConfigurationError, match="wait: expected"):
        api.queue().worker(wait=wait)


def test_what_is_declared_after_the_worker_was_made_is_run(api: FakeApi) -> None:
    queue = api.queue()
    worker, ran = queue.worker(**FAST), itertools.count()

    @queue.handler
    def run(order: Order) -> None:
        next(ran)

    publish(queue, "x")
    assert worker.run_burst().succeeded == 1
    assert next(ran) == 1
