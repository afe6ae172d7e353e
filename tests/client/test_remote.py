"""What a remote queue sends for each verb, and what it makes of the answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.client.fakes import FakeApi, lost, no_thread, says, unsent
from vtrr_django import exceptions
from vtrr_django.client import wire
from vtrr_django.client.remote import RemoteQueue
from vtrr_django.domain.job import Outcome, OutcomeKind, Renewal


@dataclass
class Mail:
    to: str
    copies: int = 1


def outcome(job: Any, kind: OutcomeKind = OutcomeKind.ACK) -> Outcome:
    return Outcome(kind=kind, job_id=job.id, token=job.token)


# -- coming in -------------------------------------------------------------------------


def test_a_message_is_one_job(api: FakeApi) -> None:
    due = datetime(2027, 1, 1, 2, tzinfo=UTC).astimezone()
    job_id = api.queue().publish(
        Mail("a@b.c"),
        partition_key="acme",
        weight=3,
        priority=-5,
        scheduled_at=due,
        msg_id="m",
        parent_id="p",
    )
    [seen] = api.seen
    assert (seen.method, seen.path) == ("POST", "/default/jobs")
    assert seen.headers["content-type"] == "application/json"
    assert seen.body == {
        "id": job_id,
        "task": "Mail",
        "args": [],
        "kwargs": {"to": "a@b.c", "copies": 1},
        "partition_key": "acme",
        "weight": 3,
        "priority": -5,
        "scheduled_at": "2027-01-01T02:00:00.000000Z",
        "msg_id": "m",
        "parent_id": "p",
    }


def test_a_lost_answer_makes_no_second_job(api: FakeApi) -> None:
    queue = api.queue()
    api.faults.extend([lost, unsent, lost])
    job_id = queue.publish(Mail("a@b.c"))
    assert list(api.jobs) == [job_id]
    api.faults.append(lost)
    ids = queue.publish_many([Mail(str(number)) for number in range(3)])
    api.faults.append(lost)
    other = asyncio.run(queue.apublish(Mail("d@e.f"), partition_key="acme"))
    assert list(api.jobs) == [job_id, *ids, other]
    assert api.jobs[other]["partition_key"] == "acme"


def test_many_messages_have_common_and_own_options(api: FakeApi) -> None:
    queue = api.queue()
    messages = [Mail("a"), (Mail("b"), {"partition_key": "globex", "msg_id": "b"})]
    ids = queue.publish_many(messages, partition_key="acme", weight=2)
    ids += asyncio.run(queue.apublish_many(iter(messages), partition_key="acme", weight=2))
    told = [(job["kwargs"]["to"], job["partition_key"], job["weight"]) for job in api.jobs.values()]
    assert told == [("a", "acme", 2), ("b", "globex", 2)] * 2
    assert list(api.jobs) == ids


def test_bulks_are_sent_in_bounded_requests(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = api.queue()
    ids = queue.publish_many([Mail("x")] * 1001)
    assert [len(one.body["jobs"]) for one in api.seen] == [500, 500, 1]
    assert list(api.jobs) == ids
    monkeypatch.setattr(wire, "MOST_BYTES", 1000)
    queue.publish_many([Mail("y" * 400)] * 5 + [Mail("z" * 4000)])
    assert [len(one.body["jobs"]) for one in api.seen[3:]] == [1, 1, 1, 1, 1, 1]
    assert queue.publish_many([]) == []


@pytest.mark.parametrize(
    ("messages", "options", "path"),
    [
        ([Mail("a"), Mail(7)], {}, "messages[1].to"),  # type: ignore[arg-type]
        ([Mail("a"), (Mail(7), {"weight": 2})], {}, "messages[1].to"),  # type: ignore[arg-type]
        ([Mail("a"), "no message"], {}, "messages[1]"),
        ([Mail("a"), Mail], {}, "messages[1]"),
        ([Mail("a"), (Mail("b"), {"weight": 0})], {}, "messages[1].weight"),
        ([Mail("a"), (Mail("b"), {"wait": 0})], {}, "messages[1].wait"),
        ([Mail("a"), (Mail("b"), 5)], {}, "messages[1]"),
        ([Mail("a")], {"colour": "red"}, "colour"),
        ([Mail("a")], {"partition_key": "\n"}, "messages[0].partition_key"),
        ([Mail("a")], {"scheduled_at": datetime(2027, 1, 1)}, "messages[0].scheduled_at"),  # noqa: DTZ001
        ([Mail("a"), Mail("b\0")], {}, "messages[1].kwargs.to"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_sent(
    api: FakeApi, messages: list[object], options: dict[str, Any], path: str
) -> None:
    with pytest.raises(exceptions.ValidationError) as caught:
        api.queue().publish_many(messages, **options)
    assert caught.value.path == path
    assert not api.seen


def test_what_the_server_refuses_is_named_as_the_caller_knows_it(api: FakeApi) -> None:
    queue = api.queue()
    too_large = says(400, {"error": "jobs[2].kwargs: too large", "path": "jobs[2].kwargs"})
    queue.publish_many([Mail("x")] * 3)
    for publish in (queue.publish_many, lambda these: asyncio.run(queue.apublish_many(these))):
        api.faults.extend([lambda answer: answer(), too_large])
        with pytest.raises(exceptions.ValidationError) as caught:
            publish([Mail("x")] * 505)
        assert str(caught.value) == "messages[502].kwargs: too large"
    api.faults.append(says(400, {"error": "kwargs: too large", "path": "kwargs"}))
    with pytest.raises(exceptions.ValidationError, match=r"^kwargs: too large$"):
        queue.publish(Mail("x"))


def test_tasks_are_enqueued_as_on_a_local_queue(api: FakeApi) -> None:
    queue = api.queue()

    @queue.task
    def resize(self: Any, key: str, *, width: int = 100) -> None: ...

    one = resize.enqueue("k", partition_key="acme", width=5, delay=2)
    two = resize.queue(partition_key="acme", tasks=[{"args": ["a"]}, {"args": ["b"], "weight": 2}])
    assert list(api.jobs) == [one, *two]
    assert api.jobs[one]["delay"] == 2
    assert api.jobs[one]["kwargs"] == {"width": 5}
    assert api.jobs[two[1]]["weight"] == 2
    assert {job["task"] for job in api.jobs.values()} == {resize.name}


def test_tasks_are_enqueued_from_async_code_without_a_thread(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = api.queue()
    monkeypatch.setattr("asgiref.sync.SyncToAsync.__call__", no_thread)

    @queue.task
    def resize(self: Any, key: str, *, width: int = 100, weight_of: str = "") -> None: ...

    options = {"partition_key": "acme", "delay": 2, "msg_id": "m", "kwargs": {"weight_of": "k"}}
    items = [{"args": ["a"], "weight": 3}, {"args": ["b"], "kwargs": {"width": 2}}]

    async def enqueue() -> list[str]:
        api.faults.append(lost)
        one = await resize.aenqueue("k", width=5, weight=2, **options)
        return [one, *await resize.aqueue(partition_key="acme", tasks=items)]

    made = asyncio.run(enqueue())
    made += [resize.enqueue("k", width=5, weight=2, **options)]
    made += resize.queue(partition_key="acme", tasks=items)
    jobs = [{**api.jobs[job_id], "id": ""} for job_id in made]
    assert jobs[:3] == jobs[3:]
    assert jobs[0]["kwargs"] == {"width": 5, "weight_of": "k"}
    assert (jobs[0]["weight"], jobs[0]["delay"], jobs[0]["msg_id"]) == (2, 2, "m")


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"partition_key": ""}, "partition_key"),
        ({"tasks": [{"args": []}]}, "tasks[0]"),
        ({"tasks": [{"args": ["a"]}, {"args": ["b"], "weight": 0}]}, "tasks[1].weight"),
        ({"tasks": [{"args": ["a"], "kwargs": {"width": {1: 2}}}]}, "tasks[0].kwargs.width"),
        ({"tasks": "a"}, "tasks"),
        ({"tasks": ["a"]}, "tasks[0]"),
        ({"tasks": [{"colour": "red"}]}, "tasks[0].colour"),
        ({"on_commit": True}, "on_commit"),
    ],
)
def test_a_wrong_call_of_a_task_is_refused(api: FakeApi, wrong: dict[str, Any], path: str) -> None:
    queue = api.queue()

    @queue.task
    def resize(self: Any, key: str, *, width: Any = 100) -> None: ...

    arguments = {"partition_key": "acme", "tasks": [{"args": ["a"]}], **wrong}
    for call in (resize.queue, lambda **these: asyncio.run(resize.aqueue(**these))):
        with pytest.raises(exceptions.ValidationError) as caught:
            call(**arguments)
        assert caught.value.path == path
    assert not api.seen


# -- looking ---------------------------------------------------------------------------


def test_stats_have_moments(api: FakeApi) -> None:
    queue = api.queue()
    moment = datetime(2026, 11, 30, 12, tzinfo=UTC)
    for stats in (queue.stats(), asyncio.run(queue.astats())):
        assert stats["oldest_ready_at"] == moment
        assert stats["recent_runs"] == [{"id": "x", "completed_at": moment}]
        assert stats["recent_failures"] == []


# -- what a worker says ----------------------------------------------------------------


def test_ends_and_a_claim_are_one_request(api: FakeApi) -> None:
    queue = api.queue()
    queue.publish_many([Mail("a"), Mail("b")])
    _, jobs = queue.finish_and_lease([], 1, worker_id="w")
    done, more = queue.finish_and_lease([outcome(jobs[0])], 1, worker_id="w")
    assert (done, len(more)) == ([True], 1)
    assert queue.finish_and_lease([outcome(more[0])], 0, worker_id="w") == ([True], [])
    assert [one.path for one in api.seen[1:]] == [
        *("/default/claim", "/default/finish", "/default/finish"),
    ]
    assert api.seen[-1].body["claim"] is None


def test_many_ends_are_told_in_bounded_requests(api: FakeApi) -> None:
    queue = api.queue()
    queue.publish_many([Mail("a")] * 251)
    jobs = [job for _ in range(3) for job in queue.lease(100)]
    del api.seen[:]
    done, more = queue.finish_and_lease([outcome(job) for job in jobs[:250]], 5, worker_id="w")
    assert done == [True] * 250
    assert not more
    assert [len(one.body["outcomes"]) for one in api.seen] == [100, 100, 50]
    assert [one.body["claim"] is None for one in api.seen] == [True, True, False]
    renewals = [Renewal(job_id=job.id, token=job.token) for job in jobs]
    assert queue.renew_many(renewals) == [False] * 250 + [True]
    assert api.renewals[-1]["worker_id"] == "w"


@pytest.mark.parametrize("n", [0, 1])
def test_a_worker_tries_once_and_has_patience_of_its_own(api: FakeApi, n: int) -> None:
    queue = api.queue()
    queue.publish(Mail("a"))
    [job] = queue.lease()
    del api.seen[:]
    for verb in (
        lambda: queue.finish_and_lease([outcome(job)], n, worker_id="w"),
        lambda: queue.finish_and_lease([], 1, worker_id="w"),
        lambda: queue.renew_many([Renewal(job_id=job.id, token=job.token)]),
    ):
        api.faults.append(unsent)
        with pytest.raises(exceptions.StoreUnavailable):
            verb()
    assert len(api.seen) == 3


def test_an_idle_claim_waits_at_the_server_and_the_client_longer(api: FakeApi) -> None:
    queue = api.queue(timeout=3)
    queue.publish_many([Mail("a")] * 2)
    queue.wait = 2.0
    _, jobs = queue.finish_and_lease([], 1, worker_id="w")
    queue.finish_and_lease([outcome(jobs[0])], 1, worker_id="w")
    claim, finish = api.seen[1:]
    assert (claim.body["wait"], claim.read_timeout) == (2.0, 5.0)
    assert "wait" not in finish.body["claim"]
    assert finish.read_timeout == 3.0


# -- constructing ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": "no name"}, "name: expected"),
        ({"visibility_timeout": 0.5}, "visibility_timeout: expected"),
        ({"visibility_timeout": timedelta(seconds=30)}, "visibility_timeout: expected"),
        ({"visibility_timeout": 86_401}, "visibility_timeout: expected"),
    ],
)
def test_wrong_arguments_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(exceptions.ConfigurationError, match=message):
        RemoteQueue(**{"base_url": "http://jobs.test", **wrong})


def test_a_second_handler_of_a_message_is_refused(api: FakeApi) -> None:
    queue = api.queue()

    @queue.handler
    def send(message: Mail) -> None: ...

    with pytest.raises(ValueError, match="got a second"):

        @queue.handler
        def send_again(message: Mail) -> None: ...

    assert list(queue.runnables) == ["Mail"]
