"""The Celery tasks for beat, in this process; without django-celery-beat, as many have it."""

from __future__ import annotations

import logging
import subprocess
import sys
import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery, _state
from celery.exceptions import Retry
from celery.signals import beat_init
from django.apps import apps
from django.core.management import CommandError, call_command
from django.test import override_settings

from tests.beat.tenants import PATH, set_tenants
from vtrr_django import get_queue
from vtrr_django.checks import check_beat_rows, check_beat_scheduler
from vtrr_django.contrib.beat import periodic
from vtrr_django.contrib.celery import station
from vtrr_django.exceptions import StoreUnavailable, ValidationError, VTRRError
from vtrr_django.queue import Queue

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[Celery]:
    """As where Celery is imported before the apps are ready; here it is not."""
    monkeypatch.setattr(_state, "_on_app_finalizers", set(_state._on_app_finalizers))
    app = Celery("periodic", broker="memory://", set_as_current=True)
    app.conf.update(task_always_eager=True)
    periodic.connect()
    yield app
    beat_init.disconnect(dispatch_uid="vtrr_django.contrib.beat")
    app.close()


@pytest.fixture
def names() -> Iterator[dict[str, str]]:
    run = uuid.uuid4().hex[:8]
    names = {kind: f"{kind}-{run}" for kind in ("one", "two", "celery")}
    queues: dict[str, Any] = {names["one"]: {"LEASE_SECONDS": 1}, names["two"]: {}}
    queues[names["celery"]] = {"CELERY_QUEUE": f"c-{run}"}
    with override_settings(VTRR={"QUEUES": queues}):
        yield names
        station.end_all()


def declare(queue: Queue) -> Any:
    @queue.task
    def job(self: Any, number: int = 0) -> None: ...

    return job


def test_declared_on_apps_old_and_new(app: Celery, names: dict[str, str]) -> None:
    later = Celery("later", broker="memory://", set_as_current=False)
    for one in (app, later):
        assert {"vtrr_queue.upkeep", "vtrr_queue.enqueue"} <= set(one.tasks)
        # Beat's rows call it, whether or not this process knows the task of the queue.
        assert f"vtrr_queue.reclaim.{names['celery']}" in one.tasks
        assert f"vtrr_queue.reclaim.{names['one']}" not in one.tasks
        before = dict(one.tasks)
        periodic.declare_on(one)
        assert dict(one.tasks) == before
    later.close()


def test_celery_is_not_imported_for_it() -> None:
    code = (
        "import sys, django; from django.conf import settings\n"
        "settings.configure(INSTALLED_APPS=['vtrr_django'], DATABASES={'default': {'ENGINE': "
        "'django.db.backends.sqlite3', 'NAME': ':memory:'}})\n"
        "django.setup(); assert 'celery' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- enqueueing ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["one", "celery"])
def test_enqueue(app: Celery, names: dict[str, str], kind: str) -> None:
    queue = get_queue(names[kind])
    job = declare(queue)
    queue.pause()
    given = {"queue": queue.name, "task": job.name, "partition_key": "acme", "args": [1]}
    for _ in range(2):
        done = app.tasks["vtrr_queue.enqueue"].apply(kwargs=given, task_id="the same")
        assert done.get() == 1
    assert queue.stats()["ready"] == 1
    app.tasks["vtrr_queue.enqueue"].apply(kwargs=given)
    assert queue.stats()["ready"] == 2


def test_enqueue_for_each_tenant(
    app: Celery,
    names: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = get_queue(names["one"])
    job = declare(queue)
    set_tenants(monkeypatch, lambda: ["a", "b", "c"])
    given = {"queue": queue.name, "task": job.name, "partitions": PATH}
    with caplog.at_level(logging.INFO, logger="vtrr_django.beat"):
        assert app.tasks["vtrr_queue.enqueue"].apply(kwargs=given).get() == 3
    assert f"3 jobs of {job.name} were enqueued to queue {queue.name}" in caplog.text


def test_wrong_arguments_fail_the_task(app: Celery, names: dict[str, str]) -> None:
    task = app.tasks["vtrr_queue.enqueue"]
    done = task.apply(kwargs={"queue": names["one"], "tsak": "x"})
    assert done.failed()
    with pytest.raises(ValidationError, match="did you mean 'task'"):
        done.get()
    with pytest.raises(TypeError, match="no positional arguments"):
        task.apply(["x"]).get()


def test_a_store_that_does_not_answer_is_tried_again(
    app: Celery, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([StoreUnavailable("gone"), StoreUnavailable("still"), ["id"]])

    def unsteady(given: Any, message_id: str) -> Any:
        asked.append(message_id)
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    asked: list[str] = []
    monkeypatch.setattr(periodic, "enqueue", unsteady)
    given = {"queue": names["one"], "task": "t"}
    done = app.tasks["vtrr_queue.enqueue"].apply(kwargs=given, task_id="m1")
    assert done.get() == 1
    assert asked == ["m1"] * 3, "by the same name, so that nothing is enqueued twice"
    app.tasks["vtrr_queue.enqueue"].push_request(called_directly=False, is_eager=False, id="m2")
    monkeypatch.setattr(app, "send_task", lambda *args, **kwargs: None)
    answers = iter([StoreUnavailable("gone")])
    with pytest.raises(Retry):
        app.tasks["vtrr_queue.enqueue"].run(**given)


# -- upkeep -------------------------------------------------------------------------------


def test_upkeep_does_what_no_worker_does(app: Celery, names: dict[str, str]) -> None:
    one, two, other = (get_queue(names[kind]) for kind in ("one", "two", "celery"))
    app.tasks["vtrr_queue.upkeep"].apply().get()
    for queue in (one, two):
        totals = queue.figures.totals()
        assert totals.beat_at is not None
        assert totals.reclaimed_at is not None
        ready = [minute.ready for minute in queue.figures.minutes()]
        assert [one for one in ready if one is not None] == [0]
    assert other.figures.totals().beat_at is None, "it has a reclaim of its own"


def test_upkeep_sees_to_all_that_it_can(
    app: Celery,
    names: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    one, two = get_queue(names["one"]), get_queue(names["two"])

    def broken() -> int:
        raise StoreUnavailable("gone fishing")

    monkeypatch.setattr(one, "reclaim_and_dispatch", broken)
    with pytest.raises(VTRRError, match=f"failed for queues {one.name};"):
        app.tasks["vtrr_queue.upkeep"].apply().get()
    assert "gone fishing" in caplog.text
    assert one.figures.totals().beat_at is None
    assert two.figures.totals().beat_at is not None


# -- without django-celery-beat -----------------------------------------------------------


def test_there_are_no_rows_to_make(app: Celery) -> None:
    assert not apps.is_installed("django_celery_beat")
    with pytest.raises(CommandError, match=r"'django_celery_beat' in INSTALLED_APPS.*vtrr_reclaim"):
        call_command("vtrr_schedule")
    app.conf.beat_scheduler = "redbeat.RedBeatScheduler"
    assert check_beat_scheduler() == check_beat_rows(databases=["default"]) == []


def test_beat_gets_its_entries_from_the_app(app: Celery, names: dict[str, str]) -> None:
    declare(get_queue(names["celery"]))
    app.finalize()
    assert f"vtrr_queue.reclaim.{names['celery']}" in app.conf.beat_schedule
    periodic.schedule_reclaims(SimpleNamespace(scheduler=None))  # asks it for nothing
