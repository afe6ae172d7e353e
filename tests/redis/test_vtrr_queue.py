"""Queues that vtrr-queue has filled, release 0.1 or 0.2: their jobs run, and none is lost.

Only the layout of the keys is vtrr-queue's; what writes it here is not.
"""

from __future__ import annotations

import json
import random
import uuid
from typing import Any

import pytest

from tests.contract.jobs import drain, end, put, take
from tests.contract.redis_store import RedisStore
from vtrr_django.domain.job import Outcome, OutcomeKind
from vtrr_django.engines.redis.engine import RedisEngine

pytestmark = [
    pytest.mark.service("redis"),
    pytest.mark.django_db(transaction=True, available_apps=["vtrr_django"]),
]


class Old:
    """A queue as vtrr-queue keeps it: every waiting job has its tag already.

    Args:
        engine: of the queue of the same name.
        meta: whether partition and weight are written down too, as by 0.2.
    """

    def __init__(self, engine: RedisEngine, *, meta: bool = False) -> None:
        self._client: Any = engine.commands.client
        self._keys = engine.commands.keys
        self._meta = meta

    def queue(self, partition_key: str, *weights: int, ids: list[str] | None = None) -> list[str]:
        """Enqueue one job of each weight; return the ids."""
        now = float(self._client.get(self._keys["current_virtual_time"]) or 0)
        field = self._keys["partition_virtual_time"], partition_key
        at = max(float(self._client.hget(*field) or 0), now + 1)
        ids = ids or [str(uuid.uuid4()) for _ in weights]
        pipeline = self._client.pipeline()
        for job_id, weight in zip(ids, weights, strict=True):
            task = {"task_name": "tests.old", "args": [job_id, [], 2**70], "kwargs": {"k": {}}}
            pipeline.zadd(self._keys["queue"], {job_id: at})
            pipeline.hset(self._keys["task"], job_id, json.dumps(task))
            if self._meta:
                pipeline.hset(self._keys["meta"], job_id, f"{weight}:{partition_key}")
            at += weight
        pipeline.hset(*field, f"{at:.14g}")
        pipeline.execute()
        return ids

    def lease(self, job_id: str, expires: float, *, timeouts: int = 0) -> str:
        """Lease a queued job, as 0.2 does; return the token."""
        keys, token = self._keys, uuid.uuid4().hex
        task = self._client.hget(keys["task"], job_id)
        self._client.zrem(keys["queue"], job_id)
        self._client.hdel(keys["task"], job_id)
        self._client.zadd(keys["inflight"], {job_id: expires})
        self._client.hset(keys["inflight_task"], job_id, task)
        self._client.hset(keys["lease"], job_id, token)
        if timeouts:
            self._client.hset(keys["timeouts"], job_id, timeouts)
        return token

    def order(self) -> list[str]:
        """Return the ids in the order in which vtrr-queue would run them."""
        return [one.decode() for one in self._client.zrange(self._keys["queue"], 0, -1)]


def ids_of(jobs: Any) -> list[str]:
    return [one.id for one in jobs]


# -- 0.1 ---------------------------------------------------------------------------


def test_jobs_of_0_1_run_in_their_order(store: RedisStore) -> None:
    engine = store.engine()
    old = Old(engine)
    rng = random.Random(1)
    for key in ("a", "b", "c", "a", "d"):
        old.queue(key, *[rng.randint(1, 5) for _ in range(40)])
    expected = old.order()
    done = drain(engine)
    assert ids_of(done) == expected
    assert {(one.partition_key, one.weight, one.task_name) for one in done} == {
        ("", 1, "tests.old")
    }
    assert all(one.args == [one.id, [], 2**70] and one.kwargs == {"k": {}} for one in done)
    assert store.live(engine.name) == {}
    assert len(store.history(engine.name)["completed"]) == 200
    client: Any = engine.commands.client
    left = client.keys(f"vtrr:{engine.name}:*")
    assert {one.rpartition(b":")[2] for one in left} <= {
        b"partition",
        b"state",
        b"outbox_completed",
    }


@pytest.mark.parametrize("batch", [1, 10, 1000])
def test_together_with_new_jobs(store: RedisStore, batch: int) -> None:
    engine = store.engine()
    old = Old(engine)
    first = [*old.queue("a", *[1] * 60), *old.queue("b", *[3] * 60)]
    expected = old.order()
    new = put(engine, *"xyz" * 20)
    begun = take(engine, 5)
    later = old.queue("c", *[1] * 20)
    more = put(engine, *["x"] * 50)
    done = begun + drain(engine, batch)
    assert sorted(ids_of(done)) == sorted([*first, *new, *later, *more])
    assert [one for one in ids_of(done) if one in set(first)] == expected
    for key in "xyz":
        ids = [one.id for one in done if one.partition_key == key]
        assert ids == [one for one in [*new, *more] if one in set(ids)]


def test_many_jobs_with_the_same_tag_are_not_taken_for_an_empty_queue(store: RedisStore) -> None:
    """Each of many tenants has one job; new ones are between."""
    engine = store.engine()
    old = Old(engine)
    ids = [old.queue(f"tenant{number}", 1)[0] for number in range(1300)]
    new = put(engine, "new")
    found = take(engine)
    assert len(found) == 1
    done = found + drain(engine, 100)
    assert sorted(ids_of(done)) == sorted([*ids, *new])


def test_jobs_of_0_1_may_be_cancelled_and_purged(store: RedisStore) -> None:
    engine = store.engine()
    old = Old(engine)
    ids = old.queue("a", *[1] * 30)
    assert engine.cancel([ids[3], ids[4]]) == [ids[3], ids[4]]
    assert len(take(engine, 5)) == 5
    put(engine, "b")
    assert engine.purge() == 30 - 2 - 5 + 1
    assert take(engine, 50) == []
    assert engine.stats().leased == 5
    assert len(store.live(engine.name)) == 5


def test_jobs_of_0_2_may_be_purged_by_partition(store: RedisStore) -> None:
    engine = store.engine()
    old = Old(engine, meta=True)
    old.queue("a", *[1] * 1500)
    ids = old.queue("b", *[1] * 30)
    assert engine.stats().ready == 1530
    assert engine.purge("a") == 1500
    assert {one.partition_key: one.ready for one in engine.partitions()}["b"] == 30
    assert ids_of(drain(engine)) == ids


@pytest.mark.parametrize("meta", [True, False])
def test_waiting_jobs_are_counted_so_that_somebody_is_sent_for_them(
    store: RedisStore, meta: bool
) -> None:
    engine = store.engine()
    old = Old(engine, meta=meta)
    for number in range(1100):
        old.queue(f"tenant{number % 7}", 1 + number % 3)
    put(engine, *"xyz")
    put(engine, "x", delay=60.0)
    assert engine.reclaim() == []
    assert engine.stats().ready == 1103
    assert sum(one.ready for one in engine.partitions()) == 1103
    assert len(drain(engine, 100)) == 1103


def test_jobs_of_0_1_have_the_whole_life_of_a_job(store: RedisStore) -> None:
    engine = store.engine(max_timeouts=1)
    retried, failed, released, late = Old(engine).queue("a", 1, 1, 1, 1)
    held = {one.id: one for one in take(engine, 4)}
    assert end(engine, held[retried], OutcomeKind.RETRY)
    assert end(engine, held[failed], OutcomeKind.FAIL, reason="r")
    assert end(engine, held[released], OutcomeKind.RELEASE)
    assert sorted(ids_of(drain(engine))) == sorted([retried, released])
    store.advance(engine.name, 3600)
    assert [(one.job_id, one.dead) for one in engine.reclaim()] == [(late, True)]
    assert sorted(engine.requeue()) == sorted([failed, late])
    assert sorted(ids_of(drain(engine))) == sorted([failed, late])


# -- 0.2 ---------------------------------------------------------------------------


def test_jobs_of_0_2_keep_their_partition_and_weight(store: RedisStore) -> None:
    engine = store.engine()
    old = Old(engine, meta=True)
    ids = {key: old.queue(key, *[2] * 20) for key in ("a", "b:c", "ü")}
    new = put(engine, *["a"] * 5)
    done = drain(engine)
    for key, its in ids.items():
        mine = [one for one in done if one.id in its]
        assert ids_of(mine) == its
        assert {(one.partition_key, one.weight) for one in mine} == {(key, 2)}
    assert len(done) == 65
    assert [one for one in ids_of(done) if one in new] == new


def test_a_limit_and_a_pause_hold_for_jobs_of_0_2(store: RedisStore) -> None:
    engine = store.engine(partition_limit=2)
    old = Old(engine, meta=True)
    first, second = old.queue("a", *[1] * 900), old.queue("b", *[1] * 10)
    engine.pause("a")
    found = take(engine, 5)
    assert ids_of(found) == second[:2]
    engine.resume("a")
    assert ids_of(take(engine, 5)) == first[:2]


@pytest.mark.parametrize("meta", [True, False])
def test_what_0_2_has_leased_is_reclaimed_and_run(store: RedisStore, meta: bool) -> None:
    engine = store.engine(max_timeouts=3)
    old = Old(engine, meta=meta)
    ids = old.queue("a", *[4] * 6)
    for position in (0, 1, 2):
        old.lease(ids[position], 1000.0 + position, timeouts=position)
    token = old.lease(ids[3], 4e9)
    back = engine.reclaim()
    assert [(one.job_id, one.timeouts, one.dead) for one in back] == [
        (ids[0], 1, False),
        (ids[1], 2, False),
        (ids[2], 3, True),
    ]
    done = drain(engine)
    assert sorted(ids_of(done)) == sorted([ids[0], ids[1], *ids[4:]])
    assert {one.id: one.timeouts for one in done}[ids[1]] == 2
    assert {one.partition_key for one in done} == {"a" if meta else ""}
    stats = engine.stats()
    assert (stats.leased, stats.ready, stats.failed) == (1, 0, 1)
    client, keys = engine.commands.client, engine.commands.keys
    assert client.hget(keys["lease"], ids[3]) == token.encode()
    store.advance(engine.name, 4e9)
    assert ids_of(drain(engine)) == [ids[3]]
    assert store.live(engine.name) == {}


@pytest.mark.parametrize("kind", [kind.value for kind in OutcomeKind])
@pytest.mark.parametrize("meta", [True, False])
def test_a_lease_of_0_2_is_ended_by_its_token(store: RedisStore, kind: str, meta: bool) -> None:
    """A worker leases with vtrr-queue and, after the upgrade, ends with this."""
    engine = store.engine()
    old = Old(engine, meta=meta)
    [job_id] = old.queue("a", 4)
    token = old.lease(job_id, 4e9)

    def finish(proof: str) -> list[bool]:
        return engine.finish([Outcome(kind=OutcomeKind(kind), job_id=job_id, token=proof)])

    assert finish("wrong") == [False]
    assert finish(token) == [True]
    assert engine.stats().leased == 0
    assert ids_of(drain(engine)) == ([] if kind in ("ack", "fail") else [job_id])


@pytest.mark.parametrize("odd", ["we ird", "x" * 300, "nul\0", "ünï", "tab\t", ""])
def test_ids_that_are_none_here_are_run_and_told_of_under_others(odd: str) -> None:
    store = RedisStore("redis")
    engine = store.engine_named(store.new_name())
    client, keys = engine.commands.client, engine.commands.keys
    payload = '{"task_name": "t", "args": [1], "kwargs": {}}'
    for job_id in (odd, "plain"):
        client.zadd(keys["queue"], {job_id: 1})
        client.hset(keys["task"], job_id, payload)
    engine.reclaim()
    put(engine, "other")
    client.zadd(keys["queue"], {f"{odd} late": 1})
    client.hset(keys["task"], f"{odd} late", payload)
    ran = drain(engine)
    assert sorted(len(one.args) for one in ran) == [0, 1, 1, 1]
    assert engine.stats().completed == 4
    assert {row["id"] for row in store.history(engine.name)["completed"]} == {x.id for x in ran}
    store.close()
