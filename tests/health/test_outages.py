"""Stores and databases that do not answer: findings, never exceptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.db import connections
from django.test import override_settings

from tests.health.conftest import findings
from tests.own_redis import OwnRedis
from tests.races.conftest import MakeQueue
from tests.races.roles import Note
from tests.races.stores import many_writers
from tests.races.waiting import until
from vtrr_django import StoreUnavailable, get_queue
from vtrr_django.domain.job import QueueStats
from vtrr_django.engines.base import Engine
from vtrr_django.engines.orm.engine import OrmEngine
from vtrr_django.figures.reading import Reader
from vtrr_django.health import check_health, looking
from vtrr_django.registry import all_queues, live_jobs

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


def noted(monkeypatch: pytest.MonkeyPatch, names: str) -> list[str]:
    """Return a list that gets the name of each queue whose store is asked."""
    asked: list[str] = []
    for name in names:
        engine = get_queue(name).engine
        monkeypatch.setattr(
            engine, "depth", lambda name=name, depth=engine.depth: asked.append(name) or depth()
        )
    return asked


@default_database
def test_a_redis_that_hangs_is_waited_for_once(
    own_redis: Callable[..., OwnRedis], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = own_redis()
    one = {"ENGINE": "redis", "URL": f"{server.url()}?socket_timeout=0.2"}
    settings.VTRR = {"QUEUES": dict.fromkeys("abc", one)}
    asked = noted(monkeypatch, "abc")
    server.freeze()
    try:
        report = check_health()
    finally:
        server.thaw()
    assert {one.status for one in report.queues} == {"critical"}
    assert asked == ["a"]


@default_database
def test_a_redis_that_hangs_is_waited_for_once_whichever_of_its_databases(
    own_redis: Callable[..., OwnRedis], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose queues have a database each, and credentials, as README advises."""
    server = own_redis({"requirepass": "right"})
    hasty = "?socket_timeout=0.2"
    settings.CACHES = {
        "jobs": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": f"{server.url(4)}{hasty}",
        }
    }
    settings.VTRR = {
        "QUEUES": {
            "a": {"ENGINE": "redis", "URL": f"{server.url(1)}{hasty}"},
            "b": {"ENGINE": "redis", "URL": f"{server.url(2)}{hasty}"},
            "c": {"ENGINE": "redis", "URL": f"{server.url(3, user='default')}{hasty}"},
            "d": {"ENGINE": "redis", "CACHE": "jobs"},
            "e": {},
        }
    }
    asked = noted(monkeypatch, "abcd")
    server.freeze()
    try:
        report = check_health()
        assert asked == ["a"]
        assert get_queue("a").engine.config.place != get_queue("b").engine.config.place
        assert len(live_jobs(all_queues(), "none")) == 0
    finally:
        server.thaw()
    assert [one.status for one in report.queues] == [*["critical"] * 4, "ok"]


@default_database
def test_a_redis_that_lets_one_queue_in_lets_others_down_alone(
    own_redis: Callable[..., OwnRedis], settings: Any
) -> None:
    """Where one queue's password, or number of its database, is wrong."""
    server = own_redis({"requirepass": "right", "databases": 4})
    settings.VTRR = {
        "QUEUES": {
            "stranger": {"ENGINE": "redis", "URL": server.url(0, password="wrong")},
            "beyond": {"ENGINE": "redis", "URL": server.url(9)},
            "good": {"ENGINE": "redis", "URL": server.url(0)},
        }
    }
    assert [one.status for one in check_health().queues] == ["critical", "critical", "ok"]


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
        "outbox": "ok",
    }


@default_database
def test_ended_jobs_that_do_not_get_into_the_database(
    own_redis: Callable[..., OwnRedis], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it answers, and workers run jobs as ever."""
    settings.VTRR = {"QUEUES": {"q": {"ENGINE": "redis", "URL": own_redis().url()}, "other": {}}}
    queue = get_queue("q")
    assert "outbox" not in findings(get_queue("other"))
    assert findings(queue)["outbox"].sentence == "all jobs that ended are in the history"
    for _ in range(3):
        queue.publish(Note())
    first, second, third = queue.lease(3)
    assert queue.ack(first)
    until(lambda: findings(queue)["outbox"].facts["oldest_seconds"] > 0.001, "it to be there")
    assert queue.fail(second, "no use")
    found = findings(queue)["outbox"]
    assert (found.status, found.facts["jobs"]) == ("ok", 2)
    assert found.sentence.startswith("2 jobs that ended are not in the history yet, the first for ")
    with monkeypatch.context() as patch:
        patch.setattr("vtrr_django.health.judging.MOST_ON_THEIR_WAY", 1)
        assert findings(queue)["outbox"].status == "warning"
    with monkeypatch.context() as patch:
        patch.setattr("vtrr_django.health.reclaiming.SHORTEST_LIMIT", 0.001)
        patch.setattr("vtrr_django.health.reclaiming.MISSED", 0)
        found = findings(queue)["outbox"]
    assert found.status == "warning"
    assert "see what the workers' log says of writing the history" in found.sentence
    assert queue.archive() == 2
    assert findings(queue)["outbox"].facts["jobs"] == 0
    assert queue.ack(third)


@default_database
@pytest.mark.parametrize("question", ["workers", "totals"])
def test_a_database_that_goes_away_in_the_midst(
    settings: Any, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    def fail(self: Reader) -> None:
        raise StoreUnavailable("gone")

    settings.VTRR = {"QUEUES": {"q": {}}}
    monkeypatch.setattr(Reader, question, fail)
    found = findings(get_queue("q"))
    # Nothing is said of workers: "none was seen" would be a guess.
    assert list(found) == ["store", "database"]
    assert found["database"].status == "critical"
    assert found["database"].sentence.endswith("are not looked at: gone")


@default_database
def test_a_store_that_goes_away_in_the_midst(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: OrmEngine, **options: Any) -> None:
        raise StoreUnavailable("gone")

    settings.VTRR = {"QUEUES": {"q": {}}}
    get_queue("q").publish(Note())
    monkeypatch.setattr(OrmEngine, "partitions", fail)
    found = findings(get_queue("q"))
    assert list(found) == ["store", "database"]
    assert found["store"].sentence == "the store does not answer: gone"


# -- what nobody foresaw -------------------------------------------------------------------


class Failing(OrmEngine):
    """An engine of somebody's own, with a fault in one queue."""

    def depth(self) -> QueueStats:
        if self.name == "faulty":
            try:
                raise KeyError("CANARY & Sons")
            except KeyError as error:
                raise TypeError("CANARY") from error
        return super().depth()

    @classmethod
    def depths(cls, engines: Sequence[Engine]) -> list[QueueStats]:
        return [engine.depth() for engine in engines]


def faulty(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "_said", {})
    failing = {"ENGINE": f"{__name__}.Failing"}
    settings.VTRR = {"QUEUES": {"faulty": failing, "sound": failing}}


@default_database
def test_a_bug_is_logged_and_is_no_outage_of_others(
    settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    faulty(settings, monkeypatch)
    report = check_health()
    assert {one.queue: one.status for one in report.queues} == {"faulty": "critical", "sound": "ok"}
    # Whose error it is nobody knows, so it is not quoted.
    [store, *_] = report.queues[0].findings
    assert store.sentence == "the store does not answer: TypeError"
    told = [one for one in caplog.records if one.name == "vtrr_django.health"]
    assert all(one.levelname == "ERROR" for one in told)
    text = "".join(one.getMessage() for one in told)
    assert "of queue faulty failed with TypeError" in text
    assert "raise KeyError(" in text, "the frames, also of what came before"
    assert "KeyError\n" in text
    assert "CANARY &" not in text.replace('raise KeyError("CANARY & Sons")', "")


@default_database
def test_a_bug_is_said_once_until_it_is_over(
    settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> int:
        return sum("jobs of queue faulty failed" in one.getMessage() for one in caplog.records)

    faulty(settings, monkeypatch)
    check_health()
    check_health()
    assert told() == 1
    with monkeypatch.context() as patch:
        patch.setattr(Failing, "depth", OrmEngine.depth)
        patch.setattr(Failing, "depths", Engine.depths)
        findings(get_queue("faulty"))
        looking.Look(get_queue("faulty"), looking.Looker()).depth  # noqa: B018 - asks it alone
    check_health()
    assert told() == 2


@default_database
def test_an_outage_is_no_bug(settings: Any, broken: str, caplog: pytest.LogCaptureFixture) -> None:
    settings.VTRR = {"QUEUES": {"q": {"DATABASE": broken}}}
    assert check_health().status == "critical"
    assert not [one for one in caplog.records if one.name == "vtrr_django.health"]


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
