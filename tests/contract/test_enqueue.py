"""Coming in: what is stored, what stands in for what, and what a transaction means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.contract.jobs import drain, end, job, put, take
from tests.contract.stores import Store
from vtrr_django.domain.job import OutcomeKind
from vtrr_django.exceptions import DuplicateJobError


def test_a_job_comes_out_as_it_went_in(store: Store) -> None:
    engine = store.engine()
    new = job(
        "Ünï \N{ROCKET} key",
        payload='{"args": [9223372036854775808, "\\u2028"], "kwargs": {"a": [], "b": {}}}',
        weight=1_000_000,
        priority=-100,
        msg_id="m-1",
        parent_id="p-1",
    )
    assert engine.enqueue([new], {}) == [new.id]
    [leased] = take(engine)
    assert (leased.id, leased.queue, leased.task_name) == (new.id, engine.name, "tests.task")
    assert leased.args == [2**63, "\u2028"]
    assert leased.kwargs == {"a": [], "b": {}}
    assert leased.partition_key == "Ünï \N{ROCKET} key"
    assert (leased.weight, leased.priority) == (1_000_000, -100)
    assert (leased.msg_id, leased.parent_id) == ("m-1", "p-1")
    assert (leased.delivery_count, leased.timeouts) == (0, 0)
    age = datetime.now(UTC) - leased.enqueued_at
    assert timedelta(minutes=-5) < age < timedelta(minutes=5)
    assert leased.lease_expires_at - leased.enqueued_at >= timedelta(seconds=54)


@pytest.mark.parametrize("names", [{}, {"given_id": True, "msg_id": "m"}], ids=["fresh", "named"])
@pytest.mark.parametrize("due", [{}, {"due_at": datetime(2026, 1, 1, tzinfo=UTC)}], ids=str)
def test_attempts_used_elsewhere_count(
    store: Store, names: dict[str, Any], due: dict[str, Any]
) -> None:
    engine = store.engine()
    [job_id] = put(engine, "a", delivery_count=3, **names, **due)
    assert store.live(engine.name)[job_id]["delivery_count"] == 3
    engine.reclaim()
    [leased] = take(engine)
    assert (leased.id, leased.delivery_count, leased.msg_id) == (job_id, 3, names.get("msg_id"))
    assert end(engine, leased, OutcomeKind.RETRY)
    engine.reclaim()
    [leased] = take(engine)
    assert leased.delivery_count == 4
    assert end(engine, leased, OutcomeKind.FAIL, reason="r")
    [letter] = store.history(engine.name)["failed"]
    assert letter["delivery_count"] == 4
    assert engine.requeue([job_id]) == [job_id]
    [leased] = take(engine)
    assert leased.delivery_count == 0


@pytest.mark.parametrize("given_id", [False, True])
def test_attempts_used_elsewhere_count_in_a_bulk(store: Store, given_id: bool) -> None:
    engine = store.engine()
    new = [
        job("a", delivery_count=i % 3, given_id=given_id, parent_id="p" if i % 2 else None)
        for i in range(300)
    ]
    assert engine.enqueue(new, {}) == [one.id for one in new]
    got = [(one.id, one.delivery_count, one.parent_id) for one in drain(engine, 100)]
    assert got == [(one.id, one.delivery_count, one.parent_id) for one in new]


PAST = datetime.now(UTC) - timedelta(seconds=50)


@pytest.mark.parametrize("names", [{}, {"given_id": True, "msg_id": "m"}], ids=["fresh", "named"])
@pytest.mark.parametrize(
    "when", [{"delay": 0.0}, {"delay": 1e-7}, {"due_at": PAST}], ids=["zero", "hardly", "past"]
)
def test_what_is_due_already_is_ready_at_once(
    store: Store, names: dict[str, Any], when: dict[str, Any]
) -> None:
    engine = store.engine()
    [job_id] = put(engine, "a", **names, **when)
    assert store.live(engine.name)[job_id]["state"] == "ready"
    stats = engine.stats()
    assert (stats.ready, stats.scheduled, stats.partitions_waiting) == (1, 0, 1)
    [part] = engine.partitions()
    assert (part.ready, part.scheduled, part.candidate) == (1, 0, True)
    [leased] = take(engine)
    assert leased.ready_at is not None
    assert leased.ready_at > PAST + timedelta(seconds=20)  # since it joined the line


def test_what_is_due_already_goes_behind_what_waits(store: Store) -> None:
    engine = store.engine()
    whens: list[dict[str, Any]] = [{}, {"due_at": PAST}, {"delay": 30.0}, {"delay": 0.0}]
    whens += [{"due_at": PAST - timedelta(days=9)}, {"due_at": PAST + timedelta(hours=1)}, {}]
    new = [job("a", **when) for when in whens]
    engine.enqueue(new, {})
    [last] = put(engine, "a", due_at=PAST)
    got = [one.id for one in drain(engine)]
    assert got == [new[i].id for i in (0, 1, 3, 4, 6)] + [last]
    assert engine.stats().scheduled == 2


def test_a_bulk_keeps_the_order_given_within_a_partition(store: Store) -> None:
    engine = store.engine()
    new = [job("a", id=f"x{9999 - i}", given_id=True) for i in range(1200)]
    assert engine.enqueue(new, {}) == [one.id for one in new]
    assert [one.id for one in drain(engine, 100)] == [one.id for one in new]


def test_keys_that_look_alike_are_different_partitions(store: Store) -> None:
    engine = store.engine()
    keys = ["abc", "ABC", "abc ", " abc", "àbc", "a\u0300bc", "straße", "strasse", ""]
    put(engine, *keys)
    assert {one.partition_key for one in engine.partitions()} == set(keys)
    assert [one.partition_key for one in drain(engine)] == keys


def test_ids_and_msg_ids_that_look_alike_are_different(store: Store) -> None:
    engine = store.engine()
    ids = engine.enqueue(
        [job(id="a", given_id=True, msg_id="m"), job(id="A", given_id=True, msg_id="M ")], {}
    )
    assert ids == ["a", "A"]
    assert engine.enqueue([job(msg_id="m"), job(msg_id="M ")], {}) == ["a", "A"]
    assert engine.cancel(["A"]) == ["A"]
    assert [one.id for one in drain(engine)] == ["a"]


def test_a_msg_id_returns_the_first_job_while_it_lives_and_while_it_is_remembered(
    store: Store,
) -> None:
    engine = store.engine()
    [first] = put(engine, "a", msg_id="m")
    assert put(engine, "a", msg_id="m") == [first]
    [leased] = take(engine)
    assert put(engine, "b", msg_id="m") == [first]
    assert end(engine, leased)
    assert put(engine, "b", msg_id="m") == [first]
    assert engine.known([job(msg_id="m"), job(msg_id="unknown"), job()]) == [first, None, None]
    assert take(engine) == []


def test_a_msg_id_of_a_dead_letter_returns_the_dead_letter(store: Store) -> None:
    engine = store.engine()
    [first] = put(engine, "a", msg_id="m")
    end(engine, take(engine)[0], OutcomeKind.FAIL, reason="broken")
    assert put(engine, "a", msg_id="m") == [first]
    assert engine.requeue([first]) == [first]
    assert put(engine, "a", msg_id="m") == [first]
    assert [one.id for one in drain(engine)] == [first]


def test_a_msg_id_is_free_again_when_its_job_was_cancelled_or_forgotten(store: Store) -> None:
    engine = store.engine(completed_retention=0)
    [first] = put(engine, "a", msg_id="m")
    engine.cancel([first])
    [second] = put(engine, "a", msg_id="m")
    assert second != first
    drain(engine)
    [third] = put(engine, "a", msg_id="m")
    assert third not in (first, second)


def test_two_items_of_one_call_with_one_msg_id_are_one_job(store: Store) -> None:
    engine = store.engine()
    new = [job("a", msg_id="m"), job("a"), job("a", msg_id="m"), job("a", msg_id="n")]
    ids = engine.enqueue(new, {})
    assert ids == [new[0].id, new[1].id, new[0].id, new[3].id]
    assert [one.id for one in drain(engine)] == [new[0].id, new[1].id, new[3].id]


def test_a_given_id_of_the_same_job_is_returned_and_stored_once(store: Store) -> None:
    engine = store.engine()
    same = {"id": "order-17", "given_id": True}
    assert put(engine, "a", **same) == ["order-17"]
    assert put(engine, "a", **same) == ["order-17"]
    assert len(drain(engine)) == 1
    assert put(engine, "a", **same) == ["order-17"]
    assert drain(engine) == []


@pytest.mark.parametrize(
    "other",
    [
        {"partition_key": "b"},
        {"task_name": "tests.other"},
        {"payload": '{"args": [1], "kwargs": {}}'},
    ],
)
@pytest.mark.parametrize("when", ["live", "history"])
def test_a_given_id_of_another_job_is_refused_and_nothing_is_written(
    store: Store, other: dict[str, str], when: str
) -> None:
    engine = store.engine()
    put(engine, "a", id="order-17", given_id=True)
    if when == "history":
        drain(engine)
    new = [job("c"), job(**({"partition_key": "a", "id": "order-17", "given_id": True} | other))]
    with pytest.raises(DuplicateJobError, match="order-17"):
        engine.enqueue(new, {})
    assert [one.partition_key for one in drain(engine)] == (["a"] if when == "live" else [])


def test_a_delayed_job_is_not_leased_before_it_is_due(store: Store) -> None:
    engine = store.engine()
    [late] = put(engine, "a", delay=60.0)
    assert take(engine) == []
    assert engine.stats().scheduled == 1
    store.advance(engine.name, 61)
    assert [one.id for one in take(engine)] == [late]


def test_a_job_due_in_the_past_runs_at_once_and_one_in_the_future_later(store: Store) -> None:
    engine = store.engine()
    now = datetime.now(UTC)
    [past] = put(engine, "", due_at=now - timedelta(days=3))
    [future] = put(engine, "", due_at=now + timedelta(hours=1))
    assert [one.id for one in drain(engine)] == [past]
    store.advance(engine.name, 3700)
    assert [one.id for one in drain(engine)] == [future]


def test_a_job_that_falls_due_joins_the_end_of_its_line(store: Store) -> None:
    engine = store.engine()
    [late] = put(engine, "a", delay=10.0)
    first = put(engine, "a", "a")
    store.advance(engine.name, 11)
    assert [one.id for one in take(engine)] == [first[0]]
    [after] = put(engine, "a")
    assert [one.id for one in drain(engine)] == [first[1], late, after]


def test_many_jobs_falling_due_at_once_all_come_in_the_order_they_were_due(store: Store) -> None:
    engine = store.engine()
    ids = [put(engine, "a", delay=float(600 - i))[0] for i in range(300)]
    store.advance(engine.name, 601)
    assert [one.id for one in drain(engine, 50)] == ids[::-1]


def test_enqueueing_nothing_is_nothing(store: Store) -> None:
    engine = store.engine()
    assert engine.enqueue([], {}) == []
    assert take(engine) == []


def test_large_payloads_pass_in_bulk(store: Store) -> None:
    engine = store.engine()
    text = "\N{ROCKET}" * 250_000
    new = [job("a", payload=f'{{"args": ["{text}"], "kwargs": {{}}}}') for _ in range(12)]
    engine.enqueue(new, {})
    assert all(one.args == [text] for one in drain(engine, 3))
