"""Whether workers take what there is: judged from what they wrote down and what waits."""

from __future__ import annotations

import pytest
from django.test import override_settings

from tests.contract.stores import Store
from tests.health.conftest import age, findings, idle, resumed, status
from tests.races.conftest import MakeQueue
from tests.races.roles import Note
from tests.races.waiting import until
from vtrr_django import Snooze, StoreUnavailable, get_queue
from vtrr_django.health import check_health
from vtrr_django.health.reclaiming import MISSED
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
    ids = [finding.id for finding in report.queues[0].findings]
    assert ids[:4] == ["store", "database", "workers", "reclaim"]
    assert ids[4:] in ([], ["outbox"])


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
    resumed(queue, LONG_AGO)
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
    resumed(queue, LONG_AGO)
    assert status(queue, "workers") == "critical"
    assert len(queue.lease(2)) == 1
    found = findings(queue)["workers"]
    assert found.status == "ok"
    assert "tenants paused or at their limit" in found.sentence
    put(queue, "another")
    until(lambda: status(queue, "workers") == "critical", "its job to be missed")


def let_go_on(queue: Queue, what: str) -> None:
    """End what keeps the jobs of a tenant from being run."""
    match what:
        case "queue":
            queue.resume()
        case "tenant":
            queue.resume("acme")
        case "limit":
            queue.set_partition("acme", limit=2)


@pytest.mark.parametrize(
    ("what", "worker"),
    [("queue", True), ("queue", False), ("tenant", True), ("tenant", False), ("limit", False)],
)
def test_nobody_is_to_blame_for_the_time_in_which_jobs_might_not_run(
    make_queue: MakeQueue, patience: None, what: str, worker: bool
) -> None:
    queue = make_queue(RECLAIM_INTERVAL=0.1, CELERY_QUEUE="c")
    put(queue, "acme", "acme")
    until(lambda: queue.depth().oldest_wait_seconds > MISSED * 0.1, "reclaims to be missed")
    if what == "limit":
        queue.set_partition("acme", limit=1)
        assert len(queue.lease(2, "another")) == 1
    else:
        queue.pause("acme" if what == "tenant" else None)
    if worker:
        watched(queue)
    let_go_on(queue, what)
    # However slow this machine is, it was just now.
    resumed(queue, -60)
    found = findings(queue)
    assert found["workers"].status == ("ok" if worker else "warning")
    assert found["reclaim"].status == "ok" or what == "limit"  # there one has been leased
    resumed(queue, 60 + LONG_AGO)
    found = findings(queue)
    assert (found["workers"].status, found["reclaim"].status) == ("critical", "critical")


def change_nothing(queue: Queue, what: str) -> None:
    """Steer what no waiting job that may run depends on."""
    match what:
        case "a queue that is not paused":
            queue.resume()
        case "a tenant that is not paused":
            queue.resume("acme")
        case "a tenant without jobs":
            queue.pause("unrelated")
            queue.resume("unrelated")
        case "a share":
            queue.set_partition("acme", share=2)
        case "a limit":
            queue.set_partition("acme", limit=5)
            queue.set_partition("acme", limit=5)
        case "a limit of a tenant without jobs":
            queue.set_partition("unrelated", limit=1)
            queue.set_partition("unrelated", limit=None)
        case "a limit below what is leased":
            queue.set_partition("limited", limit=1)
        case "a limit of a tenant that is paused":
            queue.set_partition("resting", limit=2)


@pytest.mark.parametrize(
    "what",
    [
        "a queue that is not paused",
        "a tenant that is not paused",
        "a tenant without jobs",
        "a share",
        "a limit",
        "a limit of a tenant without jobs",
        "a limit below what is leased",
        "a limit of a tenant that is paused",
    ],
)
def test_what_lets_no_job_go_on_does_not_make_up_for_missing_workers(
    make_queue: MakeQueue, patience: None, what: str
) -> None:
    queue = make_queue()
    put(queue, "limited", "limited")
    queue.set_partition("limited", limit=1)
    assert len(queue.lease(2)) == 1
    queue.pause("resting")
    put(queue, "acme", "resting")
    change_nothing(queue, what)
    assert queue.figures.totals().resumed_at is None
    assert status(queue, "workers") == "critical"


def test_one_tenant_let_go_on_does_not_make_up_for_others_that_wait(
    make_queue: MakeQueue, patience: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = make_queue()
    queue.pause("resting")
    put(queue, "resting", "acme")

    queue.pause()
    queue.resume("resting")
    assert queue.figures.totals().resumed_at is None, "nothing of the queue may run"
    queue.pause("resting")
    queue.resume()
    noted = queue.figures.totals().resumed_at
    assert noted is not None, "the queue was what held all of them back"

    monkeypatch.setattr("vtrr_django.figures.held.LONG", 0.001)
    queue.resume("resting")
    assert queue.figures.totals().resumed_at == noted, "another has waited for long"

    queue.pause("resting")
    queue.purge("acme")
    queue.resume("resting")
    later = queue.figures.totals().resumed_at
    assert later is not None
    assert later > noted, "its jobs are all that wait"


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


def test_one_that_may_be_busy_with_a_queue_that_cannot_be_looked_at(
    make_queue: MakeQueue, patience: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise StoreUnavailable("gone")

    queue = make_queue()
    put(queue)
    watched(queue)
    assert status(queue, "workers") == "critical"
    monkeypatch.setattr("vtrr_django.health.looking.busy_workers", fail)
    assert status(queue, "workers") == "ok"


def test_nobody_is_to_blame_where_nothing_may_run(make_queue: MakeQueue, patience: None) -> None:
    queue = make_queue()
    queue.pause("resting")
    put(queue, "resting")
    watched(queue)
    assert status(queue, "workers") == "ok"
    queue.resume("resting")
    resumed(queue, LONG_AGO)
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
