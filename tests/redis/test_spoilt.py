"""Payloads that somebody else has written, or spoilt."""

from __future__ import annotations

import pytest
import redis

from tests.contract.jobs import put, take
from tests.contract.redis_store import RedisStore
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
