"""What somebody else has written, or spoilt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import redis

from tests.contract.jobs import ack_all, drain, end, put, take
from tests.contract.redis_store import RedisStore
from vtrr_django.domain.job import OutcomeKind
from vtrr_django.engines.redis.engine import RedisEngine

SPOILT = {
    "empty": "",
    "cut": "{",
    "list": "[1]",
    "no arguments": '{"task_name": "x"}',
    "no name": '{"args": [], "kwargs": {}}',
    "text": '"text"',
    "null": "null",
    "deep": "[" * 100_000,
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.service("redis")
@pytest.mark.parametrize("payload", SPOILT.values(), ids=SPOILT)
def test_a_payload_that_is_none_is_a_dead_letter_and_holds_up_nobody(payload: str) -> None:
    store = RedisStore("redis")
    engine = store.engine_named(store.new_name())
    spoilt, sound = put(engine, "a", "b")
    engine.commands.client.hset(engine.commands.keys["task"], spoilt, payload)
    assert [one.id for one in take(engine, 2)] == [sound]
    [row] = store.history(engine.name)["failed"]
    assert (row["id"], row["payload"]) == (spoilt, payload)
    assert "expected the payload in Redis to be JSON" in row["reason"]
    store.close()


@pytest.mark.django_db(transaction=True)
@pytest.mark.service("redis")
@pytest.mark.parametrize("decode", [False, True])
def test_a_payload_that_is_no_text_is_a_dead_letter_and_holds_up_nobody(decode: bool) -> None:
    store = RedisStore("redis")
    engine = store.engine_named(store.new_name())
    at = engine.commands.client.connection_pool.connection_kwargs
    where = {name: at[name] for name in ("host", "port", "db")}
    client = redis.Redis(**where, decode_responses=decode)
    engine = RedisEngine(engine.name, engine.config, client)
    lost, sound = put(engine, "a", "b")
    bad = b'{"task_name": "tests.task", "args": ["\xff\xfe"], "kwargs": {}}'
    client.hset(engine.commands.keys["task"], lost, bad)  # type: ignore[arg-type]
    assert [one.id for one in take(engine, 2)] == [sound]
    [row] = store.history(engine.name)["failed"]
    assert (row["id"], row["payload"].count("\ufffd")) == (lost, 2)
    client.close()
    store.close()


# -- counts and records ------------------------------------------------------------

Spoil = Callable[[Any, Any, list[str]], object]

COUNT = 130


def set_record(record: str) -> Spoil:
    return lambda client, keys, ids: client.hset(keys["partition"], "b", record)


def set_in(key: str, value: str) -> Spoil:
    return lambda client, keys, ids: client.hset(keys[key], ids[0], value)


def add_to_counts(ready: int, blocked: int) -> Spoil:
    """As an enqueue did that was counted twice."""

    def spoil(client: Any, keys: Any, ids: list[str]) -> None:
        record = client.hget(keys["partition"], "b").decode().split(" ", 4)
        record[1], record[3] = str(int(record[1]) + ready), str(int(record[3]) + blocked)
        client.hset(keys["partition"], "b", " ".join(record))
        client.hincrby(keys["state"], "backlog", blocked)

    return spoil


def lose_the_line(client: Any, keys: Any, ids: list[str]) -> None:
    members = client.zrangebylex(keys["line"], b"[b\x00", b"(b\x01")
    client.zrem(keys["line"], *members)


SPOILT_RECORDS: dict[str, tuple[Spoil, bool]] = {
    "counted twice": (add_to_counts(COUNT, COUNT), True),
    "counted twice, and in the line by then": (add_to_counts(COUNT, 0), True),
    "no partition": (set_record("none"), False),
    "a count below zero": (set_record("-1 3 0 0 - x"), False),
    "no line": (lose_the_line, False),
    "no meta": (set_in("meta", "none"), False),
    "half a place": (set_in("meta", "1,64:b"), False),
    "no details": (set_in("details", "none"), True),
    "no settings": (
        lambda client, keys, ids: client.hset(keys["settings"], "b", "none"),
        True,
    ),
    "no virtual time": (
        lambda client, keys, ids: client.hset(keys["partition_virtual_time"], "b", "none"),
        True,
    ),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.service("redis")
@pytest.mark.parametrize("spoilt", SPOILT_RECORDS)
@pytest.mark.parametrize("batch", [1, 10, 100])
def test_what_is_spoilt_of_one_tenant_holds_up_no_other(spoilt: str, batch: int) -> None:
    """The lease script goes from tenant to tenant, and what it has done when it fails is done."""
    spoil, heals = SPOILT_RECORDS[spoilt]
    store = RedisStore("redis")
    engine = store.engine_named(store.new_name())
    ids = {key: put(engine, *[key] * COUNT) for key in "abc"}
    spoil(engine.commands.client, engine.commands.keys, ids["b"])
    done = drain(engine, batch)
    assert [one.id for one in done if one.partition_key == "a"] == ids["a"]
    assert [one.id for one in done if one.partition_key == "c"] == ids["c"]
    if heals:
        assert {one.id for one in done if one.partition_key == "b"} == set(ids["b"])
        assert engine.stats().ready == 0
        more = put(engine, *"bb")
        assert [one.id for one in drain(engine)] == more
    assert max(Counter(one.id for one in done).values()) == 1
    engine.archive()
    store.close()


@pytest.mark.django_db(transaction=True)
@pytest.mark.service("redis")
@pytest.mark.parametrize("kind", OutcomeKind)
@pytest.mark.parametrize(
    ("key", "value"), [("meta", "none"), ("details", "none"), ("lease_info", "none")]
)
def test_a_lease_whose_records_are_spoilt_can_be_ended(
    kind: OutcomeKind, key: str, value: str
) -> None:
    store = RedisStore("redis")
    engine = store.engine_named(store.new_name(), cost="runtime")
    put(engine, "a", parent_id="p")
    sound = put(engine, "b")
    [held, other] = take(engine, 2)
    engine.commands.client.hset(engine.commands.keys[key], held.id, value)
    assert end(engine, held, kind)
    assert all(ack_all(engine, [other]))
    assert {one.id for one in drain(engine)} <= {held.id}
    completed = {row["id"] for row in store.history(engine.name)["completed"]}
    assert completed >= set(sound)
    store.close()


@pytest.mark.django_db(transaction=True)
@pytest.mark.service("redis")
def test_a_tenant_whose_head_is_gone_from_the_queue_is_served_again() -> None:
    store = RedisStore("redis")
    engine = store.engine_named(store.new_name())
    ids = put(engine, *"aaa")
    engine.commands.client.zrem(engine.commands.keys["queue"], ids[0])
    assert take(engine) == []
    engine.prune()
    assert [one.id for one in drain(engine)] == ids
    assert engine.partitions() == []
    store.close()
