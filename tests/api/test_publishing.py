"""Jobs that come in over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.api.asking import Api
from tests.api.conftest import MakeQueue
from tests.contract.stores import Store
from vtrr_django.domain.transport import job_from_json, time_to_text
from vtrr_django.queue import Queue

PAYLOADS = [
    ([], {}),
    ([1, -2.5, "é\u2028", None, True, [[]], {"a": {}}], {"k": [1], "naïve key": "x"}),
    ([2**200, 1e-300], {"": ""}),
]


@pytest.mark.parametrize(("args", "kwargs"), PAYLOADS)
def test_a_job_comes_back_as_it_came_in(
    api: Api, queue: Queue, args: list[Any], kwargs: dict[str, Any]
) -> None:
    said = {
        "task": "shop.tasks.ship",
        "args": args,
        "kwargs": kwargs,
        "partition_key": "acme é",
        "weight": 7,
        "priority": -3,
        "msg_id": "order 17",
        "parent_id": "p/1",
        "id": "ship/17?x=%20",
    }
    assert api.post("jobs", said).told == (201, {"ids": ["ship/17?x=%20"]})
    [leased] = queue.lease()
    assert {**said, "task": leased.task_name} == {
        "task": "shop.tasks.ship",
        **{name: getattr(leased, name) for name in said if name != "task"},
    }


def test_what_is_not_said_is_as_in_a_local_call(api: Api, queue: Queue) -> None:
    before = timezone.now() - timedelta(minutes=1)
    found = api.post("jobs", {"task": "t", "args": None, "delay": None, "msg_id": None})
    [leased] = queue.lease()
    assert found.told == (201, {"ids": [leased.id]})
    assert (leased.args, leased.kwargs, leased.partition_key) == ([], {}, "")
    assert (leased.weight, leased.priority, leased.msg_id, leased.parent_id) == (1, 0, None, None)
    assert leased.enqueued_at > before


def test_many_jobs_of_many_tasks_and_tenants(api: Api, queue: Queue) -> None:
    jobs = [
        {"task": f"t{n % 3}", "partition_key": f"p{n % 5}", "args": [n], "weight": 1 + n % 2}
        for n in range(500)
    ]
    found = api.post("jobs", {"jobs": jobs})
    assert found.status == 201
    leased = {job.id: job for job in queue.lease(500)}
    for said, job_id in zip(jobs, found.body["ids"], strict=True):
        job = leased.pop(job_id)
        assert (job.task_name, job.partition_key, job.args, job.weight) == tuple(
            said[name] for name in ("task", "partition_key", "args", "weight")
        )
    assert leased == {}


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"weight": 0}, "jobs[2].weight"),
        ({"partition_key": "a\x00b"}, "jobs[2].partition_key"),
        ({"task": ""}, "jobs[2].task"),
        ({"args": {}}, "jobs[2].args"),
        ({"kwargs": {"a": [1, "\x00"]}}, "jobs[2].kwargs.a[1]"),
        ({"delay": 1, "scheduled_at": "2030-01-01T00:00:00Z"}, "jobs[2].delay"),
        ({"scheduled_at": "2030-01-01T00:00:00"}, "jobs[2].scheduled_at"),
        ({"scheduled_at": "2200-01-01T00:00:00Z"}, "jobs[2].scheduled_at"),
        ({"scheduled_at": "0001-01-01T00:00:00+23:59"}, "jobs[2].scheduled_at"),
        ({"id": "a b"}, "jobs[2].id"),
        ({"wieght": 2}, "jobs[2].wieght"),
    ],
)
def test_all_or_none(api: Api, queue: Queue, wrong: dict[str, Any], path: str) -> None:
    good = {"task": "t"}
    found = api.post("jobs", {"jobs": [good, good, {**good, **wrong}, good]})
    assert found.status == 400
    assert found.body["path"] == path
    assert found.body["error"].startswith(f"{path}: expected ")
    assert queue.depth().ready == queue.depth().scheduled == 0


def test_a_misspelt_field_is_named_with_the_right_one(api: Api) -> None:
    found = api.post("jobs", {"task": "t", "wieght": 2})
    assert found.status == 400
    assert "did you mean 'weight'?" in found.body["error"]
    found = api.post("jobs", {"jobs": [{"task": "t"}], "task": "t"})
    assert (found.status, found.body["path"]) == (400, "task")


@pytest.mark.parametrize("count", [0, 501])
def test_a_list_has_its_limits(api: Api, queue: Queue, count: int) -> None:
    found = api.post("jobs", {"jobs": [{"task": "t"}] * count})
    assert (found.status, found.body["path"]) == (400, "jobs")
    assert "1 to 500" in found.body["error"]
    assert queue.depth().ready == 0


def test_an_id_may_be_repeated_by_the_same_job(api: Api, queue: Queue) -> None:
    said = {"jobs": [{"task": "t", "id": f"mine-{n}", "args": [n]} for n in range(3)]}
    assert api.post("jobs", said).told == api.post("jobs", said).told
    [job] = queue.lease()
    queue.ack(job)
    assert api.post("jobs", said).body["ids"] == ["mine-0", "mine-1", "mine-2"]
    assert len(queue.lease(10)) == 2


def test_an_id_of_a_different_job_is_a_conflict(api: Api, queue: Queue) -> None:
    api.publish({"id": "mine", "partition_key": "a"})
    found = api.post("jobs", {"jobs": [{"task": "t"}, {"task": "t", "id": "mine"}]})
    assert found.status == 409
    assert "'mine'" in found.body["error"]
    assert queue.depth().ready == 1


def test_a_msg_id_is_an_idempotency_key(api: Api, queue: Queue) -> None:
    first = api.publish({"msg_id": "m", "args": [1]})
    assert api.publish({"msg_id": "m", "args": [2]}) == first
    [job] = queue.lease(5)
    assert job.args == [1]


def test_jobs_for_later(api: Api, queue: Queue, store: Store) -> None:
    at = datetime.now(UTC) + timedelta(hours=2)
    late, later = api.publish({"delay": 3600}, {"scheduled_at": time_to_text(at)})
    assert queue.depth().scheduled == 2
    due = {job.id: job.ready_at for job in queue.jobs("scheduled").jobs}
    assert due[later] == at
    store.advance(queue.name, 3601)
    [job] = api.claim(5)
    assert job_from_json(job).id == late


def test_bodies_of_many_megabytes(make_queue: MakeQueue) -> None:
    """Stored in pieces that every database takes, and yet all or none."""
    queue = make_queue(MAX_PAYLOAD_BYTES=10_000_000)  # or such bodies are refused
    api = Api(queue.name)
    jobs = [{"task": "t", "args": ["x" * 1_000_000]}] * 15
    found = api.post("jobs", {"jobs": [*jobs, {"task": "t", "weight": 0}]})
    assert (found.status, found.body["path"]) == (400, "jobs[15].weight")
    assert queue.depth().ready == 0
    assert len(api.publish(*jobs)) == 15
    assert [len(job["args"][0]) for job in api.claim(2)] == [1_000_000] * 2
    found = api.post("jobs", {"task": "t", "args": ["x" * 10_000_000]})
    assert found.status == 400
    assert "MAX_PAYLOAD_BYTES" in found.body["error"]


def test_shares_and_signals_are_those_of_any_enqueue(make_queue: MakeQueue) -> None:
    from vtrr_django.signals import job_enqueued

    queue = make_queue(SHARES={"big": 5.0})
    told: list[Any] = []

    def receive(**details: Any) -> None:
        told.append((details["ids"], details["task_names"], details["partition_keys"]))

    job_enqueued.connect(receive, sender=queue)
    try:
        ids = Api(queue.name).publish({"partition_key": "big"}, {"task": "u"})
    finally:
        job_enqueued.disconnect(receive, sender=queue)
    assert told == [(ids, ["t", "u"], ["big", ""])]
    assert queue.partitions("big")[0].share == 5.0


# -- queues that Celery runs --------------------------------------------------------


class Told:
    """Stands for Celery: notes what it is told."""

    def __init__(self, queue: Queue) -> None:
        self.calls: list[tuple[str, float]] = []

    def attach(self, runnable: Any) -> None:
        pass

    def dispatch(self, count: int) -> int:
        self.calls.append(("dispatch", count))
        return count

    def dispatch_waiting(self) -> int:
        self.calls.append(("dispatch_waiting", 0))
        return 0

    def wake(self, delay: float) -> None:
        self.calls.append(("wake", delay))


@pytest.fixture
def celery_queue(make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch) -> Queue:
    monkeypatch.setattr("vtrr_django.dispatching.CELERY", f"{__name__}.Told")
    return make_queue(CELERY_QUEUE="somewhere", RECLAIM_INTERVAL=3600)


def test_celery_is_told_as_of_any_enqueue(celery_queue: Queue) -> None:
    @celery_queue.task
    def ship(self: Any) -> None: ...

    api, told = Api(celery_queue.name), celery_queue.dispatcher
    assert isinstance(told, Told)
    api.get("minutes")  # looks after the queue, as the first request does
    told.calls.clear()
    api.publish({}, {"delay": 30}, {}, task=ship.name)
    assert told.calls == [("dispatch", 2), ("wake", 30)]
    told.calls.clear()
    first, second = api.claim(2)
    outcomes = [
        {"kind": "ack", "id": first["id"], "token": first["token"]},
        {"kind": "retry", "id": second["id"], "token": second["token"], "delay": 20},
    ]
    claim = {"worker_id": "w"}
    assert api.post("finish", {"outcomes": outcomes, "claim": claim}).body["done"] == [True, True]
    # What the ends made room for may be Celery's to run.
    assert told.calls == [("dispatch", 2), ("wake", 20)]


def test_celery_runs_one_task(celery_queue: Queue) -> None:
    @celery_queue.task
    def ship(self: Any) -> None: ...

    jobs = [{"task": ship.name}, {"task": "another"}]
    found = Api(celery_queue.name).post("jobs", {"jobs": jobs})
    assert (found.status, found.body["path"]) == (400, "jobs[1].task")
    assert ship.name in found.body["error"]
    assert celery_queue.depth().ready == 0


def test_a_server_that_does_not_know_the_task_of_celery_says_so(celery_queue: Queue) -> None:
    """Its triggers name the task: without it they cannot be sent, and no job would run."""
    found = Api(celery_queue.name).post("jobs", {"task": "ship"})
    assert (found.status, found.body["path"]) == (400, "task")
    assert "tasks module of an installed app" in found.body["error"]
    assert celery_queue.depth().ready == 0
