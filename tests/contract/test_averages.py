"""Measured cost: what is remembered of a tenant, and for how long."""

from __future__ import annotations

from tests.contract.jobs import end, put, take
from tests.contract.stores import Store
from vtrr_django.domain.fairness import INITIAL_ESTIMATE
from vtrr_django.engines.base import Engine


def run(engine: Engine, key: str, seconds: float) -> None:
    """Run the next job, which is that partition's."""
    [leased] = take(engine)
    assert leased.partition_key == key
    assert end(engine, leased, runtime=seconds)


def charged(engine: Engine, key: str) -> float:
    """Lease the next job, which is that partition's; return the seconds charged for it."""
    [before] = engine.partitions(partition_key=key)
    [leased] = take(engine)
    assert leased.partition_key == key
    [after] = engine.partitions(partition_key=key)
    assert end(engine, leased, runtime=after.virtual_time - before.virtual_time)
    return after.virtual_time - before.virtual_time


def test_averages_are_forgotten_with_their_tenant_and_not_before(store: Store) -> None:
    engine = store.engine(cost="runtime")
    put(engine, "a", "a", *["b"] * 9)
    run(engine, "a", 10.0)
    engine.prune()  # "a" is ahead and has a job: it is remembered
    run(engine, "b", 30.0)
    assert charged(engine, "a") == 10.0 / 2
    run(engine, "b", 30.0)
    run(engine, "b", 30.0)  # the queue's virtual time is past what "a" had
    engine.prune()
    assert store.remembered(engine.name) == {"b"}
    assert charged(engine, "b") == 30.0 / 2
    put(engine, "a")
    assert charged(engine, "a") == INITIAL_ESTIMATE / 2
