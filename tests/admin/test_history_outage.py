"""A queue whose own database is down: the pages of its ended jobs say so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connections
from django.db.utils import ProgrammingError, load_backend
from django.test import Client
from django.urls import resolve

from tests import services
from tests.admin.ended import COMPLETED, FAILED, Staff, asked, begin, dead, letters
from tests.admin.looking import look
from vtrr_django.admin import history_outage

DOWN = "database 'down' did not answer"

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def _database(**values: Any) -> Iterator[None]:
    """Have a database of the alias "down" that the tests' own care for databases overlooks."""
    whole = {**connections["default"].settings_dict, **values}
    connections["down"] = load_backend(whole["ENGINE"]).DatabaseWrapper(whole, "down")
    try:
        yield
    finally:
        connections["down"].close()
        del connections["down"]


def _broken(kind: str, folder: Path) -> dict[str, Any]:
    if kind == "folder":
        return {"NAME": folder / "missing" / "db.sqlite3"}
    services.need_package("psycopg")
    at = {"HOST": "127.0.0.1", "PORT": 1, "NAME": "x", "USER": "x", "PASSWORD": "x"}
    return {**at, "ENGINE": "django.db.backends.postgresql", "OPTIONS": {}}


@pytest.fixture(params=["folder", "port"])
def down(request: pytest.FixtureRequest, settings: Any, tmp_path: Path, db: None) -> Iterator[None]:
    """Queue own, whose database does not answer, and queue other, whose does."""
    settings.VTRR = {"QUEUES": {"own": {"DATABASE": "down"}, "other": {}}}
    with _database(**_broken(request.param, tmp_path)):
        yield


@pytest.mark.parametrize("base", [FAILED, COMPLETED])
def test_every_page_says_which_database_is_down(down: None, root: Client, base: str) -> None:
    [letter] = letters("default", "other")
    for path in (
        f"{base}?queue=own",
        f"{base}?queue=own&e=1",
        f"{base}?queue=own&q=acme",
        f"{base}own_3Ajob-1/change/",
        f"{base}own_3Ajob-1/history/",
    ):
        page = look(root, path, status=503)
        assert DOWN in page.text, path
        assert "Nothing was done" not in page.text
        assert page.links["Try again"] == path
    assert look(root, f"{base}?queue=other").text
    assert letter in look(root, FAILED).text


@pytest.mark.parametrize("across", ["0", "1"])
@pytest.mark.parametrize("action", ["requeue", "copy", "discard", ""])
def test_an_action_says_it_too(down: None, root: Client, action: str, across: str) -> None:
    sent = {"action": action, "_selected_action": "1", "select_across": across, "index": "0"}

    response = root.post(f"{FAILED}?queue=own", sent)

    assert response.status_code == 503
    text = response.content.decode().replace("&#x27;", "'")
    assert f"Nothing was done: {DOWN}" in text
    assert LogEntry.objects.count() == 0


@pytest.mark.parametrize("chosen", [False, True])
def test_a_run_that_is_asked_for_before_waits(
    settings: Any, root: Client, tmp_path: Path, chosen: bool
) -> None:
    settings.VTRR = {"QUEUES": {"own": {}}}
    ids = letters("default", "own")
    signed = asked(root, "discard", "?queue=own", ids if chosen else None)
    settings.VTRR = {"QUEUES": {"own": {"DATABASE": "down"}, "other": {}}}

    with _database(**_broken("folder", tmp_path)):
        response = begin(root, signed)
        if not chosen:
            response = root.get(response.headers["Location"])
        assert response.status_code == (503 if chosen else 200)
        told = response.content.decode().replace("&#x27;", "'")
        assert DOWN.removeprefix("d") in told

    settings.VTRR = {"QUEUES": {"own": {}}}
    assert dead("default") == set(ids)
    assert begin(root, signed).status_code == 302
    assert dead("default") == set()


def test_a_database_without_tables_or_of_no_settings(
    settings: Any, root: Client, tmp_path: Path
) -> None:
    settings.VTRR = {"QUEUES": {"own": {"DATABASE": "down"}, "other": {}}}
    with _database(NAME=tmp_path / "db.sqlite3"):
        page = look(root, f"{FAILED}?queue=own", status=503)
        assert "run manage.py migrate --database down" in page.text

    for path in (f"{FAILED}?queue=own", f"{FAILED}own_3Ajob-1/change/"):
        page = look(root, path, status=503)
        assert "settings.DATABASES has no database 'down'" in page.text


def test_who_may_not_see_the_jobs_is_told_nothing(down: None, staff: Staff) -> None:
    client = staff("view_completedjob")

    for path in ("?queue=own", "own_3Ajob-1/change/", "own_3Ajob-1/history/"):
        assert client.get(FAILED + path).status_code == 403


def test_an_error_of_ours_is_not_taken_for_an_outage() -> None:
    with pytest.raises(ProgrammingError), history_outage.answering("default"):
        raise ProgrammingError("syntax error")


def test_no_transaction_begins_before_a_page_can_say_it() -> None:
    """With ``ATOMIC_REQUESTS`` Django would begin one, in each database."""
    job = f"{FAILED}own_3Ajob-1/"
    pages = (FAILED, f"{job}change/", f"{job}history/", COMPLETED)
    for path in (*pages, "/admin/vtrr_django/queuestate/"):
        assert resolve(path).func._non_atomic_requests == set(connections)  # type: ignore[attr-defined]
