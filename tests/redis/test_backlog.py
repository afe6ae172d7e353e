"""The far end of a long line, kept in blocks: nobody can tell it from the rest of the line."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from tests.contract.jobs import drain, end, job, put, take
from tests.contract.redis_store import RedisStore
from tests.contract.test_oracle import CONFIGS, PARTITIONS, Machine
from tests.redis.engines import once
from vtrr_django.domain.ids import new_job_ids
from vtrr_django.domain.job import NewJob, OutcomeKind
from vtrr_django.engines.redis.engine import RedisEngine

pytestmark = [
    pytest.mark.service("redis"),
    pytest.mark.django_db(transaction=True, available_apps=["vtrr_django"]),
]

LENGTHS = (15, 16, 17, 99, 100, 101, 200, 250)


def bulk(engine: RedisEngine, count: int, key: str = "a", **fields: Any) -> list[str]:
    return put(engine, *[key] * count, **fields)


def in_blocks(engine: RedisEngine) -> int:
    """Return how many jobs are in the backlog."""
    found = engine.commands.call("HGET", engine.commands.keys["state"], "backlog")
    return int(found or 0)


def order(engine: RedisEngine, batch: int = 7) -> list[str]:
    return [one.id for one in drain(engine, batch)]


def check_counts(engine: RedisEngine, waiting: list[NewJob]) -> None:
    ready = Counter(one.partition_key for one in waiting)
    assert {one.partition_key: one.ready for one in engine.partitions() if one.ready} == ready
    assert engine.stats().ready == len(waiting)


# -- one after the other -----------------------------------------------------------


@pytest.mark.parametrize("length", LENGTHS)
def test_a_bulk_comes_out_in_its_order(store: RedisStore, length: int) -> None:
    engine = store.engine()
    ids = bulk(engine, length)
    assert in_blocks(engine) == (max(0, length - 100) if length >= 16 else 0)
    assert engine.stats().ready == length
    assert order(engine) == ids
    assert engine.stats().ready == in_blocks(engine) == 0


def test_singles_that_come_later_go_later_and_priorities_go_first_or_last(
    store: RedisStore,
) -> None:
    engine = store.engine()
    first = bulk(engine, 120)
    single = bulk(engine, 1)
    second = bulk(engine, 130)
    few = bulk(engine, 3)
    low = bulk(engine, 20, priority=-1)
    high = bulk(engine, 20, priority=1)
    last = bulk(engine, 120)
    assert engine.stats().ready == 414
    assert order(engine) == [*high, *first, *single, *second, *few, *last, *low]


@pytest.mark.parametrize("odd", [{"id": "not-a-uuid"}, {"priority": 3}, {"priority": -3}])
def test_jobs_that_fit_in_no_block_in_the_same_call(store: RedisStore, odd: dict[str, Any]) -> None:
    engine = store.engine()
    before = bulk(engine, 150)
    jobs = [job("a") for _ in range(60)]
    jobs.insert(30, job("a", given_id="id" in odd, **odd))
    others = [job("b") for _ in range(40)]
    engine.enqueue([*jobs, *others], {})
    after = bulk(engine, 150)
    ids = [one.id for one in sorted(jobs, key=lambda one: -one.priority)]
    if odd.get("priority") == 3:
        expected = [ids[0], *before, *ids[1:], *after]
    elif odd.get("priority") == -3:
        expected = [*before, *ids[:-1], *after, ids[-1]]
    else:
        expected = [*before, *ids, *after]
    found = drain(engine, 9)
    assert [one.id for one in found if one.partition_key == "a"] == expected
    assert [one.id for one in found if one.partition_key == "b"] == [one.id for one in others]


def test_jobs_that_are_due_later_in_the_same_call(store: RedisStore) -> None:
    engine = store.engine()
    jobs = [job("a", delay=60.0 if number % 3 == 0 else None) for number in range(90)]
    engine.enqueue(jobs, {})
    assert engine.partitions()[0].ready == 60
    assert order(engine) == [one.id for one in jobs if one.delay is None]
    assert engine.stats().scheduled == 30
    store.advance(engine.name, 61)
    assert sorted(order(engine)) == sorted(one.id for one in jobs if one.delay is not None)


# -- leaving the line --------------------------------------------------------------


def with_ids(ids: list[str]) -> list[NewJob]:
    return [job("a", id=one, given_id=True) for one in ids]


@pytest.mark.parametrize("lead", ["00", "7f", "80", "fe", "ff"])
def test_whatever_the_ids_of_a_block_are_its_jobs_can_be_cancelled(
    store: RedisStore, lead: str
) -> None:
    """The block is looked for by the place it begins with, behind which comes an id."""
    engine = store.engine()
    ids = [lead * 4 + one[8:] for one in new_job_ids(319)]
    ids.insert(100, "-".join(lead * length for length in (4, 2, 2, 2, 6)))
    engine.enqueue(with_ids(ids), {})
    rng = random.Random(lead)
    gone = set(rng.sample(ids, 100)) | {ids[0], ids[100], ids[200], ids[300], ids[319]}
    assert set(engine.cancel(sorted(gone))) == gone
    left = [one for one in ids if one not in gone]
    assert engine.stats().ready == len(left)
    assert order(engine) == left


@pytest.mark.parametrize(
    "positions",
    [[0], [99], [100], [101], [150], [199], [200], [299], [100, 101], [199, 198, 197]],
)
def test_cancelling_at_the_seams(store: RedisStore, positions: list[int]) -> None:
    engine = store.engine()
    ids = bulk(engine, 300)
    for position in positions:
        assert engine.cancel([ids[position]]) == [ids[position]]
        assert engine.cancel([ids[position]]) == []
    left = [one for position, one in enumerate(ids) if position not in positions]
    assert (engine.stats().ready, engine.partitions()[0].ready) == (len(left), len(left))
    assert order(engine) == left


def test_cancelling_whole_blocks(store: RedisStore) -> None:
    engine = store.engine()
    ids = bulk(engine, 350)
    assert engine.cancel(ids[100:300]) == ids[100:300]
    assert in_blocks(engine) == 50
    assert engine.cancel(ids[:100]) == ids[:100]
    assert engine.cancel(ids[300:]) == ids[300:]
    assert (in_blocks(engine), engine.stats().ready, engine.stats().partitions_waiting) == (0, 0, 0)
    assert take(engine) == []
    more = bulk(engine, 30)
    assert order(engine) == more


@pytest.mark.parametrize("rows", [32, 100, 250, 1500])
@pytest.mark.parametrize("before", [0, 110, 150])
def test_cancelling_what_was_packed_from_both_sides_of_reserved_places(
    store: RedisStore, rows: int, before: int
) -> None:
    """Jobs come while a large enqueue has its places and is not stored yet."""
    engine = store.engine()
    early, late = singles(engine, before), []

    def meanwhile(run: Any) -> Any:
        late.extend(singles(store.engine_named(engine.name), 300 - before))
        return run()

    once(engine, "append" if rows < 1000 else "stage", meanwhile)
    ids = bulk(engine, rows)
    assert in_blocks(engine) > 0
    rng = random.Random(rows)
    for chosen in (
        late[3:40],
        late[-40:],
        rng.sample(ids, 20),
        early[-30:],
        [*late[60:80], ids[9]],
    ):
        there = [one for one in chosen if engine.job(one) is not None]
        assert engine.cancel(chosen) == there
        assert engine.cancel(chosen) == []
    gone = {one for one in (*early, *ids, *late) if engine.job(one) is None}
    left = [one for one in (*early, *ids, *late) if one not in gone]
    assert engine.stats().ready == len(left)
    assert order(engine) == left
    assert in_blocks(engine) == 0


def test_purging(store: RedisStore) -> None:
    engine = store.engine()
    bulk(engine, 2500, "a")
    others = [bulk(engine, 150, key) for key in ("b", "aa", "A", "")]
    bulk(engine, 20, "a", delay=60.0)
    bulk(engine, 3, "a", priority=7)
    assert engine.purge("a") == 2523
    assert engine.stats().ready == 600
    assert take(engine)[0].partition_key != "a"
    assert engine.purge("nobody") == 0
    assert engine.purge() == 599
    assert (in_blocks(engine), engine.stats().ready, engine.purge()) == (0, 0, 0)
    assert others


def test_releases_and_reclaims_while_blocks_wait(store: RedisStore) -> None:
    engine = store.engine(partition_limit=3)
    ids = bulk(engine, 250)
    held = take(engine, 3)
    assert take(engine) == []
    assert end(engine, held[1], OutcomeKind.RELEASE)
    assert [one.id for one in take(engine, 3)] == [ids[1]]
    store.advance(engine.name, 3600)
    assert len(engine.reclaim()) == 3
    # A lease that ran out leads to the end of the line, behind all blocks.
    engine_order = []
    while leased := take(engine, 3):
        engine_order += [one.id for one in leased]
        for one in leased:
            assert end(engine, one)
    assert engine_order[:247] == ids[3:]
    assert sorted(engine_order[247:]) == sorted(ids[:3])


def test_a_pause_and_a_limit_leave_the_blocks_alone(store: RedisStore) -> None:
    engine = store.engine()
    ids = bulk(engine, 150)
    engine.pause("a")
    more = bulk(engine, 150)
    assert take(engine) == []
    assert engine.stats().ready == 300
    engine.cancel(ids[:5])
    engine.resume("a")
    engine.set_partition("a", limit=1)
    [first] = take(engine, 5)
    assert first.id == ids[5]
    engine.set_partition("a", limit=None)
    assert end(engine, first)
    assert order(engine) == [*ids[6:], *more]


# -- all together ------------------------------------------------------------------


class Bulks(Machine):
    """The state machine of the contract with long lines, and more ways to leave them."""

    @rule(
        keys=st.lists(PARTITIONS, min_size=1, max_size=3),
        count=st.sampled_from([16, 30, 120, 230]),
        odd=st.sampled_from([None, None, "id", "priority", "delay"]),
        seed=st.integers(0, 1000),
    )
    def bulk(self, keys: list[str], count: int, odd: str | None, seed: int) -> None:
        rng = random.Random(seed)
        new = [job(rng.choice(keys)) for _ in range(count)]
        fields: dict[str | None, dict[str, Any]] = {
            "id": {"id": f"given-{self.turn}-{seed}", "given_id": True},
            "priority": {"priority": rng.choice([-5, 10])},
            "delay": {"delay": 25.0},
        }
        at = rng.randrange(count)
        new[at] = job(new[at].partition_key, **fields.get(odd, {}))
        assert self.engine.enqueue(new, {}) == [one.id for one in new]
        self.turn += 1
        for one in new:
            due = self.clock + (one.delay or 0.0)
            self._added(one, scheduled=one.delay is not None, due=due)

    @rule(n=st.sampled_from([20, 90]))
    def drain_some(self, n: int) -> None:
        self._return_jobs_before_lease(n)

    def _return_jobs_before_lease(self, n: int) -> None:
        leased = self.engine.lease(n, worker_id="w", lease_seconds=55.0)
        self._return_jobs()
        expected = [x for x in (self.oracle.lease() for _ in range(n)) if x is not None]
        assert [one.id for one in leased] == expected
        self._mark(leased)
        for one in leased[: len(leased) * 3 // 4]:
            self._finish(self.jobs[one.id], OutcomeKind.ACK, 0.0, 0.0)

    @precondition(lambda self: self.jobs)
    @rule(count=st.sampled_from([5, 60, 150]), seed=st.integers(0, 1000), row=st.booleans())
    def cancel_many(self, count: int, seed: int, row: bool) -> None:
        rng, ids = random.Random(seed), list(self.jobs)
        first = rng.randrange(len(ids))
        chosen = ids[first : first + count] if row else rng.sample(ids, min(count, len(ids)))
        expected = [one for one in chosen if self.oracle.cancel(one)]
        assert self.engine.cancel(chosen) == expected
        for one in expected:
            self._cancelled(one)

    @rule()
    def purge_all(self) -> None:
        waiting = [one for one in self.jobs if one not in self.oracle.leased()]
        assert self.engine.purge() == len(waiting)
        for one in waiting:
            self.oracle.cancel(one)
            self._cancelled(one)

    @rule()
    def ready_of_partitions_agrees(self) -> None:
        found = {one.partition_key: one.ready for one in self.engine.partitions() if one.ready}
        keys = {live.new.partition_key for live in self.jobs.values()}
        assert found == {key: n for key in keys if (n := len(self.oracle.ready(key)))}


@pytest.mark.parametrize("config", CONFIGS)
def test_the_engine_and_the_oracle_agree_about_long_lines(store: RedisStore, config: str) -> None:
    machine = type("Machine", (Bulks,), {"store": store, "config": CONFIGS[config]()})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=max(6, settings().max_examples // 6),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def singles(engine: RedisEngine, count: int, key: str = "a", **fields: Any) -> list[str]:
    return [put(engine, key, **fields)[0] for _ in range(count)]


def test_a_long_line_of_single_jobs_is_packed_too_and_keeps_its_order(store: RedisStore) -> None:
    engine = store.engine()
    ids = singles(engine, 500)
    assert in_blocks(engine) >= 300
    gone = [ids[3], ids[70], ids[250], ids[251], ids[399], ids[499]]
    assert engine.cancel(gone) == gone
    assert engine.stats().ready == 494
    assert order(engine) == [one for one in ids if one not in gone]
    assert in_blocks(engine) == 0


def test_single_jobs_round_a_bulk_are_packed_apart_from_it(store: RedisStore) -> None:
    engine = store.engine()
    ids = singles(engine, 100) + bulk(engine, 40) + singles(engine, 100)
    assert in_blocks(engine) == 40  # those before and behind it are no neighbours
    ids += singles(engine, 300)
    assert in_blocks(engine) > 140
    [held] = take(engine)
    ids += singles(engine, 200)
    assert end(engine, held, OutcomeKind.RELEASE)
    assert engine.partitions()[0].ready == len(ids) == 740
    assert order(engine) == ids


def test_jobs_of_other_priorities_leave_a_line_as_it_is(store: RedisStore) -> None:
    engine = store.engine()
    low = singles(engine, 1, priority=-1)
    normal = singles(engine, 250)
    high = singles(engine, 1, priority=1)
    assert in_blocks(engine) == 0
    assert order(engine) == high + normal + low


def test_packed_single_jobs_are_purged_and_lines_may_grow_again(store: RedisStore) -> None:
    engine = store.engine()
    singles(engine, 400)
    kept = singles(engine, 200, "b")
    assert engine.purge("a") == 400
    ids = singles(engine, 200)
    rest = [one.id for one in drain(engine, 7)]
    assert [one for one in rest if one in set(kept)] == kept
    assert [one for one in rest if one in set(ids)] == ids
    assert in_blocks(engine) == 0
