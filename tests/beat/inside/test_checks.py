"""``vtrr.W015``: rows that are missing, and a beat that reads none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import Celery
from django.core.checks import CheckMessage, run_checks
from django.db import connection
from django_celery_beat.models import IntervalSchedule, PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler

from tests.beat.inside.conftest import queues
from vtrr_django.checks import check_beat_rows, check_beat_scheduler

pytestmark = pytest.mark.django_db
UPLOADS = {"CELERY_QUEUE": "c-uploads"}


def rows(*databases: str) -> list[CheckMessage]:
    return [
        one
        for one in run_checks(databases=list(databases), tags=["database"])
        if one.id == "vtrr.W015"
    ]


def test_missing_rows(schedule: Callable[..., str]) -> None:
    with queues(uploads=UPLOADS, mails={}, other={"CELERY_QUEUE": "c"}):
        (message,) = rows("default")
        assert "calls vtrr_queue.reclaim.uploads, vtrr_queue.reclaim.other:" in message.msg
        assert "manage.py vtrr_schedule" in str(message.hint)
        schedule()
        assert rows("default") == []
        PeriodicTask.objects.filter(name="vtrr_queue.upkeep").delete()
        assert "vtrr_queue.upkeep" in rows("default")[0].msg


def test_rows_that_are_disabled_or_anothers_are_not_missing() -> None:
    PeriodicTask.objects.create(
        name="mine",
        task="vtrr_queue.reclaim.uploads",
        enabled=False,
        interval=IntervalSchedule.objects.create(every=1, period="days"),
    )
    with queues(uploads=UPLOADS):
        assert rows("default") == []


def test_it_asks_only_the_database_of_the_rows(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    with queues(uploads=UPLOADS):
        assert run_checks(tags=["vtrr"]) == []
        assert check_beat_rows(databases=None) == []
        assert check_beat_rows(databases=["elsewhere"]) == []
        assert len(check_beat_rows(databases=["default"])) == 1
        monkeypatch.setattr(connection.introspection, "table_names", list)
        assert check_beat_rows(databases=["default"]) == [], "migrate will say so"


# -- the scheduler ------------------------------------------------------------------------


class Own(DatabaseScheduler):  # type: ignore[misc]
    """A project's own."""


@pytest.fixture
def app() -> Iterator[Celery]:
    app = Celery("checks", broker="memory://", set_as_current=True)
    yield app
    app.close()


@pytest.mark.parametrize(
    ("scheduler", "wrong"),
    [
        (None, False),  # "celery beat --scheduler" may say it
        ("django", False),
        ("django_celery_beat.schedulers:DatabaseScheduler", False),
        ("django_celery_beat.schedulers.DatabaseScheduler", False),
        (f"{__name__}:Own", False),
        (Own, False),
        ("celery.beat:PersistentScheduler", True),
        ("celery.beat.Scheduler", True),
        ("redbeat.RedBeatScheduler", True),
        ("celery.beat:Nothing", True),
    ],
)
@pytest.mark.parametrize("by_settings", [False, True])
def test_scheduler(
    app: Celery, scheduler: Any, wrong: bool, by_settings: bool, settings: Any
) -> None:
    if scheduler is not None and by_settings:
        settings.CELERY_BEAT_SCHEDULER = scheduler
        app.config_from_object("django.conf:settings", namespace="CELERY")
    elif scheduler is not None:
        app.conf.beat_scheduler = scheduler
    found = check_beat_scheduler()
    assert [one.id for one in found] == (["vtrr.W015"] if wrong else [])
    for message in found:
        assert repr(scheduler) in message.msg
        assert "DatabaseScheduler" in str(message.hint)
