"""``vtrr_queue.enqueue`` and ``vtrr_queue.upkeep`` in a real worker of the default queue.

That worker takes no triggers of fair queues: another one does.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.celery.conftest import StartsSite
from tests.celery.site import Site, Worker
from tests.races.waiting import until
from vtrr_django.testing import run_jobs

pytestmark = [
    pytest.mark.django_db(transaction=True, databases="__all__"),
    pytest.mark.service("redis"),
]
DEFAULT = "celery"  # Celery's name of it


@pytest.fixture(scope="module", params=["sqlite-redis", "redis-redis"])
def site(request: pytest.FixtureRequest, open_site: StartsSite) -> Site:
    return open_site(
        request.param, {"plain": {}, "polled": {"CELERY_QUEUE": None, "LEASE_SECONDS": 1}}
    )


@pytest.fixture(scope="module")
def worker(site: Site) -> Worker:
    return site.worker("-c", "2", "-P", "threads", "-Q", DEFAULT)


def send(site: Site, queue: str, *, task_id: str | None = None, **given: Any) -> str:
    """Send what a periodic task would; return the message's id."""
    kwargs = {"queue": site.plan.name_of(queue), "task": site.tasks[queue].name, **given}
    sent = site.app.send_task("vtrr_queue.enqueue", kwargs=kwargs, task_id=task_id, queue=DEFAULT)
    return str(sent.id)


def done(worker: Worker, message_id: str, count: int = 1) -> None:
    end = f"vtrr_queue.enqueue[{message_id}] succeeded"
    until(lambda: worker.log.read_text().count(end) == count, f"{message_id} to be done")


def test_a_queue_that_celery_runs(site: Site, worker: Worker) -> None:
    done(worker, send(site, "plain", partition_key="acme", args=["once"], weight=2))
    [job] = site.queue("plain").partitions("acme")
    assert job.ready == 1
    assert site.triggers("plain") == 1, "the enqueue has sent it"
    site.worker("-c", "1", "-P", "threads")
    site.heard("end", "once")


def test_a_queue_that_is_polled(site: Site, worker: Worker) -> None:
    done(worker, send(site, "polled", partition_key="acme", args=["polled"]))
    run_jobs(site.queue("polled"))
    site.heard("end", "polled")


def test_a_message_that_comes_twice(site: Site, worker: Worker) -> None:
    queue = site.queue("polled")
    message_id = send(site, "polled", partition_key="twice", args=["x"])
    done(worker, message_id)
    send(site, "polled", partition_key="twice", args=["x"], task_id=message_id)
    done(worker, message_id, 2)
    assert queue.partitions("twice")[0].ready == 1
    run_jobs(queue)


def test_wrong_arguments_are_in_the_log(site: Site, worker: Worker) -> None:
    message_id = send(site, "polled", partition_keys=["a"])
    until(lambda: worker.told(f"vtrr_queue.enqueue[{message_id}] raised"), "it to fail")
    until(lambda: worker.told("did you mean 'partition_key'?"), "the cure")


def test_upkeep(site: Site, worker: Worker) -> None:
    """A lease of a worker that is gone, on a queue for which no worker is up."""
    queue = site.queue("polled")
    site.tasks["polled"].enqueue("orphan", partition_key="orphan")
    [leased] = queue.lease()

    def back() -> bool:
        site.app.send_task("vtrr_queue.upkeep", queue=DEFAULT)
        return [one.ready for one in queue.partitions("orphan")] == [1]

    until(back, "the lease to be reclaimed")
    until(lambda: queue.figures.totals().beat_at, "it to be written down")
    assert not queue.ack(leased)
    run_jobs(queue)
