"""Names, arguments and errors that try to be more than text; and what a page costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connections
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.admin.conftest import declare
from tests.admin.html import Page
from tests.admin.looking import address, look, press
from tests.admin.test_queues_pages import paths
from tests.contract.jobs import job, put
from tests.contract.stores import STORES
from vtrr_django import Queue, get_queue
from vtrr_django.admin import queue_pages
from vtrr_django.admin.markup import visible
from vtrr_django.models import QueueSample, WorkerSighting

HOSTILE = [
    "</pre><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7|add:7 }}{% debug %}",
    "\u202egnp.exe\u2066",
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
]
LONG = "x" * 20_000


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_tries_to_be_more_is_shown_as_text(queue: Queue, root: Client, text: str) -> None:
    """Every page goes through ``look``, which knows what a strict policy refuses."""
    payload = json.dumps({"args": [text], "kwargs": {text: LONG}})
    jobs = [job(text, task_name=text, payload=payload, msg_id=f"{text}{n}") for n in range(4)]
    queue.engine.enqueue(jobs, {})
    [begun] = queue.lease(1, worker_id=text)
    queue.retry(begun, reason=f"{text} {LONG}")
    done, failed, _ = queue.lease(3, worker_id=text)
    queue.ack(done, runtime=1.0)
    queue.fail(failed, f"{text} {LONG}", runtime=1.0)
    queue.archive()
    queue.measure(text)
    at: Any = datetime.now(UTC).replace(second=0, microsecond=0)
    QueueSample.objects.filter(queue=queue.name).delete()
    waiting = json.dumps({text: 1})
    QueueSample.objects.create(queue=queue.name, at=at, ready=1, waiting=waiting)

    shown = visible(text).replace(" ", "")
    for path in paths(queue):
        page = look(root, path)
        if path == address("detail", queue.name):
            found = page.text.replace(" ", "").count(shown)
            assert found >= 5, "a name in the table, a worker, three plots"
    page = press(root, address("detail", queue.name), "Pause partition")
    assert visible(text) in page.text


def test_long_names_are_cut_and_whole_where_one_points(queue: Queue, root: Client) -> None:
    key, worker = "k" * 255, "w" * 255
    put(queue.engine, key)
    queue.lease(1, worker_id=worker)
    queue.measure(worker)

    page = look(root, address("detail", queue.name))

    assert key not in page.text
    assert worker not in page.text
    assert {key, worker} <= {bdi.get("title", "") for bdi in page.find("bdi")}
    job_page = look(root, address("job", queue.name, queue.jobs("leased").jobs[0].id))
    assert worker in {bdi.get("title", "") for bdi in job_page.find("bdi")}


def test_the_eye_that_looks_sees_what_it_should() -> None:
    """Break the helper, and all tests above pass."""
    for bad in (
        '<p style="x">',
        "<p onclick='x'>",
        "<script>x</script>",
        "<script></script>",
        "<style>",
        '<script src="https://elsewhere/x.js"></script>',
        '<a href="javascript:x">',
        "<svg><rect style='fill:red'/></svg>",
    ):
        assert Page(bad).refused, bad
    assert Page('<script src="/x.js"></script><a href="?p=2">2</a>').refused == []


def test_arguments_too_long_for_a_page_are_cut(queue: Queue, root: Client) -> None:
    payload = json.dumps({"args": ["y" * 150_000], "kwargs": {}})
    made = job("acme", payload=payload)
    queue.engine.enqueue([made], {})

    page = look(root, address("job", queue.name, made.id))

    assert "characters more" in page.text
    assert page.text.count("y") < 110_000


# -- what it costs -----------------------------------------------------------------

MOST_QUERIES = 15


@pytest.mark.parametrize(
    "store",
    [
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.service("postgres")),
        pytest.param("mariadb", marks=pytest.mark.service("mariadb")),
        pytest.param("redis", marks=pytest.mark.service("redis")),
    ],
)
@pytest.mark.django_db(transaction=True, databases="__all__")
def test_every_page_needs_few_queries_however_much_there_is(
    settings: Any, staff: Callable[..., Client], store: str
) -> None:
    queue = declare(settings, store)
    everything = ("view_queuestate", "see_payloads", "steer_queues", "requeue_jobs", "purge_queues")
    client = staff(*everything, "view_failedjob", "view_completedjob")
    put(queue.engine, *(f"tenant-{n:03}" for n in range(80)))
    put(queue.engine, *(f"tenant-{n:03}" for n in range(40)), delay=3600)
    done, failed, *_ = queue.lease(60, worker_id="w")
    queue.ack(done)
    queue.fail(failed, "no such file")
    queue.archive()
    queue.measure("w")
    queue.set_partition("tenant-001", share=2)
    look(client, address("changelist"))  # content types are remembered from now on

    for path in [*paths(queue)[:8], *paths(queue)[-3:], address("purge", queue.name)]:
        databases = [CaptureQueriesContext(one) for one in connections.all()]
        for one in databases:
            one.__enter__()
        look(client, path)
        for one in databases:
            one.__exit__(None, None, None)
        queries = [query["sql"] for one in databases for query in one.captured_queries]
        assert len(queries) <= MOST_QUERIES, "\n".join([path, *queries])


@pytest.mark.parametrize(
    "store",
    [
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.service("postgres")),
        pytest.param("mariadb", marks=pytest.mark.service("mariadb")),
    ],
)
@pytest.mark.django_db(transaction=True, databases="__all__")
def test_the_list_needs_few_queries_however_many_queues_there_are(
    settings: Any, staff: Callable[..., Client], store: str
) -> None:
    made = STORES[store]()
    names = [made.new_name() for _ in range(42)]
    old, *names = names
    settings.VTRR = {"QUEUES": {name: made.settings() for name in [old, *names]}}
    put(get_queue(old).engine, "left", "behind")
    for number, name in enumerate(names):
        put(get_queue(name).engine, "a", "a", "b")
        get_queue(name).pause("a")
        if number % 2:
            get_queue(name).pause("b")
    settings.VTRR = {"QUEUES": {name: made.settings() for name in names}}
    client = staff("view_queuestate", "steer_queues")
    look(client, address("changelist"))

    with ExitStack() as stack:
        databases = [stack.enter_context(CaptureQueriesContext(one)) for one in connections.all()]
        page = look(client, address("changelist"))
    queries = [query["sql"] for one in databases for query in one.captured_queries]
    assert len(queries) <= MOST_QUERIES, "\n".join(queries)
    assert all(name in page.text for name in names)
    assert page.text.count("All jobs that are ready are of partitions that are paused") == 20
    assert page.text.count("3 ready, and no worker was seen") == 21
    assert f"Left behind in queue {old}, in database" in page.text


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_a_search_beyond_what_a_page_looks_at_needs_few_queries(
    settings: Any, staff: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_pages, "MOST", 500)  # as many as are counted in one walk, and more
    queue = declare(settings, "sqlite")
    put(queue.engine, *(f"tenant-{n:03}" for n in range(520)))
    client = staff("view_queuestate", "steer_queues")
    path = address("detail", queue.name) + "?q=tenant-519"
    look(client, path)

    with CaptureQueriesContext(connections["default"]) as captured:
        page = look(client, path)
    assert len(captured) <= MOST_QUERIES, "\n".join(q["sql"] for q in captured.captured_queries)
    assert "tenant-519" in page.text


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_a_page_that_finds_workers_idle_needs_few_queries(
    settings: Any, staff: Callable[..., Client]
) -> None:
    made = STORES["sqlite"]()
    names = [made.new_name() for _ in range(10)]
    settings.VTRR = {"QUEUES": {name: made.settings() for name in names}}
    queue = get_queue(names[0])
    put(queue.engine, "acme", "globex")
    made.advance(queue.name, 3600)
    queue.measure("idle")
    long_ago = F("started_at") - 3_600_000_000
    WorkerSighting.objects.filter(worker_id="idle").update(started_at=long_ago)
    client = staff("view_queuestate", "steer_queues")
    path = address("detail", queue.name)
    look(client, path)

    with CaptureQueriesContext(connections["default"]) as captured:
        page = look(client, path)
    assert "Workers are alive, but without a job for" in page.text
    assert len(captured) <= MOST_QUERIES, "\n".join(q["sql"] for q in captured.captured_queries)


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_the_scheduled_jobs_of_a_tenant_need_few_queries_whatever_their_priorities(
    settings: Any, staff: Callable[..., Client]
) -> None:
    queue = declare(settings, "sqlite")
    jobs = [job("acme", priority=n % 201 - 100, delay=3600.0 + n) for n in range(400)]
    queue.engine.enqueue(jobs, {})
    client = staff("view_queuestate")
    first = queue.jobs("scheduled", partition_key="acme")
    path = address("jobs", queue.name, "scheduled") + f"?partition=acme&after={first.next}"
    look(client, path)

    with CaptureQueriesContext(connections["default"]) as captured:
        page = look(client, path)
    assert jobs[60].id in page.text
    assert len(captured) <= MOST_QUERIES, "\n".join(q["sql"] for q in captured.captured_queries)
