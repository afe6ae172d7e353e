"""Looking through live jobs page by page: each comes once, in the order it will run."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connections

from tests.contract.jobs import all_pages, drain, end, job, put, take
from tests.contract.stores import SQL_STORES, OrmStore, Store
from tests.races.threads import Background
from vtrr_django.domain.job import JobInfo, OutcomeKind
from vtrr_django.domain.states import State
from vtrr_django.engines.base import Engine
from vtrr_django.exceptions import ValidationError

READY, SCHEDULED, LEASED = State.READY, State.SCHEDULED, State.LEASED

KEYS = sorted(
    ["", "%", "A", "_", "a", "a ", "a\u00a0", "a%", "aa", "z~", "ÿ", "\u07ff", "一", "\U0001f680"],
    key=str.encode,
)


def ids_of(jobs: list[JobInfo]) -> list[str]:
    return [one.id for one in jobs]


def fill(engine: Engine, seed: int = 1) -> int:
    """Enqueue 1,234 ready jobs in every way there is; return how many."""
    rng = random.Random(seed)
    count = 0
    for key, length in (("a", 400), ("a", 16), ("%", 120), ("\U0001f680", 33)):
        count += len(put(engine, *[key] * length))
    count += len(engine.enqueue([job(rng.choice(KEYS)) for _ in range(400)], {}))
    for _ in range(60):
        count += len(put(engine, rng.choice(KEYS), priority=rng.choice([-100, -1, 0, 3, 100])))
    engine.cancel(put(engine, *["aa"] * 40)[3:35])
    held = take(engine, 20)
    for one in held[::2]:
        assert end(engine, one, OutcomeKind.RELEASE)
    for one in held[1::2]:
        assert end(engine, one)
    count += 8 - 10
    return count + len(put(engine, *[rng.choice(KEYS) for _ in range(1234 - count)]))


# -- ready -------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [17, 100, 1000])
def test_every_ready_job_comes_once_by_partition_and_then_as_it_will_run(
    store: Store, limit: int
) -> None:
    engine = store.engine()
    assert fill(engine) == 1234
    found = all_pages(engine, READY, limit=limit)
    assert len(found) == 1234
    assert {one.state for one in found} == {READY}
    ran = drain(engine, 100)
    assert ids_of(found) == [one.id for key in KEYS for one in ran if one.partition_key == key]


def test_one_partitions_ready_jobs(store: Store) -> None:
    engine = store.engine()
    fill(engine)
    everything = all_pages(engine, READY)
    for key in KEYS:
        found = all_pages(engine, READY, limit=13, partition_key=key)
        assert found == [one for one in everything if one.partition_key == key]
    assert all_pages(engine, READY, partition_key="nobody") == []
    assert all_pages(engine, READY, partition_key="a%_") == []


def test_pages_are_full_and_the_last_has_no_next(store: Store) -> None:
    engine = store.engine()
    assert engine.jobs(READY) == engine.jobs(SCHEDULED) == engine.jobs(LEASED)
    assert (engine.jobs(READY).jobs, engine.jobs(READY).next) == ([], None)
    ids = put(engine, *["a"] * 100)
    page = engine.jobs(READY, limit=50)
    assert page.next is not None
    rest = engine.jobs(READY, limit=50, after=page.next)
    assert (ids_of(page.jobs + rest.jobs), rest.next) == (ids, None)
    assert len(engine.jobs(READY, limit=99).jobs) == 99
    whole = engine.jobs(READY, limit=100)
    assert (ids_of(whole.jobs), whole.next) == (ids, None)
    assert ids_of(engine.jobs(READY).jobs) == ids[:50]


@pytest.mark.parametrize("gone", ["cancelled", "leased"])
@pytest.mark.parametrize("length", [31, 320])
def test_it_goes_on_where_it_stopped_when_those_before_have_gone(
    store: Store, gone: str, length: int
) -> None:
    engine = store.engine()
    ids = put(engine, *["a"] * length)
    page = engine.jobs(READY, limit=20)
    assert ids_of(page.jobs) == ids[:20]
    if gone == "cancelled":
        assert engine.cancel(ids[:20]) == ids[:20]
    else:
        assert [one.id for one in take(engine, 20)] == ids[:20]
    late = put(engine, "a", "b")
    assert ids_of(all_pages(engine, READY, after=page.next, limit=7)) == ids[20:] + late


# -- scheduled ---------------------------------------------------------------------


def test_scheduled_jobs_come_as_they_fall_due(store: Store) -> None:
    engine = store.engine()
    rng = random.Random(5)
    moment = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
    due = [moment + timedelta(microseconds=rng.randrange(40)) for _ in range(300)]
    jobs = [
        job(rng.choice(["a", "%", ""]), due_at=one, priority=rng.choice([0, 0, 5, -5]))
        for one in due
    ]
    engine.enqueue(jobs, {})
    put(engine, "a", "a")
    found = all_pages(engine, SCHEDULED, limit=23)
    assert [one.ready_at for one in found] == sorted(due)
    assert {one.id: (one.ready_at, one.priority, one.partition_key) for one in found} == {
        one.id: (one.due_at, one.priority, one.partition_key) for one in jobs
    }
    for key in ("a", "%", "", "nobody"):
        of_one = all_pages(engine, SCHEDULED, limit=23, partition_key=key)
        assert of_one == [one for one in found if one.partition_key == key]


@pytest.mark.parametrize("key", [None, "a"])
def test_scheduled_jobs_of_one_moment_come_once_though_some_have_gone(
    store: Store, key: str | None
) -> None:
    engine = store.engine()
    due = datetime(2031, 1, 1, tzinfo=UTC)
    engine.enqueue([job("a", due_at=due) for _ in range(400)], {})
    expected = ids_of(all_pages(engine, SCHEDULED, partition_key=key))
    assert len(set(expected)) == 400
    page = engine.jobs(SCHEDULED, limit=300, partition_key=key)
    assert ids_of(page.jobs) == expected[:300]
    # The last of the page too, where the next one has to begin.
    gone = [*expected[250:300], *expected[380:]]
    assert engine.cancel(gone) == gone
    rest = all_pages(engine, SCHEDULED, limit=7, after=page.next, partition_key=key)
    assert ids_of(rest) == expected[300:380]


@pytest.mark.parametrize("store", SQL_STORES, indirect=True)
def test_a_scheduled_job_that_goes_while_its_page_is_read_ends_no_listing(store: Store) -> None:
    assert isinstance(store, OrmStore)
    engine = store.engine()
    ids = [put(engine, "a", delay=60.0 + number)[0] for number in range(12)]
    left = [ids[3], ids[9], ids[5]]

    def meanwhile(execute: Any, sql: str, *args: Any) -> Any:
        if "seq IN" in sql and sql.startswith("SELECT") and left:
            engine.cancel([left.pop()])
        return execute(sql, *args)

    with connections[store.alias].execute_wrapper(meanwhile):
        found = all_pages(engine, SCHEDULED, partition_key="a", limit=5)
    assert left == []
    assert ids_of(found) == [one for one in ids if one not in (ids[5], ids[9])]


# -- leased ------------------------------------------------------------------------


def test_leased_jobs_come_as_their_leases_run_out(store: Store) -> None:
    engine = store.engine()
    put(engine, *["a", "%"] * 60)
    for number, seconds in enumerate((300.0, 30.0, 3000.0)):
        assert len(engine.lease(30, worker_id=f"w {number}", lease_seconds=seconds)) == 30
    found = all_pages(engine, LEASED, limit=7)
    assert [one.worker_id for one in found] == ["w 1"] * 30 + ["w 0"] * 30 + ["w 2"] * 30
    assert len(set(ids_of(found))) == 90
    ends = [one.lease_expires_at for one in found if one.lease_expires_at]
    assert (len(ends), ends) == (90, sorted(ends))
    for key in ("a", "%", "b"):
        of_one = all_pages(engine, LEASED, limit=7, partition_key=key)
        assert of_one == [one for one in found if one.partition_key == key]


# -- one job -----------------------------------------------------------------------


def test_what_is_told_of_a_job_in_each_state(store: Store) -> None:
    engine = store.engine(max_timeouts=None)
    new = job(
        "ten ant",
        payload='{"args":["ü",1.5],"kwargs":{"k":[]}}',
        weight=3,
        priority=-7,
        delay=40.0,
        msg_id="m 1",
        parent_id="p",
    )
    [job_id] = engine.enqueue([new], {})
    waits = engine.job(job_id)
    assert waits is not None
    assert engine.jobs(SCHEDULED).jobs == [waits]
    assert (waits.id, waits.queue, waits.state) == (job_id, engine.name, SCHEDULED)
    assert (waits.task_name, waits.payload) == (new.task_name, new.payload)
    assert (waits.partition_key, waits.weight, waits.priority) == ("ten ant", 3, -7)
    assert (waits.msg_id, waits.parent_id) == ("m 1", "p")
    assert (waits.delivery_count, waits.timeouts) == (0, 0)
    assert waits.enqueued_at is not None
    assert waits.ready_at is not None
    assert abs(waits.ready_at - waits.enqueued_at - timedelta(seconds=40)) < timedelta(seconds=1)
    assert (waits.worker_id, waits.leased_at, waits.lease_expires_at) == (None, None, None)

    store.advance(engine.name, 41)
    [leased] = take(engine, worker_id="w 1")
    runs = engine.job(job_id)
    assert runs is not None
    assert engine.jobs(LEASED).jobs == [runs]
    assert (runs.state, runs.worker_id) == (LEASED, "w 1")
    assert (runs.payload, runs.msg_id, runs.parent_id) == (new.payload, "m 1", "p")
    assert runs.ready_at == leased.ready_at
    assert runs.enqueued_at == leased.enqueued_at
    assert runs.leased_at is not None
    assert runs.lease_expires_at is not None
    assert abs(runs.lease_expires_at - leased.lease_expires_at) < timedelta(milliseconds=1)
    assert runs.lease_expires_at - runs.leased_at > timedelta(seconds=50)

    assert end(engine, leased, OutcomeKind.RETRY)
    assert [one.id for one in take(engine)] == [job_id]
    store.advance(engine.name, 3600)
    assert [one.job_id for one in engine.reclaim()] == [job_id]
    back = engine.job(job_id)
    assert back is not None
    assert engine.jobs(READY).jobs == [back]
    assert (back.state, back.delivery_count, back.timeouts) == (READY, 1, 1)
    assert (back.weight, back.priority, back.payload) == (3, -7, new.payload)
    assert (back.worker_id, back.leased_at, back.lease_expires_at) == (None, None, None)

    assert end(engine, take(engine)[0])
    assert engine.job(job_id) is None
    assert engine.job("nobody") is None


def test_a_job_of_another_queue_is_not_told_of(store: Store) -> None:
    engine, other = store.engine(), store.engine()
    [job_id] = put(engine, "a")
    put(engine, "a", delay=60.0)
    assert other.job(job_id) is None
    assert [other.jobs(state).jobs for state in (READY, SCHEDULED, LEASED)] == [[], [], []]


# -- cursors -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", ["", "x", "ü", "e30", "W10", "bnVsbA", "WyJSRUFEWSJd", "=" * 9, "a" * 9999]
)
@pytest.mark.parametrize("state", [READY, SCHEDULED, LEASED])
def test_what_is_no_cursor_is_refused(store: Store, bad: str, state: State) -> None:
    with pytest.raises(ValidationError, match="after: expected the `next` of an earlier page"):
        store.engine().jobs(state, after=bad)


def test_a_cursor_of_another_listing_is_refused(store: Store) -> None:
    engine = store.engine()
    put(engine, *"aaabbb")
    put(engine, *"aaa", delay=60.0)
    take(engine, 2)
    cursors = {state: engine.jobs(state, limit=1).next for state in (READY, SCHEDULED, LEASED)}
    assert None not in cursors.values()
    for state, cursor in cursors.items():
        for other in cursors:
            if other is not state:
                with pytest.raises(ValidationError, match="after: expected"):
                    engine.jobs(other, after=cursor)
    with pytest.raises(ValidationError, match="after: expected"):
        engine.jobs(READY, after=cursors[READY], partition_key="b")
    assert len(engine.jobs(READY, after=cursors[READY], partition_key="a").jobs) == 1


# -- while others are at work ------------------------------------------------------


def test_pages_turn_while_jobs_move(store: Store) -> None:
    engine = store.engine()
    stay = put(engine, *["stay"] * 150)
    engine.pause("stay")
    later = put(engine, *["later"] * 40, delay=600.0)
    done: list[bool] = []

    def work() -> int:
        mine = store.engine_named(engine.name)
        rng = random.Random(3)
        count = 0
        while not done:
            put(mine, *["go"] * rng.choice([1, 3, 40]))
            leased = take(mine, rng.choice([1, 20]))
            count += len(leased)
            for one in leased:
                end(mine, one, rng.choice(list(OutcomeKind)))
            mine.purge("go")
        return count

    worker = Background(work)
    try:
        for turn in range(12):
            found = all_pages(engine, READY, limit=9 + turn)
            assert [one.id for one in found if one.partition_key == "stay"] == stay
            assert all_pages(engine, READY, limit=50, partition_key="stay")[0].id == stay[0]
            found = all_pages(engine, SCHEDULED, limit=9 + turn, partition_key="later")
            assert ids_of(found) == later
            for one in all_pages(engine, LEASED, limit=9):
                engine.job(one.id)
    finally:
        done.append(True)
    assert worker.result() > 0
