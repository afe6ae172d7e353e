"""Looking through a queue, and copying and discarding its dead letters, as callers do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings

from tests.contract.stores import Store
from vtrr_django import Queue, ValidationError, get_queue, signals
from vtrr_django.domain.states import State
from vtrr_django.models import FailedJob


@pytest.fixture
def queue(store: Store) -> Iterator[Queue]:
    """A queue that gives tenant "big" a share of 3."""
    name = store.new_name()
    entry = store.settings(LEASE_SECONDS=30, SHARES={"big": 3.0})
    with override_settings(VTRR={"QUEUES": {name: entry}}):
        yield get_queue(name)


def declare(queue: Queue) -> Any:
    @queue.task
    def work(self: Any, number: int, *, flag: bool = False) -> None: ...

    return work


def kill(queue: Queue, count: int = 1) -> list[str]:
    """Make the jobs whose turn is next dead letters; return their ids."""
    jobs = queue.lease(count)
    assert all(queue.fail(one, "why") for one in jobs)
    return [one.id for one in jobs]


# -- pages -------------------------------------------------------------------------


def test_pages_of_a_queue(queue: Queue) -> None:
    work = declare(queue)
    ids = work.queue(partition_key="a", tasks=[{"args": [number]} for number in range(60)])
    later = work.enqueue(7, partition_key="b", delay=60)
    [leased] = queue.lease()
    page = queue.jobs()
    assert [one.id for one in page.jobs] == ids[1:51]
    rest = queue.jobs(after=page.next)
    assert [one.id for one in rest.jobs] == ids[51:]
    assert rest.next is None
    assert [one.id for one in queue.jobs("scheduled", partition_key="b").jobs] == [later]
    assert queue.jobs("leased", partition_key="b").jobs == []
    [held] = queue.jobs("leased", limit=1).jobs
    assert (held.id, held.state, held.queue) == (leased.id, State.LEASED, queue.name)
    assert held.payload == '{"args":[0],"kwargs":{}}'
    assert queue.job(leased.id) == held
    assert queue.job("nobody") is None
    assert queue.depth().ready == queue.stats()["ready"] == 59


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"state": "done"}, "state: expected one of ready, scheduled, leased, got 'done'"),
        (
            {"state": State.READY},
            "state: expected one of ready, scheduled, leased, got State.READY",
        ),
        ({"state": None}, "state: expected one of"),
        ({"limit": 0}, "limit: expected a whole number from 1 to 1,000, got 0"),
        ({"limit": 1001}, "limit: expected a whole number"),
        ({"limit": "5"}, "limit: expected a whole number"),
        ({"partition_key": "\x7f"}, "partition_key: expected no control characters"),
        ({"partition_key": 7}, "partition_key: expected a string"),
        ({"after": "nonsense"}, "after: expected the `next` of an earlier page"),
        ({"after": 7}, "after: expected the `next` of an earlier page"),
        ({"after": b"bytes"}, "after: expected the `next` of an earlier page"),
    ],
)
def test_wrong_arguments_are_refused(queue: Queue, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        queue.jobs(**arguments)
    assert message in str(caught.value)


def test_wrong_ids_are_refused(queue: Queue) -> None:
    for call in (queue.job, queue.copy, queue.discard):
        with pytest.raises(ValidationError, match="expected 1 to 64 printable ASCII characters"):
            call("no id")


# -- discarding --------------------------------------------------------------------


def test_a_discarded_dead_letter_can_be_published_anew(queue: Queue) -> None:
    work = declare(queue)
    first = work.enqueue(1, partition_key="a", msg_id="m")
    assert kill(queue) == [first]
    assert work.enqueue(1, partition_key="a", msg_id="m") == first
    assert queue.discard(first) == [first]
    assert queue.discard([first, first]) == []
    assert queue.requeue(first) == queue.copy(first) == []
    second = work.enqueue(1, partition_key="a", msg_id="m")
    assert second != first
    assert [one.id for one in queue.lease(5)] == [second]


# -- copying -----------------------------------------------------------------------


def test_a_copy_is_a_fresh_job_like_its_dead_letter_which_stays(store: Store, queue: Queue) -> None:
    work = declare(queue)
    fields: dict[str, Any] = {"weight": 5, "priority": 9, "msg_id": "m", "parent_id": "p"}
    letter = work.enqueue(1, partition_key="big", kwargs={"flag": True}, **fields)
    [job] = queue.lease()
    queue.retry(job, 0.0)
    assert kill(queue) == [letter]
    [copied] = queue.copy([letter])
    assert copied != letter
    [job] = queue.lease()
    assert (job.id, job.parent_id, job.msg_id) == (copied, letter, None)
    assert (job.task_name, job.args, job.kwargs) == (work.name, [1], {"flag": True})
    assert (job.partition_key, job.weight, job.priority) == ("big", 5, 9)
    assert (job.delivery_count, job.timeouts) == (0, 0)
    assert queue.partitions("big")[0].share == 3.0
    assert queue.ack(job)
    assert [row["id"] for row in store.history(queue.name)["failed"]] == [letter]
    assert [row["id"] for row in store.history(queue.name)["completed"]] == [copied]
    # The name is the letter's still, and the letter can come back besides its copy.
    assert work.enqueue(1, partition_key="big", msg_id="m") == letter
    assert queue.requeue(letter) == [letter]


def test_copies_come_in_the_order_asked_for_and_are_told_of(queue: Queue) -> None:
    work = declare(queue)
    for number in range(40):
        work.enqueue(number, partition_key=f"{number % 3}")
    letters = kill(queue, 40)
    told: list[Any] = []

    def note(*, ids: list[str], **more: Any) -> None:
        told.append(ids)

    signals.job_enqueued.connect(note, sender=queue)
    try:
        copies = queue.copy([letters[30], "nobody", *letters[:30], letters[30]])
    finally:
        signals.job_enqueued.disconnect(note, sender=queue)
    assert len(set(copies)) == 31
    assert told == [copies]
    parents = {one.id: one.parent_id for one in queue.jobs(limit=100).jobs}
    assert [parents[one] for one in copies] == [letters[30], *letters[:30]]
    assert queue.stats()["failed"] == 40
    assert queue.copy([]) == []


def test_a_copy_is_part_of_the_callers_transaction(queue: Queue) -> None:
    work = declare(queue)
    work.enqueue(1, partition_key="a")
    letters = kill(queue)
    queue.archive()
    alias = queue.engine.transaction_alias or "default"
    with pytest.raises(LookupError), transaction.atomic(using=alias):
        assert queue.copy(letters)
        raise LookupError
    assert queue.lease() == []
    with transaction.atomic(using=alias):
        [copied] = queue.copy(letters)
    assert [one.id for one in queue.lease()] == [copied]


@pytest.mark.parametrize(
    ("spoilt", "part"),
    [
        ({"payload": "{"}, "payload"),
        ({"payload": '{"args": 1, "kwargs": {"secret": 1}}'}, "payload"),
        ({"task_name": ""}, "task_name"),
        ({"partition_key": "\x07"}, "partition_key"),
    ],
)
def test_a_spoilt_dead_letter_is_not_copied_nor_are_the_others(
    store: Store, queue: Queue, spoilt: dict[str, str], part: str
) -> None:
    work = declare(queue)
    for number in range(2):
        work.enqueue(number, partition_key="a")
    sound, bad = kill(queue, 2)
    queue.archive()
    rows = FailedJob.objects.using(queue.config.database)
    assert rows.filter(queue=queue.name, id=bad).update(**spoilt) == 1
    with pytest.raises(ValidationError) as caught:
        queue.copy([sound, bad])
    assert f"dead letter {bad}: expected a job that can run" in str(caught.value)
    assert f"one whose {part} somebody has spoilt" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert queue.depth().ready == 0
    assert len(queue.copy([sound])) == 1
