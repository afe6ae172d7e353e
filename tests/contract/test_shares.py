"""What ``SHARES`` declares reaches a partition whichever way its jobs take to become ready."""

from __future__ import annotations

import pytest

from tests.contract.jobs import end, job, put, take
from tests.contract.stores import SQL_STORES, OrmStore, Store
from vtrr_django.domain.job import OutcomeKind
from vtrr_django.engines.base import Engine
from vtrr_django.engines.sql.models import Partition


def put_later(engine: Engine, key: str, share: float) -> None:
    engine.enqueue([job(key, delay=60.0)], {key: share})


def share_of(engine: Engine, key: str = "a") -> float:
    [partition] = engine.partitions(partition_key=key)
    return partition.share


def fall_due(store: Store, engine: Engine) -> None:
    store.advance(engine.name, 3600)
    engine.reclaim()
    assert engine.depth().scheduled == 0


def test_a_new_partition_whose_first_job_is_scheduled(store: Store) -> None:
    engine = store.engine()
    put_later(engine, "a", 5.0)
    put_later(engine, "b", 1.0)
    assert (share_of(engine), share_of(engine, "b")) == (5.0, 1.0)
    fall_due(store, engine)
    assert (share_of(engine), share_of(engine, "b")) == (5.0, 1.0)


def test_a_changed_share_reaches_who_only_schedules(store: Store) -> None:
    engine = store.engine()
    for share in (5.0, 2.0, 1.0, 3.0):
        put_later(engine, "a", share)
        assert share_of(engine) == share
    fall_due(store, engine)
    assert share_of(engine) == 3.0


def test_a_share_that_comes_with_a_scheduled_job_counts_for_those_that_wait(store: Store) -> None:
    engine = store.engine()
    put(engine, *["a"] * 40, *["b"] * 40)
    put_later(engine, "a", 3.0)
    leased = [one.partition_key for one in take(engine, 40)]
    assert (leased.count("a"), leased.count("b")) == (30, 10)


@pytest.mark.parametrize("kind", [OutcomeKind.RETRY, OutcomeKind.SNOOZE])
def test_a_partition_whose_only_job_comes_back_later(store: Store, kind: OutcomeKind) -> None:
    engine = store.engine()
    engine.enqueue([job("a")], {"a": 5.0})
    [leased] = take(engine)
    assert end(engine, leased, kind, delay=60.0)
    engine.prune()
    assert store.remembered(engine.name) == {"a"}
    fall_due(store, engine)
    assert share_of(engine) == 5.0
    [again] = take(engine)
    assert end(engine, again)
    engine.prune()
    assert store.remembered(engine.name) == set(), "it had to be kept while its job was scheduled"


@pytest.mark.parametrize("store", SQL_STORES, indirect=True)
@pytest.mark.parametrize("delay", [None, 60.0])
def test_a_partition_that_a_crash_left_without_a_row(store: Store, delay: float | None) -> None:
    # Between the commit of the job and what follows it. In Redis, both are one script.
    assert isinstance(store, OrmStore)
    engine = store.engine()
    asked: list[str] = []

    def shares_of(keys: object) -> dict[str, float]:
        asked.extend(keys)  # type: ignore[call-overload]
        return {"a": 5.0}

    engine.shares_of = shares_of
    engine.enqueue([job("a", delay=delay), job("b", delay=delay)], {"a": 5.0, "b": 1.0})
    assert asked == [], "what is told need not be asked"
    Partition.objects.using(store.alias).filter(queue=engine.name).delete()
    fall_due(store, engine)
    assert (share_of(engine), share_of(engine, "b")) == (5.0, 1.0)
    assert sorted(asked) == ["a", "b"]
    assert len(take(engine, 2)) == 2
