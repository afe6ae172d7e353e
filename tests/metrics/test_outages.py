"""A store or a database that does not answer: the scrape succeeds, and says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from tests.health.conftest import broken
from tests.metrics.conftest import scrape
from tests.own_redis import OwnRedis
from tests.races.roles import Note
from tests.races.waiting import until
from vtrr_django import get_queue
from vtrr_django.domain.job import QueueStats
from vtrr_django.engines.base import Engine
from vtrr_django.engines.orm.engine import OrmEngine

__all__ = ["broken"]

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_redis_that_is_down(own_redis: Callable[..., OwnRedis], settings: Any) -> None:
    server = own_redis()
    one = {"ENGINE": "redis", "URL": server.url()}
    settings.VTRR = {"QUEUES": {"down": one, "too": one, "up": {}}, "METRICS_TENANTS": 10}
    queue = get_queue("down")
    queue.publish(Note())
    [job] = queue.lease()
    assert queue.ack(job)
    queue.measure()
    server.stop()
    found = scrape()
    assert found.by("queue", "vtrr_store_up") == {"down": 0, "too": 0, "up": 1}
    # What the database knows is shown all the same.
    assert found.by("queue", "vtrr_figures_up") == {"down": 1, "too": 1, "up": 1}
    assert found.value("vtrr_jobs_completed_total", queue="down") == 1
    assert set(found.by("queue", "vtrr_jobs_ready")) == {"up"}
    server.start()
    assert scrape().by("queue", "vtrr_store_up") == {"down": 1, "too": 1, "up": 1}


def test_one_that_hangs_is_waited_for_once(
    own_redis: Callable[..., OwnRedis], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = own_redis()
    one = {"ENGINE": "redis", "URL": f"{server.url()}?socket_timeout=0.2"}
    settings.VTRR = {"QUEUES": dict.fromkeys("abc", one), "METRICS_TENANTS": 10}
    asked: list[str] = []
    for name in "abc":
        queue = get_queue(name)
        depth = queue.engine.depth
        monkeypatch.setattr(
            queue.engine, "depth", lambda name=name, depth=depth: asked.append(name) or depth()
        )
    server.freeze()
    try:
        assert set(scrape().by("queue", "vtrr_store_up").values()) == {0}
    finally:
        server.thaw()
    assert asked == ["a", "a"]  # a scrape in each format


def test_a_database_that_is_down(settings: Any, broken: str) -> None:
    settings.VTRR = {"QUEUES": {"down": {"DATABASE": broken}, "up": {}}, "METRICS_TENANTS": 10}
    found = scrape()
    assert found.by("queue", "vtrr_store_up") == {"down": 0, "up": 1}
    assert found.by("queue", "vtrr_figures_up") == {"down": 0, "up": 1}
    assert set(found.by("queue", "vtrr_leases_total")) == {"up"}


def test_one_that_is_to_be_asked_in_a_transaction(
    settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings.ROOT_URLCONF = "tests.metrics.test_metrics"
    default = connections["default"]
    default.close()
    gone = tmp_path / "missing" / "db.sqlite3"
    with monkeypatch.context() as patch:
        patch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
        patch.setattr(default, "settings_dict", {**default.settings_dict, "NAME": gone})
        response = Client().get("/metrics/")
    assert response.status_code == 200
    assert 'vtrr_store_up{queue="default"} 0.0' in response.text


@pytest.mark.service("postgres")
@pytest.mark.django_db(transaction=True, databases=["default", "postgres"])
def test_another_that_is_to_be_asked_in_a_transaction(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ROOT_URLCONF = "tests.metrics.test_metrics"
    settings.VTRR = {"QUEUES": {"down": {"DATABASE": "postgres"}, "up": {}}}
    other = connections["postgres"]
    other.close()
    with monkeypatch.context() as patch:
        patch.setitem(connections.settings["postgres"], "ATOMIC_REQUESTS", True)
        nowhere = {"HOST": "127.0.0.1", "PORT": "1"}
        patch.setattr(other, "settings_dict", {**other.settings_dict, **nowhere})
        response = Client().get("/metrics/")
    assert response.status_code == 200
    assert 'vtrr_store_up{queue="down"} 0.0' in response.text
    assert 'vtrr_store_up{queue="up"} 1.0' in response.text


def test_figures_that_are_down_while_the_store_is_up(
    own_redis: Callable[..., OwnRedis], settings: Any, broken: str
) -> None:
    one = {"ENGINE": "redis", "URL": own_redis().url(), "DATABASE": broken}
    settings.VTRR = {"QUEUES": {"q": one}, "METRICS_TENANTS": 10}
    queue = get_queue("q")
    queue.publish(Note(), partition_key="acme", on_commit=False)
    found = scrape()
    assert found.value("vtrr_store_up", queue="q") == 1
    assert found.value("vtrr_figures_up", queue="q") == 0
    assert found.value("vtrr_partition_ready", queue="q", partition="acme") == 1
    assert not found.has("vtrr_leases_total")
    assert not found.has("vtrr_workers_alive")
    assert not found.has("vtrr_partition_worker_seconds")


def test_ended_jobs_that_are_not_in_the_database_yet(
    own_redis: Callable[..., OwnRedis], settings: Any
) -> None:
    settings.VTRR = {"QUEUES": {"q": {"ENGINE": "redis", "URL": own_redis().url()}, "other": {}}}
    queue = get_queue("q")
    queue.publish(Note())
    assert scrape().by("queue", "vtrr_outbox_jobs") == {"q": 0}
    assert scrape().value("vtrr_outbox_oldest_seconds", queue="q") == 0
    [job] = queue.lease()
    assert queue.ack(job)
    assert scrape().by("queue", "vtrr_outbox_jobs") == {"q": 1}
    until(lambda: scrape().value("vtrr_outbox_oldest_seconds", queue="q") > 0, "it to be there")
    queue.archive()
    assert scrape().by("queue", "vtrr_outbox_jobs") == {"q": 0}


def test_an_engine_that_cannot_be_had(settings: Any) -> None:
    settings.VTRR = {"QUEUES": {"q": {"ENGINE": "no.such.Engine"}, "up": {}}}
    assert scrape().by("queue", "vtrr_store_up") == {"q": 0, "up": 1}


class Failing(OrmEngine):
    """An engine of somebody's own, with a fault."""

    def depth(self) -> QueueStats:
        raise RuntimeError("its own fault")

    @classmethod
    def depths(cls, engines: Sequence[Engine]) -> list[QueueStats]:
        raise RuntimeError("its own fault")


def test_an_engine_that_has_a_fault(settings: Any) -> None:
    failing = {"ENGINE": f"{__name__}.Failing"}
    settings.VTRR = {"QUEUES": {"q": failing, "up": {}}}
    assert scrape().by("queue", "vtrr_store_up") == {"q": 0, "up": 1}
