"""Stores and databases that do not answer: findings, never exceptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections
from django.test import override_settings

from tests.health.conftest import findings
from tests.own_redis import OwnRedis
from tests.races.conftest import MakeQueue
from tests.races.roles import Note
from tests.races.stores import many_writers
from vtrr_django import get_queue
from vtrr_django.figures.reading import Reader
from vtrr_django.health import check_health

default_database = pytest.mark.django_db(transaction=True)


@default_database
def test_a_redis_that_is_down(own_redis: Callable[..., OwnRedis], settings: Any) -> None:
    server = own_redis()
    settings.VTRR = {"QUEUES": {"q": {"ENGINE": "redis", "URL": server.url()}, "other": {}}}
    queue = get_queue("q")
    queue.publish(Note())
    server.stop()
    found = findings(queue)
    assert {name: one.status for name, one in found.items()} == {
        "store": "critical",
        "database": "ok",
    }
    assert found["store"].sentence.startswith("the store does not answer: ")
    assert {one.queue: one.status for one in check_health().queues} == {
        "q": "critical",
        "other": "ok",
    }
    server.start()
    assert findings(queue)["store"].status == "ok"


@default_database
def test_a_redis_that_hangs_is_waited_for_once(
    own_redis: Callable[..., OwnRedis], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = own_redis()
    one = {"ENGINE": "redis", "URL": f"{server.url()}?socket_timeout=0.2"}
    settings.VTRR = {"QUEUES": dict.fromkeys("abc", one)}
    asked: list[str] = []
    for name in "abc":
        engine = get_queue(name).engine
        monkeypatch.setattr(
            engine, "depth", lambda name=name, depth=engine.depth: asked.append(name) or depth()
        )
    server.freeze()
    try:
        report = check_health()
    finally:
        server.thaw()
    assert {one.status for one in report.queues} == {"critical"}
    assert asked == ["a"]


@default_database
def test_a_database_that_is_down(
    settings: Any, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.VTRR = {"QUEUES": {"q": {"DATABASE": broken}, "other": {}}}
    found = findings(get_queue("q"))
    assert {name: one.status for name, one in found.items()} == {
        "store": "critical",
        "database": "critical",
    }
    assert "database 'broken' did not answer" in found["store"].sentence
    assert found["database"].sentence.startswith("the figures in database 'broken' cannot be read")
    assert findings(get_queue("other"))["store"].status == "ok"
    # It is not waited for a second time.
    monkeypatch.setattr(Reader, "totals", lambda self: pytest.fail("the figures were asked for"))
    assert findings(get_queue("q")) == found


@default_database
def test_a_database_that_lacks_the_tables(settings: Any, unmigrated: str) -> None:
    settings.VTRR = {"QUEUES": {"q": {"DATABASE": unmigrated}}}
    sentence = findings(get_queue("q"))["database"].sentence
    assert "run manage.py migrate --database unmigrated" in sentence


@default_database
def test_figures_that_are_down_while_the_store_is_up(
    own_redis: Callable[..., OwnRedis], settings: Any, broken: str
) -> None:
    one = {"ENGINE": "redis", "URL": own_redis().url(), "DATABASE": broken}
    settings.VTRR = {"QUEUES": {"q": one}}
    queue = get_queue("q")
    queue.publish(Note(), on_commit=False)
    settings.VTRR = {"QUEUES": {"q": {**one, "HEALTH_MAX_READY": 0, "CELERY_QUEUE": "c"}}}
    assert {name: one.status for name, one in findings(queue).items()} == {
        "store": "ok",
        "database": "critical",
        "backlog": "critical",
    }


@default_database
def test_a_database_that_goes_away_in_the_midst(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Reader) -> None:
        raise RuntimeError("CANARY")

    settings.VTRR = {"QUEUES": {"q": {}}}
    monkeypatch.setattr(Reader, "workers", fail)
    report = check_health()
    assert report.status == "ok"
    monkeypatch.setattr(Reader, "totals", fail)
    [database] = [one for one in check_health().queues[0].findings if one.id == "database"]
    # Whose error it is nobody knows, so it is not quoted.
    assert database.sentence.endswith("are not looked at: RuntimeError")


@many_writers
def test_a_connection_that_broke_meanwhile_is_no_outage(make_queue: MakeQueue) -> None:
    queue = make_queue()
    assert findings(queue)["store"].status == "ok"
    connections[queue.config.database].connection.close()
    assert findings(queue)["store"].status == "ok"


@default_database
def test_settings_that_are_wrong() -> None:
    with override_settings(VTRR={"QUEUES": {"q": {"ENGIN": "orm"}}}):
        report = check_health()
    assert report.status == "critical"
    assert report.queues == ()
    [wrong] = report.findings
    assert wrong.id == "settings"
    assert "did you mean 'ENGINE'?" in wrong.sentence


@default_database
def test_a_queue_that_settings_do_not_declare() -> None:
    report = check_health([get_queue("nowhere")])
    assert [one.id for one in report.findings] == ["settings"]


@default_database
def test_an_engine_that_cannot_be_had(settings: Any) -> None:
    settings.VTRR = {"QUEUES": {"q": {"ENGINE": "no.such.Engine"}}}
    store = findings(get_queue("q"))["store"]
    assert store.status == "critical"
    assert "'no.such.Engine'" in store.sentence
