"""What a fresh pair of eyes broke: each fault stands for its kind."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core import serializers
from django.db import OperationalError, connections, transaction
from django.test import override_settings
from django.utils import timezone

from tests.contract.stores import SQL_STORES, OrmStore, Store
from tests.worker.fakes import wait_until
from vtrr_django import ConfigurationError, DuplicateJobError, Queue, ValidationError, get_queue
from vtrr_django.connections import DjangoHooks, pool_size
from vtrr_django.domain.job import Outcome, OutcomeKind
from vtrr_django.models import CompletedJob, Job, Partition
from vtrr_django.signals import job_finished
from vtrr_django.worker.process import WorkerError


@dataclass
class Note:
    text: str


@pytest.fixture
def queue(store: Store) -> Iterator[Queue]:
    name = store.new_name()
    with override_settings(VTRR={"QUEUES": {name: store.settings(RETRY=None)}}):
        yield get_queue(name)


@pytest.fixture
def apart(store: Store) -> Iterator[Queue]:
    """A queue that is not part of the default database's transactions."""
    if store.joins and store.databases == ("default",):
        pytest.skip("the queue's store is the default database")
    name = store.new_name()
    with override_settings(VTRR={"QUEUES": {name: store.settings()}}):
        yield get_queue(name)


def test_async_tasks_and_handlers_run_to_their_end(queue: Queue) -> None:
    ran: list[str] = []

    @queue.task
    async def work(self: Any, what: str) -> None:
        ran.append(what)

    @queue.handler
    async def handle(note: Note) -> None:
        ran.append(note.text)

    work.enqueue("task", partition_key="a")
    queue.publish(Note("handler"))
    assert queue.worker().run_burst().succeeded == 2
    assert sorted(ran) == ["handler", "task"]


def test_a_coroutine_has_the_self_of_any_task(queue: Queue) -> None:
    """And its connections are those of the thread that a worker looks after."""
    seen: list[tuple[str, int, str]] = []

    @queue.task(max_retries=1)
    async def work(self: Any) -> None:
        thread = (await sync_to_async(threading.current_thread)()).name
        seen.append((self.request.vtrr_job.id, self.request.retries, thread))
        if not self.request.retries:
            raise self.retry(countdown=0)
        assert await CompletedJob.objects.acount() == 0

    job_id = work.enqueue(partition_key="a")
    assert queue.worker().run_burst().succeeded == 1
    assert seen == [(job_id, 0, "vtrr-slot-0"), (job_id, 1, "vtrr-slot-0")]


def test_generators_are_refused_at_decoration(queue: Queue) -> None:
    def task(self: Any) -> Any:
        yield 1

    async def async_task(self: Any) -> Any:
        yield 1

    def handler(note: Note) -> Any:
        yield 1

    for function in (task, async_task):
        with pytest.raises(TypeError, match="generator"):
            queue.task(function)
    with pytest.raises(TypeError, match="generator"):
        queue.handler(handler)


def test_a_function_that_returns_an_awaitable_fails_and_is_not_completed(queue: Queue) -> None:
    async def inner() -> None: ...

    @queue.task
    def work(self: Any) -> Any:
        return inner()

    work.enqueue(partition_key="a")
    assert queue.worker().run_burst().failed == 1
    assert "async def" in queue.stats()["recent_failures"][0]["reason"]


def test_a_worker_is_refused_inside_a_transaction_with_the_cure(queue: Queue) -> None:
    with (
        transaction.atomic(using=queue.config.database),
        pytest.raises(WorkerError, match=r"testing\.run_jobs"),
    ):
        queue.worker().run_burst()


@pytest.mark.parametrize(
    ("pool", "size"), [(None, None), (False, None), (True, 4), ({"max_size": 9}, 9), ({}, None)]
)
def test_the_size_of_a_pool(pool: Any, size: int | None) -> None:
    connection = connections["default"].copy()
    connection.settings_dict = connection.settings_dict | {"OPTIONS": {"pool": pool}}
    assert pool_size(connection) == size


@pytest.mark.parametrize(("size", "kept"), [(None, True), (4, False)])
def test_a_pooled_connection_goes_back_before_a_job_runs(
    store: Store, monkeypatch: pytest.MonkeyPatch, size: int | None, kept: bool
) -> None:
    connection = connections[store.databases[-1]]
    connection.ensure_connection()
    monkeypatch.setattr("vtrr_django.connections.pool_size", lambda _: size)
    with transaction.atomic(using=connection.alias):
        DjangoHooks().before_job()
        assert not connection.closed_in_transaction, "it is whose the transaction is"
    DjangoHooks().before_job()
    assert (connection.connection is not None) == kept


@pytest.mark.parametrize("store", SQL_STORES, indirect=True)
@pytest.mark.parametrize("max_age", [0, 600])
def test_a_connection_is_asked_whether_it_works_when_it_is_used(
    store: Store, queue: Queue, monkeypatch: pytest.MonkeyPatch, max_age: int
) -> None:
    """Not when another store is wanted, for this one may hang."""
    assert isinstance(store, OrmStore)
    connection = connections[store.alias]
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", max_age)
    connection.close()  # one that another test has opened would be too old
    queue.publish(Note("x"))
    asked: list[bool] = []
    monkeypatch.setattr(connection, "is_usable", lambda: asked.append(True) or True)

    connection.errors_occurred = True
    DjangoHooks().after_job()
    connection.errors_occurred = True
    DjangoHooks().before_store()
    assert asked == []
    assert len(queue.lease()) == 1
    assert asked == [True]


@pytest.mark.parametrize(
    ("store", "kill", "alive"),
    [
        (
            "postgres",
            "SELECT pg_terminate_backend({})",
            "SELECT 1 FROM pg_stat_activity WHERE pid = {}",
        ),
        (
            "mariadb",
            "KILL CONNECTION {}",
            "SELECT 1 FROM information_schema.processlist WHERE id = {}",
        ),
    ],
    indirect=["store"],
)
@pytest.mark.parametrize("hook", ["before_store", "after_job"])
def test_a_connection_that_broke_is_replaced(
    store: Store, queue: Queue, kill: str, alive: str, hook: str
) -> None:
    assert isinstance(store, OrmStore)
    queue.publish(Note("x"))
    connection, other = connections[store.alias], connections[store.alias].copy()
    own = "pg_backend_pid()" if connection.vendor == "postgresql" else "CONNECTION_ID()"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {own}")
        [number] = cursor.fetchone()
    with other.cursor() as cursor:
        cursor.execute(kill.format(number))

        def gone() -> bool:
            cursor.execute(alive.format(number))
            return cursor.fetchall() in ([], ())

        wait_until(gone)
    other.close()
    connection.errors_occurred = True
    getattr(DjangoHooks(), hook)()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {own}")
        assert cursor.fetchone() != (number,)
    assert len(queue.lease()) == 1


# Django's JSON has milliseconds, its XML what the field says.
@pytest.mark.parametrize("store", SQL_STORES, indirect=True)
@pytest.mark.parametrize(("form", "precision"), [("json", 1000), ("xml", 1)])
def test_live_jobs_survive_dumpdata_and_loaddata(
    store: Store, queue: Queue, form: str, precision: int
) -> None:
    assert isinstance(store, OrmStore)
    queue.publish(Note("x"))
    rows = Job.objects.using(store.alias).filter(queue=queue.name)
    [before] = rows
    text = serializers.serialize(form, rows)
    rows.delete()
    for loaded in serializers.deserialize(form, text):
        loaded.save(using=store.alias)
    [after] = rows.all()
    assert before.created_at - after.created_at < timedelta(microseconds=precision)
    assert after.lease_expires_at is None
    assert len(queue.lease()) == 1


@pytest.mark.parametrize("store", SQL_STORES, indirect=True)
@pytest.mark.parametrize("use_tz", [True, False])
def test_live_jobs_can_be_filtered_by_time(store: Store, queue: Queue, use_tz: bool) -> None:
    assert isinstance(store, OrmStore)
    queue.publish(Note("x"))
    with override_settings(USE_TZ=use_tz, TIME_ZONE="Europe/Berlin"):
        rows = Job.objects.using(store.alias).filter(queue=queue.name)
        soon = timezone.now() + timedelta(minutes=5)
        assert rows.filter(created_at__lte=soon, created_at__gte="2020-01-01 00:00").count() == 1
        assert rows.filter(created_at__gt=soon).count() == 0


def test_without_time_zones_a_naive_time_is_the_projects(queue: Queue, store: Store) -> None:
    with override_settings(USE_TZ=False, TIME_ZONE="UTC"):
        queue.publish(Note("x"), scheduled_at=timezone.now() + timedelta(hours=1))
    with pytest.raises(ValidationError, match="aware"):
        queue.publish(Note("x"), scheduled_at=datetime(2030, 1, 1))  # noqa: DTZ001 - bad input
    [row] = store.live(queue.name).values()
    assert timedelta(minutes=59) < row["scheduled_at"] - datetime.now(UTC) < timedelta(minutes=61)


def test_a_msg_id_given_twice_before_the_commit_is_one_job(apart: Queue) -> None:
    with transaction.atomic():
        first = apart.publish(Note("x"), msg_id="m")
        assert apart.publish(Note("x"), msg_id="m") == first
        with transaction.atomic():
            dropped = apart.publish(Note("x"), msg_id="n")
            transaction.set_rollback(True)
        assert apart.publish(Note("x"), msg_id="n") != dropped
    assert apart.stats()["ready"] == 2


def test_an_id_of_another_job_is_refused_before_the_commit(apart: Queue) -> None:
    apart.publish(Note("x"), id="taken")
    with transaction.atomic():
        assert apart.publish(Note("x"), id="taken") == "taken"
        assert apart.publish(Note("z"), id="waits") == "waits"
        for taken in ("taken", "waits"):
            with pytest.raises(DuplicateJobError, match=taken):
                apart.publish(Note("y"), id=taken)
    assert apart.stats()["ready"] == 2


def bulk(apart: Queue, *items: dict[str, Any]) -> list[str]:
    """Publish items in one call."""
    return apart.put_all([{"task": "t", "partition_key": "a", **one} for one in items], path="jobs")


@pytest.mark.parametrize("name", ["id", "msg_id"])
def test_a_name_given_twice_in_one_call_before_the_commit_is_one_job(
    apart: Queue, name: str
) -> None:
    with transaction.atomic():
        first, second, other, third = bulk(apart, *({name: one} for one in "mmnm"))
        assert first == second == third != other
        assert bulk(apart, {name: "m"}, {name: "n"}, {name: "m"}) == [first, other, first]
    assert {apart.job(one) is not None for one in (first, other)} == {True}
    assert apart.stats()["ready"] == 2


def test_an_id_given_twice_in_one_call_to_different_jobs_is_refused_before_the_commit(
    apart: Queue,
) -> None:
    with transaction.atomic():
        with pytest.raises(DuplicateJobError, match="taken"):
            bulk(apart, {"msg_id": "m"}, {"id": "taken"}, {"id": "taken", "partition_key": "b"})
        [other] = bulk(apart, {"msg_id": "m"})
        assert bulk(apart, {"id": "taken", "partition_key": "b"}) == ["taken"]
    assert apart.stats()["ready"] == 2
    assert apart.job(other) is not None


def test_a_msg_id_of_a_stored_job_given_twice_before_the_commit_is_that_job(apart: Queue) -> None:
    stored = apart.publish(Note("x"), msg_id="m")
    with transaction.atomic():
        assert [apart.publish(Note("x"), msg_id="m") for _ in range(3)] == [stored] * 3
    assert apart.stats()["ready"] == 1


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_rolled_back_before_the_commit_every_id_is_one_of_a_job(
    apart: Queue, seed: int
) -> None:
    rng = random.Random(seed)

    def some_calls(depth: int) -> dict[str, str | None]:
        """Enqueue and open savepoints; return the msg_ids of what is not rolled back."""
        kept: dict[str, str | None] = {}
        for _ in range(rng.randrange(1, 6)):
            if depth and rng.random() < 0.5:
                with transaction.atomic():
                    inner = some_calls(depth - 1)
                    if rng.random() < 0.5:
                        transaction.set_rollback(True)
                        inner = {}
                kept |= inner
            items = [{"msg_id": rng.choice("lmnop")} for _ in range(rng.randrange(1, 4))]
            items += [{}] * rng.randrange(2)
            names = [one.get("msg_id") for one in items]
            for job_id, name in zip(bulk(apart, *items), names, strict=True):
                kept[job_id] = name
            if rng.random() < 0.2:
                bulk(apart, {})
                kept[f"one more {len(kept)}"] = None
        return kept

    with transaction.atomic():
        kept = some_calls(4)
    there = {one: name for one, name in kept.items() if not one.startswith("one more")}
    found = {one: apart.job(one) for one in there}
    assert {one: job and job.msg_id for one, job in found.items()} == there
    assert None not in found.values()
    assert apart.stats()["ready"] == len(kept)
    msg_ids = [name for name in there.values() if name is not None]
    assert len(msg_ids) == len(set(msg_ids))


class Counted(list[Any]):
    """Counts how often somebody looks at an entry."""

    looks = 0

    def __iter__(self) -> Iterator[Any]:
        for one in super().__iter__():
            self.looks += 1
            yield one

    def __reversed__(self) -> Iterator[Any]:
        for one in super().__reversed__():
            self.looks += 1
            yield one


@pytest.mark.parametrize("items", [[{}], [{"msg_id": "m"}], [{}, {"msg_id": "m"}, {}]])
def test_enqueues_of_one_transaction_do_not_look_at_all_before_them(
    apart: Queue, items: list[dict[str, Any]]
) -> None:
    class Enough(Exception):
        pass

    count = 60
    with contextlib.suppress(Enough), transaction.atomic():
        connections["default"].run_on_commit = entries = Counted()
        for number in range(count):
            item = items[number % len(items)]
            bulk(apart, {key: f"{value}{number}" for key, value in item.items()})
            transaction.on_commit(lambda: None)
        assert len(entries) == 2 * count
        assert entries.looks <= 2 * len(entries)
        raise Enough
    assert apart.stats()["ready"] == 0


def test_a_share_that_cannot_be_asked_is_named(store: Store) -> None:
    def broken(partition_key: str) -> float:
        raise ZeroDivisionError

    name = store.new_name()
    with (
        override_settings(VTRR={"QUEUES": {name: store.settings(SHARES=broken)}}),
        pytest.raises(ConfigurationError, match=r"SHARES.*acme"),
    ):
        get_queue(name).publish(Note("x"), partition_key="acme")


@pytest.mark.parametrize("store", SQL_STORES, indirect=True)
def test_a_share_that_cannot_be_asked_in_the_midst_of_a_lease_is_logged(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    assert isinstance(store, OrmStore)
    name, shares = store.new_name(), {"acme": 5.0, "globex": 2.0}
    with override_settings(VTRR={"QUEUES": {name: store.settings(SHARES=lambda key: shares[key])}}):
        queue = get_queue(name)
        for key in ("acme", "globex"):
            queue.publish(Note("x"), partition_key=key)
            # As a crash leaves it, between the commit of a job and what follows it.
            Partition.objects.using(store.alias).filter(queue=name, partition_key=key).delete()
            share = shares.pop(key) if key == "globex" else shares[key]
            assert [job.partition_key for job in queue.lease()] == [key]
            [found] = queue.partitions(key)
            assert found.share == (1.0 if key == "globex" else share)
    [told] = [one.getMessage() for one in caplog.records if one.name == "vtrr_django.queue"]
    assert "share 1" in told
    assert "globex" in told


@pytest.mark.parametrize("store", SQL_STORES, indirect=True)
@pytest.mark.parametrize("n", [0, 2])
def test_a_connection_lost_after_the_commit_loses_neither_acks_nor_leases(
    store: Store, caplog: pytest.LogCaptureFixture, n: int
) -> None:
    assert isinstance(store, OrmStore)
    name, ended = store.new_name(), []

    def note(*, job_id: str, **more: Any) -> None:
        ended.append(job_id)

    def lose(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        after_commit = not connections[store.alias].in_atomic_block
        if sql.startswith("SELECT partition_key, at_limit FROM") and after_commit:
            raise OperationalError("the connection is gone")
        return execute(sql, params, many, context)

    with override_settings(VTRR={"QUEUES": {name: store.settings(PARTITION_LIMIT=1)}}):
        queue = get_queue(name)
        for key in ("a", "b", "c", "d", "a"):
            queue.publish(Note("x"), partition_key=key)
        first = queue.lease(2)
        acks = [Outcome(kind=OutcomeKind.ACK, job_id=one.id, token=one.token) for one in first]
        job_finished.connect(note, sender=queue)
        with connections[store.alias].execute_wrapper(lose):
            done, leased = queue.finish_and_lease(acks, n, worker_id="w")
        job_finished.disconnect(note, sender=queue)
        assert done == [True, True]
        assert len(leased) == n
        assert ended == [one.id for one in first]
        [told] = [one for one in caplog.records if one.name == "vtrr_django.queue"]
        assert "the connection is gone" in told.getMessage()
        # What was not done, a reclaim does: the place that the end of the job of "a" left.
        queue.reclaim()
        assert {one.partition_key for one in queue.lease(3)} | {
            one.partition_key for one in leased
        } == {"a", "c", "d"}


@pytest.mark.parametrize("said", [ZeroDivisionError("secret"), "seven", float("nan")])
def test_shares_that_cannot_be_asked_keep_nobody_from_steering(store: Store, said: Any) -> None:
    name, broken = store.new_name(), True

    def share_of(partition_key: str) -> Any:
        if broken and isinstance(said, Exception):
            raise said
        return said if broken else 3.0

    def standing() -> tuple[float, int | None, bool]:
        [one] = queue.partitions("acme")
        return one.share, one.limit, one.paused

    with override_settings(VTRR={"QUEUES": {name: store.settings(SHARES=share_of)}}):
        queue = get_queue(name)
        queue.pause("acme")
        assert standing() == (1.0, None, True)
        queue.set_partition("acme", limit=2)
        queue.set_partition("acme", share=5)
        queue.resume("acme")
        assert standing() == (5.0, 2, False)
        queue.set_partition("acme", share=None)
        assert standing() == (1.0, 2, False)
        broken = False
        queue.publish(Note("x"), partition_key="acme")
        assert standing() == (3.0, 2, False), "an enqueue asks anew"
        broken = True
        queue.pause("acme")
        assert standing() == (3.0, 2, True), "what was declared is kept"
        if isinstance(said, Exception):
            with pytest.raises(ConfigurationError, match=r"share_of to .* ZeroDivisionError$"):
                queue.publish(Note("x"), partition_key="acme")


def test_jobs_without_a_tenant_have_the_share_that_is_declared_for_them(store: Store) -> None:
    name = store.new_name()
    with override_settings(VTRR={"QUEUES": {name: store.settings(SHARES={"": 2.0})}}):
        queue = get_queue(name)
        queue.pause("")
        assert [one.share for one in queue.partitions()] == [2.0]


def test_a_database_that_is_none_is_named() -> None:
    with (
        override_settings(VTRR={"QUEUES": {"nowhere": {"DATABASE": "nope"}}}),
        pytest.raises(ConfigurationError, match=r"DATABASE.*nope"),
    ):
        get_queue("nowhere").lease()


@pytest.mark.parametrize("option", [{"max_retries": -1}, {"max_retries": True}])
def test_wrong_retries_are_refused(queue: Queue, option: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="max_retries"):
        queue.task(**option)


@pytest.mark.parametrize("verb", ["ack", "fail", "retry", "snooze", "release", "renew"])
def test_what_is_no_lease_is_refused(queue: Queue, verb: str) -> None:
    more = ("no",) if verb == "fail" else ()
    with pytest.raises(ValidationError, match=r"^job: expected a leased job, .* got 'an id'"):
        getattr(queue, verb)("an id", *more)


def test_kwargs_that_are_none_are_named(queue: Queue) -> None:
    @queue.task
    def work(self: Any) -> None: ...

    with pytest.raises(ValidationError, match="kwargs: expected a mapping"):
        work.enqueue(partition_key="a", kwargs=[1])  # type: ignore[arg-type]


def test_an_id_that_is_named_twice_is_told_once(queue: Queue) -> None:
    [kept, gone] = [queue.publish(Note(text)) for text in "ab"]
    assert queue.cancel([gone, gone]) == [gone]
    [job] = queue.lease()
    queue.fail(job, "why")
    assert queue.requeue([kept, kept]) == [kept]
