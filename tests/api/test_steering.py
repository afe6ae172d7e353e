"""Pausing, resuming and requeueing over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.admin.test_half_done import fail_at, in_twos
from tests.api.asking import Api
from tests.contract.stores import Store
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.queue import Queue

__all__ = ["in_twos"]

DONE = (200, {"done": True})


@pytest.mark.parametrize("body", [{}, {"partition_key": None}])
def test_a_queue_is_paused_and_resumed(api: Api, queue: Queue, body: dict[str, Any]) -> None:
    api.publish({})
    assert api.post("pause", body).told == api.post("pause", body).told == DONE
    assert api.get("stats").body["paused"] is True
    assert api.claim() == []
    assert api.post("resume", body).told == DONE
    assert len(api.claim()) == 1


@pytest.mark.parametrize("key", ["acme", ""])
def test_a_partition_is_paused_and_resumed(api: Api, key: str) -> None:
    api.publish({"partition_key": key}, {"partition_key": "other"})
    assert api.post("pause", {"partition_key": key}).told == DONE
    assert [job["partition_key"] for job in api.claim(5)] == ["other"]
    assert api.post("resume", {"partition_key": key}).told == DONE
    assert [job["partition_key"] for job in api.claim(5)] == [key]


@pytest.mark.parametrize("verb", ["pause", "resume"])
@pytest.mark.parametrize("key", [1, [], "a\x00", "x" * 256, True])
def test_a_partition_key_is_a_name(api: Api, verb: str, key: Any) -> None:
    found = api.post(verb, {"partition_key": key})
    assert (found.status, found.body["path"]) == (400, "partition_key")


def dead(api: Api, count: int) -> list[str]:
    api.publish(*({"id": f"d{n}"} for n in range(count)))
    jobs = api.claim(count)
    for job in jobs:
        lease = {"id": job["id"], "token": job["token"]}
        assert api.post("fail", lease | {"reason": "no"}).status == 200
    return [job["id"] for job in jobs]


@pytest.mark.parametrize("chosen", [True, False], ids=["ids", "limit"])
def test_what_was_requeued_before_a_store_failed_is_told(
    api: Api, queue: Queue, in_twos: Callable[[str], None], chosen: bool
) -> None:
    ids = dead(api, 5)
    in_twos("requeue")
    found = api.post("requeue", {"ids": ids} if chosen else {"limit": 5})
    assert (found.status, found.body["done"]) == (503, 2)
    assert found.headers["Retry-After"] == "1"
    stats = queue.stats()
    assert (stats["ready"], stats["failed"]) == (2, 3)


def test_a_pause_that_was_done_is_told(
    api: Api, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def go_on(self: Queue, partition_key: str | None) -> None:
        error = StoreUnavailable("it is away")
        error.done = 1
        raise error

    assert api.post("pause", {}).told == DONE
    monkeypatch.setattr(Queue, "resume", go_on)
    found = api.post("resume", {})
    assert (found.status, found.body["done"]) == (503, 1)


def test_a_requeue_of_which_nothing_was_done_tells_no_number(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at(monkeypatch, Queue, "requeue", 1)
    found = api.post("requeue", {"limit": 5})
    assert found.status == 503
    assert "done" not in found.body


def test_dead_letters_come_back(api: Api, queue: Queue, store: Store) -> None:
    ids = dead(api, 4)
    found = api.post("requeue", {"ids": [ids[2], "nothere", ids[0], ids[2]]})
    assert found.status == 200
    assert sorted(found.body["ids"]) == [ids[0], ids[2]]
    assert api.post("requeue", {"ids": [ids[0]]}).told == (200, {"ids": []})
    assert api.post("requeue", {"limit": 1}).told == (200, {"ids": [ids[1]]})
    assert api.post("requeue", {"limit": 1000}).told == (200, {"ids": [ids[3]]})
    again = api.claim(10)
    assert sorted(job["id"] for job in again) == sorted(ids)
    assert {job["delivery_count"] for job in again} == {0}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "ids"),
        ({"ids": None, "limit": None}, "ids"),
        ({"ids": ["a"], "limit": 1}, "ids"),
        ({"ids": []}, "ids"),
        ({"ids": ["a"] * 1001}, "ids"),
        ({"ids": ["a", "b c"]}, "ids[1]"),
        ({"ids": "a"}, "ids"),
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"limit": True}, "limit"),
        ({"all": True}, "all"),
    ],
)
def test_what_may_be_asked_for(api: Api, body: dict[str, Any], path: str) -> None:
    dead(api, 1)
    found = api.post("requeue", body)
    assert (found.status, found.body["path"]) == (400, path)
    assert api.get("stats").body["failed"] == 1
