"""A nonce works once: in all threads and processes, on every database."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.test import Client

from tests.api.signing import SECRET, SignedClient, headers, send
from tests.contract.stores import SQL_STORES, OrmStore
from tests.contract.test_plans import EXPLAIN
from tests.races.conftest import make_crew
from tests.races.processes import Crew
from tests.races.threads import Background, together
from tests.races.waiting import until
from vtrr_django import get_queue
from vtrr_django.api import nonces
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.models import Nonce
from vtrr_django.queue import Queue

__all__ = ["make_crew"]

pytestmark = pytest.mark.parametrize("store", SQL_STORES, indirect=True)

NONCE = "n" * 24


@pytest.fixture
def queue(store: OrmStore, settings: Any) -> Queue:
    settings.VTRR = {"SECRET": SECRET, "QUEUES": {"default": store.settings(), "other": {}}}
    settings.ROOT_URLCONF = "tests.api.urls"
    settings.MIDDLEWARE = []  # a store's tests do without the apps of sessions and users
    return get_queue("default")


@pytest.fixture
def signed(queue: Queue) -> SignedClient:
    return SignedClient()


def kept(store: OrmStore) -> set[str]:
    return set(Nonce.objects.using(store.alias).values_list("nonce", flat=True))


@pytest.mark.usefixtures("queue")
def test_a_nonce_works_once(store: OrmStore) -> None:
    assert [nonces.use(NONCE) for _ in range(3)] == [True, False, False]
    # Byte by byte, whatever a database's text is compared by.
    assert nonces.use(NONCE.upper())
    assert nonces.use(NONCE + "_")
    assert kept(store) == {NONCE, NONCE.upper(), NONCE + "_"}


@pytest.mark.usefixtures("queue")
def test_of_many_threads_with_the_same_nonces_one_gets_in_with_each() -> None:
    def use() -> list[bool]:
        return [nonces.use(f"{NONCE}-{number}") for number in range(50)]

    answers = together(*[use] * 6)
    assert [sum(good) for good in zip(*answers, strict=True)] == [1] * 50


def test_of_many_processes_with_the_same_nonce_one_gets_in(
    queue: Queue, make_crew: Callable[[Queue], Crew]
) -> None:
    crew, processes, count = make_crew(queue), 4, 25
    for _ in range(processes):
        crew.start("tests.api.roles:use_nonces", count=count)
    crew.heard("begun", processes)
    for number in range(count):
        crew.flag(f"nonce {number}")
    crew.join()
    said = Counter(crew.heard("used", processes * count))
    assert said == Counter(
        {(number, good): n for number in range(count) for good, n in ((True, 1), (False, 3))}
    )


@pytest.mark.usefixtures("queue")
def test_of_many_threads_with_the_same_request_one_gets_in() -> None:
    told = headers("POST", "/echo", body=b"{}")

    def request() -> int:
        status: int = send(Client(), "POST", "/echo", b"{}", headers=told).status_code
        return status

    assert Counter(together(*[request] * 6)) == {200: 1, 401: 5}


@pytest.mark.usefixtures("queue")
def test_they_are_with_the_default_queue(store: OrmStore) -> None:
    assert nonces._store().alias == store.alias


def test_without_a_default_queue_they_are_with_the_first(store: OrmStore, settings: Any) -> None:
    settings.VTRR = {"QUEUES": {"mails": store.settings(), "other": {}}}
    assert nonces._store().alias == store.alias


# -- trimming ----------------------------------------------------------------------


@pytest.fixture
def old(store: OrmStore, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ten nonces that were used twenty minutes ago."""
    monkeypatch.setattr(nonces, "_used", iter(range(1, 1000)))
    names = [f"{NONCE}-{number}" for number in range(10)]
    for name in names:
        nonces.use(name)
    for one in Nonce.objects.using(store.alias).all():
        one.seen_at -= timedelta(minutes=20)
        one.save(using=store.alias)
    return names


def test_what_is_too_old_to_be_accepted_is_forgotten(
    store: OrmStore, old: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nonces, "TRIM_EVERY", 4)
    monkeypatch.setattr(nonces, "TRIMMED_AT_ONCE", 6)
    monkeypatch.setattr(nonces, "_used", iter(range(1, 1000)))
    for number in range(1, 4):
        assert nonces.use(f"new-{NONCE}-{number}")
    assert len(kept(store)) == 13
    assert nonces.use(f"new-{NONCE}-4")
    # The oldest first, and a bounded number.
    assert kept(store) & set(old) == set(old[6:])
    for number in range(5, 9):
        assert nonces.use(f"new-{NONCE}-{number}")
    assert kept(store) == {f"new-{NONCE}-{number}" for number in range(1, 9)}


def test_the_table_stays_bounded(
    store: OrmStore, old: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is old as soon as it is there."""
    monkeypatch.setattr(nonces, "KEPT", -1)
    for number in range(350):
        nonces.use(f"new-{NONCE}-{number}")
    assert len(kept(store)) < 2 * nonces.TRIM_EVERY
    assert nonces.TRIMMED_AT_ONCE > nonces.TRIM_EVERY


def test_a_process_trims_with_its_first_nonce(
    store: OrmStore, old: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nonces, "_used", iter(range(1000)))
    nonces.use(NONCE)
    assert kept(store) == {NONCE}


def test_trimming_that_fails_refuses_nobody(
    store: OrmStore,
    old: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(cursor: Any) -> None:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(nonces, "_delete_old", fail)
    monkeypatch.setattr(nonces, "_used", iter(range(1000)))
    with caplog.at_level(logging.WARNING):
        assert nonces.use(NONCE)
    assert "old nonces could not be deleted: gone" in caplog.text


def test_the_old_are_found_by_an_index(
    store: OrmStore, old: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connections[store.alias]
    plans: list[str] = []

    def explain(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("SELECT nonce"):
            # The driver's own cursor: one of Django's would come back to this wrapper.
            cursor = connection.connection.cursor()
            bound = sql.replace("%s", "?") if connection.vendor == "sqlite" else sql
            cursor.execute(EXPLAIN[connection.vendor] + bound, params)
            plans.append(str(cursor.fetchall()))
            cursor.close()
        return execute(sql, params, many, context)

    # As many as come in some minutes: a small table is read from end to end.
    now = datetime.now(UTC)
    Nonce.objects.using(store.alias).bulk_create(
        Nonce(nonce=f"x{number}", seen_at=now) for number in range(2000)
    )
    with connection.cursor() as cursor:
        if connection.vendor != "sqlite":
            cursor.execute(f"ANALYZE {'' if store.name == 'postgres' else 'TABLE '}{nonces.TABLE}")
    monkeypatch.setattr(nonces, "_used", iter(range(1000)))
    with connection.execute_wrapper(explain):
        nonces.use(NONCE)
    (plan,) = plans
    assert "vtrr_nonce_seen_at" in plan
    assert not any(word in plan for word in ("USE TEMP B-TREE", "'Sort'", "filesort"))


# -- outages -----------------------------------------------------------------------


def test_while_the_database_is_away_nobody_gets_in(
    store: OrmStore, queue: Queue, signed: SignedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = connections.settings["default"]["OPTIONS"]
    monkeypatch.setitem(options, "timeout", 0.05)  # or SQLite waits for long, many times
    seen: list[Any] = []

    def ask() -> None:
        """Ask until the outage is there: MariaDB's begins again and again."""
        until(lambda: seen.append(signed.post("/echo")) or seen[-1].status_code != 200, "503")
        # Who would be refused anyway is refused as ever.
        seen.append(SignedClient("wrong").post("/echo"))

    with store.server().away():
        Background(ask).result()
    away, wrong = seen[-2:]
    assert (away.status_code, wrong.status_code) == (503, 401)
    assert away.headers["Retry-After"] == "1"
    assert away.json().keys() == {"error"}
    assert signed.post("/echo").status_code == 200


def test_a_database_that_was_not_migrated_lets_nobody_in(
    store: OrmStore, queue: Queue, signed: SignedClient, caplog: pytest.LogCaptureFixture
) -> None:
    call_command("migrate", "vtrr_django", "0002", database=store.alias, verbosity=0)
    try:
        with caplog.at_level(logging.WARNING):
            assert signed.post("/echo").status_code == 503
        assert f"manage.py migrate --database {store.alias}" in caplog.text
    finally:
        call_command("migrate", "vtrr_django", database=store.alias, verbosity=0)
    assert signed.post("/echo").status_code == 200
