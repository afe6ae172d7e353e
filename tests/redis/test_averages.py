"""What a tenant's tasks take is remembered as long as the tenant is."""

from __future__ import annotations

import pytest

from tests.contract.jobs import end, put, take
from tests.contract.redis_store import RedisStore
from vtrr_django.engines.redis.engine import RedisEngine

pytestmark = [
    pytest.mark.service("redis"),
    pytest.mark.django_db(transaction=True, available_apps=["vtrr_django"]),
]

TOOK = {"x": 10.0, "xx": 2.0, 'say "x"': 4.0, "x\N{SNOWMAN}": 6.0}
"""Seconds the jobs of each task run."""

FIRST = 0.5
"""Seconds a lease is charged of whose task nothing is known."""


@pytest.fixture
def engine(store: RedisStore) -> RedisEngine:
    return store.engine(cost="runtime")


def run(engine: RedisEngine, key: str) -> dict[str, float]:
    """Run a job of each task; return what its lease was charged."""
    charged = {}
    for task, runtime in TOOK.items():
        put(engine, key, task_name=task)
        [leased] = take(engine)
        [partition] = engine.partitions(partition_key=key)
        # A busy period begins at 1.
        charged[task] = partition.virtual_time - 1
        assert end(engine, leased, runtime=runtime)
    return charged


def remembered(engine: RedisEngine) -> int:
    return int(engine.commands.call("HLEN", engine.commands.keys["average"]))


def test_each_task_of_a_tenant_has_an_average_of_its_own(engine: RedisEngine) -> None:
    for key in ("a", "a b", ""):
        assert run(engine, key) == dict.fromkeys(TOOK, FIRST)
        assert run(engine, key) == {task: seconds / 2 for task, seconds in TOOK.items()}
    assert remembered(engine) == 3


def test_a_tenant_that_is_forgotten_takes_its_averages_along(engine: RedisEngine) -> None:
    for key in ("a", "aa", "b"):
        run(engine, key)
    put(engine, "b")
    engine.prune()
    assert remembered(engine) == 1
    assert engine.purge() == 1
    assert run(engine, "b") == {task: seconds / 2 for task, seconds in TOOK.items()}
    assert run(engine, "a") == dict.fromkeys(TOOK, FIRST)
    engine.prune()
    assert remembered(engine) == 0
    assert run(engine, "b") == dict.fromkeys(TOOK, FIRST)
