"""What one job leaves in its thread, and what the next one finds there: another tenant's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.cache import caches
from django.db import connection
from django.utils import timezone, translation

from tests.test_readme import BLOCKS
from tests.worker.fakes import MemorySource, burst
from vtrr_django import connections, get_queue
from vtrr_django.connections import DjangoHooks
from vtrr_django.domain.job import LeasedJob
from vtrr_django.signals import job_started
from vtrr_django.tasks import synchronous
from vtrr_django.worker.source import NoHooks

tenant = ContextVar("tenant", default="nobody")
CLEAN = (settings.LANGUAGE_CODE, settings.TIME_ZONE, "nobody")


def look() -> tuple[Any, ...]:
    return translation.get_language(), timezone.get_current_timezone_name(), tenant.get()


def leave(label: str) -> None:
    translation.activate("de")
    timezone.activate("Asia/Tokyo")
    tenant.set(label)


def function(seen: list[tuple[Any, ...]]) -> Callable[..., object]:
    def job(context: Any, label: str) -> None:
        seen.append(look())
        leave(label)

    return job


def coroutine(seen: list[tuple[Any, ...]]) -> Callable[..., object]:
    async def job(context: Any, label: str) -> None:
        seen.append(look())
        await asyncio.sleep(0)
        leave(label)

    return synchronous(job, "job")


def coroutine_with_a_thread(seen: list[tuple[Any, ...]]) -> Callable[..., object]:
    async def job(context: Any, label: str) -> None:
        seen.append(await sync_to_async(look)())
        await sync_to_async(leave)(label)
        await sync_to_async(leave, thread_sensitive=False)(label)

    return synchronous(job, "job")


@pytest.mark.parametrize("kind", [function, coroutine, coroutine_with_a_thread])
@pytest.mark.parametrize("limits", [{}, {"soft_time_limit": 60, "time_limit": 60}])
def test_context_of_one_job_is_not_that_of_the_next(
    kind: Callable[..., Any], limits: dict[str, Any]
) -> None:
    source, seen = MemorySource(), []  # type: ignore[var-annotated]
    source.task(kind(seen), **limits)
    for number in range(5):
        source.put(f"tenant {number}")
    assert burst(source).succeeded == 5
    assert seen == [CLEAN] * 5
    assert look() == CLEAN


def test_hooks_and_listeners_share_the_context_of_their_job() -> None:
    """Who binds something to log records for each job, and undoes it."""
    tokens: list[Token[str]] = []
    seen: list[tuple[str, str]] = []

    class Source(MemorySource):
        def job_started(self, job: LeasedJob, worker_id: str) -> None:
            seen.append(("started", tenant.get()))
            tenant.set(job.id)

    class Hooks(NoHooks):
        def before_job(self) -> None:
            tokens.append(tenant.set("before"))

        def after_job(self) -> None:
            seen.append(("after", tenant.get()))
            tenant.reset(tokens.pop())

    source = Source()
    source.task(lambda context: seen.append(("job", tenant.get())))
    ids = [source.put(), source.put()]
    burst(source, hooks=Hooks())
    assert seen == [
        (what, told)
        for job_id in ids
        for what, told in (("started", "before"), ("job", job_id), ("after", job_id))
    ]
    assert tokens == []


def test_what_a_job_raises_is_logged_in_its_context(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    source = MemorySource()

    def job(context: Any) -> None:
        tenant.set("acme")
        raise ZeroDivisionError

    source.task(job)
    source.put()

    def note(record: Any) -> bool:
        seen.append(tenant.get())
        return True

    caplog.handler.addFilter(note)
    try:
        burst(source)
    finally:
        caplog.handler.removeFilter(note)
    assert "acme" in seen


def test_caches_are_kept_from_one_job_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are kept in a context variable, and have connections of their own."""
    monkeypatch.setattr(connections, "_thread", connections._Thread())  # of all threads anew
    source, seen = MemorySource(), []  # type: ignore[var-annotated]
    source.task(lambda context: seen.append(caches["default"]))
    for _ in range(3):
        source.put()
    burst(source, hooks=DjangoHooks())
    assert len({id(cache) for cache in seen}) == 1


def test_a_cache_that_cannot_be_made_stops_nobody(settings: Any) -> None:
    settings.CACHES = {"default": {"BACKEND": "not.here"}, "other": settings.CACHES["default"]}
    source, seen = MemorySource(), []  # type: ignore[var-annotated]
    source.task(lambda context: seen.append(caches["other"]))
    source.put()
    source.put()
    assert burst(source, hooks=DjangoHooks()).succeeded == 2
    assert seen[0] is seen[1]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("anew", [False, True])
def test_a_connection_is_kept_unless_each_job_begins_with_a_new_one(
    anew: bool, settings: Any
) -> None:
    """As README says."""
    [code] = [code for *_, code in BLOCKS if "def begin_anew" in code]
    made: dict[str, Any] = {}
    if anew:
        exec(code, made)  # noqa: S102 - ours
    seen: list[int] = []
    settings.VTRR = {"QUEUES": {"kept": {}}}
    queue = get_queue("kept")

    @queue.task
    def job(self: Any) -> None:
        seen.append(len(connection.execute_wrappers))
        connection.execute_wrappers.append(lambda execute, *args: execute(*args))

    try:
        job.queue(partition_key="a", tasks=[{}, {}, {}])
        assert queue.worker(burst=True, concurrency=1, poll_interval=0.01).run().succeeded == 3
    finally:
        if anew:
            job_started.disconnect(made["begin_anew"])
    assert seen == ([0, 0, 0] if anew else [0, 1, 2])
