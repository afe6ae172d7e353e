"""The rows after ``migrate``; in which database they are."""

from __future__ import annotations

import io
import logging
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, connections
from django.db.utils import ConnectionRouter
from django.test import override_settings
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from tests.beat.inside.conftest import queues, table
from vtrr_django.contrib.beat import hook, rows

pytestmark = pytest.mark.django_db(databases="__all__")
RECLAIM = "vtrr_queue.reclaim.uploads"
UPLOADS = {"CELERY_QUEUE": "c-uploads"}


def migrate(**options: Any) -> list[str]:
    """Migrate; return what was said about periodic tasks."""
    out = io.StringIO()
    call_command("migrate", stdout=out, **options)
    return [line.strip() for line in out.getvalue().splitlines() if "Periodic task" in line]


def test_the_database_of_the_tests_has_them() -> None:
    """It was made by migrations alone, with no settings: one queue, run by vtrr_worker."""
    assert [one["name"] for one in table()] == ["vtrr_queue.upkeep"]


def test_migrate_makes_them_and_says_what_changes() -> None:
    with queues(uploads=UPLOADS):
        created, removed = migrate()
        assert created.startswith(f"Periodic task {RECLAIM}: created, every 10 seconds")
        assert removed == "Periodic task vtrr_queue.upkeep: removed."
        assert migrate() == []
    with queues(uploads={**UPLOADS, "RECLAIM_INTERVAL": 3}):
        assert migrate(verbosity=0) == []
    assert [one["expire_seconds"] for one in table()] == [3]


def test_migrate_says_what_it_leaves_alone() -> None:
    five = IntervalSchedule.objects.create(every=5, period="seconds")
    PeriodicTask.objects.create(name=RECLAIM, task="else", interval=five)
    with queues(uploads=UPLOADS):
        said = migrate()
    assert any(line.startswith(f"Periodic task {RECLAIM}: left alone") for line in said), said


def test_an_edit_survives_a_migrate() -> None:
    with queues(uploads=UPLOADS):
        migrate()
        found = PeriodicTask.objects.get(name=RECLAIM)
        found.enabled = False
        found.interval = IntervalSchedule.objects.create(every=9, period="minutes")
        found.save()
        before = table()
        assert migrate() == []
    assert table() == before


@override_settings(VTRR={"QUEUES": {"a b": {}}})
def test_wrong_settings_stop_no_migrate(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="vtrr_django.beat"):
        assert migrate() == []
    assert "'a b'" in caplog.text
    assert "manage.py vtrr_schedule" in caplog.text


def test_a_database_that_refuses_stops_no_migrate(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise DatabaseError("no such column")

    monkeypatch.setattr(rows, "sync", refuse)
    assert migrate() == []
    assert "no such column" in caplog.text


def test_before_its_tables_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when only other apps are migrated."""
    monkeypatch.setattr(connection.introspection, "table_names", list)
    with queues(uploads=UPLOADS):
        hook.make_rows(using="default")
    assert [one["name"] for one in table()] == ["vtrr_queue.upkeep"]


class Elsewhere:
    """Beat's tables are in the other database."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "postgres" if model._meta.app_label == "django_celery_beat" else None

    db_for_write = db_for_read


@pytest.mark.service("postgres")
def test_rows_are_where_the_router_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import router

    before = table()
    monkeypatch.setattr(router, "routers", ConnectionRouter([f"{__name__}.Elsewhere"]).routers)
    with queues(uploads=UPLOADS):
        assert migrate() == []
        created, *_ = migrate(database="postgres")
        assert RECLAIM in created
        assert migrate(database="postgres") == []
    with queues(uploads={**UPLOADS, "RECLAIM_INTERVAL": 0.5}):
        [updated] = migrate(database="postgres")
        assert "500000 microseconds" in updated
    assert [one["task"] for one in table()] == [RECLAIM]
    assert IntervalSchedule.objects.filter(every=500_000).count() == 1
    monkeypatch.undo()
    assert table() == before
    assert "postgres" in connections
