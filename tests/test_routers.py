"""The database router, alone and with a SQLite file per queue."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import models
from django.db.utils import ConnectionRouter
from django.test import override_settings

from tests.commands.manage import Ended, run
from vtrr_django import ConfigurationError
from vtrr_django.models import CompletedJob, FailedJob, Job
from vtrr_django.routers import VTRRRouter, queue_databases

PATH = "vtrr_django.routers.VTRRRouter"
NONE = override_settings()
ONE = override_settings(VTRR={"QUEUES": {"a": {"DATABASE": "one"}, "b": {"DATABASE": "one"}}})
TWO = override_settings(VTRR={"QUEUES": {"a": {"DATABASE": "one"}, "b": {"DATABASE": "two"}}})


def row(model: type[models.Model], database: str) -> models.Model:
    made = model()
    made._state.db = database
    return made


def test_the_databases_of_the_queues() -> None:
    with NONE:
        assert queue_databases() == {"default"}
    with ONE:
        assert queue_databases() == {"one"}
    with TWO:
        assert queue_databases() == {"one", "two"}


def test_tables_are_created_where_queues_are_and_nowhere_else() -> None:
    router = VTRRRouter()
    with TWO:
        assert router.allow_migrate("one", "vtrr_django") is True
        assert router.allow_migrate("two", "vtrr_django", model_name="job") is True
        assert router.allow_migrate("default", "vtrr_django") is False
    with NONE:
        assert router.allow_migrate("default", "vtrr_django") is True
        assert router.allow_migrate("one", "vtrr_django") is False


def test_it_has_no_opinion_on_other_apps() -> None:
    router = VTRRRouter()
    with ONE:
        assert router.allow_migrate("default", "auth") is None
        assert router.allow_migrate("one", "auth") is None
        assert router.db_for_read(User) is None
        assert router.db_for_write(User) is None
        assert router.allow_relation(User(), User()) is None
        assert router.allow_relation(row(Job, "one"), User()) is None


def test_rows_are_read_from_and_written_to_the_only_database() -> None:
    router = ConnectionRouter([PATH])
    with ONE:
        assert router.db_for_read(Job) == "one"
        assert router.db_for_write(FailedJob) == "one"


def test_with_several_databases_a_row_stays_where_it_came_from() -> None:
    router = ConnectionRouter([PATH])
    with TWO:
        assert router.db_for_read(Job) == "default"
        assert router.db_for_write(Job, instance=row(Job, "two")) == "two"


def test_rows_are_related_inside_one_database() -> None:
    router = VTRRRouter()
    assert router.allow_relation(row(Job, "one"), row(FailedJob, "one")) is True
    assert router.allow_relation(row(Job, "one"), row(CompletedJob, "two")) is False


def test_wrong_settings_move_no_table() -> None:
    router = VTRRRouter()
    with override_settings(VTRR={"QUEUE": {}}):
        with pytest.raises(ConfigurationError, match="did you mean 'QUEUES'"):
            router.allow_migrate("default", "vtrr_django")
        assert router.db_for_read(User) is None, "others go on"


@pytest.mark.django_db
def test_it_loads_as_a_setting() -> None:
    with override_settings(DATABASE_ROUTERS=[PATH]):
        assert Job.objects.count() == 0
        call_command("check", "--tag=vtrr", "--fail-level=WARNING")


def test_a_sqlite_file_per_queue(tmp_path: Path) -> None:
    """What the module's docstring promises, with the tables of each file looked at."""
    default, first, second = (
        str(tmp_path / f"{name}.sqlite3") for name in ("d", "first", "second")
    )
    env = {
        "VTRR_TEST_DATABASES": json.dumps({"default": default}),
        "VTRR_TEST_FILES": json.dumps({"first": first, "second": second}),
        "VTRR_TEST_ROUTERS": PATH,
    }
    vtrr = {"QUEUES": {"default": {"DATABASE": "first"}, "uploads": {"DATABASE": "second"}}}

    def manage(*arguments: str) -> Ended:
        return run(tmp_path, *arguments, vtrr=vtrr, env=env)

    for arguments in (["migrate"], ["migrate", "--database=first"]):
        ended = manage(*arguments, "-v0")
        assert ended.status == 0, ended.err
    assert "auth_user" in tables(default)
    assert not has_ours(default)
    assert has_ours(first)
    assert manage("vtrr_worker", "--burst", "--queue=default").status == 0
    assert manage("vtrr_stats", "--queue=default").status == 0
    assert "in database 'second', got none" in manage("vtrr_stats", "--queue=uploads").err
    assert manage("check", "--fail-level=WARNING").status == 0


def tables(path: str) -> set[str]:
    connection = sqlite3.connect(path)
    try:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    finally:
        connection.close()


def has_ours(path: str) -> bool:
    return Job._meta.db_table in tables(path)
