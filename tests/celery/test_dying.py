"""Workers that are killed, stopped, or were never there."""

from __future__ import annotations

import pytest

from tests.celery.conftest import StartsSite, pairs
from tests.celery.site import Site
from tests.races.standing import go_on, stand_still_at_rest
from tests.races.waiting import PATIENCE, until

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


@pytest.fixture(params=pairs)
def site(request: pytest.FixtureRequest, open_site: StartsSite) -> Site:
    return open_site(request.param, {"plain": {}})


one_pair = pytest.mark.parametrize("site", [pairs[0]], indirect=True)
"""What happens is between the worker and the queue, whatever its store."""


def test_parent_killed(site: Site) -> None:
    """The job of a worker that is gone runs again in another, without beat."""
    first = site.worker("-c", "1")
    job_id = site.enqueue("plain", "orphan", ["sleep", 60], ["end"])
    site.heard("start", "orphan")
    first.kill()
    site.worker("-c", "1")
    # Nobody but cron: one call brings the job back and sends what runs it.
    queue = site.queue("plain")
    until(lambda: queue.reclaim_and_dispatch() == 1, "the lease to run out")
    assert site.end_of("plain", job_id) == "completed"
    assert site.starts("orphan") == [(0, 0), (0, 1)]


@one_pair
def test_warm_shutdown_and_what_waits_goes_on(site: Site) -> None:
    first = site.worker("-c", "1")
    flag = site.flag()
    again = site.enqueue("plain", "again", ["retry", 0], ["end"])
    assert site.end_of("plain", again) == "completed"
    running = site.enqueue("plain", "running", ["wait", str(flag)])
    site.heard("start", "running")
    waiting = site.enqueue("plain", "waiting")
    first.process.terminate()
    flag.touch()
    first.process.wait(PATIENCE)  # billiard may wait for 30 s for its parent process
    assert site.end_of("plain", running) == "completed"
    totals = site.queue("plain").figures.totals()
    assert (totals.counts["completed"], totals.counts["retried"]) == (2, 1)
    [seen] = site.queue("plain").figures.workers()
    assert (seen.jobs, seen.holding) == (totals.counts["leases"], 0)
    site.worker("-c", "1")
    assert site.end_of("plain", waiting) == "completed"
    assert site.starts("running") == site.starts("waiting") == [(0, 0)]


@one_pair
def test_retry_of_a_reclaimed_lease_is_dropped(site: Site) -> None:
    worker = site.worker("-c", "1")
    job_id = site.enqueue("plain", "late", ["retry", 5.5], ["end"])
    until(lambda: worker.told("retry: Retry in 5.5s"), "the retry to be on its way")
    [pid] = {entry.pid for entry in site.journal.entries() if entry.what == "start"}
    stand_still_at_rest(worker.process.pid, pid)  # it sleeps through the end of the lease
    queue = site.queue("plain")
    until(lambda: queue.reclaim() == 1, "the lease to run out")
    [job] = queue.lease(lease_seconds=60)
    assert job.id == job_id
    go_on(pid, worker.process.pid)
    until(lambda: worker.told("came too late"), "the retry to be dropped")
    assert queue.ack(job)
    assert site.starts("late") == [(0, 0)]


@one_pair
def test_lease_that_is_gone_is_not_retried(site: Site) -> None:
    worker = site.worker("-c", "1")
    flag = site.flag()
    job_id = site.enqueue("plain", "gone", ["wait and retry", str(flag)])
    site.heard("start", "gone")
    [pid] = {entry.pid for entry in site.journal.entries() if entry.what == "start"}
    stand_still_at_rest(pid)
    queue = site.queue("plain")
    until(lambda: queue.reclaim() == 1, "the lease to run out")
    [job] = queue.lease(lease_seconds=60)
    flag.touch()
    go_on(pid)
    until(lambda: worker.told("its lease was not ours any more"), "the loss to be noticed")
    assert job.id == job_id
    assert queue.ack(job)
    assert site.starts("gone") == [(0, 0)]


def test_beat_runs_what_has_no_trigger(site: Site) -> None:
    """Nobody told the broker; beat's reclaim does."""
    job_id = site.enqueue("plain", "forgotten")
    purge(site)
    site.worker("-c", "1", "-B", "-s", str(site.folder / "beat"))
    assert site.end_of("plain", job_id) == "completed"
    figures = site.queue("plain").figures
    until(lambda: figures.totals().counts["completed"] == 1, "the job to be counted")
    assert figures.totals().beat_at is not None
    assert [worker.jobs for worker in figures.workers()] == [1]


def purge(site: Site) -> None:
    with site.app.connection_for_write() as connection:
        connection.default_channel.queue_purge(site.plan.name_of("plain"))
    assert site.triggers("plain") == 0
