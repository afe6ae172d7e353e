"""Payloads that somebody else has written, or spoilt."""

from __future__ import annotations

import pytest

from tests.contract.jobs import put, take
from tests.contract.redis_store import RedisStore

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
