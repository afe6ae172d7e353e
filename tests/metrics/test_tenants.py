"""Series of tenants: only where asked for, and a bounded number of them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import RequestFactory
from django.utils import timezone

from tests.contract.stores import SQL_STORES, Store
from tests.metrics.conftest import scrape
from tests.races.conftest import MakeQueue
from tests.races.roles import Note
from tests.races.stores import shared
from vtrr_django import ConfigurationError
from vtrr_django.conf import parse
from vtrr_django.contrib.prometheus import LONGEST_LABEL, VTRRCollector, label_of, metrics
from vtrr_django.domain.job import NewJob
from vtrr_django.domain.states import State
from vtrr_django.engines.sql.models import Job
from vtrr_django.queue import Queue

MANY = 10_000
MOST_BYTES = 300_000


def publish(queue: Queue, **counts: int) -> None:
    for key, count in counts.items():
        for _ in range(count):
            queue.publish(Note(), partition_key=key)


def store_many(store: Store, queue: Queue, keys: list[str]) -> None:
    """Give each of many tenants a job."""
    body = '{"args": [], "kwargs": {}}'
    ids = [f"j{number}" for number in range(len(keys))]
    if store.name not in SQL_STORES:
        jobs = [
            NewJob(id=job_id, task_name="note", payload=body, partition_key=key)
            for job_id, key in zip(ids, keys, strict=True)
        ]
        queue.engine.enqueue(jobs, {})
        return
    # Rows alone, without making each tenant a candidate: that takes half a minute.
    now = timezone.now()
    rows = [
        Job(
            queue=queue.name,
            id=job_id,
            task_name="note",
            payload=body,
            partition_key=key,
            state=State.READY,
            scheduled_at=now,
            created_at=now,
        )
        for job_id, key in zip(ids, keys, strict=True)
    ]
    Job.objects.using(queue.config.database).bulk_create(rows, batch_size=1000)


def ask_for(settings: Any, tenants: int) -> None:
    settings.VTRR = {**settings.VTRR, "METRICS_TENANTS": tenants}


def test_no_tenant_is_named_unless_asked_for(make_queue: MakeQueue) -> None:
    queue = make_queue()
    publish(queue, acme=2)
    found = scrape()
    assert "acme" not in found.text
    assert "partition=" not in found.text


def test_the_first_are_told_apart_and_the_rest_is_one(make_queue: MakeQueue, settings: Any) -> None:
    queue = make_queue()
    ask_for(settings, 2)
    publish(queue, a=5, b=4, c=2, d=1)
    first, second, *_ = queue.lease(5)
    for job in (first, second):
        assert queue.ack(job, runtime=10.0)
    queue.measure()
    found = scrape()

    def of(name: str) -> dict[str, float]:
        return found.by("partition", name)

    # Leased were one of each, and another one.
    assert of("vtrr_partition_ready") == {"a": 3, "b": 3, "_other": 1}
    assert sum(of("vtrr_partition_leased").values()) == 3
    assert set(of("vtrr_partition_leased")) == {"a", "b", "_other"}
    assert of("vtrr_partition_worker_seconds") == {"a": 10, "b": 10, "_other": 0}


def test_with_room_for_all_nothing_is_left_over(make_queue: MakeQueue, settings: Any) -> None:
    queue = make_queue()
    ask_for(settings, 100)
    publish(queue, a=1, b=1)
    assert scrape().by("partition", "vtrr_partition_ready") == {"a": 1, "b": 1, "_other": 0}


def test_names_of_tenants_are_never_those_of_the_rest(make_queue: MakeQueue, settings: Any) -> None:
    queue = make_queue()
    ask_for(settings, 100)
    long = "x" * 255
    odd = 'a"b\\c\u2028{},= \u202e\U0001f600'
    for count, key in enumerate(("", "_other", "__other", "_none", "other", odd, long), start=1):
        publish(queue, **{key: count})
    ready = scrape().by("partition", "vtrr_partition_ready")
    assert ready.pop(label_of(long)) == 7
    assert ready == {
        "_none": 1,
        "__other": 2,
        "___other": 3,
        "__none": 4,
        "other": 5,
        odd: 6,
        "_other": 0,
    }


def test_long_names_are_cut_and_stay_apart() -> None:
    fits = "x" * LONGEST_LABEL
    assert label_of(fits) == fits
    labels = {label_of(fits + end) for end in ("y", "z", "y" * 191)}
    assert len(labels) == 3
    assert {len(label) for label in labels} == {LONGEST_LABEL + 17}


@pytest.mark.parametrize("store", shared, indirect=True)
def test_ten_thousand_tenants_are_bounded(
    store: Store, make_queue: MakeQueue, settings: Any
) -> None:
    queue = make_queue()
    publish(queue, acme=1, globex=1)
    for job in queue.lease(2):
        assert queue.ack(job)
    queue.measure()
    # The longest names there are, of the longest characters.
    store_many(store, queue, [f"{number:05}" + "\U0001f600" * 250 for number in range(MANY)])
    for tenants in (0, 100):
        ask_for(settings, tenants)
        assert len(metrics(RequestFactory().get("/")).content) < MOST_BYTES
        found = scrape()
        assert found.value("vtrr_partitions_waiting", queue=queue.name) == MANY
        ready = found.by("partition", "vtrr_partition_ready")
        assert len(ready) == (tenants and tenants + 1)
        assert sum(ready.values()) == (tenants and MANY)


# -- the setting -------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 1, 100])
def test_the_setting(value: int) -> None:
    assert parse({"METRICS_TENANTS": value}).metrics_tenants == value
    assert parse({}).metrics_tenants == 0


@pytest.mark.parametrize("value", [-1, 101, True, None, "10", 1.5])
def test_a_setting_that_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse({"METRICS_TENANTS": value})
    assert str(caught.value) == (
        f"VTRR['METRICS_TENANTS']: expected a whole number from 0 to 100, got {value!r}"
    )


@pytest.mark.parametrize("value", [None, 0, 1, 100])
def test_how_many_a_collector_tells_apart(value: int | None) -> None:
    assert list(VTRRCollector([], tenants=value).describe())


@pytest.mark.parametrize("value", [-1, 101, 5000, 1.5, True, "10"])
def test_how_many_no_collector_tells_apart(value: Any) -> None:
    with pytest.raises(ValueError, match="a whole number from 0 to 100 or None, got ") as caught:
        VTRRCollector(tenants=value)
    assert repr(value) in str(caught.value)
