"""The end of a lease: who may end it, what is kept, how jobs come back."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.contract.jobs import (
    LEASE_SECONDS,
    ack_all,
    all_pages,
    drain,
    end,
    job,
    outcome,
    put,
    take,
)
from tests.contract.stores import Store
from vtrr_django.domain.job import LeasedJob, Outcome, OutcomeKind, Renewal
from vtrr_django.domain.states import State


def test_a_completed_job_is_history(store: Store) -> None:
    engine = store.engine()
    [job_id] = put(engine, "a", weight=3, priority=7, msg_id="m", parent_id="p")
    [leased] = take(engine, worker_id="worker-1")
    assert end(engine, leased, runtime=1.5)
    assert store.live(engine.name) == {}
    [row] = store.history(engine.name)["completed"]
    assert (row["id"], row["partition_key"], row["weight"], row["priority"]) == (job_id, "a", 3, 7)
    assert (row["msg_id"], row["parent_id"], row["worker_id"]) == ("m", "p", "worker-1")
    assert row["runtime"] == 1.5
    assert abs((row["completed_at"] - datetime.now(UTC)).total_seconds()) < 300
    assert row["created_at"] <= row["claimed_at"] <= row["completed_at"]
    assert engine.stats().completed == 1


def test_a_failed_job_is_a_dead_letter_with_its_reason(store: Store) -> None:
    engine = store.engine()
    put(engine, "a")
    reason = "it broke \N{ROCKET} </pre><script>"
    assert end(
        engine,
        take(engine)[0],
        OutcomeKind.FAIL,
        reason=reason,
        error_class="builtins.ValueError",
        traceback="Traceback ...",
    )
    [row] = store.history(engine.name)["failed"]
    assert (row["reason"], row["error_class"]) == (reason, "builtins.ValueError")
    assert row["traceback"] == "Traceback ..."
    assert engine.stats().failed == 1
    assert engine.stats().recent_failures[0]["reason"] == reason


@pytest.mark.parametrize("kind", list(OutcomeKind))
def test_every_finishing_verb_is_fenced(store: Store, kind: OutcomeKind) -> None:
    engine = store.engine()
    put(engine, "a")
    [old] = take(engine)
    store.advance(engine.name, 60)
    [new] = take(engine)
    assert new.id == old.id
    assert new.token != old.token
    assert not end(engine, old, kind)
    assert store.live(engine.name)[new.id]["state"] == "leased"
    assert end(engine, new, kind)
    assert not end(engine, new, kind)


def test_a_lease_that_is_not_ours_cannot_be_renewed(store: Store) -> None:
    engine = store.engine()
    put(engine, "a")
    [old] = take(engine)
    store.advance(engine.name, 60)
    [new] = take(engine)
    renewals = [Renewal(job_id=one.id, token=one.token) for one in (old, new)]
    assert engine.renew(renewals, lease_seconds=LEASE_SECONDS) == [False, True]


def test_a_renewed_lease_lasts_and_a_late_one_counts_until_it_was_reclaimed(store: Store) -> None:
    engine = store.engine()
    put(engine, "a")
    [leased] = take(engine)
    renewal = Renewal(job_id=leased.id, token=leased.token)
    for _ in range(3):
        store.advance(engine.name, 60)
        assert engine.renew([renewal], lease_seconds=LEASE_SECONDS) == [True]
        assert take(engine) == []
    assert end(engine, leased)


@pytest.mark.parametrize(
    "fields", [{}, {"delivery_count": 1, "msg_id": "m", "parent_id": "p", "given_id": True}]
)
def test_attempts_used_under_a_lease_are_counted_by_its_renewal(
    store: Store, fields: dict[str, Any]
) -> None:
    engine = store.engine()
    [job_id] = put(engine, "a", priority=3, **fields)
    [old] = take(engine)

    def renew(leased: LeasedJob, count: int | None) -> bool:
        one = Renewal(job_id=job_id, token=leased.token, delivery_count=count)
        return engine.renew([one], lease_seconds=LEASE_SECONDS)[0]

    def counted() -> int:
        info = engine.job(job_id)
        assert info is not None
        assert (info.msg_id, info.parent_id) == (fields.get("msg_id"), fields.get("parent_id"))
        assert (info.priority, info.enqueued_at) == (3, old.enqueued_at)
        return info.delivery_count

    assert renew(old, 2)
    assert counted() == store.live(engine.name)[job_id]["delivery_count"] == 2
    assert renew(old, None)
    assert renew(old, 2)
    assert counted() == 2
    store.advance(engine.name, 60)
    [new] = take(engine)
    assert (new.delivery_count, new.timeouts) == (2, 1)
    assert not renew(old, 7)
    assert renew(new, 3)
    assert end(engine, new, OutcomeKind.RETRY)
    [last] = take(engine)
    assert (last.delivery_count, last.priority) == (4, 3)
    assert renew(last, 5)
    assert end(engine, last, OutcomeKind.FAIL, reason="r")
    [row] = store.history(engine.name)["failed"]
    assert (row["delivery_count"], row["timeouts"], row["parent_id"]) == (
        5,
        1,
        fields.get("parent_id"),
    )


@pytest.mark.parametrize("kind", list(OutcomeKind))
def test_a_lease_that_was_taken_over_is_its_old_holders_no_more(
    store: Store, kind: OutcomeKind
) -> None:
    engine = store.engine()
    put(engine, "a", "b")
    old, other = take(engine, 2)

    def take_over(token: str, new_token: str | None = None) -> bool:
        one = Renewal(job_id=old.id, token=token, delivery_count=1, new_token=new_token)
        return engine.renew([one], lease_seconds=LEASE_SECONDS)[0]

    store.advance(engine.name, 60)
    assert take_over(old.token, "first")
    assert take_over(old.token, "first"), "a client may repeat what was not answered"
    assert not take_over(old.token, "second")
    assert not take_over(old.token)
    assert not end(engine, old, kind)
    assert not take_over(other.token, "third")
    assert store.live(engine.name)[old.id]["delivery_count"] == 1
    assert take_over("first")
    assert end(engine, replace(old, token="first"), kind)
    assert not take_over("first", "fourth")


def test_a_lease_that_was_taken_over_runs_out(store: Store) -> None:
    engine = store.engine()
    put(engine, "a")
    [old] = take(engine)
    one = Renewal(job_id=old.id, token=old.token, delivery_count=1, new_token="first")
    assert engine.renew([one], lease_seconds=LEASE_SECONDS) == [True]
    store.advance(engine.name, 60)
    [new] = take(engine)
    assert (new.id, new.delivery_count, new.timeouts) == (old.id, 1, 1)
    assert engine.renew([one], lease_seconds=LEASE_SECONDS) == [False]
    assert end(engine, new)


@pytest.mark.parametrize("kind", [OutcomeKind.ACK, OutcomeKind.FAIL])
def test_many_large_jobs_end_in_one_batch(store: Store, kind: OutcomeKind) -> None:
    """MariaDB takes no statement over 16 MiB, unless told otherwise."""
    engine = store.engine()
    payload = json.dumps({"args": ["x" * 900_000], "kwargs": {}})
    ids = put(engine, *["a"] * 20, payload=payload)
    ends = [outcome(kind, one, reason="r", traceback="t" * 50_000) for one in take(engine, 20)]
    assert engine.finish(ends) == [True] * 20
    history = store.history(engine.name)
    rows = history["completed"] + history["failed"]
    assert [row["id"] for row in rows] == ids
    assert {row["payload"] for row in rows} == {payload}


def test_tokens_of_one_batch_are_each_their_own(store: Store) -> None:
    engine = store.engine()
    put(engine, *"abcab")
    leased = take(engine, 5)
    assert len({one.token for one in leased}) == 5


def test_outcomes_that_carry_each_others_tokens_end_nothing(store: Store) -> None:
    engine = store.engine()
    put(engine, "a", "b", "c")
    a, b, c = take(engine, 3)
    swapped = [
        Outcome(kind=OutcomeKind.ACK, job_id=a.id, token=b.token),
        Outcome(kind=OutcomeKind.ACK, job_id=b.id, token=a.token),
        outcome(OutcomeKind.ACK, c),
    ]
    assert engine.finish(swapped) == [False, False, True]
    assert ack_all(engine, [a, b]) == [True, True]


def test_one_bad_outcome_does_not_spoil_the_others(store: Store) -> None:
    engine = store.engine()
    put(engine, *"abcd")
    a, b, c, d = take(engine, 4)
    unknown = Outcome(kind=OutcomeKind.ACK, job_id="nobody", token="x")
    done = engine.finish(
        [
            outcome(OutcomeKind.ACK, a),
            unknown,
            outcome(OutcomeKind.RETRY, b, delay=1.0),
            outcome(OutcomeKind.FAIL, c, reason="r"),
            outcome(OutcomeKind.ACK, a),
            outcome(OutcomeKind.RELEASE, d),
        ]
    )
    assert done == [True, False, True, True, False, True]


def test_a_retry_uses_an_attempt_and_a_snooze_does_not(store: Store) -> None:
    engine = store.engine()
    put(engine, "a")
    for kind, attempts in [
        (OutcomeKind.RETRY, 1),
        (OutcomeKind.SNOOZE, 1),
        (OutcomeKind.RETRY, 2),
        (OutcomeKind.RELEASE, 2),
    ]:
        [leased] = take(engine)
        assert end(engine, leased, kind, delay=5.0)
        store.advance(engine.name, 6)
        [row] = store.live(engine.name).values()
        assert row["delivery_count"] == attempts


def test_a_retried_job_waits_its_delay_and_joins_the_end(store: Store) -> None:
    engine = store.engine()
    first, second = put(engine, "a", "a")
    end(engine, take(engine)[0], OutcomeKind.RETRY, delay=30.0)
    assert store.live(engine.name)[first]["state"] == "scheduled"
    [third] = put(engine, "a")
    store.advance(engine.name, 31)
    assert [one.id for one in drain(engine)] == [second, third, first]


@pytest.mark.parametrize("kind", [OutcomeKind.RETRY, OutcomeKind.SNOOZE])
@pytest.mark.parametrize("delay", [0.0, 1e-7])
def test_a_job_put_off_for_no_time_is_ready_at_the_end_of_its_line(
    store: Store, kind: OutcomeKind, delay: float
) -> None:
    engine = store.engine(partition_limit=2)
    first, second, third = put(engine, "a", "a", "a")
    [other] = put(engine, "b")
    one, _, two = take(engine, 3)
    assert (one.id, two.id) == (first, second)
    told = [outcome(kind, two, delay=delay), outcome(kind, one, delay=delay)]
    assert engine.finish(told) == [True, True]
    assert {job_id: row["state"] for job_id, row in store.live(engine.name).items()} == {
        first: "ready",
        second: "ready",
        third: "ready",
        other: "leased",
    }
    stats = engine.stats()
    assert (stats.ready, stats.scheduled, stats.leased) == (3, 0, 1)
    [part] = [one for one in engine.partitions() if one.partition_key == "a"]
    assert (part.ready, part.scheduled, part.leased) == (3, 0, 0)
    assert [one.id for one in all_pages(engine, State.READY)] == [third, second, first]
    again = drain(engine)
    assert [one.id for one in again] == [third, second, first]
    assert [one.delivery_count for one in again] == [0, *[int(kind is OutcomeKind.RETRY)] * 2]


def test_a_job_put_off_for_no_time_can_be_the_next_of_the_same_call(store: Store) -> None:
    engine = store.engine()
    [job_id] = put(engine, "a")
    [leased] = take(engine)
    done, again = engine.finish_and_lease(
        [outcome(OutcomeKind.RETRY, leased)], 1, worker_id="w", lease_seconds=LEASE_SECONDS
    )
    assert done == [True]
    assert [(one.id, one.delivery_count) for one in again] == [(job_id, 1)]
    assert again[0].token != leased.token


def test_a_job_put_off_for_no_time_makes_its_partition_a_candidate(store: Store) -> None:
    engine = store.engine()
    put(engine, "a")
    [leased] = take(engine)
    assert end(engine, leased, OutcomeKind.RETRY)
    [part] = engine.partitions()
    assert (part.ready, part.candidate) == (1, True)


def test_a_job_put_off_for_no_time_goes_before_those_of_lower_priority(store: Store) -> None:
    engine = store.engine()
    [first] = put(engine, "a", priority=10)
    [other] = put(engine, "b")
    [second] = put(engine, "a")
    leased = take(engine)[0]
    assert leased.id == first
    assert end(engine, leased, OutcomeKind.SNOOZE)
    assert [one.id for one in drain(engine)] == [other, first, second]


def test_a_lease_that_runs_out_is_reclaimed_once_and_counted(store: Store) -> None:
    engine = store.engine()
    first, second = put(engine, "a", "a")
    take(engine)
    assert engine.reclaim() == []
    store.advance(engine.name, 60)
    [reclaimed] = engine.reclaim()
    assert (reclaimed.job_id, reclaimed.timeouts, reclaimed.dead) == (first, 1, False)
    assert engine.reclaim() == []
    assert [(one.id, one.timeouts) for one in drain(engine)] == [(second, 0), (first, 1)]


def test_a_job_whose_lease_runs_out_too_often_is_a_dead_letter(store: Store) -> None:
    engine = store.engine(max_timeouts=3)
    [job_id] = put(engine, "a")
    for _ in range(3):
        assert len(take(engine)) == 1
        store.advance(engine.name, 60)
    assert take(engine) == []
    [row] = store.history(engine.name)["failed"]
    assert (row["id"], row["timeouts"]) == (job_id, 3)
    assert "3 times" in row["reason"]


def test_without_max_timeouts_a_job_comes_back_for_ever(store: Store) -> None:
    engine = store.engine(max_timeouts=None)
    put(engine, "a")
    for count in range(12):
        [leased] = take(engine)
        assert leased.timeouts == count
        store.advance(engine.name, 60)


def test_reclaim_is_bounded_per_call_and_reaches_everything(store: Store) -> None:
    engine = store.engine()
    put(engine, *["a"] * 30)
    take(engine, 30)
    store.advance(engine.name, 60)
    assert [len(engine.reclaim(limit=20)) for _ in range(3)] == [20, 10, 0]


def test_history_is_trimmed_to_its_retention_and_live_jobs_stay(store: Store) -> None:
    engine = store.engine(completed_retention=5, failed_retention=2)
    ids = put(engine, *["a"] * 20)
    leased = take(engine, 16)
    ack_all(engine, leased[:12])
    for one in leased[12:]:
        end(engine, one, OutcomeKind.FAIL, reason="r")
    store.age(engine.name)
    assert engine.prune(batch=3) == {"completed": 7, "failed": 2}
    assert engine.prune(batch=3) == {"completed": 0, "failed": 0}
    kept = store.history(engine.name)
    assert [row["id"] for row in kept["completed"]] == ids[7:12]
    assert [row["id"] for row in kept["failed"]] == ids[14:16]
    assert len(store.live(engine.name)) == 4


@pytest.mark.parametrize("younger", [2, 5, 7])
def test_what_has_just_ended_is_not_trimmed(store: Store, younger: int) -> None:
    """An enqueue whose answer was lost is repeated; its job may have run meanwhile."""
    engine = store.engine(completed_retention=5, failed_retention=0)
    ids = put(engine, *["a"] * (4 + younger))
    ack_all(engine, take(engine, 4))
    store.age(engine.name)
    *others, last = take(engine, younger)
    ack_all(engine, others)
    end(engine, last, OutcomeKind.FAIL, reason="r")
    gone = min(4, 3 + younger - 5)
    assert engine.prune(batch=2) == {"completed": gone, "failed": 0}
    kept = store.history(engine.name)
    assert [row["id"] for row in kept["completed"]] == ids[gone:-1]
    again = [job("a", id=job_id, given_id=True) for job_id in ids]
    assert engine.enqueue(again, {}) == ids
    assert [one.id for one in drain(engine)] == ids[:gone]


def test_no_history_is_kept_with_a_retention_of_none_at_all(store: Store) -> None:
    engine = store.engine(completed_retention=0)
    put(engine, "a")
    drain(engine)
    assert store.history(engine.name)["completed"] == []


def test_a_requeued_dead_letter_is_as_new_and_keeps_what_it_was(store: Store) -> None:
    engine = store.engine(max_timeouts=2)
    [job_id] = put(engine, "a", weight=4, priority=9, msg_id="m", parent_id="p")
    end(engine, take(engine)[0], OutcomeKind.RETRY)
    end(engine, take(engine)[0], OutcomeKind.FAIL, reason="r")
    assert engine.requeue(["nobody", job_id]) == [job_id]
    assert engine.requeue([job_id]) == []
    [leased] = take(engine)
    assert (leased.delivery_count, leased.timeouts) == (0, 0)
    assert (leased.weight, leased.priority, leased.msg_id, leased.parent_id) == (4, 9, "m", "p")
    assert end(engine, leased)
    assert store.history(engine.name)["failed"] == []


def test_requeue_of_all_takes_the_oldest_first(store: Store) -> None:
    engine = store.engine()
    ids = put(engine, *["a"] * 5)
    for one in take(engine, 5):
        end(engine, one, OutcomeKind.FAIL, reason="r")
    assert engine.requeue(limit=2) == ids[:2]
    assert engine.requeue() == ids[2:]
    assert [one.id for one in drain(engine)] == ids


def test_cancel_removes_what_waits_and_leaves_what_runs(store: Store) -> None:
    engine = store.engine()
    running, ready = put(engine, "a", "a")
    [scheduled] = put(engine, "b", delay=60.0)
    [leased] = take(engine)
    assert leased.id == running
    assert engine.cancel([running, ready, scheduled, "nobody"]) == [ready, scheduled]
    assert end(engine, leased)
    assert take(engine) == []


def test_purge_empties_one_partition_or_all(store: Store) -> None:
    engine = store.engine()
    put(engine, *["a"] * 1500, *["b"] * 3)
    put(engine, "a", delay=60.0)
    [leased] = take(engine)
    assert engine.purge("a") == 1500
    assert engine.purge() == 3
    assert engine.purge() == 0
    assert end(engine, leased)


def test_ack_and_lease_next_in_one_call(store: Store) -> None:
    engine = store.engine(partition_limit=1)
    put(engine, "a", "a", "b")
    [first] = take(engine)
    done, leased = engine.finish_and_lease(
        [outcome(OutcomeKind.ACK, first)], 5, worker_id="w", lease_seconds=LEASE_SECONDS
    )
    assert done == [True]
    assert sorted(one.partition_key for one in leased) == ["a", "b"]
