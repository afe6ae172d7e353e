"""Declaring tasks, beat's schedule, and ``VTRRQueue``, in this process alone."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest
import redis
from asgiref.sync import async_to_sync, sync_to_async
from celery import Celery, Task, signals
from django.db import transaction
from django.test import TestCase, override_settings
from kombu.transport import virtual
from pytest_django import DjangoDbBlocker

from tests import services
from tests.races.waiting import PATIENCE, until
from vtrr_django import get_queue
from vtrr_django.contrib.celery import VTRRQueue, dispatch, station
from vtrr_django.contrib.celery.broker import visibility_timeout
from vtrr_django.contrib.celery.task import RetryKwargs, TriggerTask, weave
from vtrr_django.exceptions import ConfigurationError, ValidationError
from vtrr_django.models import CompletedJob, Partition
from vtrr_django.queue import Queue

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


@pytest.fixture(autouse=True)
def _database(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with django_db_blocker.unblock():
        yield


@pytest.fixture
def app() -> Iterator[Celery]:
    app = Celery("declaring", broker="memory://", set_as_current=True)
    yield app
    app.close()


@pytest.fixture
def queue(app: Celery) -> Iterator[Queue]:
    name = f"d{uuid.uuid4().hex[:8]}"
    with override_settings(
        VTRR={"QUEUES": {name: {"CELERY_QUEUE": f"c-{name}", "RECLAIM_QUEUE": "elsewhere"}}}
    ):
        yield get_queue(name)
        station.end_all()  # what an eager task has started


def test_task_is_declared_on_apps_old_and_new(app: Celery, queue: Queue) -> None:
    app.finalize()

    @queue.task(max_retries=7)
    def job(self: Any) -> None: ...

    later = Celery("later", broker="memory://", set_as_current=False)
    for one in (app, later):
        task = one.tasks[job.name]
        assert isinstance(task, TriggerTask)
        assert task.max_retries == 7
        assert f"vtrr_queue.reclaim.{queue.name}" in one.tasks
    later.close()


@pytest.mark.parametrize("assigned", [None, {"mine": {"task": "x", "schedule": 1.0}}])
def test_reclaim_is_on_the_schedule(
    app: Celery, queue: Queue, assigned: dict[str, Any] | None
) -> None:
    if assigned is not None:
        app.config_from_object({"broker_url": "memory://", "beat_schedule": dict(assigned)})

    @queue.task
    def job(self: Any) -> None: ...

    app.finalize()
    name = f"vtrr_queue.reclaim.{queue.name}"
    entry = app.conf.beat_schedule[name]
    assert entry["task"] == name
    assert entry["schedule"] == 10.0
    assert entry["options"]["queue"] == "elsewhere"
    assert entry["options"]["expires"] == 10.0
    assert set(assigned or ()) <= set(app.conf.beat_schedule)


def test_second_task_is_refused(queue: Queue) -> None:
    @queue.task
    def one(self: Any) -> None: ...

    with pytest.raises(ValueError, match="interchangeable"):

        @queue.task
        def two(self: Any) -> None: ...


def test_unsupported_option(queue: Queue) -> None:
    with pytest.raises(TypeError, match=r"rate_limit; allowed are base, max_retries.*worker_lost$"):
        queue.task(rate_limit="1/s")


def test_weave() -> None:
    class Own(Task):  # type: ignore[misc]
        abstract = True

    woven = weave(Own)
    assert woven.__mro__[1:3] == (TriggerTask, Own)
    assert weave(woven) is woven
    with pytest.raises(TypeError, match="subclass of celery"):
        weave(object)


def test_options_of_a_retry_are_not_those_of_another_task(app: Celery, queue: Queue) -> None:
    """Celery notes the countdown of one job in them, where it does not make a copy first."""

    class Own(Task):  # type: ignore[misc]
        abstract = True
        autoretry_for = (ZeroDivisionError,)
        retry_kwargs: ClassVar = {"max_retries": 1}

    app.conf.task_always_eager = True

    @queue.task(base=Own, retry_backoff=100)
    def job(self: Any) -> None:
        raise ZeroDivisionError

    app.finalize()
    job.enqueue(partition_key="a")
    assert queue.stats()["failed"] == 1
    assert Own.retry_kwargs == {"max_retries": 1}


def test_options_of_a_retry_are_not_those_of_another_thread() -> None:
    options = RetryKwargs({"max_retries": 1})
    options["countdown"] = 10
    with ThreadPoolExecutor(1) as other:
        assert other.submit(lambda: {**options}).result() == {"max_retries": 1}
    assert options.copy() == {**options} == {"max_retries": 1, "countdown": 10}
    assert len(options) == 2


def test_who_sends_a_trigger_while_another_thread_declares_the_task(
    app: Celery, queue: Queue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app.finalize()
    coming, go = threading.Event(), threading.Event()
    declare = dispatch.declare

    def slowly(*args: Any) -> None:
        if not coming.is_set():
            coming.set()
            assert go.wait(PATIENCE)
        declare(*args)

    monkeypatch.setattr(dispatch, "declare", slowly)

    def module() -> None:
        @queue.task
        def job(self: Any) -> None: ...

    with ThreadPoolExecutor(1) as other:
        imported = other.submit(module)
        assert coming.wait(PATIENCE)
        sent = queue.dispatcher.dispatch(1) if queue.dispatcher else 0
        go.set()
        imported.result(PATIENCE)
    assert sent == 1, caplog.text


def test_a_wake_that_could_not_be_sent_is_sent_by_the_next(
    app: Celery, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    @queue.task
    def job(self: Any) -> None: ...

    app.finalize()
    sent: list[float] = []
    answers = [OSError("the broker is away"), None]

    def apply_async(*args: Any, countdown: float, **options: Any) -> None:
        if (error := answers.pop(0)) is not None:
            raise error
        sent.append(countdown)

    monkeypatch.setattr(app.tasks[job.name], "apply_async", apply_async)
    monkeypatch.setattr(dispatch.time, "time", lambda: 1_000_000.0)
    assert queue.dispatcher is not None
    for _ in range(3):
        queue.dispatcher.wake(30.0)
    assert sent == [30.0], "and once is enough"


def test_default_task_class_of_the_app_and_its_options(queue: Queue) -> None:
    class Default(Task):  # type: ignore[misc]
        abstract = True
        max_retries = 11

    own = Celery("own", broker="memory://", task_cls=Default, set_as_current=True)

    @queue.task
    def job(self: Any) -> None: ...

    task = own.tasks[job.name]
    assert isinstance(task, Default)
    assert task.max_retries == 11
    own.close()


def test_eager(app: Celery, queue: Queue) -> None:
    """As projects run their tests: everything happens in the call."""
    app.conf.task_always_eager = True
    seen: list[int] = []

    @queue.task
    def job(self: Any, number: int) -> None:
        seen.append(number)

    job.queue(partition_key="a", tasks=[{"args": [number]} for number in range(5)])
    assert seen == [0, 1, 2, 3, 4]
    assert queue.stats()["ready"] == 0
    left = [one.name for one in threading.enumerate() if queue.name in one.name]
    assert left == [], "with a connection of its own, to a database that tests want to drop"


@pytest.mark.parametrize("propagates", [False, True])
def test_eager_retries_and_failures(
    app: Celery, queue: Queue, caplog: pytest.LogCaptureFixture, propagates: bool
) -> None:
    """The enqueue is over by then: what a job raises is logged, and is a dead letter."""
    app.conf.update(task_always_eager=True, task_eager_propagates=propagates)
    runs: list[tuple[str, int]] = []

    @queue.task(max_retries=2)
    def job(self: Any, what: str) -> None:
        runs.append((what, self.request.retries))
        if what == "fails":
            raise LookupError(what)
        if self.request.retries < 2 or what == "for ever":
            self.retry(countdown=60)

    job.enqueue("twice", partition_key="a")
    assert runs == [("twice", 0), ("twice", 1), ("twice", 2)]
    assert queue.stats()["completed"] == 1
    job.enqueue("fails", partition_key="a")
    assert [one["reason"] for one in queue.stats()["recent_failures"]] == ["LookupError: fails"]
    job.enqueue("for ever", partition_key="a")
    assert len(runs) == 7
    assert queue.stats()["claimed"] == queue.stats()["scheduled"] == 0
    assert "triggers" not in caplog.text


class _Hidden(virtual.Channel):  # type: ignore[misc]
    """A channel as that of SQS."""

    default_visibility_timeout = 1800

    @property
    def visibility_timeout(self) -> int:
        raise NotImplementedError


class _Locked(virtual.Channel):  # type: ignore[misc]
    """A channel as that of Azure Service Bus."""

    default_peek_lock_seconds = 60


class _Unknown(virtual.Channel):  # type: ignore[misc]
    """A channel of which nothing is known."""


@pytest.mark.parametrize(
    ("broker", "channel", "options", "seconds"),
    [
        ("memory://", None, {"visibility_timeout": 5}, None),
        ("amqp://", None, {"visibility_timeout": 5}, None),
        ("redis://", None, {}, 3600),
        ("redis://", None, {"visibility_timeout": 7200}, 7200),
        ("own", _Hidden, {}, 1800),
        ("own", _Hidden, {"visibility_timeout": 43200}, 43200),
        ("own", _Locked, {}, 60),
        ("own", _Locked, {"peek_lock_seconds": 300}, 300),
        ("own", _Unknown, {}, 3600),
        ("own", _Unknown, {"visibility_timeout": 5}, 5),
    ],
)
def test_when_the_broker_delivers_again(
    broker: str, channel: Any, options: dict[str, Any], seconds: float | None
) -> None:
    own = Celery("own", set_as_current=False)
    if channel is None:
        own.conf.broker_url = broker
    else:
        own.conf.broker_url = None
        own.conf.broker_transport = type("Transport", (virtual.Transport,), {"Channel": channel})
    own.conf.broker_transport_options = options
    assert visibility_timeout(own) == seconds
    own.close()


# -- eager jobs are the caller's: its thread, its connections, its transaction -------------


def test_eager_in_a_transaction_that_is_open(app: Celery, queue: Queue) -> None:
    """As in a ``TestCase``, whose transaction is around everything."""
    app.conf.task_always_eager = True
    seen: list[bool] = []

    @queue.task(max_retries=1)
    def job(self: Any) -> None:
        seen.append(transaction.get_connection().in_atomic_block)
        if not self.request.retries:
            self.retry(countdown=60)

    with transaction.atomic():
        before = Partition.objects.create(queue=queue.name, partition_key="before")
        with TestCase.captureOnCommitCallbacks(execute=True):
            job_id = job.enqueue(partition_key="a")
        assert seen == [True, True]
        assert CompletedJob.objects.filter(id=job_id).exists()
    assert Partition.objects.filter(pk=before.pk).exists()


@pytest.mark.service("redis")
def test_eager_on_redis_keeps_what_the_caller_has_written(app: Celery) -> None:
    app.conf.task_always_eager = True
    name = f"d{uuid.uuid4().hex[:8]}"
    url = services.SERVICES["redis"].url("redis")
    settings = {"ENGINE": "redis", "URL": url, "CELERY_QUEUE": name, "ENQUEUE_ON_COMMIT": False}
    seen: list[bool] = []
    with override_settings(VTRR={"QUEUES": {name: settings}}):

        @get_queue(name).task
        def job(self: Any) -> None:
            seen.append(Partition.objects.filter(queue=name).exists())

        with transaction.atomic():
            Partition.objects.create(queue=name, partition_key="before")
            job.enqueue(partition_key="a")
            assert transaction.get_connection().in_atomic_block
        station.end_all()
    assert seen == [True]
    assert Partition.objects.filter(queue=name).exists()


def test_eager_job_that_breaks_the_transaction(
    app: Celery, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """Its end cannot be stored, which is said; nothing is tried again and again."""
    app.conf.task_always_eager = True
    runs: list[str] = []
    triggers: list[str] = []

    @signals.task_prerun.connect
    def note(task_id: str, **kwargs: Any) -> None:
        triggers.append(task_id)

    @queue.task
    def job(self: Any) -> None:
        runs.append(self.request.vtrr_job.id)
        transaction.set_rollback(True)

    with transaction.atomic():
        with TestCase.captureOnCommitCallbacks(execute=True):
            job_id = job.enqueue(partition_key="a")
        assert runs == [job_id]
        transaction.set_rollback(True)
    assert "leasing from queue" in caplog.text
    assert len(triggers) == 1


def test_eager_coroutine(app: Celery, queue: Queue) -> None:
    app.conf.task_always_eager = True
    seen: list[tuple[int, bool]] = []

    @queue.task(max_retries=1)
    async def job(self: Any) -> None:
        inside = await sync_to_async(lambda: transaction.get_connection().in_atomic_block)()
        seen.append((self.request.retries, inside))
        if not self.request.retries:
            raise self.retry(countdown=60)

    with transaction.atomic(), TestCase.captureOnCommitCallbacks(execute=True):
        job.enqueue(partition_key="a")
    assert seen == [(0, True), (1, True)]
    async_to_sync(job.aenqueue)(partition_key="a")
    assert seen[2:] == [(0, False), (1, False)]


def test_eager_coroutine_at_its_soft_limit(app: Celery, queue: Queue) -> None:
    app.conf.task_always_eager = True

    @queue.task(soft_time_limit=0.05)
    async def job(self: Any) -> None:
        await asyncio.Event().wait()

    job.enqueue(partition_key="a")
    [failure] = queue.stats()["recent_failures"]
    assert failure["reason"] == "SoftTimeLimitExceeded: it ran for more than 0.05 s"


def test_without_celery_everything_else_works() -> None:
    code = (
        "import sys; sys.modules['celery'] = sys.modules['kombu'] = None\n"
        "import django; from django.conf import settings\n"
        "settings.configure(INSTALLED_APPS=['vtrr_django'], VTRR={'QUEUES': {'a': {}, "
        "'b': {'CELERY_QUEUE': 'c'}}}, DATABASES={'default': {'ENGINE': "
        "'django.db.backends.sqlite3', 'NAME': ':memory:'}})\n"
        "django.setup()\n"
        "from django.core.management import call_command; call_command('migrate', verbosity=0)\n"
        "from vtrr_django import get_queue\n"
        "@get_queue('a').task\n"
        "def job(self): print('ran')\n"
        "job.enqueue(partition_key='x')\n"
        "from vtrr_django.testing import run_jobs; run_jobs(get_queue('a'))\n"
        "try: get_queue('b').task(lambda self: None)\n"
        "except Exception as error: print(type(error).__name__)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.stdout.split() == ["ran", "ConfigurationError"], ended.stderr


# -- VTRRQueue -------------------------------------------------------------------------


@pytest.fixture
def client() -> Iterator[redis.Redis]:
    with redis.Redis.from_url(services.SERVICES["redis"].url("redis")) as client:
        yield client


@pytest.mark.service("redis")
def test_vtrr_queue(app: Celery, client: redis.Redis) -> None:
    name = f"v{uuid.uuid4().hex[:8]}"
    vtrr = VTRRQueue(
        client, app, name=name, celery_queue=f"c-{name}", lease_seconds=30, reclaim_interval=5
    )

    @vtrr.task(max_retries=2)
    def job(self: Any, number: int, *, flag: bool = False) -> None: ...

    ids = job.queue(partition_key="a", tasks=[{"args": [1], "kwargs": {"flag": True}, "id": "x"}])
    assert ids == ["x"]
    task_name, args, kwargs, task_id, token, timeouts = vtrr._dequeue() or pytest.fail("empty")
    assert (task_name, args, kwargs, task_id) == (job.name, [1], {"flag": True}, "x")
    assert timeouts == 0
    assert vtrr._dequeue() is None
    assert not vtrr.ack("x", "another token")
    assert vtrr.ack("x", token)
    assert vtrr.reclaim() == vtrr.reclaim_and_dispatch() == 0
    [(entry_name, entry)] = vtrr.reclaim_beat_schedule().items()
    assert entry_name == f"vtrr_queue.reclaim.{name}"
    assert entry["schedule"] == 5
    assert entry["options"]["queue"] == f"c-{name}"
    assert entry_name in app.conf.beat_schedule
    with pytest.raises(ValidationError):
        job.queue(partition_key="", tasks=[{}])


@pytest.mark.service("redis")
def test_vtrr_queue_counts_leases_that_ran_out(app: Celery, client: redis.Redis) -> None:
    vtrr = VTRRQueue(client, app, name=f"v{uuid.uuid4().hex[:8]}")

    @vtrr.task
    def job(self: Any) -> None: ...

    job.queue(partition_key="a", tasks=[{}])
    [_] = vtrr.queue.lease(lease_seconds=1)
    until(lambda: vtrr.reclaim() == 1, "the lease to run out")
    vtrr.queue.measure()
    assert vtrr.queue.figures.totals().counts["reclaimed"] == 1


@pytest.mark.service("redis")
@pytest.mark.parametrize(
    "wrong",
    [{"name": "a b"}, {"max_concurrency": 0}, {"lease_seconds": 0}, {"celery_queue": ""}],
)
def test_vtrr_queue_refuses(app: Celery, client: redis.Redis, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        VTRRQueue(client, app, **{"name": "good", **wrong})


@pytest.mark.service("redis")
def test_vtrr_queue_without_interval_has_no_beat_entry(app: Celery, client: redis.Redis) -> None:
    name = f"v{uuid.uuid4().hex[:8]}"
    vtrr = VTRRQueue(client, app, name=name)

    @vtrr.task
    def job(self: Any) -> None: ...

    app.finalize()
    assert f"vtrr_queue.reclaim.{name}" in app.tasks
    assert f"vtrr_queue.reclaim.{name}" not in app.conf.beat_schedule


def test_vtrr_queue_wants_a_client() -> None:
    with pytest.raises(ConfigurationError, match="redis-py"):
        VTRRQueue("redis://localhost", Celery("any", broker="memory://"), name="any")
