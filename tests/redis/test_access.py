"""Scripts touch the keys they declare: a user who may touch no others can run them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from tests.contract.jobs import drain, end, job, put, take
from tests.own_redis import OwnRedis
from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.job import OutcomeKind, Reclaimed, Renewal
from vtrr_django.domain.states import State
from vtrr_django.engines.redis.engine import RedisEngine
from vtrr_django.engines.redis.keys import key_names

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["vtrr_django"])

StartRedis = Callable[..., OwnRedis]


def live(engine: RedisEngine) -> None:
    """Do everything once that an engine can do."""
    ids = put(engine, *"aab", msg_id=None)
    put(engine, *["a"] * 300)
    many = engine.enqueue([job(f"{n % 2}") for n in range(1200)], {"0": 2.0})
    rows = engine.enqueue([job("row") for _ in range(1200)], {"row": 2.0})
    named = [job("n", msg_id="m", id="i", given_id=True, parent_id="p"), job("n", delay=0.01)]
    engine.enqueue(named, {})
    assert engine.known(named[:1]) == ["i"]
    assert engine.enqueue(named[:1], {}) == ["i"]
    engine.cancel([ids[2], many[1000], rows[1000], "nobody"])
    held = take(engine, 20)
    for state in (State.READY, State.SCHEDULED, State.LEASED):
        for key in (None, "row"):
            after = engine.jobs(state, partition_key=key, limit=3).next
            if after is not None:
                assert engine.jobs(state, partition_key=key, after=after).jobs
    assert all(engine.job(one) for one in (held[0].id, rows[999], "i"))
    assert engine.job("nobody") is None
    assert engine.depth().leased == 20
    for one, kind in zip(held, OutcomeKind, strict=False):
        assert end(engine, one, kind, reason="r")
    held = held[5:]
    renewals = [Renewal(job_id=one.id, token=one.token, runtime=3.0) for one in held]
    assert all(engine.renew(renewals, lease_seconds=0.0))
    assert engine.reclaim()
    dead: list[Reclaimed] = []
    # As often as it takes: by cost "runtime", whose turn it is depends on what was measured.
    while not dead:
        assert engine.finish_and_lease([], 1000, worker_id="w", lease_seconds=0.0)
        while more := engine.reclaim():
            dead += [one for one in more if one.dead]
    assert dead
    engine.set_partition("a", share=2.0, limit=5)
    engine.pause("a")
    engine.resume("a")
    engine.pause()
    engine.resume()
    assert engine.stats().failed > 1
    assert engine.dead_letters([dead[0].job_id])
    assert engine.discard([dead[0].job_id]) == [dead[0].job_id]
    assert engine.requeue()
    assert len(engine.partitions()) >= 4
    engine.purge("row")
    assert drain(engine, 100)
    put(engine, "z")
    engine.purge()
    engine.prune()
    assert engine.stats().ready == 0


def user(server: OwnRedis, *patterns: str, **options: Any) -> redis.Redis:
    """Return a client of a user who may touch what the patterns say, by any command."""
    admin = server.client()
    admin.acl_setuser(
        "limited",
        enabled=True,
        passwords=["+secret"],
        keys=list(patterns),
        categories=["+@all"],
        reset=True,
    )
    return redis.Redis.from_url(server.url(user="limited", password="secret"), **options)


@pytest.mark.parametrize("cost", ["weight", "runtime"])
@pytest.mark.parametrize("tag", [False, True])
def test_the_prefix_is_all_a_user_needs(own_redis: StartRedis, cost: Any, tag: bool) -> None:
    client = user(own_redis(), "vtrr:*")
    config = QueueConfig(cost=cost, max_timeouts=2, options={"HASH_TAG": tag})
    live(RedisEngine("q", config, client))


@pytest.mark.parametrize("cost", ["weight", "runtime"])
def test_every_script_declares_the_keys_it_touches(own_redis: StartRedis, cost: Any) -> None:
    """Let each run of a script touch only the keys it was called with."""
    server = own_redis()
    admin = server.client()
    client: Any = user(server, "vtrr:*")
    engine = RedisEngine("q", QueueConfig(cost=cost, max_timeouts=2), client)
    everything = key_names("q", hash_tag=False).values()
    declared: set[str] = set()

    def limit(*commands: tuple[Any, ...]) -> None:
        keys: set[str] = set()
        for name, *args in commands:
            if name in ("EVALSHA", "EVAL"):
                keys |= set(args[2 : 2 + args[1]])
            elif len(commands) > 1:
                keys.add(args[0])
            else:
                keys |= set(everything)
        assert keys <= set(everything)
        if commands[-1][0].startswith("EVAL"):
            declared.update(keys)
        admin.acl_setuser("limited", enabled=True, keys=sorted(keys), reset_keys=True)

    run, pipeline = client.execute_command, client.pipeline

    def limited(*command: Any, **options: Any) -> Any:
        limit(command)
        return run(*command, **options)

    def limited_pipeline(*args: Any, **options: Any) -> Any:
        made = pipeline(*args, **options)
        execute = made.execute

        def limited_execute(*args: Any, **options: Any) -> Any:
            limit(*(one for one, _ in made.command_stack))
            return execute(*args, **options)

        made.execute = limited_execute
        return made

    client.execute_command, client.pipeline = limited, limited_pipeline
    live(engine)
    assert declared == set(everything)
