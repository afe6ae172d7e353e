"""``vtrr_serve`` keeps its connections to databases, and notices those that broke."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.db.backends.signals import connection_created

from tests.api.signing import SECRET, encoded, headers
from tests.api.test_serve import JSON, Answer, Serve, Server, ask, children, serve
from tests.contract.stores import SQL_STORES, Store
from tests.races.faults import database_server
from tests.races.waiting import until
from vtrr_django.connections import KEPT, KeptConnections

__all__ = ["serve"]

APP = "tests.api.counting.Counting"
CLAIM = encoded({"worker_id": "w", "limit": 1})

Start = Callable[..., Server]


@pytest.fixture
def told(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that tells of connections."""
    path = tmp_path_factory.mktemp("told") / "connections"
    monkeypatch.setenv("VTRR_TEST_CONNECTIONS", str(path))
    return path


@pytest.fixture
def start(serve: Serve, store: Store, told: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Start a server of one queue in the store, whose nonces are there too."""
    monkeypatch.setenv("VTRR_TEST_ROUTERS", "vtrr_django.routers.VTRRRouter")
    vtrr = {"SECRET": SECRET, "QUEUES": {"default": store.settings()}}
    return lambda *arguments: serve(*arguments, vtrr=vtrr, apps=APP)


def claimed(connection: HTTPConnection) -> Answer:
    signed = headers("POST", "/default/claim", body=CLAIM)
    return ask(connection, "POST", "/default/claim", CLAIM, signed | JSON)


def made(told: Path, server: Server) -> list[str]:
    """Return the aliases of the connections that the process that serves has made."""
    (worker,) = children(server.process.pid)
    lines = [line.split() for line in told.read_text().splitlines()]
    return [alias for pid, alias in lines if int(pid) == worker]


SESSIONS = {
    "postgres": "SELECT pid FROM pg_stat_activity WHERE datname = current_database()",
    "mariadb": "SELECT id FROM information_schema.processlist WHERE db = DATABASE()",
}


def sessions(alias: str) -> set[int]:
    with connections[alias].cursor() as cursor:
        cursor.execute(SESSIONS[alias])
        return {row[0] for row in cursor.fetchall()}


@pytest.mark.parametrize("store", SQL_STORES, indirect=True)
def test_a_thread_makes_one_connection_for_all_its_requests(
    start: Start, told: Path, store: Any
) -> None:
    server = start("--threads", "1")
    with closing(server.connection()) as connection:
        for _ in range(20):
            assert claimed(connection).status == 200
    assert made(told, server) == [store.alias]


@pytest.mark.parametrize("store", ["postgres", "mariadb"], indirect=True)
def test_a_database_that_was_restarted_costs_no_request_its_answer(
    start: Start, told: Path, store: Any
) -> None:
    server = start("--threads", "1")
    with closing(server.connection()) as connection:
        assert claimed(connection).status == 200
        before = sessions(store.alias)
        with database_server(store.alias).away():
            # What is left is the one that looks.
            until(lambda: len(before & sessions(store.alias)) == 1, "the server's to be gone")
        assert [claimed(connection).status for _ in range(3)] == [200, 200, 200]
    assert made(told, server) == [store.alias] * 2


@pytest.mark.parametrize("store", SQL_STORES, indirect=True)
def test_they_are_closed_when_the_server_ends(start: Start, store: Store) -> None:
    """Or Python would say on its way out that they were left open: warnings are errors there."""
    server = start("--threads", "4")
    with closing(server.connection()) as connection:
        for _ in range(8):
            assert claimed(connection).status == 200
    server.process.signal(15)
    ended = server.process.end()
    assert (ended.status, ended.err) == (0, "")


# -- by themselves -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "age", "health"),
    [
        ({}, KEPT, True),
        ({"CONN_MAX_AGE": 5}, 5, False),
        ({"CONN_MAX_AGE": None}, None, False),
        ({"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}, None, True),
        ({"OPTIONS": {"pool": True}}, 0, False),
        ({"OPTIONS": {"pool": {"min_size": 1}}}, 0, False),
    ],
)
def test_what_settings_choose_stays(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], age: int | None, health: bool
) -> None:
    given = {"CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": False, "OPTIONS": {}, **said}
    monkeypatch.setitem(connections.settings, "other", given)
    for alias in set(connections.settings) - {"other"}:
        monkeypatch.setitem(connections.settings, alias, {**given, "CONN_MAX_AGE": 1})
    kept = KeptConnections()
    try:
        kept.begin()
    finally:
        connection_created.disconnect(kept._note)
    assert (given["CONN_MAX_AGE"], given["CONN_HEALTH_CHECKS"]) == (age, health)


@pytest.mark.django_db(transaction=True)
def test_connections_of_threads_that_have_ended_are_closed() -> None:
    kept, found = KeptConnections(), []

    def use() -> None:
        connections["default"].ensure_connection()
        found.append(connections["default"])

    connection_created.connect(kept._note)
    try:
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
    finally:
        connection_created.disconnect(kept._note)
    assert found[0].connection is not None
    kept.close()
    assert found[0].connection is None
