"""Whose turn it is: fairness, shares, priorities, limits, pauses."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.contract.jobs import ack_all, drain, end, job, put, take
from tests.contract.stores import Store
from vtrr_django.domain.job import OutcomeKind


def keys(leased: list) -> str:
    return "".join(one.partition_key for one in leased)


def test_partitions_take_turns_however_much_each_has_queued(store: Store) -> None:
    engine = store.engine()
    put(engine, *"aaaaaaaaaa")
    put(engine, *"bb")
    put(engine, "c")
    assert keys(drain(engine)) == "abcabaaaaaaaa"


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 100])
def test_a_batch_takes_the_jobs_that_single_leases_would_take(store: Store, batch: int) -> None:
    def fill() -> object:
        engine = store.engine(completed_retention=0)
        for index in range(60):
            key = "abcde"[(index * index) % 5]
            put(engine, key, weight=1 + index % 4, priority=index % 3, id=f"j{index:03}")
        engine.set_partition("b", share=3.0)
        engine.set_partition("c", share=0.5)
        return engine

    single = [one.id for one in drain(fill(), 1)]  # type: ignore[arg-type]
    assert [one.id for one in drain(fill(), batch)] == single  # type: ignore[arg-type]
    assert len(single) == 60


def test_a_newcomer_waits_for_at_most_one_job_of_each_other_tenant(store: Store) -> None:
    engine = store.engine()
    put(engine, *["heavy"] * 500)
    others = [f"t{i}" for i in range(20)]
    put(engine, *others, *others)
    take(engine, 100)
    put(engine, "newcomer")
    order = [one.partition_key for one in take(engine, 30)]
    assert order.index("newcomer") <= len(others) + 1


def test_ties_go_to_the_older_job(store: Store) -> None:
    engine = store.engine()
    for number, key in [(3, "c"), (1, "a"), (2, "b")]:
        put(engine, key, id=f"id-{number}", given_id=True)
    assert [one.id for one in drain(engine)] == ["id-1", "id-2", "id-3"]


def test_shares_divide_the_queue_in_proportion(store: Store) -> None:
    engine = store.engine()
    engine.set_partition("big", share=3.0)
    put(engine, *["big"] * 90, *["small"] * 90)
    assert Counter(one.partition_key for one in take(engine, 80)) == {"big": 60, "small": 20}


def test_a_new_share_reaches_jobs_that_already_wait(store: Store) -> None:
    engine = store.engine()
    put(engine, *["a"] * 100, *["b"] * 100)
    take(engine, 20)
    engine.set_partition("a", share=4.0)
    after = Counter(one.partition_key for one in take(engine, 50))
    assert after["a"] >= 38
    engine.set_partition("a", share=None)
    assert engine.partitions(partition_key="a")[0].share == 1.0


def test_a_declared_share_counts_until_an_operator_sets_another(store: Store) -> None:
    engine = store.engine()
    engine.enqueue([job("a")], {"a": 2.0})
    assert engine.partitions(partition_key="a")[0].share == 2.0
    engine.set_partition("a", share=5.0)
    engine.enqueue([job("a")], {"a": 3.0})
    assert engine.partitions(partition_key="a")[0].share == 5.0
    engine.set_partition("a", share=None)
    assert engine.partitions(partition_key="a")[0].share == 3.0


def test_weights_count(store: Store) -> None:
    engine = store.engine()
    put(engine, *["heavy"] * 10, weight=5)
    put(engine, *["light"] * 50)
    counts = Counter(one.partition_key for one in take(engine, 30))
    assert 4 <= counts["heavy"] <= 6


def test_priority_goes_first_within_a_partition_and_never_across(store: Store) -> None:
    engine = store.engine()
    low, high = put(engine, "a", priority=-5)[0], put(engine, "a", priority=100)[0]
    normal = put(engine, "a")[0]
    [other] = put(engine, "b", priority=-100)
    order = [one.id for one in drain(engine)]
    assert [x for x in order if x != other] == [high, normal, low]
    assert order.index(other) <= 1


def test_no_partition_is_over_its_limit_and_none_blocks_another(store: Store) -> None:
    engine = store.engine(partition_limit=2)
    put(engine, *["a"] * 10, *["b"] * 3)
    leased = take(engine, 10)
    assert Counter(one.partition_key for one in leased) == {"a": 2, "b": 2}
    assert take(engine, 10) == []
    [one] = [x for x in leased if x.partition_key == "a"][:1]
    assert end(engine, one)
    assert keys(take(engine, 10)) == "a"
    ack_all(engine, leased)
    assert len(drain(engine)) == 8


def test_a_limited_partition_costs_no_attempt(store: Store) -> None:
    engine = store.engine(partition_limit=1)
    put(engine, "a", "a")
    take(engine)
    for _ in range(5):
        assert take(engine) == []
    assert all(row["delivery_count"] == 0 for row in store.live(engine.name).values())


def test_a_limit_set_at_run_time_counts_at_once_and_can_be_lifted(store: Store) -> None:
    engine = store.engine()
    put(engine, *["a"] * 10)
    engine.set_partition("a", limit=3)
    assert len(take(engine, 10)) == 3
    engine.set_partition("a", limit=5)
    assert len(take(engine, 10)) == 2
    engine.set_partition("a", limit=None)
    assert len(take(engine, 10)) == 5


def test_a_dead_holder_frees_its_place(store: Store) -> None:
    engine = store.engine(partition_limit=1)
    put(engine, "a", "a")
    take(engine)
    assert take(engine) == []
    store.advance(engine.name, 60)
    assert len(take(engine)) == 1
    assert take(engine) == []


def test_reserve_keeps_places_for_newcomers(store: Store) -> None:
    engine = store.engine(max_concurrency=4, reserve=1)
    put(engine, *["a"] * 10)
    assert len(take(engine, 10)) == 3
    put(engine, "b")
    assert keys(take(engine, 10)) == "b"


def test_a_paused_partition_waits_and_loses_nothing(store: Store) -> None:
    engine = store.engine()
    put(engine, "a", "b", "a")
    engine.pause("a")
    put(engine, "a")
    assert keys(drain(engine)) == "b"
    assert engine.partitions(partition_key="a")[0].paused
    engine.resume("a")
    assert keys(drain(engine)) == "aaa"


def test_a_paused_queue_waits_and_its_leased_jobs_end(store: Store) -> None:
    engine = store.engine()
    put(engine, "a", "b")
    [leased] = take(engine)
    engine.pause()
    put(engine, "c")
    assert take(engine, 10) == []
    assert engine.stats().paused
    assert end(engine, leased)
    engine.resume()
    assert keys(drain(engine)) == "bc"


def test_a_tenant_is_not_punished_after_the_busy_period(store: Store) -> None:
    engine = store.engine()
    put(engine, *["a"] * 20)
    drain(engine)
    put(engine, *["a"] * 3)
    put(engine, *["b"] * 3)
    assert keys(drain(engine)) == "ababab"


def test_measured_cost_divides_time_not_jobs(store: Store) -> None:
    engine = store.engine(cost="runtime")
    put(engine, *["slow"] * 100, *["quick"] * 400)
    spent: Counter[str] = Counter()
    for _ in range(110):
        [leased] = take(engine)
        runtime = 10.0 if leased.partition_key == "slow" else 1.0
        spent[leased.partition_key] += round(runtime)
        end(engine, leased, runtime=runtime)
    assert 0.8 < spent["slow"] / spent["quick"] < 1.25


def test_a_job_given_back_keeps_its_place(store: Store) -> None:
    engine = store.engine()
    ids = put(engine, "a", "a")
    [leased] = take(engine)
    assert end(engine, leased, OutcomeKind.RELEASE)
    assert [one.id for one in drain(engine)] == ids


def test_pruning_forgets_idle_tenants_and_changes_nobodys_turn(store: Store) -> None:
    def play(prune: bool) -> str:
        engine = store.engine()
        engine.set_partition("set", share=2.0)
        put(engine, *["a"] * 6, *[f"t{i}" for i in range(8)], "set")
        order = [one.partition_key for one in take(engine, 12)]
        if prune:
            engine.prune()
        put(engine, *["t1", "t2", "new", "set", "set", "set"], *["a"] * 3)
        if prune:
            engine.prune()
        order += [one.partition_key for one in drain(engine)]
        return " ".join(order)

    assert play(prune=True) == play(prune=False)
    engine = store.engine()
    engine.set_partition("set", share=2.0)
    put(engine, *[f"t{i}" for i in range(40)], "set")
    drain(engine)
    put(engine, "t1")
    assert len(store.remembered(engine.name)) == 41
    engine.prune(batch=7)
    assert store.remembered(engine.name) == {"set", "t1"}
    assert {one.partition_key for one in engine.partitions()} == {"set", "t1"}
    [idle] = engine.partitions(partition_key="set")
    assert (idle.share, idle.ready, idle.leased) == (2.0, 0, 0)
    assert engine.partitions(partition_key="t7") == [], "it has neither jobs nor settings"
    assert len(drain(engine)) == 1


def test_one_call_leases_from_very_many_partitions(store: Store) -> None:
    engine = store.engine()
    ids = engine.enqueue([job(f"tenant {n}") for n in range(700)], {})
    assert [one.id for one in take(engine, 1000)] == ids
    assert engine.depth().ready == 0
