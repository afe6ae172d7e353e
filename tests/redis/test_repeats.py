"""Clients may repeat a command whose answer got lost: no job is stored twice by that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.jobs import drain, job, put
from tests.contract.redis_store import RedisStore
from tests.redis.engines import intercept, let_go
from vtrr_django.domain.job import NewJob

pytestmark = [
    pytest.mark.service("redis"),
    pytest.mark.django_db(transaction=True, available_apps=["vtrr_django"]),
]

JOBS: dict[str, list[NewJob]] = {
    "one": [job("a")],
    "one with a parent": [job("a", parent_id="p")],
    "some": [job("a"), job("b", priority=3), job("a", delay=0.0)],
    "a bulk": [job("ab"[number % 2]) for number in range(200)],
    "later": [job("a", delay=60.0)],
    "many": [job(f"{number % 3}") for number in range(600)],
}


@pytest.mark.parametrize("jobs", JOBS)
@pytest.mark.parametrize("leased", [False, True])
def test_a_script_that_is_sent_twice(store: RedisStore, jobs: str, leased: bool) -> None:
    engine = store.engine()

    def twice(name: str, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        first = run()
        if name in ("put", "enqueue", "stage", "admit"):
            if leased:
                engine.lease(1, worker_id="w", lease_seconds=60.0)
            run()
        return first

    intercept(engine, twice)
    ids = engine.enqueue(JOBS[jobs], {})
    let_go(engine)
    stats = engine.stats()
    assert stats.ready + stats.scheduled + stats.leased == len(ids)
    store.advance(engine.name, 3600)
    engine.reclaim()
    assert sorted(one.id for one in drain(engine, 50)) == sorted(ids)
    assert engine.stats().ready == 0
    assert drain(engine) == [] or put(engine, "a")
