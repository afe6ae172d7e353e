"""The client and the real API in one process: what one says the other understands."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.urls import include, path

from tests.races.conftest import MakeQueue
from vtrr_django import DuplicateJobError, RetryPolicy, StoreUnavailable, ValidationError
from vtrr_django.client import RemoteQueue
from vtrr_django.engines.base import Engine
from vtrr_django.queue import Queue

SECRET = "of both sides"

urlpatterns = [path("jobs and more/", include("vtrr_django.api.urls"))]


@dataclass
class Note:
    text: str


@dataclass
class Pair:
    """The same queue, from both sides of HTTP."""

    local: Queue
    remote: RemoteQueue


@pytest.fixture
def connect(make_queue: MakeQueue, settings: Any) -> Callable[..., Pair]:
    """Return what makes a queue and a way to it: below a path of a project, below a path."""

    def make(secret: str = SECRET, **options: Any) -> Pair:
        local = make_queue(MAX_PAYLOAD_BYTES=2000)
        settings.VTRR = {**settings.VTRR, "SECRET": ["another, older one", SECRET]}
        settings.ROOT_URLCONF, settings.MIDDLEWARE = __name__, []
        settings.ALLOWED_HOSTS = ["*"]
        app = httpx.WSGITransport(app=WSGIHandler(), script_name="/a site")
        remote = RemoteQueue(
            local.name,
            base_url="http://jobs.test/a%20site/jobs%20and%20more/",
            secret=secret,
            http_options={"transport": _Below(app, b"/a%20site")},
            **options,
        )
        return Pair(local, remote)

    return make


class _Below(httpx.BaseTransport):
    """A server that takes the application's own path off the request's."""

    def __init__(self, app: httpx.BaseTransport, prefix: bytes) -> None:
        self._app = app
        self._prefix = prefix

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        raw_path = request.url.raw_path
        assert raw_path.startswith(self._prefix)
        request.url = request.url.copy_with(raw_path=raw_path.removeprefix(self._prefix))
        return self._app.handle_request(request)


@pytest.fixture
def pair(connect: Callable[..., Pair]) -> Pair:
    return connect()


stores = pytest.mark.parametrize("store", ["sqlite", "redis"], indirect=True)


@stores
def test_what_is_published_here_arrives_there_as_it_was(pair: Pair) -> None:
    remote, local = pair.remote, pair.local

    @remote.task
    def odd(self: Any, *args: Any, **kwargs: Any) -> None: ...

    values = [None, True, 1.5, -0.0, 10**40, "é\u2028😀", '"\\', [], {}, {"": [1]}]
    job_id = odd.enqueue(
        *values, partition_key="ÄÖ ü", weight=7, priority=3, msg_id="m 1", parent_id="p", key=values
    )
    [job] = local.lease()
    assert (job.id, job.task_name) == (job_id, odd.name)
    assert (job.args, job.kwargs) == (values, {"key": values})
    assert (job.partition_key, job.weight, job.priority) == ("ÄÖ ü", 7, 3)
    assert (job.msg_id, job.parent_id) == ("m 1", "p")
    local.release(job)
    assert remote.lease()[0].args == values


@stores
def test_due_times_arrive(pair: Pair) -> None:
    due = datetime.now(UTC) + timedelta(hours=5)
    pair.remote.publish_many([(Note("a"), {"scheduled_at": due}), (Note("b"), {"delay": 60})])
    soon, late = pair.local.jobs("scheduled").jobs
    assert (soon.task_name, late.ready_at) == ("Note", due)


@stores
def test_ids_of_a_repeated_request_are_those_of_the_first(pair: Pair) -> None:
    remote = pair.remote
    one = remote.publish(Note("a"), id="odd/id?%20", partition_key="acme")
    assert remote.publish(Note("a"), id="odd/id?%20", partition_key="acme") == one
    first = remote.publish(Note("a"), msg_id="m")
    assert remote.publish_many([(Note("b"), {"msg_id": "m"})]) == [first]
    with pytest.raises(DuplicateJobError, match="odd/id"):
        remote.publish_many([Note("c"), (Note("b"), {"id": one})])
    assert pair.local.depth().ready == 2


@stores
def test_what_the_server_refuses_is_a_validation_error_of_the_callers(pair: Pair) -> None:
    with pytest.raises(ValidationError) as caught:
        pair.remote.publish_many([Note("a"), Note("b" * 3000)])
    assert caught.value.path == "messages[1]"
    assert "2,000 bytes" in caught.value.problem
    assert pair.local.depth().ready == 0


@stores
def test_leases_end_here_as_there(pair: Pair) -> None:
    remote, local = pair.remote, pair.local
    assert remote.lease(wait=0.01) == []
    remote.publish_many([Note(str(number)) for number in range(5)], partition_key="acme")
    acked, failed, retried, snoozed, released = remote.lease(5, "me", wait=20)
    assert acked.partition_key == "acme"
    assert remote.renew(acked, runtime=0.5, lease_seconds=300)
    assert remote.ack(acked, runtime=1.5)
    assert remote.fail(failed, ValueError("no"))
    assert remote.retry(retried, 60, reason="later")
    assert remote.snooze(snoozed, 60)
    assert remote.release(released)
    for verb in (remote.ack, remote.renew, remote.release):
        assert not verb(acked)
    local.archive()
    stats = remote.stats()
    counts = {key: stats[key] for key in ("ready", "claimed", "scheduled", "failed", "completed")}
    assert counts == {"ready": 1, "claimed": 0, "scheduled": 2, "failed": 1, "completed": 1}
    assert stats == local.stats() | {"oldest_wait_seconds": stats["oldest_wait_seconds"]}
    assert stats["recent_failures"][0]["reason"] == "ValueError: no"
    assert stats["recent_runs"][0]["worker_id"] == "me"


@stores
def test_who_waits_by_hand_is_given_the_job_that_comes_where_nobody_may_wait(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.VTRR = {**settings.VTRR, "LONG_POLLS": 0}
    remote, pauses = pair.remote, []

    def publish(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            remote.publish(Note("late"))

    monkeypatch.setattr("vtrr_django.client.talk.time", SimpleNamespace(sleep=publish))
    [job] = remote.lease(wait=20)
    assert job.kwargs == {"text": "late"}
    assert pauses == [2, 2]
    assert remote.ack(job)
    remote.publish(Note("there"))
    [job] = remote.lease(wait=0.5)
    assert job.kwargs == {"text": "there"}
    assert pauses == [2, 2]


@stores
def test_a_worker_runs_what_is_there(connect: Callable[..., Pair]) -> None:
    pair = connect(retry=RetryPolicy(max_retries=1, base_delay=0))
    ran: list[str] = []

    @pair.remote.handler
    def keep(note: Note) -> None:
        ran.append(note.text)
        if note.text == "bad" or (ran.count(note.text) == 1 and note.text == "again"):
            raise ValueError(note.text)

    pair.remote.publish_many([Note(text) for text in ("good", "again", "bad", "good")])
    # In the thread of the test, whose database it is.
    from vtrr_django.testing import run_jobs

    summary = run_jobs(pair.remote)  # type: ignore[arg-type]
    assert (summary.succeeded, summary.retried, summary.failed) == (3, 2, 1)
    assert sorted(ran) == ["again", "again", "bad", "bad", "good", "good"]


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_store_that_is_away_is_unavailable(
    connect: Callable[..., Pair],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pair = connect(patience=0.1)

    def away(*args: Any, **options: Any) -> Any:
        raise StoreUnavailable("the database has gone")

    for verb in ("enqueue", "finish_and_lease", "lease", "depth", "stats"):
        monkeypatch.setattr(type(pair.local.engine), verb, away)
    with caplog.at_level(logging.CRITICAL, "vtrr_django"):
        for call in (
            lambda: pair.remote.publish(Note("a")),
            pair.remote.lease,
            pair.remote.stats,
            lambda: pair.remote.finish_and_lease([], 1, worker_id="w"),
        ):
            with pytest.raises(StoreUnavailable, match="does not answer"):
                call()
    assert issubclass(type(pair.local.engine), Engine)


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
@pytest.mark.parametrize("secret", [SECRET, "another, older one"])
def test_each_of_two_secrets_lets_in(connect: Callable[..., Pair], secret: str) -> None:
    assert connect(secret).remote.stats()["ready"] == 0
