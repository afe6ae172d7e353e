"""What ``/metrics`` says, on every store."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import path
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest

import vtrr_django.contrib.prometheus
from tests.contract.stores import Store
from tests.metrics.conftest import OPENMETRICS, scrape
from tests.races.conftest import MakeQueue
from tests.races.roles import Note
from vtrr_django.contrib.prometheus import COUNTERS, VTRRCollector
from vtrr_django.domain.histogram import BOUNDS
from vtrr_django.queue import Queue
from vtrr_django.testing import run_jobs

urlpatterns = [path("metrics/", vtrr_django.contrib.prometheus.metrics)]


def publish(queue: Queue, *partitions: str, **options: Any) -> None:
    for key in partitions:
        queue.publish(Note(), partition_key=key, **options)


def counters(queue: Queue) -> dict[str, int]:
    found = scrape()
    values = {name: int(found.value(name, queue=queue.name)) for name in COUNTERS}
    return {name: value for name, value in values.items() if value}


def test_an_unused_queue_is_there_with_zeros(make_queue: MakeQueue) -> None:
    queue, found = make_queue(), scrape()
    of_it = {name: value for (name, labels), value in found.samples.items()}
    assert of_it.pop("vtrr_store_up") == of_it.pop("vtrr_figures_up") == 1
    assert set(of_it.values()) == {0}
    assert set(found.by("queue", "vtrr_jobs_ready")) == {queue.name}


def test_how_a_queue_stands(make_queue: MakeQueue) -> None:
    queue = make_queue()
    publish(queue, "a", "a", "b")
    publish(queue, "c", scheduled_at=timezone.now() + timedelta(days=1))
    queue.lease()
    queue.pause()
    found = scrape()

    def value(name: str) -> float:
        return found.value(name, queue=queue.name)

    assert value("vtrr_jobs_ready") == 2
    assert value("vtrr_jobs_scheduled") == 1
    assert value("vtrr_jobs_leased") == 1
    assert value("vtrr_partitions_waiting") == 2
    assert value("vtrr_queue_paused") == 1
    assert value("vtrr_oldest_wait_seconds") > 0
    assert value("vtrr_workers_alive") == 0
    queue.resume()
    queue.measure("me")
    found = scrape()
    assert value("vtrr_queue_paused") == 0
    # The process that leased by hand is a worker too.
    assert value("vtrr_workers_alive") == 2


def test_what_has_happened_is_counted(store: Store, make_queue: MakeQueue) -> None:
    queue = make_queue(MAX_TIMEOUTS=1)
    publish(queue, *"abcdefgh")
    ended, failed, again, later, back, gone, lost, _ = queue.lease(8)
    assert queue.ack(ended)
    assert queue.fail(failed, "no")
    assert queue.retry(again, 3600)
    assert queue.snooze(later, 3600)
    assert queue.release(back)
    assert queue.ack(gone)
    assert not queue.ack(gone)
    assert queue.ack(lost)
    store.lapse(queue.name, queue._own_id(None))
    assert queue.reclaim() == 1
    queue.measure()
    assert counters(queue) == {
        "vtrr_leases_total": 8,
        "vtrr_jobs_completed_total": 3,
        "vtrr_jobs_failed_total": 2,
        "vtrr_jobs_retried_total": 1,
        "vtrr_jobs_snoozed_total": 1,
        "vtrr_leases_released_total": 1,
        "vtrr_leases_reclaimed_total": 1,
        "vtrr_acks_refused_total": 1,
    }


def test_a_scraper_needs_no_log_in(rf: RequestFactory) -> None:
    request = rf.get("/metrics/")
    request.user = SimpleNamespace(is_authenticated=False)  # type: ignore[assignment]
    gate = LoginRequiredMiddleware(lambda request: HttpResponse())
    view = vtrr_django.contrib.prometheus.metrics
    assert gate.process_view(request, view, (), {}) is None


def test_counters_outlive_the_history(store: Store, make_queue: MakeQueue) -> None:
    queue = make_queue(COMPLETED_RETENTION=0, FAILED_RETENTION=1)
    publish(queue, *"abcd")
    first, second, *others = queue.lease(4)
    for job in others:
        assert queue.fail(job, "no")
    assert queue.ack(first)
    assert queue.ack(second)
    queue.measure()
    before = counters(queue)
    store.age(queue.name)
    assert queue.prune()["failed"] == 1
    queue.requeue()
    assert queue.stats()["failed"] + queue.stats()["completed"] == 0
    queue.measure()
    assert counters(queue) == before
    assert before["vtrr_jobs_completed_total"] == before["vtrr_jobs_failed_total"] == 2


def test_waits_and_runs_are_histograms(make_queue: MakeQueue) -> None:
    queue = make_queue()
    publish(queue, *"abc")
    jobs = queue.lease(3)
    for job, runtime in zip(jobs, (0.004, 0.012, 1e6), strict=True):
        assert queue.ack(job, runtime=runtime)
    queue.measure()
    found = scrape()
    runs = {
        labels: value
        for (name, labels), value in found.samples.items()
        if name == "vtrr_job_run_seconds_bucket"
    }
    by_bound = {float(dict(labels)["le"]): value for labels, value in runs.items()}
    assert list(by_bound) == [*BOUNDS, float("inf")]
    assert [by_bound[bound] for bound in (0.005, 0.01, 0.02, BOUNDS[-1], float("inf"))] == [
        *(1, 1, 2, 2, 3)
    ]
    assert found.value("vtrr_job_run_seconds_sum", queue=queue.name) == pytest.approx(1000000.016)
    assert found.value("vtrr_job_run_seconds_count", queue=queue.name) == 3
    assert found.value("vtrr_job_wait_seconds_count", queue=queue.name) == 3


def test_every_declared_queue_is_there(store: Store, settings: Any) -> None:
    settings.VTRR = {"QUEUES": {"first": {}, "second": {}}}
    assert set(scrape().by("queue", "vtrr_store_up")) == {"first", "second"}


# -- the view ------------------------------------------------------------------------------


@pytest.fixture
def client(db: None, settings: Any) -> Client:
    settings.ROOT_URLCONF = __name__
    return Client()


@pytest.mark.django_db
def test_queues_of_a_database_are_counted_at_once(
    settings: Any, django_assert_max_num_queries: Any
) -> None:
    settings.VTRR = {"QUEUES": {f"queue-{n}": {} for n in range(20)}}
    with django_assert_max_num_queries(1 + 3 * 20) as seen:
        generate_latest(VTRRCollector())  # type: ignore[arg-type]
    counting = [one for one in seen.captured_queries if "vtrr_django_job" in one["sql"]]
    assert len(counting) == 1


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "text/plain; version=0.0.4"),
        ("*/*", "text/plain; version=0.0.4"),
        (OPENMETRICS, "application/openmetrics-text; version=1.0.0"),
    ],
)
def test_the_scraper_chooses_the_format(client: Client, accept: str, kind: str) -> None:
    response = client.get("/metrics/", headers={"accept": accept})
    assert response.headers["content-type"].startswith(kind)
    assert response.text.endswith("# EOF\n") == ("openmetrics" in kind)
    assert "no-store" in response.headers["cache-control"]


def test_it_is_there_to_be_read(client: Client) -> None:
    assert client.head("/metrics/").status_code == 200
    assert client.post("/metrics/").status_code == 405


# -- the collector ---------------------------------------------------------------------------


def test_registering_asks_no_store() -> None:
    """No database is allowed in this test."""
    registry = CollectorRegistry(auto_describe=True)
    registry.register(VTRRCollector())
    with pytest.raises(ValueError, match="Duplicated"):
        registry.register(VTRRCollector())


@pytest.mark.django_db
def test_it_works_in_any_registry(settings: Any) -> None:
    settings.VTRR = {"QUEUES": {"first": {}, "second": {}}}
    registry = CollectorRegistry()
    registry.register(VTRRCollector([vtrr_django.get_queue("second")]))
    assert registry.get_sample_value("vtrr_store_up", {"queue": "second"}) == 1
    assert b"first" not in generate_latest(registry)
    assert registry.restricted_registry(["vtrr_jobs_ready"]).collect()


@pytest.mark.django_db
def test_settings_that_are_wrong_are_said(settings: Any) -> None:
    settings.VTRR = {"QUEUES": {"first": {"ENGIN": "orm"}}}
    with pytest.raises(vtrr_django.ConfigurationError, match="ENGIN"):
        vtrr_django.contrib.prometheus.metrics(RequestFactory().get("/"))


# -- secrets -----------------------------------------------------------------------------------


def test_no_argument_and_no_secret_is_told(make_queue: MakeQueue, settings: Any) -> None:
    queue = make_queue(RETRY=None)
    settings.VTRR = {**settings.VTRR, "SECRET": "CANARY-secret", "METRICS_TENANTS": 100}

    def explode(self: Any, text: str) -> None:
        raise ValueError(text)

    task = queue.task(explode)
    for _ in range(3):
        task.enqueue("CANARY-argument", partition_key="acme")
    run_jobs(queue, max_jobs=1)
    queue.lease()
    queue.measure()
    found = scrape()
    assert found.value("vtrr_jobs_failed_total", queue=queue.name) == 1
    assert found.value("vtrr_partition_ready", queue=queue.name, partition="acme") == 1
    assert "CANARY" not in found.text
    assert task.name not in found.text
