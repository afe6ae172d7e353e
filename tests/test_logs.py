"""What is logged about jobs, by whom, and how often."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings

from vtrr_django import Discard, Queue, Snooze, get_queue, logs, signals
from vtrr_django.engines.sql.models import Job
from vtrr_django.tasks import Task

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["vtrr_django"])

EVERY_JOB = (signals.job_enqueued, signals.job_started, signals.job_finished)


@pytest.fixture
def queue() -> Iterator[Queue]:
    name = f"logs-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    with override_settings(VTRR={"QUEUES": {name: {"MAX_TIMEOUTS": 2, "RETRY": None}}}):
        yield get_queue(name)


@pytest.fixture
def task(queue: Queue) -> Task:
    @queue.task
    def work(self: Any, raises: str = "") -> None:
        if raises:
            raise {"discard": Discard("as told"), "snooze": Snooze(60)}[raises]

    return work


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """All records, at DEBUG; the receivers of every job are connected."""
    with caplog.at_level(logging.DEBUG, logger="vtrr_django"):
        logs.connect()
        yield caplog
    logs.connect()


def said(records: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [
        (record.levelname, record.getMessage())
        for record in records.records
        if record.name == "vtrr_django.jobs"
    ]


def expire(queue: Queue) -> None:
    Job.objects.filter(queue=queue.name).exclude(lease_expires_at=None).update(lease_expires_at=1)


def test_by_default_nothing_listens_to_what_happens_to_every_job(queue: Queue) -> None:
    assert not any(signal.has_listeners(queue) for signal in EVERY_JOB)
    assert signals.job_reclaimed.has_listeners(queue)


def test_what_listens_follows_the_level(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="vtrr_django.jobs"):
        logs.connect()
        logs.connect()
        assert all(signal.has_listeners(queue) for signal in EVERY_JOB)
    logs.connect()
    assert not any(signal.has_listeners(queue) for signal in EVERY_JOB)


def test_leases_that_ran_out(queue: Queue, task: Task, caplog: pytest.LogCaptureFixture) -> None:
    job_id = task.enqueue(partition_key="acme")
    for _ in range(2):
        assert queue.lease()
        expire(queue)
        queue.reclaim()
    job = f"job {job_id} of {task.name}"
    dead = "its lease ran out 2 times, the most MAX_TIMEOUTS allows; it probably kills its worker"
    assert said(caplog) == [
        ("WARNING", f"the lease of {job} ran out (1 so far): it runs again"),
        ("ERROR", f"{job} is a dead letter: {dead}"),
    ]
    record = caplog.records[0]
    told = {key: getattr(record, key) for key in ("queue", "job_id", "task_name", "partition_key")}
    assert told == {
        "queue": queue.name,
        "job_id": job_id,
        "task_name": task.name,
        "partition_key": "acme",
    }


def test_what_other_code_leases_and_ends(
    queue: Queue, task: Task, records: pytest.LogCaptureFixture
) -> None:
    done, dead, again, later, back = task.queue(partition_key="acme", tasks=[{}] * 5)
    jobs = queue.lease(5)
    records.clear()
    queue.ack(jobs[0])
    queue.fail(jobs[1], "broken")
    queue.retry(jobs[2], 5, reason="busy")
    queue.snooze(jobs[3], 6)
    queue.release(jobs[4])
    assert said(records) == [
        ("DEBUG", f"job {done} of queue {queue.name} is completed"),
        ("WARNING", f"job {dead} of queue {queue.name} is a dead letter: broken"),
        ("INFO", f"job {again} is retried in 5.0 s: busy"),
        ("INFO", f"job {later} is snoozed for 6.0 s"),
        ("DEBUG", f"job {back} was released"),
    ]
    assert all(record.queue == queue.name for record in records.records)  # type: ignore[attr-defined]
    assert [record.job_id for record in records.records] == [done, dead, again, later, back]  # type: ignore[attr-defined]


def test_what_a_worker_runs_is_said_once(
    queue: Queue, task: Task, records: pytest.LogCaptureFixture
) -> None:
    for raises in ("", "discard", "snooze"):
        job_id = task.enqueue(raises, partition_key="acme")
        records.clear()
        queue.worker(worker_id="me").run_burst()
        about = [r for r in records.records if getattr(r, "job_id", None) == job_id]
        assert [r.name for r in about if r.name == "vtrr_django.jobs"] == ["vtrr_django.jobs"]
        (started,) = (r for r in about if r.name == "vtrr_django.jobs")
        assert started.getMessage() == f"job {job_id} of {task.name} starts (attempt 1)"
        assert started.worker_id == "me"  # type: ignore[attr-defined]
        assert len({r.getMessage() for r in about}) == len(about)


def test_what_comes_in(queue: Queue, task: Task, records: pytest.LogCaptureFixture) -> None:
    records.clear()
    first, second = task.queue(partition_key="Acme & Co", tasks=[{}, {}])
    where = f"was enqueued to queue {queue.name} for partition 'Acme & Co'"
    assert said(records) == [
        ("DEBUG", f"job {job_id} of {task.name} {where}") for job_id in (first, second)
    ]


def test_payloads_are_never_said(
    queue: Queue, task: Task, records: pytest.LogCaptureFixture
) -> None:
    task.enqueue("", partition_key="acme")
    task.enqueue("secret", partition_key="acme")
    queue.worker().run_burst()
    jobs = [r for r in records.records if r.name == "vtrr_django.jobs"]
    assert jobs
    assert not any("secret" in str(vars(record)) for record in jobs)
