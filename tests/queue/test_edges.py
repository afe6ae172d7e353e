"""What a fresh pair of eyes broke: each fault stands for its kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core import serializers
from django.db import connections, transaction
from django.test import override_settings
from django.utils import timezone

from tests.contract.stores import SQL_STORES, OrmStore, Store
from vtrr_django import ConfigurationError, DuplicateJobError, Queue, ValidationError, get_queue
from vtrr_django.connections import DjangoHooks, pool_size
from vtrr_django.models import Job
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
    DjangoHooks().before_job()
    assert (connection.connection is not None) == kept


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


def test_a_share_that_cannot_be_asked_is_named(store: Store) -> None:
    def broken(partition_key: str) -> float:
        raise ZeroDivisionError

    name = store.new_name()
    with (
        override_settings(VTRR={"QUEUES": {name: store.settings(SHARES=broken)}}),
        pytest.raises(ConfigurationError, match=r"SHARES.*acme"),
    ):
        get_queue(name).publish(Note("x"), partition_key="acme")


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
