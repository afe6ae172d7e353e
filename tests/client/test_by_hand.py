"""Leases that are taken, renewed and ended by hand, in threads and in event loops."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.client.fakes import Answer, FakeApi, Fault, lost, says, unsent
from tests.clock import Clock as Still
from vtrr_django import exceptions
from vtrr_django.client import leases, talk
from vtrr_django.client.remote import RemoteQueue


@dataclass
class Mail:
    to: str
    copies: int = 1


# -- leases ----------------------------------------------------------------------------


def test_a_lease_is_taken_renewed_and_ended(api: FakeApi) -> None:
    queue = api.queue("mails", visibility_timeout=45)
    ids = queue.publish_many([Mail("a"), Mail("b")], partition_key="acme")
    assert api.seen.pop().path == "/mails/jobs"
    jobs = queue.lease(2, "me")
    assert [job.id for job in jobs] == ids
    assert jobs[0].kwargs == {"to": "a", "copies": 1}
    assert (jobs[0].queue, jobs[0].partition_key) == ("mails", "acme")
    assert jobs[0].enqueued_at == datetime(2026, 11, 30, 12, tzinfo=UTC)
    claim = {"worker_id": "me", "limit": 2, "visibility_timeout": 45, "wait": 0}
    assert api.seen[-1].body == claim

    assert queue.renew(jobs[0], runtime=1.5)
    assert queue.renew(jobs[0], lease_seconds=120)
    assert [one["visibility_timeout"] for one in api.renewals] == [45, 120]
    assert api.renewals[0]["leases"] == [
        {"id": ids[0], "token": jobs[0].token, "runtime": 1.5},
    ]
    assert queue.ack(jobs[0], runtime=2.5)
    assert not queue.ack(jobs[0])
    assert not queue.renew(jobs[0])
    assert queue.fail(jobs[1], ValueError("no"))
    ack, fail = api.outcomes
    assert ack == {"kind": "ack", "id": ids[0], "token": jobs[0].token, "runtime": 2.5}
    assert (fail["reason"], fail["error_class"]) == ("ValueError: no", "builtins.ValueError")
    assert "ValueError: no" in fail["traceback"]


def test_every_other_end_is_told(api: FakeApi) -> None:
    queue = api.queue()
    queue.publish_many([Mail("a")] * 3)
    first, second, third = queue.lease(3)
    assert queue.retry(first, 5, reason="later")
    assert queue.snooze(second, 7)
    assert queue.release(third)
    told = [(one["kind"], one.get("delay"), one.get("reason")) for one in api.outcomes]
    assert told == [("retry", 5, "later"), ("snooze", 7, None), ("release", None, None)]


def test_a_claim_is_repeated_only_if_it_was_not_sent(api: FakeApi) -> None:
    queue = api.queue()
    queue.publish_many([Mail("a")] * 3)
    api.faults.append(unsent)
    assert len(queue.lease()) == 1
    api.faults.append(lost)
    with pytest.raises(exceptions.StoreUnavailable):
        queue.lease()
    assert len(api.leases) == 2


def test_an_end_whose_answer_was_lost_is_told_again_and_is_not_ours_any_more(
    api: FakeApi,
) -> None:
    queue = api.queue()
    queue.publish(Mail("a"))
    [job] = queue.lease()
    api.faults.append(lost)
    assert not queue.ack(job)
    assert [one["kind"] for one in api.outcomes] == ["ack"]


@pytest.mark.parametrize("n", [0, 101, 1.0, "1"])
def test_how_many_jobs_are_leased_is_checked_here(api: FakeApi, n: Any) -> None:
    with pytest.raises(exceptions.ValidationError, match="n: expected"):
        api.queue().lease(n)
    assert not api.seen


@pytest.mark.parametrize("body", [{}, {"jobs": None}, {"jobs": ["x"]}, {"jobs": [{"id": "x"}]}])
def test_jobs_of_another_kind_are_said_to_be_so(api: FakeApi, body: Any) -> None:
    api.faults.append(says(200, body))
    with pytest.raises(exceptions.ConfigurationError, match=r"jobs.* same vtrr-django"):
        api.queue().lease()


@pytest.mark.parametrize("done", [None, "x", [1], [], [True, True]])
def test_ends_of_another_kind_are_said_to_be_so(api: FakeApi, done: Any) -> None:
    queue = api.queue()
    queue.publish(Mail("a"))
    [job] = queue.lease()
    api.faults.append(says(200, {"jobs": [], "done": done}))
    with pytest.raises(exceptions.ConfigurationError, match="same vtrr-django"):
        queue.ack(job)


def test_answers_that_are_too_short_are_said_to_be_so(api: FakeApi) -> None:
    queue = api.queue()
    counts = dict.fromkeys(("ready", "claimed", "scheduled", "failed", "completed"), 0)
    noon = {**counts, "oldest_ready_at": "noon"}
    api.faults.extend([says(200, {"ids": []}), says(200, noon)])
    with pytest.raises(exceptions.ConfigurationError, match="1 ids"):
        queue.publish(Mail("a"))
    with pytest.raises(exceptions.ConfigurationError, match="moments"):
        queue.stats()


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"done": "yes"},
        {"status": "ok", "ready": True},
        {"ready": "0", "claimed": 0, "scheduled": 0, "failed": 0, "completed": 0},
    ],
)
def test_the_counts_of_another_service_are_none(api: FakeApi, told: dict[str, Any]) -> None:
    queue = api.queue()
    for look in (queue.stats, lambda: asyncio.run(queue.astats())):
        api.faults.append(says(200, told))
        with pytest.raises(exceptions.ConfigurationError, match="how many jobs are ready, claimed"):
            look()


@pytest.mark.parametrize("verb", ["ack", "fail", "retry", "snooze", "release", "renew"])
@pytest.mark.parametrize("job", ["an id", None, Mail("a")])
def test_what_is_no_lease_is_refused_before_anything_is_sent(
    api: FakeApi, verb: str, job: Any
) -> None:
    queue = api.queue()
    more = ("no",) if verb == "fail" else ()
    for end in (getattr(queue, verb), lambda *a: asyncio.run(getattr(queue, f"a{verb}")(*a))):
        with pytest.raises(exceptions.ValidationError, match=r"^job: expected a leased job, "):
            end(job, *more)
    assert not api.seen


# -- waiting by hand -------------------------------------------------------------------


@dataclass
class Clock(Still):
    """The time of leases by hand: things happen in pauses."""

    meanwhile: list[Callable[[], object]] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.meanwhile:
            self.meanwhile.pop(0)()

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(leases, "time", made)
    monkeypatch.setattr(talk, "time", made)
    monkeypatch.setattr(talk, "asyncio", SimpleNamespace(sleep=made.asleep))
    return made


def lease(queue: RemoteQueue, how: str, **options: Any) -> list[Any]:
    return asyncio.run(queue.alease(**options)) if how == "async" else queue.lease(**options)


def waits(api: FakeApi) -> list[float]:
    return [one.body["wait"] for one in api.seen if "wait" in one.body]


def full(clock: Clock, hint: float | None = 2, takes: float = 0.0) -> Fault:
    """Answer as a server that found no job and lets nobody wait."""
    more = {} if hint is None else {"retry_after": hint}

    def fault(answer: Answer) -> httpx.Response:
        clock.now += takes
        return says(200, {"jobs": [], **more})(answer)

    return fault


@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_claim_by_hand_may_wait_at_the_server(api: FakeApi, how: str, clock: Clock) -> None:
    queue = api.queue(timeout=3)
    api.faults.append(full(clock, hint=None, takes=20))
    assert lease(queue, how, n=7, worker_id="me", lease_seconds=60, wait=20) == []
    assert lease(queue, how) == []
    first, second = api.seen
    claim = {"worker_id": "me", "limit": 7, "visibility_timeout": 60, "wait": 20}
    assert (first.body, first.read_timeout) == (claim, 23)
    assert (second.body["wait"], second.read_timeout) == (0, 3)
    assert clock.pauses == []


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("wait", [-1, 20.5, "2", None, True, float("nan")])
def test_a_wait_that_is_none_is_refused(api: FakeApi, how: str, wait: Any) -> None:
    with pytest.raises(exceptions.ValidationError, match="wait: expected"):
        lease(api.queue(), how, wait=wait)
    assert not api.seen


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize(
    ("wait", "hint", "told", "paused"),
    [
        (6, 2, [6, 4, 2, 0], [2, 2, 2]),
        (5, 2, [5, 3, 1, 0], [2, 2, 1]),
        (20, 30, [20, 0], [20]),
        (0.5, 2, [0.5, 0], [0.5]),
        (3, 0, [3, 2, 1, 0], [1, 1, 1]),  # it is about to stop, say
        (3, None, [3, 2, 1, 0], [1, 1, 1]),
        (0, 2, [0], []),
    ],
)
def test_who_waits_by_hand_asks_at_once_and_again_when_the_server_says(
    api: FakeApi,
    how: str,
    clock: Clock,
    wait: float,
    hint: float | None,
    told: list[float],
    paused: list[float],
) -> None:
    queue = api.queue()
    for _ in range(2):  # what the server said before holds up no other lease
        api.faults.extend([full(clock, hint)] * len(told))
        assert lease(queue, how, wait=wait) == []
        assert (waits(api), clock.pauses) == (told, paused)
        assert not api.faults
        api.seen.clear()
        clock.pauses.clear()


@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_look_that_took_long_is_taken_off_the_wait(api: FakeApi, how: str, clock: Clock) -> None:
    queue = api.queue()
    api.faults.extend([full(clock, takes=3.5), full(clock, None, takes=4.5)])
    assert lease(queue, how, wait=10) == []
    assert (waits(api), clock.pauses) == ([10, 4.5], [2])
    api.faults.append(full(clock, takes=4))  # it is over when the answer is there
    assert lease(queue, how, wait=4) == []
    assert (waits(api), clock.pauses) == ([10, 4.5, 4], [2])


@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_job_that_comes_meanwhile_is_leased(api: FakeApi, how: str, clock: Clock) -> None:
    queue = api.queue()
    api.faults.extend([full(clock)] * 2)
    clock.meanwhile = [lambda: None, lambda: queue.publish(Mail("a"))]
    [job] = lease(queue, how, wait=15)
    assert job.kwargs["to"] == "a"
    assert (waits(api), clock.pauses) == ([15, 13, 11], [2, 2])
    queue.publish(Mail("b"))  # and one that is there already, at once
    [job] = lease(queue, how, wait=0.5)
    assert job.kwargs["to"] == "b"
    assert clock.pauses == [2, 2]


@pytest.mark.parametrize("how", ["sync", "async"])
def test_who_waits_by_hand_may_be_closed_meanwhile(api: FakeApi, how: str, clock: Clock) -> None:
    queue = api.queue()
    api.faults.extend([full(clock)] * 3)
    clock.meanwhile = [queue.close]
    assert lease(queue, how, wait=4) == []
    assert waits(api) == [4, 2, 0]
    queue.close()


def test_a_task_that_waits_by_hand_may_be_cancelled(api: FakeApi) -> None:
    queue = api.queue()
    api.faults.append(says(200, {"jobs": [], "retry_after": 60}))

    async def main() -> None:
        task = asyncio.create_task(queue.alease(wait=20))
        async with asyncio.timeout(60):
            while not api.seen:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert waits(api) == [20]


@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_worker_of_the_same_queue_rests_for_itself(api: FakeApi, how: str, clock: Clock) -> None:
    queue = api.queue()
    queue.wait = 2.0
    api.faults.extend([full(clock, 30)] * 3)
    assert lease(queue, how, wait=1) == []
    assert queue.finish_and_lease([], 1, worker_id="w") == ([], [])
    assert waits(api) == [1, 0, 2]
    queue.publish(Mail("a"))
    assert queue.finish_and_lease([], 1, worker_id="w") == ([], [])
    assert len(lease(queue, how, wait=1)) == 1


@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_claim_that_waits_is_not_repeated_either(api: FakeApi, how: str) -> None:
    queue = api.queue()
    queue.publish(Mail("a"))
    api.faults.append(lost)
    with pytest.raises(exceptions.StoreUnavailable):
        lease(queue, how, wait=5)
    assert len(api.leases) == 1


def test_a_worker_of_ones_own_may_be_async(api: FakeApi) -> None:
    """Requests and answers are those of the verbs without an ``a``."""
    queue = api.queue(visibility_timeout=45)

    async def work() -> None:
        acked, failed, retried, snoozed, released = await queue.alease(5, "me")
        assert await queue.arenew(acked, runtime=1.5)
        assert await queue.arenew(acked, lease_seconds=120)
        assert await queue.aack(acked, runtime=2.5)
        assert await queue.afail(failed, ValueError("no"), runtime=1)
        assert await queue.aretry(retried, 5, reason="later", runtime=2)
        assert await queue.asnooze(snoozed, 7, runtime=3)
        assert await queue.arelease(released)
        assert not await queue.aack(acked)
        assert not await queue.arenew(acked)
        assert await queue.afinish([]) == []

    def work_in_a_thread() -> None:
        acked, failed, retried, snoozed, released = queue.lease(5, "me")
        assert queue.renew(acked, runtime=1.5)
        assert queue.renew(acked, lease_seconds=120)
        assert queue.ack(acked, runtime=2.5)
        assert queue.fail(failed, ValueError("no"), runtime=1)
        assert queue.retry(retried, 5, reason="later", runtime=2)
        assert queue.snooze(snoozed, 7, runtime=3)
        assert queue.release(released)
        assert not queue.ack(acked)
        assert not queue.renew(acked)
        assert queue.finish([]) == []

    told = []
    for do in (lambda: asyncio.run(work()), work_in_a_thread):
        queue.publish_many([Mail("a")] * 5)
        del api.seen[:]
        do()
        told.append([(one.path, _without_names(one.body)) for one in api.seen])
    assert told[0] == told[1]
    assert [one["kind"] for one in api.outcomes[:5]] == [
        "ack",
        "fail",
        "retry",
        "snooze",
        "release",
    ]


def _without_names(body: Any) -> str:
    """Return a body without what no two jobs have in common."""
    return re.sub(r'"(id|token)": "[^"]*"', "", json.dumps(body))


@pytest.mark.parametrize(
    ("verb", "wrong"),
    [
        ("aack", {"delay": 5}),
        ("arelease", {"runtime": 5}),
        ("asnooze", {"reason": "x"}),
        ("apublish", {"colour": "red"}),
        ("apublish", {"message": 7}),
    ],
)
def test_an_async_verb_takes_the_arguments_of_the_other(
    api: FakeApi, verb: str, wrong: dict[str, Any]
) -> None:
    queue = api.queue()
    for call in (
        getattr(queue, verb[1:]),
        lambda *a, **o: asyncio.run(getattr(queue, verb)(*a, **o)),
    ):
        with pytest.raises(TypeError, match="argument"):
            call(Mail("a"), **wrong)
    assert not api.seen
