"""The end of a lease: who may end it, what is kept, how jobs come back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.contract.jobs import LEASE_SECONDS, ack_all, drain, end, outcome, put, take
from tests.contract.stores import Store
from vtrr_django.domain.job import Outcome, OutcomeKind, Renewal


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
    assert engine.prune(batch=3) == {"completed": 7, "failed": 2}
    assert engine.prune(batch=3) == {"completed": 0, "failed": 0}
    kept = store.history(engine.name)
    assert [row["id"] for row in kept["completed"]] == ids[7:12]
    assert [row["id"] for row in kept["failed"]] == ids[14:16]
    assert len(store.live(engine.name)) == 4


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
