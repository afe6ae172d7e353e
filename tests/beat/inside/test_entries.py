"""What goes into ``beat_schedule`` and into the admin's form, beside the rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from celery.beat import Scheduler
from django_celery_beat.admin import TaskSelectWidget
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler

from tests import services
from tests.beat.inside.conftest import queues
from vtrr_django import get_queue
from vtrr_django.contrib.beat import periodic
from vtrr_django.contrib.celery import VTRRQueue

pytestmark = pytest.mark.django_db


@pytest.fixture
def app() -> Iterator[Celery]:
    app = Celery("entries", broker="memory://", set_as_current=True)
    yield app
    app.close()


@pytest.fixture
def name() -> Iterator[str]:
    name = f"q{uuid.uuid4().hex[:8]}"
    with queues(**{name: {"CELERY_QUEUE": f"c-{name}", "RECLAIM_INTERVAL": 7}, "mails": {}}):
        yield name


def declare(queue: Any) -> None:
    @queue.task
    def job(self: Any) -> None: ...


def test_settings_make_rows_and_no_entries(app: Celery, name: str) -> None:
    declare(get_queue(name))
    app.finalize()
    assert f"vtrr_queue.reclaim.{name}" in app.tasks
    assert [one for one in app.conf.beat_schedule if "vtrr" in one] == []


@pytest.mark.service("redis")
def test_a_queue_of_ones_own_has_its_entry(app: Celery) -> None:
    """Settings do not know it, so it has no row."""
    own = f"v{uuid.uuid4().hex[:8]}"
    with redis.Redis.from_url(services.SERVICES["redis"].url("redis")) as client:
        declare(VTRRQueue(client, app, name=own, reclaim_interval=5))
        app.finalize()
        assert app.conf.beat_schedule[f"vtrr_queue.reclaim.{own}"]["schedule"] == 5


def test_a_scheduler_without_rows_is_given_entries(
    app: Celery, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = Scheduler(app, lazy=True)
    periodic.schedule_reclaims(SimpleNamespace(scheduler=scheduler))
    entry = scheduler.schedule[f"vtrr_queue.reclaim.{name}"]
    assert entry.schedule.run_every.total_seconds() == 7
    assert entry.options["queue"] == f"c-{name}"
    assert set(scheduler.schedule) == {entry.name}
    assert "Scheduler, does not read the rows" in caplog.text


def test_a_scheduler_with_rows_is_not(app: Celery, name: str) -> None:
    before = PeriodicTask.objects.count()
    scheduler = DatabaseScheduler(app=app, lazy=True)
    periodic.schedule_reclaims(SimpleNamespace(scheduler=scheduler))
    assert PeriodicTask.objects.count() == before


def test_the_form_in_the_admin_offers_our_tasks(app: Celery, name: str) -> None:
    offered = {value for value, _ in TaskSelectWidget().tasks_as_choices()}
    assert {"vtrr_queue.enqueue", "vtrr_queue.upkeep", f"vtrr_queue.reclaim.{name}"} <= offered
