"""The public surface: declaring, enqueueing, publishing, verbs, signals, async."""

from __future__ import annotations

import enum
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connections, transaction
from django.test import override_settings

from tests.contract.jobs import haunt
from tests.contract.stores import Store
from vtrr_django import (
    ConfigurationError,
    Discard,
    Queue,
    RetryPolicy,
    Snooze,
    StoreUnavailable,
    UnknownQueueError,
    ValidationError,
    get_queue,
    signals,
)
from vtrr_django.engines.sql import store as orm_store
from vtrr_django.exceptions import Retry


@pytest.fixture
def queue(store: Store) -> Iterator[Queue]:
    """A queue of its own, declared in settings, in each store."""
    name = store.new_name()
    with override_settings(VTRR={"QUEUES": {name: store.settings(LEASE_SECONDS=30)}}):
        yield get_queue(name)


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Address:
    city: str


@dataclass
class SendEmail:
    to: str
    when: datetime
    colour: Colour = Colour.RED
    address: Address | None = None


def waiting(queue: Queue) -> int:
    stats = queue.stats()
    return int(stats["ready"] + stats["scheduled"])


def test_a_task_runs_with_self_args_and_kwargs(queue: Queue) -> None:
    seen: list[Any] = []

    @queue.task
    def work(self: Any, a: int, *, b: str = "") -> None:
        seen.append((a, b, self.name, self.request.id, self.request.retries))

    job_id = work.enqueue(1, partition_key="acme", b="x")
    summary = queue.worker().run_burst()
    assert (summary.jobs, summary.succeeded) == (1, 1)
    assert seen == [(1, "x", work.name, job_id, 0)]
    assert queue.stats()["completed"] == 1


def test_queue_returns_ids_in_the_order_given(queue: Queue) -> None:
    order: list[int] = []

    @queue.task
    def work(self: Any, number: int) -> None:
        order.append(number)

    ids = work.queue(
        partition_key="acme", tasks=[{"args": [n], "weight": 1 + n % 3} for n in range(25)]
    )
    assert len(set(ids)) == 25
    queue.worker().run_burst()
    assert order == list(range(25))


def test_a_task_is_still_a_function(queue: Queue) -> None:
    @queue.task
    def work(self: Any, a: int) -> int:
        """Doc."""
        return a + self.request.vtrr_timeouts

    assert work(3) == 3
    assert work.__doc__ == "Doc."
    assert waiting(queue) == 0


def test_a_task_parameter_named_like_an_option_goes_through_kwargs(queue: Queue) -> None:
    seen: list[Any] = []

    @queue.task
    def work(self: Any, weight: str, delay: int = 0) -> None:
        seen.append((weight, delay))

    work.enqueue(partition_key="a", weight=3, kwargs={"weight": "heavy", "delay": 9})
    queue.worker().run_burst()
    assert seen == [("heavy", 9)]


def test_a_message_arrives_equal(queue: Queue) -> None:
    seen: list[SendEmail] = []

    @queue.handler
    def send(message: SendEmail) -> None:
        seen.append(message)

    message = SendEmail("a@b.c", datetime(2026, 1, 2, tzinfo=UTC), address=Address("Köln"))
    queue.publish(message, partition_key="acme", weight=2, msg_id="m")
    assert queue.publish(message, msg_id="m") == queue.publish(message, msg_id="m")
    queue.publish(message)
    queue.worker().run_burst()
    assert seen == [message, message]


def test_one_handler_per_message_type(queue: Queue) -> None:
    @queue.handler
    def one(message: Address) -> None: ...

    with pytest.raises(ValueError, match="Address"):

        @queue.handler
        def two(message: Address) -> None: ...


def test_what_a_job_raises_decides_how_it_ends(store: Store) -> None:
    name = store.new_name()
    # Without jitter: a wait drawn at random may be over before the burst is.
    policy = {"base_delay": 60.0, "jitter": False}
    with override_settings(VTRR={"QUEUES": {name: store.settings(RETRY=policy)}}):
        queue = get_queue(name)

        @queue.task
        def work(self: Any, how: str) -> None:
            if how == "retry":
                self.retry(countdown=50)
            raise {
                "snooze": Snooze(60),
                "discard": Discard("not worth it"),
                "error": LookupError("gone"),
            }[how]

        for how in ("snooze", "discard", "error", "retry"):
            work.enqueue(how, partition_key=how)
        summary = queue.worker().run_burst()
        assert (summary.snoozed, summary.failed, summary.retried) == (1, 1, 2)
        stats = queue.stats()
    assert (stats["scheduled"], stats["failed"]) == (3, 1)
    assert stats["recent_failures"][0]["reason"] == "not worth it"


def test_a_dead_letter_keeps_the_traceback_and_can_be_requeued(store: Store) -> None:
    name = store.new_name()
    broken = [True]
    with override_settings(VTRR={"QUEUES": {name: store.settings(RETRY=None)}}):
        queue = get_queue(name)

        @queue.task
        def work(self: Any) -> None:
            if broken[0]:
                raise LookupError("gone")

        job_id = work.enqueue(partition_key="a")
        assert queue.worker().run_burst().failed == 1
        [row] = store.history(name)["failed"]
        assert row["error_class"] == "builtins.LookupError"
        assert "LookupError: gone" in row["traceback"]
        assert row["traceback"].count("worker/run.py") == 0
        broken[0] = False
        assert queue.requeue(job_id) == [job_id]
        assert queue.worker().run_burst().succeeded == 1


def test_retries_follow_the_policy_and_end_as_a_dead_letter(store: Store) -> None:
    name = store.new_name()
    policy = {"max_retries": 2, "backoff": "constant", "base_delay": 0.0, "jitter": False}
    with override_settings(VTRR={"QUEUES": {name: store.settings(RETRY=policy)}}):
        queue = get_queue(name)
        attempts: list[int] = []

        @queue.task
        def work(self: Any) -> None:
            attempts.append(self.request.retries)
            raise LookupError

        work.enqueue(partition_key="a")
        while queue.stats()["failed"] == 0:
            queue.worker().run_burst()
        assert attempts == [0, 1, 2]


def test_celerys_retry_options_mean_the_same_here(queue: Queue) -> None:
    @queue.task(autoretry_for=(KeyError,), retry_backoff=4, retry_jitter=False, max_retries=2)
    def work(self: Any) -> None: ...

    [job] = [None]
    work.enqueue(partition_key="a")
    [job] = queue.lease()
    assert work.retry_delay(KeyError(), job) == 4.0
    assert queue.ack(job)


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        ({}, 3),
        ({"max_retries": 0}, 1),
        ({"max_retries": 1}, 2),
        ({"max_retries": 4}, 5),
        ({"max_retries": None}, 3),  # no end of self.retry(); a bug is no reason to go on for ever
        ({"default_retry_delay": 3600}, 3),
        ({"retry_backoff": True, "retry_kwargs": {"max_retries": 0}}, 3),
        ({"autoretry_for": (KeyError,), "max_retries": 0}, 1),
        ({"autoretry_for": (KeyError,), "retry_kwargs": {"max_retries": 0}}, 3),
        ({"autoretry_for": (LookupError,), "default_retry_delay": 0, "max_retries": 1}, 2),
        ({"autoretry_for": (LookupError,), "retry_kwargs": {"max_retries": 1, "countdown": 0}}, 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["task", "handler"])
def test_a_task_is_retried_as_often_as_it_says_itself(
    options: dict[str, Any], runs: int, kind: str, store: Store
) -> None:
    name = store.new_name()
    policy = {"max_retries": 2, "backoff": "constant", "base_delay": 0.0, "jitter": False}
    with override_settings(VTRR={"QUEUES": {name: store.settings(RETRY=policy)}}):
        queue = get_queue(name)
        attempts: list[object] = []

        def work(self: Any) -> None:
            attempts.append(self)
            raise IndexError

        def handle(message: Address) -> None:
            work(message)

        if kind == "task":
            queue.task(**options)(work).enqueue(partition_key="a")
        else:
            queue.handler(**options)(handle)
            queue.publish(Address("x"))
        assert queue.worker().run_burst().failed == 1
        assert len(attempts) == runs


def test_a_policy_of_the_handler_counts_alone(queue: Queue) -> None:
    attempts: list[object] = []

    @queue.handler(policy=RetryPolicy(max_retries=2, base_delay=0), max_retries=0)
    def handle(message: Address) -> None:
        attempts.append(message)
        raise LookupError

    queue.publish(Address("x"))
    assert queue.worker().run_burst().failed == 1
    assert len(attempts) == 3


def test_a_handlers_own_policy_comes_before_the_queues(queue: Queue) -> None:
    @queue.handler(policy=RetryPolicy(max_retries=0))
    def handle(message: Address) -> None:
        raise LookupError

    queue.publish(Address("x"))
    assert queue.worker().run_burst().failed == 1


@pytest.mark.parametrize("option", ["queue", "bind", "name", "rate_limit"])
def test_unsupported_task_options_are_refused_at_decoration(queue: Queue, option: str) -> None:
    with pytest.raises(TypeError, match=f"(?s){option}.*allowed are base, max_retries"):
        queue.task(**{option: 1})


def test_wrong_task_options_are_refused_at_decoration(queue: Queue) -> None:
    with pytest.raises(ValidationError, match="soft_time_limit: expected less than time_limit"):
        queue.task(soft_time_limit=10, time_limit=5)
    with pytest.raises(ValidationError, match="time_limit: expected a number"):
        queue.task(time_limit=-1)
    with pytest.raises(TypeError, match="self"):

        @queue.task
        def work() -> None: ...


def test_a_celery_run_queue_has_one_task(store: Store) -> None:
    name = store.new_name()
    with override_settings(VTRR={"QUEUES": {name: store.settings(CELERY_QUEUE="x")}}):
        queue = get_queue(name)

        @queue.task
        def one(self: Any) -> None: ...

        with pytest.raises(ValueError, match="one task on queue"):

            @queue.task
            def two(self: Any) -> None: ...


def test_an_undeclared_queue_is_refused_at_its_first_use_with_the_nearest_name() -> None:
    with override_settings(VTRR={"QUEUES": {"uploads": {}}}):
        queue = get_queue("uplods")
        with pytest.raises(UnknownQueueError, match="did you mean 'uploads'"):
            queue.stats()


def test_without_settings_there_is_one_queue_named_default() -> None:
    with override_settings():
        from django.conf import settings

        if hasattr(settings, "VTRR"):
            del settings.VTRR
        assert get_queue().config.engine == "orm"


BAD_JOBS: list[tuple[dict[str, Any], str]] = [
    ({"args": [float("nan")]}, r"tasks\[1\].args\[0\]: expected a finite number, got NaN"),
    ({"args": [{"a": [float("inf")]}]}, r"tasks\[1\].args\[0\].a\[0\]: .*got Infinity"),
    ({"args": [{1: 2}]}, r"tasks\[1\].args\[0\]"),
    ({"args": ["a\0b"]}, r"tasks\[1\].args\[0\]"),
    ({"args": ["\ud800"]}, r"tasks\[1\].args\[0\]"),
    ({"args": ["x" * 2_000_000]}, "MAX_PAYLOAD_BYTES"),
    ({"args": [datetime(2026, 1, 1)]}, r"tasks\[1\].args\[0\]"),  # noqa: DTZ001 - the bad input
    ({"args": [object()]}, r"tasks\[1\].args\[0\]"),
    ({"args": 5}, r"tasks\[1\]"),
    ({"args": [1, 2, 3]}, r"tasks\[1\]: expected arguments for"),
    ({"kwargs": {"nope": 1}, "args": [1]}, r"tasks\[1\]"),
    ({"kwargs": [1]}, r"tasks\[1\]"),
    ({"args": [1], "weight": 0}, r"tasks\[1\].weight"),
    ({"args": [1], "weight": 1_000_001}, r"tasks\[1\].weight"),
    ({"args": [1], "weight": True}, r"tasks\[1\].weight"),
    ({"args": [1], "weight": 1.5}, r"tasks\[1\].weight"),
    ({"args": [1], "weight": None}, r"tasks\[1\].weight"),
    ({"args": [1], "priority": 101}, r"tasks\[1\].priority"),
    ({"args": [1], "priority": "1"}, r"tasks\[1\].priority"),
    ({"args": [1], "delay": -1}, r"tasks\[1\].delay"),
    ({"args": [1], "delay": float("nan")}, r"tasks\[1\].delay"),
    ({"args": [1], "scheduled_at": datetime(2026, 1, 1)}, "aware"),  # noqa: DTZ001 - bad input
    ({"args": [1], "scheduled_at": "2026-01-01"}, r"tasks\[1\].scheduled_at"),
    (
        {"args": [1], "delay": 1, "scheduled_at": datetime(2026, 1, 1, tzinfo=UTC)},
        "delay or scheduled_at",
    ),
    ({"args": [1], "id": "has space"}, r"tasks\[1\].id"),
    ({"args": [1], "id": "x" * 65}, r"tasks\[1\].id"),
    ({"args": [1], "id": 7}, r"tasks\[1\].id"),
    ({"args": [1], "msg_id": ""}, r"tasks\[1\].msg_id"),
    ({"args": [1], "msg_id": "x" * 256}, r"tasks\[1\].msg_id"),
    ({"args": [1], "parent_id": "a b"}, r"tasks\[1\].parent_id"),
    ({"args": [1], "wieght": 1}, r"tasks\[1\].wieght: expected one of args"),
    (7, r"tasks\[1\]: expected a mapping"),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("bad", "message"), BAD_JOBS, ids=[str(i) for i in range(len(BAD_JOBS))])
def test_one_bad_item_and_nothing_is_written(queue: Queue, bad: Any, message: str) -> None:
    @queue.task
    def work(self: Any, a: Any, b: Any = None) -> None: ...

    with pytest.raises(ValidationError, match=message):
        work.queue(partition_key="acme", tasks=[{"args": [1]}, bad, {"args": [2]}])
    assert waiting(queue) == 0


@pytest.mark.parametrize("key", ["", None, 5, "a\0b", "a\nb", "x" * 256, "\ud800", b"x"])
def test_a_bad_partition_key_is_refused(queue: Queue, key: Any) -> None:
    @queue.task
    def work(self: Any) -> None: ...

    with pytest.raises(ValidationError, match="partition_key"):
        work.queue(partition_key=key, tasks=[{}])
    with pytest.raises(ValidationError, match="partition_key"):
        work.enqueue(partition_key=key)
    assert waiting(queue) == 0


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        130775545883395173,
        -(2**70),
        {"a": [], "b": {}},
        "\u2028",
        "\N{ROCKET}\u0301",
        0.1,
        1e308,
        [None, True, False],
        deep(29),
        "' OR 1=1; -- %s %(x)s \\ \" ?",
    ],
)
def test_a_good_payload_comes_back_equal(queue: Queue, value: Any) -> None:
    seen: list[Any] = []

    @queue.task
    def work(self: Any, value: Any, *, named: Any) -> None:
        seen.append((value, named))

    work.enqueue(value, partition_key="a", named={"key": value})
    assert queue.worker().run_burst().succeeded == 1
    [(positional, named)] = seen
    assert (positional, type(positional), named) == (value, type(value), {"key": value})


def test_an_enqueue_that_is_rolled_back_leaves_nothing(store: Store, queue: Queue) -> None:
    @queue.task
    def work(self: Any) -> None: ...

    alias = queue.config.database
    with transaction.atomic(using=alias):
        work.enqueue(partition_key="a")
        work.queue(partition_key="a", tasks=[{}] * 5)
        transaction.set_rollback(True, using=alias)
    assert waiting(queue) == 0
    with transaction.atomic(using=alias):
        work.enqueue(partition_key="a")
        with transaction.atomic(using=alias):
            work.enqueue(partition_key="b")
            transaction.set_rollback(True, using=alias)
    assert queue.worker().run_burst().jobs == 1
    assert not connections[alias].in_atomic_block


def test_a_queue_in_another_database_waits_for_the_callers_transaction(
    store: Store, queue: Queue
) -> None:
    if store.joins and queue.config.database == "default":
        pytest.skip("the queue is part of the caller's transaction: see the test above")

    @queue.task
    def work(self: Any) -> None: ...

    with transaction.atomic():
        work.enqueue(partition_key="a")
        transaction.set_rollback(True)
    assert waiting(queue) == 0
    with transaction.atomic():
        job_id = work.enqueue(partition_key="a")
        [at_once] = work.queue(partition_key="a", tasks=[{}], on_commit=False)
        assert waiting(queue) == 1
    assert waiting(queue) == 2
    assert {one.id for one in queue.lease(2)} == {job_id, at_once}


def test_signals_tell_the_whole_life_of_a_job(queue: Queue) -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    names = ("job_enqueued", "job_started", "job_finished", "job_retried", "job_reclaimed")

    def receiver_of(name: str) -> Any:
        def receive(sender: Queue, **details: Any) -> None:
            assert sender is queue
            told.append((name, details))

        return receive

    receivers = [(getattr(signals, name), receiver_of(name)) for name in names]
    for signal, receiver in receivers:
        signal.connect(receiver, sender=queue)
    try:

        @queue.task
        def work(self: Any, fail: bool) -> None:
            if fail:
                raise Retry(60.0)

        good = work.enqueue(False, partition_key="a")
        bad = work.enqueue(True, partition_key="b")
        queue.worker().run_burst()
    finally:
        for signal, receiver in receivers:
            signal.disconnect(receiver, sender=queue)
    happened = [name for name, _ in told]
    assert sorted(happened) == sorted(
        [
            "job_enqueued",
            "job_enqueued",
            "job_started",
            "job_finished",
            "job_started",
            "job_retried",
        ]
    )
    details = dict(told)
    assert details["job_finished"]["job_id"] == good
    assert details["job_finished"]["status"] == "completed"
    assert details["job_retried"]["job_id"] == bad
    assert details["job_retried"]["kind"] == "retry"


def test_a_receiver_that_raises_harms_no_job(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    def receive(**details: Any) -> None:
        raise LookupError("receiver broke")

    signals.job_finished.connect(receive, sender=queue)
    try:

        @queue.task
        def work(self: Any) -> None: ...

        work.enqueue(partition_key="a")
        assert queue.worker().run_burst().succeeded == 1
    finally:
        signals.job_finished.disconnect(receive, sender=queue)
    assert "the job is not affected" in caplog.text


def test_verbs_by_hand(queue: Queue) -> None:
    @queue.task
    def work(self: Any) -> None: ...

    work.queue(partition_key="acme", tasks=[{}] * 4)
    jobs = queue.lease(4, worker_id="me")
    assert queue.renew(jobs[0])
    assert queue.ack(jobs[0])
    assert not queue.ack(jobs[0])
    assert queue.fail(jobs[1], LookupError("gone"))
    assert queue.retry(jobs[2], 60)
    assert queue.release(jobs[3])
    assert queue.snooze(queue.lease()[0], 60)
    [partition] = queue.partitions()
    assert (partition.partition_key, partition.scheduled) == ("acme", 2)
    with pytest.raises(ValidationError, match="delay"):
        queue.snooze(jobs[0], -1)
    with pytest.raises(ValidationError, match="n: expected a whole number"):
        queue.lease(0)


def test_steering_checks_what_it_is_told(queue: Queue) -> None:
    for share in (0, -1, float("nan"), "2", True):
        with pytest.raises(ValidationError, match="share"):
            queue.set_partition("a", share=share)  # type: ignore[arg-type]
    for limit in (0, -1, 1.5, "2", True):
        with pytest.raises(ValidationError, match="limit"):
            queue.set_partition("a", limit=limit)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="ids"):
        queue.cancel(["a b"])
    with pytest.raises(ValidationError, match="partition_key"):
        queue.pause("a\n")
    assert queue.partitions() == []


def test_shares_come_from_settings(store: Store) -> None:
    name = store.new_name()
    asked: list[str] = []

    def share_of(partition_key: str) -> float | None:
        asked.append(partition_key)
        return 3.0 if partition_key == "gold" else None

    with override_settings(VTRR={"QUEUES": {name: store.settings(SHARES=share_of)}}):
        queue = get_queue(name)

        @queue.task
        def work(self: Any) -> None: ...

        for key in ("gold", "iron"):
            work.queue(partition_key=key, tasks=[{}] * 40)
        assert asked == ["gold", "iron"]
        leased = [one.partition_key for one in queue.lease(40)]
        assert (leased.count("gold"), leased.count("iron")) == (30, 10)


@pytest.mark.parametrize("chosen", [True, False])
def test_requeueing_asks_for_the_share_anew(store: Store, chosen: bool) -> None:
    name, shares = store.new_name(), {"gold": 3.0, "iron": 1.0}
    with override_settings(VTRR={"QUEUES": {name: store.settings(SHARES=shares.get)}}):
        queue = get_queue(name)
        for key in shares:
            queue.publish(Address(key), partition_key=key)
        ids = [job.id for job in queue.lease(2) if queue.fail(job, "r")]
        shares |= {"gold": 5.0, "iron": 0.0}
        with pytest.raises(ValidationError, match="SHARES"):
            queue.requeue(ids if chosen else None)
        assert queue.stats()["failed"] == 2
        shares["iron"] = 0.5
        assert set(queue.requeue(ids if chosen else None, limit=2)) == set(ids)
        assert {one.partition_key: one.share for one in queue.partitions()} == shares


def test_requeueing_all_goes_on_behind_letters_that_are_none(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose jobs are live, more of them than are asked for a share at once."""
    monkeypatch.setattr("vtrr_django.storing._CHUNK", 2)
    name = store.new_name()
    with override_settings(VTRR={"QUEUES": {name: store.settings(SHARES={"gold": 3.0})}}):
        queue = get_queue(name)
        for _ in range(3):
            queue.publish(Address("x"), partition_key="gold")
        ids = [job.id for job in queue.lease(3) if queue.fail(job, "r")]
        live = [queue.publish(Address("y")) for _ in range(5)]
        haunt(store, queue.engine, ids[0], live)
        assert queue.requeue(limit=2) == ids[:2]
        assert queue.requeue() == ids[2:]
        assert queue.requeue() == []
        assert (queue.stats()["failed"], queue.stats()["ready"]) == (0, 8)


async def _async_twins(queue: Queue, work: Any) -> None:
    await work.aenqueue(1, partition_key="a")
    assert len(await work.aqueue(partition_key="a", tasks=[{"args": [2]}])) == 1
    await queue.apublish(Address("x"))
    assert (await queue.astats())["ready"] == 3


def test_async_twins(queue: Queue) -> None:
    from asgiref.sync import async_to_sync

    @queue.task
    def work(self: Any, number: int) -> None: ...

    async_to_sync(_async_twins)(queue, work)
    assert waiting(queue) == 3


@pytest.mark.parametrize(
    ("vtrr", "message"),
    [
        (7, "VTRR: expected a mapping"),
        ({"QUEUE": {}}, r"VTRR\['QUEUE'\].*did you mean 'QUEUES'"),
        ({"QUEUES": {}}, "at least one queue"),
        ({"QUEUES": {"a b": {}}}, r"\['a b'\]"),
        ({"QUEUES": {"a": {"ENGIN": "orm"}}}, "did you mean 'ENGINE'"),
        ({"QUEUES": {"a": {"engine": "orm"}}}, "did you mean 'ENGINE'"),
        ({"QUEUES": {"a": {"ENGINE": "orn"}}}, "did you mean 'orm'"),
        ({"QUEUES": {"a": {"LEASE_SECONDS": 0}}}, r"\['LEASE_SECONDS'\]: expected a number"),
        ({"QUEUES": {"a": {"LEASE_SECONDS": True}}}, "LEASE_SECONDS"),
        ({"QUEUES": {"a": {"HEARTBEAT": 1}}}, "True or False"),
        ({"QUEUES": {"a": {"COST": "time"}}}, "'weight' or 'runtime'"),
        ({"QUEUES": {"a": {"RESERVE": 8}}}, "less than MAX_CONCURRENCY"),
        ({"QUEUES": {"a": {"RETRY": {"max_retry": 1}}}}, "did you mean 'max_retries'"),
        ({"QUEUES": {"a": {"SHARES": {"x": 0}}}}, "SHARES"),
        ({"QUEUES": {"a": {"SHARES": "no.such.path"}}}, "dotted path"),
        ({"QUEUES": {"a": {"SHARES": {42: 3}}}}, r"\['a'\]\['SHARES'\]\[42\]: expected a string"),
        ({"QUEUES": {"a": {"SHARES": {None: 3}}}}, r"\['SHARES'\]\[None\]: expected a string"),
        ({"QUEUES": {"a": {"SHARES": {"x" * 256: 3}}}}, "1 to 255 characters"),
        ({"QUEUES": {"a": {"SHARES": {"a\n": 3}}}}, "no control characters"),
        ({"SECRET": 5}, "SECRET"),
        ({"MAX_PAYLOAD_BYTES": "1"}, "MAX_PAYLOAD_BYTES"),
    ],
)
def test_wrong_settings_are_refused_with_their_path(vtrr: Any, message: str) -> None:
    with override_settings(VTRR=vtrr), pytest.raises(ConfigurationError, match=message):
        get_queue("default").config  # noqa: B018 - reading it is the test


def test_the_partition_of_jobs_without_a_key_may_have_a_share() -> None:
    with override_settings(VTRR={"QUEUES": {"default": {"SHARES": {"": 3, "42": 2}}}}):
        assert get_queue().config.shares == {"": 3, "42": 2}


def test_a_secret_is_never_shown_in_an_error() -> None:
    with (
        override_settings(VTRR={"SECRET": ["CANARY", 5]}),
        pytest.raises(ConfigurationError) as caught,
    ):
        get_queue("default").config  # noqa: B018 - reading it is the test
    assert "CANARY" not in str(caught.value)


def test_settings_are_read_anew_when_they_change() -> None:
    with override_settings(VTRR={"QUEUES": {"default": {"LEASE_SECONDS": 7}}}):
        assert get_queue().config.lease_seconds == 7
    with override_settings(VTRR={"QUEUES": {"default": {"LEASE_SECONDS": 8}}}):
        assert get_queue().config.lease_seconds == 8


def test_a_lease_reclaimed_by_a_lease_call_is_told_too(store: Store, queue: Queue) -> None:
    told: list[tuple[str, bool]] = []

    def receive(job_id: str, dead: bool, **details: Any) -> None:
        told.append((job_id, dead))

    signals.job_reclaimed.connect(receive, sender=queue)
    try:
        job_id = queue.publish(Address("x"))
        for _ in range(5):
            assert len(queue.lease()) == 1
            store.advance(queue.name, 60)
        assert queue.lease() == []
    finally:
        signals.job_reclaimed.disconnect(receive, sender=queue)
    assert told == [(job_id, False)] * 4 + [(job_id, True)]


def test_tasks_of_an_undeclared_queue_can_be_imported() -> None:
    with override_settings(VTRR={"QUEUES": {"uploads": {}}}):
        queue = get_queue("forgotten")

        @queue.task
        def one(self: Any) -> None: ...

        @queue.task
        def two(self: Any) -> None: ...

        with pytest.raises(UnknownQueueError, match="forgotten"):
            two.enqueue(partition_key="a")


@pytest.mark.parametrize("engine", ["no.such.Engine", "json.JSONDecoder", "json.nothing"])
def test_an_engine_that_is_none_is_refused(engine: str) -> None:
    with (
        override_settings(VTRR={"QUEUES": {"odd": {"ENGINE": engine}}}),
        pytest.raises(ConfigurationError, match="ENGINE"),
    ):
        get_queue("odd").lease()


def test_settings_made_before_the_first_job_show_what_shares_says(store: Store) -> None:
    name = store.new_name()
    with override_settings(VTRR={"QUEUES": {name: store.settings(SHARES={"gold": 3.0})}}):
        queue = get_queue(name)
        queue.set_partition("gold", limit=2)
        queue.pause("gold")
        [partition] = queue.partitions("gold")
        assert (partition.share, partition.limit, partition.paused) == (3.0, 2, True)


def test_missing_tables_are_named_with_the_cure(store: Store) -> None:
    with pytest.raises(StoreUnavailable, match="lacks tables of vtrr_django"):
        orm_store.Store(store.databases[-1]).read("SELECT 1 FROM vtrr_django_nothing")


def test_importing_and_asking_for_a_queue_needs_no_settings() -> None:
    env = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
    code = "from vtrr_django import Discard, RetryPolicy, Snooze, get_queue; print(get_queue('x'))"
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("<Queue 'x'>\n", "")


def test_a_lease_may_have_its_own_length(queue: Queue, store: Store) -> None:
    first, second = queue.put_all([{"task": "a"}, {"task": "b", "partition_key": "p"}])
    [short] = queue.lease(worker_id="w", lease_seconds=5)
    _, [long] = queue.finish_and_lease([], 1, worker_id="w", lease_seconds=5)
    assert {short.id, long.id} == {first, second}
    assert queue.renew(long, lease_seconds=500)
    store.advance(queue.name, 100)
    assert queue.reclaim() == 1
    assert not queue.renew(short)
    assert queue.ack(long)


@pytest.mark.parametrize("seconds", [0, 0.5, -1, "30", True, float("nan"), float("inf"), 1e10])
def test_the_length_of_a_lease_has_bounds(queue: Queue, seconds: Any) -> None:
    queue.put_all([{"task": "a"}])
    with pytest.raises(ValidationError, match="lease_seconds"):
        queue.lease(lease_seconds=seconds)
    with pytest.raises(ValidationError, match="lease_seconds"):
        queue.finish_and_lease([], 1, worker_id="w", lease_seconds=seconds)
    [job] = queue.lease()
    with pytest.raises(ValidationError, match="lease_seconds"):
        queue.renew(job, lease_seconds=seconds)


def test_jobs_of_many_tasks_are_all_put_or_none(queue: Queue) -> None:
    items: list[dict[str, Any]] = [{"task": "a"}, {"task": "b", "partition_key": "p", "args": [1]}]
    with pytest.raises(ValidationError, match=r"^jobs\[2\]\.weight: "):
        queue.put_all([*items, {"task": "c", "weight": 0}], path="jobs")
    with pytest.raises(ValidationError, match=r"^jobs\[0\]\.task: "):
        queue.put_all([{}], path="jobs")
    assert queue.depth().ready == 0
    ids = queue.put_all(items, path="jobs")
    found = {job.id: (job.task_name, job.partition_key, job.args) for job in queue.lease(5)}
    assert found == {ids[0]: ("a", "", []), ids[1]: ("b", "p", [1])}
    assert queue.put_all([]) == []
