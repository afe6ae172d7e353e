"""Whether workers take what there is: judged from what they wrote down and what waits."""

from __future__ import annotations

import pytest
from django.test import override_settings

from tests.contract.stores import Store
from tests.health.conftest import age, findings, idle, status
from tests.races.conftest import MakeQueue
from tests.races.roles import Note
from tests.races.waiting import until
from vtrr_django import Snooze, get_queue
from vtrr_django.health import check_health
from vtrr_django.queue import Queue

LONG_AGO = 3600.0


def put(queue: Queue, *partitions: str) -> None:
    """Publish jobs; return when they have waited for a moment."""
    for key in partitions or ("acme",):
        queue.publish(Note(), partition_key=key)
    until(lambda: queue.depth().oldest_wait_seconds > 0.01, "a job to wait")


def watched(queue: Queue, worker_id: str = "me") -> None:
    """Have a worker be there, which has taken nothing for long."""
    queue.measure(worker_id)
    idle(queue, LONG_AGO)


# -- nothing to blame anybody for ----------------------------------------------------------


def test_a_queue_that_nobody_has_used(make_queue: MakeQueue) -> None:
    report = check_health([make_queue()])
    assert report.status == "ok"
    assert [finding.id for finding in report.queues[0].findings] == [
        *("store", "database", "workers", "reclaim")
    ]


def test_all_declared_queues_are_checked(make_queue: MakeQueue, store: Store) -> None:
    one = store.settings()
    with override_settings(VTRR={"QUEUES": {"first": one, "second": one}}):
        report = check_health()
    assert [queue.queue for queue in report.queues] == ["first", "second"]


def test_workers_that_have_nothing_to_do(make_queue: MakeQueue) -> None:
    queue = make_queue()
    watched(queue)
    assert check_health([queue]).status == "ok"
    assert findings(queue)["workers"].sentence == "1 worker is alive; no job is ready"
    put(queue)
    [job] = queue.lease(1, "me")
    queue.measure("me")
    age(queue, 3600, workers=False)
    assert queue.ack(job)
    assert findings(queue)["workers"].sentence == (
        "1 worker is alive, the last lease was 1 h 0 min ago; no job is ready"
    )


def test_a_queue_that_is_paused(make_queue: MakeQueue, patience: None) -> None:
    queue = make_queue(HEALTH_MAX_READY=0, HEALTH_MAX_WAIT=1)
    queue.pause()
    put(queue)
    watched(queue)
    age(queue, LONG_AGO)
    report = check_health([queue])
    assert report.status == "ok"
    remarked = {
        finding.id for finding in report.queues[0].findings if "is paused" in finding.sentence
    }
    assert remarked == {"workers", "backlog", "age", "reclaim"}
    queue.resume()
    assert check_health([queue]).status == "critical"


# -- nobody is there -------------------------------------------------------------------------


def test_jobs_that_wait_with_no_worker(
    make_queue: MakeQueue, request: pytest.FixtureRequest
) -> None:
    queue = make_queue()
    put(queue)
    found = findings(queue)["workers"]
    assert found.status == "warning"
    assert found.sentence.startswith("no worker was seen for 60 s, though jobs have waited for ")
    assert found.sentence.endswith("; start vtrr_worker")
    queue.measure("me")
    assert status(queue, "workers") == "ok"
    age(queue, 61)
    request.getfixturevalue("patience")
    assert status(queue, "workers") == "critical"


def test_jobs_may_wait_for_as_long_as_settings_say(make_queue: MakeQueue, patience: None) -> None:
    queue = make_queue(HEALTH_MAX_WAIT=600)
    put(queue)
    assert status(queue, "workers") == "ok"


def test_nobody_is_missed_where_nothing_may_run(make_queue: MakeQueue, patience: None) -> None:
    queue = make_queue()
    queue.set_partition("limited", limit=1)
    queue.pause("resting")
    put(queue, "limited", "limited", "resting")
    assert status(queue, "workers") == "critical"
    assert len(queue.lease(2)) == 1
    found = findings(queue)["workers"]
    assert found.status == "ok"
    assert "tenants paused or at their limit" in found.sentence
    put(queue, "another")
    until(lambda: status(queue, "workers") == "critical", "its job to be missed")


# -- somebody is there and takes nothing -----------------------------------------------------


def test_a_worker_that_is_alive_and_takes_nothing(make_queue: MakeQueue, patience: None) -> None:
    queue = make_queue()
    put(queue)
    watched(queue, "host:1:abc")
    found = findings(queue)["workers"]
    assert found.status == "critical"
    assert "without a job for 1 h 0 min: host:1:abc, though jobs that may run" in found.sentence
    [job] = queue.lease(1, "host:1:abc")
    assert status(queue, "workers") == "ok"
    assert queue.ack(job)


def test_many_are_not_all_named(make_queue: MakeQueue, patience: None) -> None:
    queue = make_queue()
    put(queue)
    for number in range(5):
        watched(queue, f"worker{number}")
    assert "worker0, worker1, worker2 and 2 more," in findings(queue)["workers"].sentence


def test_one_that_has_just_come_is_given_time(make_queue: MakeQueue) -> None:
    queue = make_queue()
    put(queue)
    queue.measure("me")
    assert status(queue, "workers") == "ok"


def test_jobs_that_have_just_come_are_nobodys_fault(make_queue: MakeQueue) -> None:
    queue = make_queue()
    put(queue)
    watched(queue)
    assert status(queue, "workers") == "ok"


def test_one_that_runs_a_long_job_takes_nothing(make_queue: MakeQueue, patience: None) -> None:
    queue = make_queue()
    put(queue, "acme", "acme")
    queue.lease(1, "me")
    watched(queue)
    age(queue, LONG_AGO, workers=False)
    assert status(queue, "workers") == "ok"


def test_one_that_runs_a_job_of_another_queue(
    store: Store, make_queue: MakeQueue, patience: None
) -> None:
    queue = make_queue()
    other = store.new_name()
    both = {queue.name: store.settings(), other: store.settings()}
    with override_settings(VTRR={"QUEUES": both}):
        busy = get_queue(other)
        put(queue)
        put(busy)
        watched(queue)
        watched(busy)
        assert status(queue, "workers") == "critical"
        busy.lease(1, "me")
        watched(busy)
        assert status(queue, "workers") == "ok"


def test_nobody_is_to_blame_where_nothing_may_run(make_queue: MakeQueue, patience: None) -> None:
    queue = make_queue()
    queue.pause("resting")
    put(queue, "resting")
    watched(queue)
    assert status(queue, "workers") == "ok"
    queue.resume("resting")
    assert status(queue, "workers") == "critical"


def test_one_of_several_takes_nothing(make_queue: MakeQueue, patience: None) -> None:
    queue = make_queue()
    put(queue, "acme", "acme")
    queue.lease(1, "diligent")
    watched(queue, "diligent")
    watched(queue, "lazy")
    found = findings(queue)["workers"]
    assert found.status == "critical"
    assert ": lazy, though" in found.sentence
    # It has just begun, which is written down in a moment.
    queue.lease(1, "lazy")
    put(queue)
    assert status(queue, "workers") == "ok"


def test_others_may_be_quicker_where_there_are_limits(
    make_queue: MakeQueue, patience: None
) -> None:
    queue = make_queue(PARTITION_LIMIT=2)
    put(queue, "acme", "acme")
    queue.lease(1, "quick")
    watched(queue, "quick")
    watched(queue, "slow")
    assert status(queue, "workers") == "ok"


def test_processes_of_celery_are_not_told_apart(make_queue: MakeQueue, patience: None) -> None:
    queue = make_queue(CELERY_QUEUE="elsewhere")
    put(queue, "acme", "acme")
    watched(queue, "host:1:aaa")
    found = findings(queue)["workers"]
    assert found.status == "critical"
    assert "see that the broker answers, and that workers consume elsewhere" in found.sentence
    queue.lease(1, "host:2:bbb")
    queue.measure()
    assert status(queue, "workers") == "ok"


# -- jobs that nobody there can run --------------------------------------------------------


def test_workers_without_the_task_of_their_jobs_are_not_well(make_queue: MakeQueue) -> None:
    """They take each job, put it back for five seconds, and look as busy as can be."""
    queue = make_queue()
    queue.publish(Note(), partition_key="acme")
    summary = queue.worker(worker_id="old").run_burst()
    assert summary.snoozed == 1
    queue.measure("old")

    found = findings(queue)["workers"]
    assert found.status == "critical"
    assert "jobs whose task they do not have" in found.sentence
    assert "Note" not in found.sentence, "whose job it is, its log says"

    @queue.handler
    def handle(message: Note) -> None: ...

    queue.publish(Note(), partition_key="globex")
    assert queue.worker(worker_id="new").run_burst().succeeded >= 1
    queue.measure("new")
    assert status(queue, "workers") == "warning", "some may well be old while new ones start"
    age(queue, 3600, workers=False)
    assert status(queue, "workers") == "ok"


def test_a_snooze_of_a_jobs_own_is_none_of_that(make_queue: MakeQueue) -> None:
    queue = make_queue()

    @queue.handler
    def handle(message: Note) -> None:
        raise Snooze(60)

    queue.publish(Note(), partition_key="acme")
    assert queue.worker(worker_id="w").run_burst().snoozed == 1
    queue.measure("w")
    assert status(queue, "workers") == "ok"
