"""Clients that decode responses or do not, in both protocols, with both parsers."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from redis._parsers import _HiredisParser, _RESP2Parser, _RESP3Parser

from tests import services
from tests.contract.jobs import all_pages, drain, end, job, put, take
from tests.contract.redis_store import RedisStore
from tests.redis.engines import once
from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.job import OutcomeKind, Renewal
from vtrr_django.domain.states import State
from vtrr_django.engines.redis.engine import RedisEngine

pytestmark = [
    pytest.mark.service("redis"),
    pytest.mark.django_db(transaction=True, available_apps=["vtrr_django"]),
]

PAYLOAD = '{"args":["ü\\u0000","",1e300],"kwargs":{"k":[12345678901234567890,[],{}]}}'


@pytest.fixture(
    params=[
        (protocol, decode, parser)
        for protocol in (2, 3)
        for decode in (False, True)
        for parser in ("hiredis", "python")
    ],
    ids=lambda one: f"resp{one[0]}-{'str' if one[1] else 'bytes'}-{one[2]}",
)
def client(request: pytest.FixtureRequest) -> Any:
    protocol, decode, parser = request.param
    python = _RESP2Parser if protocol == 2 else _RESP3Parser
    made = redis.Redis.from_url(
        services.SERVICES["redis"].url("redis"),
        protocol=protocol,
        decode_responses=decode,
        parser_class=_HiredisParser if parser == "hiredis" else python,
    )
    made.ping()
    connection = made.connection_pool.make_connection()
    expected = _HiredisParser if parser == "hiredis" else python
    assert type(connection._parser) is expected
    return made


def test_a_whole_life(store: RedisStore, client: Any) -> None:  # noqa: PLR0915 - it is a long one
    name = store.new_name()
    engine = RedisEngine(name, QueueConfig(max_timeouts=2), client)
    told: list[Any] = []
    engine.on_reclaimed = told.extend

    new = job("tenant ü", payload=PAYLOAD, msg_id="m 1", parent_id="p", priority=7, weight=3)
    [job_id] = engine.enqueue([new], {"tenant ü": 2.5})
    assert engine.known([new]) == [job_id]
    assert engine.enqueue([job("tenant ü", msg_id="m 1")], {}) == [job_id]
    [leased] = take(engine)
    assert (leased.id, leased.partition_key, leased.task_name) == (job_id, "tenant ü", "tests.task")
    assert leased.args == ["ü\0", "", 1e300]
    assert leased.kwargs == {"k": [12345678901234567890, [], {}]}
    assert (leased.priority, leased.weight) == (7, 3)
    assert (leased.parent_id, leased.msg_id) == ("p", "m 1")
    renewal = Renewal(job_id=job_id, token=leased.token)
    assert engine.renew([renewal], lease_seconds=60) == [True]
    assert end(engine, leased, OutcomeKind.RETRY, delay=5.0)
    assert not end(engine, leased)
    store.advance(name, 6)
    [leased] = take(engine)
    assert (leased.id, leased.delivery_count, leased.timeouts) == (job_id, 1, 0)

    store.advance(name, 3600)
    assert [(one.job_id, one.dead) for one in engine.reclaim()] == [(job_id, False)]
    [leased] = take(engine)
    assert leased.timeouts == 1
    store.advance(name, 3600)
    assert take(engine) == []
    assert [(one.task_name, one.timeouts, one.dead) for one in told] == [
        ("tests.task", 1, False),
        ("tests.task", 2, True),
    ]
    stats = engine.stats()
    assert (stats.failed, stats.recent_failures[0]["id"]) == (1, job_id)
    assert engine.requeue() == [job_id]
    assert [one.id for one in drain(engine)] == [job_id]

    many = [job(f"{number % 3}", payload=PAYLOAD) for number in range(2100)]
    assert engine.enqueue(many, {}) == [one.id for one in many]
    assert engine.reclaim() == []
    put(engine, "0", "1", delay=60.0)
    rows = engine.partitions()
    assert [(one.partition_key, one.ready, one.scheduled) for one in rows] == [
        ("0", 700, 1),
        ("1", 700, 1),
        ("2", 700, 0),
    ]
    assert engine.partitions(partition_key="1") == [rows[1]]
    ready = all_pages(engine, State.READY, limit=40)
    assert sorted(one.id for one in ready) == sorted(one.id for one in many)
    assert {one.payload for one in ready} == {PAYLOAD}
    later = all_pages(engine, State.SCHEDULED, limit=1)
    assert [one.partition_key for one in later] == ["0", "1"]
    assert engine.job(many[7].id) in ready
    engine.set_partition("2", share=3.0, limit=4)
    engine.pause("1")
    engine.pause()
    assert engine.stats().paused
    engine.resume()
    assert len(take(engine, 500)) == 500
    assert len(all_pages(engine, State.LEASED, limit=70)) == 500
    assert engine.cancel([many[-1].id, "nobody"]) == [many[-1].id]
    assert engine.purge("1") == 701
    assert engine.purge() == 2100 + 2 - 500 - 1 - 701
    assert engine.prune() == {"completed": 0, "failed": 0}
    stats = engine.stats()
    assert (stats.ready, stats.scheduled, stats.leased, stats.completed) == (0, 0, 500, 1)


def test_a_large_enqueue_is_completed_by_others(store: RedisStore, client: Any) -> None:
    name = store.new_name()
    engine = RedisEngine(name, QueueConfig(), client)
    jobs = [job("a") for _ in range(1500)]

    def dies(run: Any) -> None:
        raise KeyboardInterrupt

    once(engine, "admit", dies)
    with pytest.raises(KeyboardInterrupt):
        engine.enqueue(jobs, {})
    assert take(engine) == []
    assert engine.reclaim() == []
    assert [one.id for one in drain(engine, 500)] == [one.id for one in jobs]
