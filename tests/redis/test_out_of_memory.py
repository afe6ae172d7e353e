"""Redis at its ``maxmemory``: what comes in is refused whole, and everything else goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.jobs import end, job, put, take
from tests.own_redis import OwnRedis
from tests.redis.engines import content, engine_on, intercept, once
from vtrr_django.domain.job import NewJob, OutcomeKind, Renewal
from vtrr_django.engines.redis.engine import RedisEngine
from vtrr_django.exceptions import StoreUnavailable

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["vtrr_django"])

StartRedis = Callable[..., OwnRedis]


@pytest.fixture
def server(own_redis: StartRedis) -> OwnRedis:
    return own_redis({"maxmemory-policy": "noeviction"})


def fill(server: OwnRedis) -> None:
    """Let the server have used up its memory."""
    server.client().config_set("maxmemory", "1mb")


def names(count: int) -> list[NewJob]:
    return [
        job("a", msg_id=f"m{n}", parent_id="p", delay=n % 2 * 60.0 or None) for n in range(count)
    ]


def without_places(engine: RedisEngine, found: dict[str, Any]) -> dict[str, Any]:
    """Leave out the last place in line that was given out: it may go to nobody."""
    state = {k: v for k, v in found[engine.commands.keys["state"]].items() if k != b"sequence"}
    return found | {engine.commands.keys["state"]: state}


INCOMING: dict[str, Callable[[], list[NewJob]]] = {
    "one": lambda: [job("new")],
    "one due later": lambda: [job("new", delay=60.0)],
    "one with names": lambda: [job("a", id="mine", given_id=True, msg_id="m")],
    "ten": lambda: [job(f"{n % 3}") for n in range(10)],
    "ten with names": lambda: names(10),
    "a bulk for the backlog": lambda: [job("a") for _ in range(500)],
    "many": lambda: [job(f"{n % 3}") for n in range(5000)],
    "many of one partition": lambda: [job("a") for _ in range(5000)],
    "many with names": lambda: names(2000),
}


@pytest.mark.parametrize("incoming", INCOMING)
def test_what_comes_in_is_refused_and_nothing_of_it_is_stored(
    server: OwnRedis, incoming: str
) -> None:
    engine = engine_on(server)
    bulk = put(engine, *["a"] * 200, "b")
    take(engine, 2)
    before = content(server.client())
    jobs = INCOMING[incoming]()
    fill(server)
    with pytest.raises(StoreUnavailable) as caught:
        engine.enqueue(jobs, {"a": 2.0})
    message = str(caught.value)
    assert message.startswith("Redis is out of memory (maxmemory)")
    assert f"{engine.name!r}; nothing was stored" in message
    assert without_places(engine, content(server.client())) == without_places(engine, before)
    server.client().config_set("maxmemory", "0")
    assert len(engine.enqueue(jobs, {})) == len(jobs)
    assert bulk


@pytest.mark.parametrize("incoming", ["many", "many of one partition"])
@pytest.mark.parametrize("stage", [0, 1, 4])
def test_memory_that_runs_out_in_the_middle_of_a_large_enqueue(
    server: OwnRedis, stage: int, incoming: str
) -> None:
    engine = engine_on(server)
    put(engine, "a")
    before = content(server.client())

    def filling(name: str, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        if name == "stage" and args[1] == stage:
            fill(server)
        return run()

    intercept(engine, filling)
    with pytest.raises(StoreUnavailable, match="nothing was stored"):
        engine.enqueue(INCOMING[incoming](), {})
    assert without_places(engine, content(server.client())) == without_places(engine, before)


@pytest.mark.parametrize("incoming", ["many", "many of one partition"])
def test_memory_that_runs_out_behind_the_decision(server: OwnRedis, incoming: str) -> None:
    """What is committed takes hardly more in its place than it takes aside, and is stored."""
    engine = engine_on(server)

    def filling(run: Callable[[], Any]) -> Any:
        fill(server)
        return run()

    once(engine, "admit", filling)
    jobs = INCOMING[incoming]()
    assert engine.enqueue(jobs, {}) == [one.id for one in jobs]
    assert engine.stats().ready == len(jobs)


KINDS = [kind for kind in OutcomeKind if kind is not OutcomeKind.ACK]


@pytest.mark.parametrize("cost", ["weight", "runtime"])
def test_everything_else_goes_on(server: OwnRedis, cost: str) -> None:
    engine = engine_on(server, cost=cost, max_timeouts=2)
    everything(engine, lambda: None)
    other = engine_on(server, cost=cost, max_timeouts=2)
    everything(other, lambda: fill(server))
    assert engine.commands.keys["queue"] != other.commands.keys["queue"]


def everything(engine: RedisEngine, fill: Callable[[], None]) -> None:
    """Do all that is done to jobs that are there; ``fill`` is called before."""
    put(engine, *["a"] * 400, *"bcdefg")
    later = put(engine, *["later"] * 30, delay=0.0001)
    named = engine.enqueue([job("a", msg_id="m", id="x", given_id=True)], {})
    held = take(engine, 20)
    fill()
    with pytest.raises(StoreUnavailable) if fill.__closure__ else _nothing():
        put(engine, "a")

    for one, kind in zip(held, [*KINDS, *KINDS], strict=False):
        assert end(engine, one, kind, delay=0.0, reason="r" * 5000, traceback="t" * 20_000)
    for one in held[8:14]:
        assert end(engine, one)
    held = held[14:]
    assert engine.renew(
        [Renewal(job_id=one.id, token=one.token, runtime=2.0) for one in held], lease_seconds=0.0
    ) == [True] * len(held)
    assert len(engine.reclaim()) == len(held)
    done, more = engine.finish_and_lease([], 300, worker_id="w", lease_seconds=0.0)
    assert (done, len(more)) == ([], 300)
    dead = [one for one in engine.reclaim() if one.dead]
    assert len(dead) < 300
    engine.pause()
    assert take(engine) == []
    engine.resume()
    engine.set_partition("b", share=2.0, limit=3)
    engine.pause("b")
    engine.pause("never seen")
    engine.resume("b")
    first = take(engine, 1)
    assert engine.finish_and_lease([], 0, worker_id="w", lease_seconds=1.0) == ([], [])
    assert end(engine, first[0], OutcomeKind.RETRY, delay=60.0)
    assert engine.cancel([first[0].id]) == [first[0].id]
    ready = engine.stats().ready
    assert engine.purge("a") + engine.purge() == ready
    assert engine.stats().ready == engine.stats().scheduled == 0
    assert engine.archive() == 0
    assert engine.stats().failed >= 2
    engine.prune()
    assert later
    assert named


def _nothing() -> Any:
    import contextlib

    return contextlib.nullcontext()


def test_a_dead_letter_that_does_not_fit_in_stays_one(server: OwnRedis) -> None:
    engine = engine_on(server)
    [job_id] = put(engine, "a")
    assert end(engine, take(engine)[0], OutcomeKind.FAIL)
    engine.archive()
    fill(server)
    with pytest.raises(StoreUnavailable, match="out of memory"):
        engine.requeue([job_id])
    assert engine.stats().failed == 1
    server.client().config_set("maxmemory", "0")
    assert engine.requeue([job_id]) == [job_id]
    assert engine.stats().failed == 0
