"""Attempts that went wrong: who asks why a job runs again finds them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from tests.contract.stores import Store
from tests.races.conftest import MakeQueue
from tests.races.roles import Note
from vtrr_django import Queue
from vtrr_django.engines.sql.models import FailedAttempt, QueueTotals
from vtrr_django.figures import trimming
from vtrr_django.figures.reading import MOST_ATTEMPTS as SHOWN
from vtrr_django.figures.recorder import MOST_ATTEMPTS as TOLD
from vtrr_django.options import RetryPolicy

AGAIN = RetryPolicy(max_retries=2, backoff="constant", base_delay=0.0, jitter=False)


@pytest.fixture
def queue(make_queue: MakeQueue) -> Queue:
    return make_queue(LEASE_SECONDS=30)


def told(queue: Queue, job_id: str) -> list[tuple[str, str, str]]:
    found = queue.figures.attempts(job_id)
    assert sorted(found, key=lambda one: one.at, reverse=True) == found
    return [(one.worker_id, one.error_class, one.reason) for one in found]


def rows(queue: Queue, store: Store) -> Any:
    return FailedAttempt.objects.using(store.history_alias).filter(queue=queue.name)


def test_of_a_worker(queue: Queue) -> None:
    @queue.handler(policy=AGAIN)
    def act(message: Note) -> None:
        raise ValueError(f"no {message.number}")

    began = timezone.now()
    first, second = (queue.publish(Note(number), partition_key="a") for number in (1, 2))
    queue.worker(worker_id="one").run_burst()
    for number, job_id in ((1, first), (2, second)):
        # The third time it became a dead letter, which says so itself.
        assert (
            told(queue, job_id) == [("one", "builtins.ValueError", f"ValueError: no {number}")] * 2
        )
    ended = timezone.now()
    for one in queue.figures.attempts(first):
        assert began - timedelta(seconds=1) <= one.at <= ended + timedelta(seconds=1)


def test_of_who_ends_leases_by_hand(queue: Queue, store: Store) -> None:
    job_id = queue.publish(Note(), partition_key="a")
    for reason in ("first", RuntimeError("second"), ""):
        [job] = queue.lease(worker_id="me")
        assert queue.retry(job, reason=reason)
    assert not queue.retry(job, reason="a lease that was not ours any more")
    [job] = queue.lease(worker_id="me")
    assert queue.snooze(job)
    [job] = queue.lease(worker_id="me")
    assert queue.fail(job, "dead")
    queue.measure()
    assert told(queue, job_id) == [
        ("me", "", ""),
        ("me", "builtins.RuntimeError", "RuntimeError: second"),
        ("me", "", "first"),
    ]
    assert rows(queue, store).count() == 3


def test_of_a_lease_that_ran_out(queue: Queue, store: Store) -> None:
    job_id = queue.publish(Note(), partition_key="a")
    queue.lease()
    store.advance(queue.name, 3600)
    assert queue.reclaim() == 1
    queue.measure()
    assert told(queue, job_id) == [("", "vtrr_django.LeaseTimeout", "its lease ran out")]


def test_each_job_has_its_own_and_the_newest_are_told(queue: Queue) -> None:
    ids = [queue.publish(Note(), partition_key="a") for _ in range(2)]
    for number in range(SHOWN + 3):
        for job in queue.lease(2):
            assert queue.retry(job, reason=f"{job.id} {number}")
    queue.measure()
    for job_id in ids:
        reasons = [reason for _, _, reason in told(queue, job_id)]
        assert reasons == [f"{job_id} {number}" for number in range(SHOWN + 2, 2, -1)]
    assert queue.figures.attempts("another") == []


def test_a_process_tells_about_a_bounded_number(queue: Queue, store: Store) -> None:
    queue.publish(Note(), partition_key="a")
    for number in range(TOLD + 5):
        [job] = queue.lease()
        assert queue.retry(job, reason=str(number))
    queue.measure()
    assert set(rows(queue, store).values_list("reason", flat=True)) == {
        str(number) for number in range(5, TOLD + 5)
    }
    assert queue.figures.totals().counts["retried"] == TOLD + 5


def test_what_the_database_did_not_take_is_told_the_next_time(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = queue.publish(Note(), partition_key="a")
    [job] = queue.lease(worker_id="me")
    queue.retry(job, reason="first")

    def fail(*args: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("vtrr_django.figures.keeping.Keeper.add", fail)
        with pytest.raises(ZeroDivisionError):
            queue.measure()
    assert queue.figures.attempts(job_id) == []
    [job] = queue.lease(worker_id="me")
    queue.retry(job, reason="second")
    queue.measure()
    assert [reason for _, _, reason in told(queue, job_id)] == ["second", "first"]


def test_the_table_is_bounded_in_time_and_in_number(
    queue: Queue, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = queue.publish(Note(), partition_key="a")

    def go_wrong(*reasons: str) -> None:
        for reason in reasons:
            [job] = queue.lease()
            queue.retry(job, reason=reason)

    go_wrong("old", "older")
    queue.measure()
    kept = trimming.ATTEMPTS_KEPT // timedelta(microseconds=1)
    rows(queue, store).update(at=F("at") - kept - 60_000_000)
    monkeypatch.setattr(trimming, "MOST_ATTEMPTS", 3)
    go_wrong("a", "b")
    measure_first(queue)
    assert [reason for _, _, reason in told(queue, job_id)] == ["b", "a"]
    go_wrong("c", "d", "e", "f", "g")
    monkeypatch.setattr(trimming, "_MOST_ROWS", 1)
    measure_first(queue)
    reasons = [reason for _, _, reason in told(queue, job_id)]
    assert reasons[:3] == ["g", "f", "e"]
    assert len(reasons) == 4, "all before the one that is one too many are gone"


def measure_first(queue: Queue) -> None:
    """Measure as whoever is the first in a minute, and trims."""
    totals = QueueTotals.objects.using(queue.config.database).filter(queue=queue.name)
    totals.update(sampled_at=None)
    queue.measure()


def test_hostile_texts_are_kept_as_they_are(queue: Queue) -> None:
    job_id = queue.publish(Note(), partition_key="a")
    [job] = queue.lease(worker_id="w")
    reason = "</pre><script>alert(1)</script> \u202e \U0001f600 é"
    queue.retry(job, reason=f"{reason}\0\ud800")
    queue.measure()
    assert told(queue, job_id) == [("w", "", f"{reason}\ufffd\ufffd")]
