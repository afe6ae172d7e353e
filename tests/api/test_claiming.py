"""Leases that are given out, renewed and ended over HTTP."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.utils import timezone

from tests.api.asking import Answer, Api
from tests.api.conftest import MakeQueue
from tests.contract.stores import Store
from vtrr_django.domain.transport import job_from_json
from vtrr_django.figures.recorder import Recorder
from vtrr_django.queue import Queue

ODD_IDS = ["a/b", "a%2Fb", "100%", "what?x=1&y=2#z", "//", "..", "~!@$^*()+,;='\"<>[]{}|\\`"]


def refused(answer: Answer) -> bool:
    """Return whether the answer is that of a lease that is not ours."""
    return answer.status == 409 and answer.body["done"] is False


def test_a_claim_tells_all_there_is_about_a_job(api: Api, queue: Queue) -> None:
    [job_id] = api.publish(
        {
            "args": [1],
            "kwargs": {"a": None},
            "partition_key": "acme",
            "weight": 3,
            "priority": 5,
            "msg_id": "m",
            "parent_id": "p",
        },
        task="shop.ship",
    )
    [told] = api.claim()
    job = job_from_json(told)
    assert (job.id, job.queue, job.task_name) == (job_id, queue.name, "shop.ship")
    assert (job.args, job.kwargs, job.partition_key) == ([1], {"a": None}, "acme")
    assert (job.weight, job.priority, job.msg_id, job.parent_id) == (3, 5, "m", "p")
    assert (job.delivery_count, job.timeouts) == (0, 0)
    assert job.ready_at is not None
    left = (job.lease_expires_at - job.ready_at).total_seconds()
    assert 29 < left < 90  # LEASE_SECONDS, and what the test took
    assert api.claim() == []


def test_a_claim_is_fair_and_takes_up_to_its_limit(api: Api) -> None:
    api.publish(*({"partition_key": "big"} for _ in range(20)), {"partition_key": "small"})
    first = api.claim(2)
    assert {job["partition_key"] for job in first} == {"big", "small"}
    assert len(api.claim(100)) == 19


@pytest.mark.parametrize(("largest", "most"), [(2**20, 32), (2**24, 2), (2**26, 1)])
def test_an_answer_holds_no_more_than_so_many_bytes(
    make_queue: MakeQueue, settings: Any, largest: int, most: int
) -> None:
    queue = make_queue(MAX_PAYLOAD_BYTES=largest)
    api = Api(queue.name)
    api.publish(*[{}] * 40)
    claimed = api.claim(100)
    assert len(claimed) == most
    ends = [{"kind": "ack", "id": job["id"], "token": job["token"]} for job in claimed]
    body = {"outcomes": ends, "claim": {"worker_id": "w", "limit": 100}}
    assert len(api.post("finish", body).body["jobs"]) == min(most, 40 - most)


def test_a_lease_may_have_its_own_length(api: Api, queue: Queue, store: Store) -> None:
    api.publish({}, {})
    [short] = api.claim(visibility_timeout=5)
    [long] = api.claim(visibility_timeout=7200)
    apart = job_from_json(long).lease_expires_at - job_from_json(short).lease_expires_at
    assert timedelta(seconds=7100) < apart < timedelta(seconds=7300)
    store.advance(queue.name, 60)
    assert queue.reclaim() == 1
    assert refused(api.ack(short))
    assert api.ack(long).told == (200, {"done": True})


def test_an_ack_ends_a_lease_once(api: Api, store: Store, queue: Queue) -> None:
    api.publish({})
    [job] = api.claim()
    assert api.ack(job, runtime=12.5).told == (200, {"done": True})
    assert refused(api.ack(job))
    [row] = store.history(queue.name)["completed"]
    assert (row["id"], row["worker_id"], row["runtime"]) == (job["id"], "w", 12.5)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda token: token + "x",
        lambda token: "x" + token,
        lambda token: token.partition("~")[0],
        lambda token: token.replace("~", "~~", 1),
        lambda token: "~~",
        lambda token: "0",
        lambda token: "é" * 300,
        lambda token: token.rpartition("~")[0] + "~AA",  # a partition key with a NUL
    ],
)
def test_a_token_is_the_whole_of_it(api: Api, queue: Queue, spoil: Any) -> None:
    api.publish({})
    [job] = api.claim()
    false = {**job, "token": spoil(job["token"])}
    assert refused(api.ack(false))
    assert refused(api.change(false, "release"))
    assert refused(api.change(false, "renew"))
    assert refused(api.post("fail", {"id": job["id"], "token": false["token"]}))
    lease = {"id": job["id"], "token": false["token"]}
    assert api.post("renew", {"leases": [lease]}).told == (200, {"done": [False]})
    ends = {"outcomes": [{"kind": "ack", **lease}]}
    assert api.post("finish", ends).told == (200, {"done": [False], "jobs": []})
    assert queue.depth().leased == 1
    assert api.ack(job).status == 200


def test_a_token_is_good_for_its_job_alone(api: Api, queue: Queue) -> None:
    api.publish({}, {})
    one, other = api.claim(2)
    assert refused(api.ack({**one, "token": other["token"]}))
    assert queue.depth().leased == 2


@pytest.mark.parametrize("job_id", ODD_IDS)
def test_an_id_may_hold_any_printable_character(api: Api, store: Store, job_id: str) -> None:
    api.publish({"id": job_id})
    [job] = api.claim()
    assert job["id"] == job_id
    assert api.change(job, "renew").told == (200, {"done": True})
    assert api.ack(job).told == (200, {"done": True})


# -- PATCH and fail ----------------------------------------------------------------


def test_a_snooze_uses_no_attempt_and_a_retry_one(api: Api, queue: Queue, store: Store) -> None:
    api.publish({})
    [job] = api.claim()
    assert api.change(job, "snooze", delay=100).told == (200, {"done": True})
    assert refused(api.change(job, "snooze"))
    assert queue.depth().scheduled == 1
    store.advance(queue.name, 101)
    [job] = api.claim()
    assert job["delivery_count"] == 0
    assert api.change(job, "retry", reason="no luck").told == (200, {"done": True})
    [job] = api.claim()
    assert job["delivery_count"] == 1
    assert refused(api.change({**job, "id": "another"}, "retry"))


def test_a_release_keeps_the_place(api: Api) -> None:
    first, _ = api.publish({}, {})
    [job] = api.claim()
    assert api.change(job, "release").told == (200, {"done": True})
    [again] = api.claim()
    assert (again["id"], again["delivery_count"]) == (first, 0)


def test_a_renewal_lets_the_lease_run_on(api: Api, queue: Queue, store: Store) -> None:
    api.publish({}, {})
    one, other = api.claim(2)
    store.advance(queue.name, 20)
    assert api.change(one, "renew").told == (200, {"done": True})
    leases = [{"id": other["id"], "token": other["token"]}, {"id": "no", "token": other["token"]}]
    found = api.post("renew", {"leases": leases, "visibility_timeout": 500})
    assert found.told == (200, {"done": [True, False]})
    store.advance(queue.name, 20)
    assert queue.reclaim() == 0
    store.advance(queue.name, 100)
    assert queue.reclaim() == 1
    assert refused(api.change(one, "renew"))
    assert api.ack(other).status == 200


@pytest.mark.parametrize(
    ("action", "more"),
    [
        ("release", {"delay": 1}),
        ("renew", {"delay": 1}),
        ("snooze", {"visibility_timeout": 30}),
        ("ack", {}),
        ("fail", {}),
        ("", {}),
        (None, {}),
        ([], {}),
    ],
)
def test_an_action_takes_what_it_needs(api: Api, action: Any, more: dict[str, Any]) -> None:
    api.publish({})
    [job] = api.claim()
    found = api.change(job, action, **more)
    assert (found.status, found.body["path"]) == (400, next(iter(more), "action"))
    assert api.ack(job).status == 200


def test_a_failure_is_a_dead_letter(api: Api, store: Store, queue: Queue) -> None:
    api.publish({"partition_key": "acme"})
    [job] = api.claim()
    said = {
        "id": job["id"],
        "token": job["token"],
        "reason": "ValueError: bad \x00 thing",
        "error_class": "builtins.ValueError",
        "traceback": "Traceback\n" + "x" * 60_000,
        "runtime": 2.5,
    }
    assert api.post("fail", said).told == (200, {"done": True})
    assert refused(api.post("fail", said))
    [row] = store.history(queue.name)["failed"]
    assert (row["id"], row["error_class"]) == (job["id"], "builtins.ValueError")
    assert row["reason"] == "ValueError: bad � thing"
    assert len(row["traceback"]) == 50_000
    assert row["runtime"] == 2.5


# -- many at a time ----------------------------------------------------------------


def ends(*outcomes: tuple[str, dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
    return [
        {"kind": kind, "id": job["id"], "token": job["token"], **more} for kind, job in outcomes
    ]


def test_leases_end_and_begin_in_one_request(api: Api, queue: Queue, store: Store) -> None:
    api.publish(*({"id": f"j{n}"} for n in range(8)))
    jobs = api.claim(5)
    kinds = ("ack", "fail", "retry", "snooze", "release")
    outcomes = ends(*zip(kinds, jobs, strict=True))
    outcomes[2] |= {"delay": 50, "reason": "again", "error_class": "E", "traceback": "T"}
    outcomes[3] |= {"delay": 50}
    claim = {"worker_id": "w2", "limit": 2, "visibility_timeout": 600}
    found = api.post("finish", {"outcomes": [*outcomes, outcomes[0] | {"id": "x"}], "claim": claim})
    assert found.status == 200
    assert found.body["done"] == [True] * 5 + [False]
    assert [job["id"] for job in found.body["jobs"]] == ["j4", "j5"]
    history = store.history(queue.name)
    assert [row["id"] for row in history["completed"]] == ["j0"]
    assert [row["id"] for row in history["failed"]] == ["j1"]
    live = store.live(queue.name)
    assert {job_id: row["state"] for job_id, row in live.items()} == {
        "j2": "scheduled",
        "j3": "scheduled",
        "j4": "leased",
        "j5": "leased",
        "j6": "ready",
        "j7": "ready",
    }
    assert {live[job_id]["claimed_by"] for job_id in ("j4", "j5")} == {"w2"}


def test_leases_end_without_more(api: Api, queue: Queue) -> None:
    api.publish({}, {})
    outcomes = ends(*(("ack", job) for job in api.claim(2)))
    found = api.post("finish", {"outcomes": outcomes, "claim": None})
    assert found.told == (200, {"done": [True, True], "jobs": []})
    assert api.post("finish", {"outcomes": []}).told == (200, {"done": [], "jobs": []})
    assert queue.depth().leased == 0


def test_a_lease_ends_as_is_said_first(api: Api, queue: Queue, store: Store) -> None:
    api.publish({}, {})
    one, other = api.claim(2)
    found = api.post("finish", {"outcomes": ends(("snooze", one), ("ack", one), ("ack", other))})
    assert found.told == (200, {"done": [True, False, True], "jobs": []})
    assert [row["id"] for row in store.history(queue.name)["completed"]] == [other["id"]]


def test_a_worker_may_name_an_old_lease_and_a_new_one_of_a_job(
    api: Api, queue: Queue, store: Store
) -> None:
    api.publish({})
    [old] = api.claim()
    store.advance(queue.name, 60)
    [new] = api.claim()
    assert (new["id"], new["timeouts"]) == (old["id"], 1)
    found = api.post("finish", {"outcomes": ends(("ack", old), ("ack", new))})
    assert found.told == (200, {"done": [False, True], "jobs": []})


def test_lists_have_their_limits(api: Api) -> None:
    outcome = {"kind": "ack", "id": "x", "token": "x"}
    found = api.post("finish", {"outcomes": [outcome] * 101})
    assert (found.status, found.body["path"]) == (400, "outcomes")
    found = api.post("renew", {"leases": []})
    assert (found.status, found.body["path"]) == (400, "leases")
    found = api.post("renew", {"leases": [{"id": "x", "token": "x"}] * 1001})
    assert (found.status, found.body["path"]) == (400, "leases")


# -- what is counted ---------------------------------------------------------------


def test_what_another_process_gave_out_is_counted_as_that_tenants(api: Api, queue: Queue) -> None:
    api.publish(*({"partition_key": "acme"} for _ in range(3)))
    jobs = api.claim(3)
    queue.measure()
    queue.recorder = Recorder()  # as in a process that has not seen these leases
    api.ack(jobs[0], runtime=5)
    api.post("finish", {"outcomes": ends(("fail", jobs[1]), runtime=7)})
    lease = {"id": jobs[2]["id"], "token": jobs[2]["token"], "runtime": 11}
    api.post("renew", {"leases": [lease]})
    queue.measure()
    found = queue.figures.tenants()["acme"]
    assert (found.leases, found.completed, found.failed) == (3, 1, 1)
    assert found.worker_seconds == pytest.approx(23)


def test_workers_that_claim_or_renew_are_alive(api: Api, queue: Queue) -> None:
    api.claim(worker_id="idle")
    api.publish({})
    [job] = api.claim(worker_id="busy")
    queue.measure()
    seen = {one.worker_id: one for one in queue.figures.workers()}
    assert {name: (one.jobs, one.holding) for name, one in seen.items()} == {
        "idle": (0, 0),
        "busy": (1, 1),
    }
    assert seen["idle"].leased_at is None
    queue.recorder = Recorder()
    lease = {"id": job["id"], "token": job["token"]}
    api.post("renew", {"leases": [lease], "worker_id": "elsewhere"})
    queue.measure()
    [found] = [one for one in queue.figures.workers() if one.worker_id == "elsewhere"]
    assert (found.jobs, found.holding) == (0, 1)
    assert found.seen_at > timezone.now() - timedelta(minutes=5)


# -- what others wrote to the store ------------------------------------------------


@pytest.mark.parametrize("store", ["fakeredis", "redis"], indirect=True)
def test_what_is_no_json_is_a_dead_letter_and_keeps_no_other_back(
    api: Api, queue: Queue, store: Any
) -> None:
    """As of vtrr-queue, whose json.dumps() writes NaN."""
    bad, good = api.publish({"args": ["bad"]}, {"args": ["good"]})
    client, keys = store._client(queue.name)
    spoilt = '{"task_name":"t","args":[NaN],"kwargs":{}}'
    client.hset(keys["task"], bad, spoilt)
    assert [job["id"] for job in api.claim(5)] == [good]
    [row] = store.history(queue.name)["failed"]
    assert row["id"] == bad
    assert "JSON" in row["reason"]


def test_a_claim_needs_a_worker(make_queue: MakeQueue) -> None:
    api = Api(make_queue().name)
    found = api.post("claim", {"limit": 1})
    assert (found.status, found.body["path"]) == (400, "worker_id")


def test_paths_are_taken_apart_once(api: Api, queue: Queue) -> None:
    """An id of percent signs is not decoded twice."""
    api.publish({"id": "%2F"}, {"id": "/"})
    jobs = {job["id"]: job for job in api.claim(2)}
    address = f"/{queue.name}/jobs/%252F?token={quote(jobs['%2F']['token'])}"
    assert api.send("DELETE", address).told == (200, {"done": True})
    assert [job.id for job in queue.jobs("leased").jobs] == ["/"]
