"""A database that somebody else has locked holds no request, and none about other databases."""

from __future__ import annotations

import base64
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.http import HttpResponse

from tests.api.signing import SECRET
from tests.api.test_serve import JOB, JSON, Answer, Serve, Server, serve
from tests.commands.manage import run
from tests.races.threads import together
from vtrr_django import get_queue
from vtrr_django.api import upkeep
from vtrr_django.engines.sql import patience as patience_module
from vtrr_django.engines.sql.patience import BRIEF, patience
from vtrr_django.engines.sql.store import Store
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.models import Job, Nonce

__all__ = ["serve"]

pytestmark = pytest.mark.django_db(transaction=True)

BASIC = {"Authorization": "Basic " + base64.b64encode(f"vtrr:{SECRET}".encode()).decode()}
SOON = 15.0
"""Seconds: less than one of the waits that SQLite is told to make in ``tests.settings``."""


@contextmanager
def locked(path: object) -> Iterator[None]:
    """Hold the write lock of a database, as another process would."""
    with closing(sqlite3.connect(str(path), isolation_level=None, timeout=SOON)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def default_file() -> object:
    return connections["default"].settings_dict["NAME"]


@pytest.fixture(autouse=True)
def _open_again() -> Iterator[None]:
    yield
    patience_module._locked.clear()


@pytest.fixture
def other_file(tmp_path: Path) -> Path:
    return tmp_path / "other.sqlite3"


@pytest.fixture
def server(
    serve: Serve, other_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Server:
    """One whose queues live in two databases; the nonces are in that of the first."""
    queues = {"default": {"RECLAIM_INTERVAL": 0.1}, "other": {"DATABASE": "other"}}
    vtrr = {"SECRET": SECRET, "QUEUES": queues}
    monkeypatch.setenv("VTRR_TEST_FILES", f'{{"other": "{other_file}"}}')
    monkeypatch.setenv("VTRR_TEST_ROUTERS", "vtrr_django.routers.VTRRRouter")
    folder = tmp_path / "migrating"
    folder.mkdir()
    assert run(folder, "migrate", "--database", "other", "-v", "0", vtrr=vtrr).status == 0
    server = serve("--threads", "4", vtrr=vtrr)
    for name in queues:  # once, so that all chores are due again
        assert publish(server, name, signed=True)[0].status == 201
    return server


def publish(server: Server, queue: str, *, signed: bool) -> tuple[Answer, float]:
    began = time.monotonic()
    if signed:
        answer = server.signed("POST", f"/{queue}/jobs", JOB)
    else:
        answer = server.ask("POST", f"/{queue}/jobs", JOB, JSON | BASIC)
    return answer, time.monotonic() - began


def jobs_in(path: object) -> int:
    with closing(sqlite3.connect(str(path))) as connection:
        count: int = connection.execute("SELECT COUNT(*) FROM vtrr_django_job").fetchone()[0]
        return count


def test_where_nonces_are_locked_nobody_waits_long_and_no_signature_gets_in(
    server: Server, other_file: Path
) -> None:
    with locked(default_file()):
        for queue in ("default", "other"):
            answer, took = publish(server, queue, signed=True)
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            assert took < SOON
        answer, took = publish(server, "default", signed=False)
        assert (answer.status, took < SOON) == (503, True)
        # This needs nothing of what is locked.
        answer, took = publish(server, "other", signed=False)
        assert (answer.status, took < SOON) == (201, True)
    assert (Job.objects.count(), jobs_in(other_file), Nonce.objects.count()) == (1, 2, 2)
    assert publish(server, "default", signed=True)[0].status == 201
    assert publish(server, "other", signed=True)[0].status == 201


def test_many_requests_for_what_is_locked_leave_threads_to_others(
    server: Server, other_file: Path
) -> None:
    def ask(queue: str) -> tuple[Answer, float]:
        return publish(server, queue, signed=False)

    with locked(other_file):
        assert ask("other")[0].status == 503
        crowd = [lambda: ask("other")] * 20
        *those, (answer, took) = together(*crowd, lambda: ask("default"))
        assert {one.status for one, _ in those} == {503}
        assert max(waited for _, waited in those) < SOON
        assert (answer.status, took < SOON) == (201, True)
    assert jobs_in(other_file) == 1


# -- the rules by themselves -------------------------------------------------------


def busy_timeout() -> int:
    with connections["default"].cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        milliseconds: int = cursor.fetchone()[0]
        return milliseconds


def test_a_store_is_as_patient_as_its_caller_and_no_more_patient_later() -> None:
    before, store = busy_timeout(), Store("default")
    with locked(default_file()), patience(0.05):
        for write in (
            lambda: store.write("DELETE FROM vtrr_django_nonce"),
            lambda: store.transact(lambda cursor: None),
            lambda: get_queue("default").put_all([{"task": "t"}]),
        ):
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match="'default' is still contended"):
                write()
            assert time.monotonic() - began < SOON
        assert Job.objects.count() == 0  # WAL: reading goes on
    assert busy_timeout() == before
    assert patience_module.patience_with("default") is None
    get_queue("default").put_all([{"task": "t"}])


def test_what_was_found_locked_is_waited_for_briefly_until_somebody_has_written() -> None:
    store = Store("default")

    def waits() -> float | None:
        with patience(5.0):
            return patience_module.patience_with("default")

    with locked(default_file()):
        with pytest.raises(StoreUnavailable), patience(BRIEF):
            store.transact(lambda cursor: None)
        assert waits() == 5.0  # a short wait says nothing
        with pytest.raises(StoreUnavailable), patience(BRIEF + 0.1):
            store.transact(lambda cursor: None)
        assert waits() == BRIEF
        store.read("SELECT 1")
        assert waits() == BRIEF
    assert patience_module.patience_with("default") is None  # whoever is in no hurry
    with patience(5.0):
        store.transact(lambda cursor: None)
    assert waits() == 5.0


def test_chores_are_for_after_the_answer_and_wait_for_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(upkeep, "_known", {})
    queue, done = get_queue("default"), []
    monkeypatch.setattr(queue, "archive", lambda: done.append("archive"))
    response: Any = HttpResponse()
    upkeep.tend_after(response, queue)
    assert done == []
    with locked(default_file()):
        began = time.monotonic()
        response.close()
        assert time.monotonic() - began < SOON
    assert response.closed
    assert done == ["archive"]
    assert "of queue default does not work (StoreUnavailable" in caplog.text
