"""What others have written under our names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.jobs import drain, job, put, take
from tests.contract.redis_store import RedisStore
from tests.redis.engines import content
from vtrr_django.domain.job import Outcome, OutcomeKind, Renewal
from vtrr_django.engines.redis.engine import RedisEngine
from vtrr_django.engines.redis.keys import KEYS, key_names
from vtrr_django.exceptions import ConfigurationError

pytestmark = [
    pytest.mark.service("redis"),
    pytest.mark.django_db(transaction=True, available_apps=["vtrr_django"]),
]

ACK = Outcome(kind=OutcomeKind.ACK, job_id="x", token="t")

VERBS: dict[str, Callable[[RedisEngine], Any]] = {
    "enqueue": lambda engine: put(engine, "a"),
    "enqueue many": lambda engine: put(engine, *["a"] * 1500),
    "enqueue by name": lambda engine: put(engine, "a", msg_id="m"),
    "known": lambda engine: engine.known([job("a", msg_id="m")]),
    "lease": take,
    "finish": lambda engine: engine.finish([ACK]),
    "renew": lambda engine: engine.renew([Renewal(job_id="x", token="t")], lease_seconds=1.0),
    "reclaim": lambda engine: engine.reclaim(),
    "archive": lambda engine: engine.archive(),
    "prune": lambda engine: engine.prune(),
    "pause": lambda engine: engine.pause(),
    "pause a partition": lambda engine: engine.pause("a"),
    "set_partition": lambda engine: engine.set_partition("a", share=2.0),
    "cancel": lambda engine: engine.cancel(["x"]),
    "purge": lambda engine: engine.purge(),
    "purge a partition": lambda engine: engine.purge("a"),
    "requeue": lambda engine: engine.requeue(),
    "stats": lambda engine: engine.stats(),
    "partitions": lambda engine: engine.partitions(),
    "one partition": lambda engine: engine.partitions(partition_key="a"),
}


def occupy(client: Any, key: str, kind: str) -> None:
    """Have a key hold what is not of that kind."""
    if kind == "string":
        client.rpush(key, "theirs")
    else:
        client.set(key, "theirs")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_says_so_and_writes_nothing(store: RedisStore, verb: str) -> None:
    name = store.new_name()
    client, names = store._client(name)
    # All keys with all verbs would take long; each has its turn.
    for key, kind in list(KEYS.items())[list(VERBS).index(verb) % 5 :: 5]:
        occupy(client, names[key], kind)
        engine = store.engine_named(name)
        for _ in range(2):
            with pytest.raises(ConfigurationError) as caught:
                VERBS[verb](engine)
        assert f"{names[key]!r} of queue {name!r} to be a {kind}" in str(caught.value)
        assert "give the queue another name" in str(caught.value)
        left = {one for one in names.values() if client.exists(one)}
        assert left == {names[key]}
        client.delete(names[key])
        VERBS[verb](engine)
        engine.purge()
        client.delete(*names.values())


@pytest.mark.parametrize("verb", ["enqueue", "lease", "stats", "reclaim"])
def test_what_comes_later_is_told_as_well(store: RedisStore, verb: str) -> None:
    engine = store.engine()
    put(engine, "a")
    client, names = store._client(engine.name)
    key = names["task" if verb == "enqueue" else "scheduled"]
    client.delete(key)
    occupy(client, key, "zset")
    with pytest.raises(ConfigurationError, match="something else uses this name"):
        VERBS[verb](engine)


def test_queues_whose_names_are_alike_are_strangers(store: RedisStore) -> None:
    first, second = store.engine(), store.engine_named(store.new_name() + "-x")
    store._queues.add(second.name)
    put(first, "a")
    before = content(first.commands.client, *first.commands.keys.values())
    put(second, "b", "b")
    assert len(drain(second)) == 2
    assert content(first.commands.client, *first.commands.keys.values()) == before
    assert set(key_names("q", hash_tag=True).values()).isdisjoint(
        key_names("q", hash_tag=False).values()
    )


def test_a_job_whose_record_somebody_deleted_keeps_nobody_from_running(store: RedisStore) -> None:
    engine = store.engine(max_timeouts=1)
    ids = put(engine, *"aabb")
    client, names = store._client(engine.name)
    client.hdel(names["task"], ids[0])
    assert [one.id for one in take(engine, 4)] == [ids[2], ids[1], ids[3]]
    assert [row["id"] for row in store.history(engine.name)["failed"]] == ids[:1]
    store.advance(engine.name, 3600)
    assert len(engine.reclaim()) == 3
    assert {row["id"] for row in store.history(engine.name)["failed"]} == set(ids)
