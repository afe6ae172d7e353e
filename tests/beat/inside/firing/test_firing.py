"""A real ``celery beat`` and a real worker: what rows make them do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from tests.celery.conftest import StartsSite
from tests.celery.site import ROOT, Site
from tests.commands.manage import call
from tests.races.waiting import PATIENCE, until

pytestmark = [
    pytest.mark.django_db(transaction=True, databases="__all__"),
    pytest.mark.service("redis"),
]

Beats = Callable[..., Path]


@pytest.fixture
def site(open_site: StartsSite) -> Iterator[Site]:
    site = open_site("sqlite-redis", {"plain": {}, "other": {}, "polled": {"CELERY_QUEUE": None}})
    yield site
    PeriodicTask.objects.all().delete()


@pytest.fixture
def beat(site: Site) -> Iterator[Beats]:
    """Return what starts beat and returns its log; it ends with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> Path:
        log = site.folder / "beat.log"
        environment = {
            **os.environ,
            **site.plan.environment(),
            "DJANGO_SETTINGS_MODULE": "tests.beat.settings",
            "PYTHONPATH": str(ROOT),
        }
        with log.open("ab") as file:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "celery", "-A", "tests.celery.project", "beat"),
                    *("-l", "INFO", "--pidfile=", "--max-interval", "1", *arguments),
                ],
                env=environment,
                cwd=ROOT,
                stdout=file,
                stderr=file,
            )
        started.append(process)

        def up() -> bool:
            assert process.poll() is None, log.read_text()
            return "beat: Starting" in log.read_text()

        until(up, "beat to be up")
        return log

    yield start
    for process in started:
        process.terminate()
        process.wait(PATIENCE)


ROWS = ("--scheduler", "django_celery_beat.schedulers:DatabaseScheduler")


def reclaim_of(site: Site, queue: str) -> PeriodicTask:
    return PeriodicTask.objects.get(name=f"vtrr_queue.reclaim.{site.plan.name_of(queue)}")


def beaten(site: Site, queue: str, after: Any = None) -> Any:
    """Wait until beat has reclaimed a queue; return when."""

    def look() -> Any:
        found = site.queue(queue).figures.totals().beat_at
        return found if found != after else None

    return until(look, f"beat to reclaim queue {queue}")


def orphan(site: Site, label: str) -> None:
    """Lease a job and be gone; no trigger is left either."""
    site.enqueue("plain", label)
    [leased] = site.queue("plain").lease()
    assert leased.args == [label]
    with site.app.connection_for_write() as connection:
        connection.default_channel.queue_purge(site.plan.name_of("plain"))
    assert site.triggers("plain") == 0


def test_rows_fire_and_a_disabled_one_does_not(site: Site, beat: Beats) -> None:
    call("vtrr_schedule")
    off = reclaim_of(site, "other")
    off.enabled = False
    off.interval = IntervalSchedule.objects.create(every=900_000, period="microseconds")
    off.save()
    call("vtrr_schedule")
    orphan(site, "orphan")
    site.worker("-c", "1", "-P", "threads")
    beat(*ROWS)
    assert site.heard("end", "orphan") == [("orphan",)]
    assert site.starts("orphan") == [(0, 1)], "its lease ran out, and somebody looked"
    seen = None
    for _ in range(3):
        seen = beaten(site, "plain", seen)
    assert site.queue("other").figures.totals().beat_at is None
    off.refresh_from_db()
    assert off.interval.every == 900_000, "beat has written nothing over it"
    off.enabled = True
    off.save()
    beaten(site, "other")


def test_a_running_beat_hears_of_changed_settings(site: Site, beat: Beats, settings: Any) -> None:
    slow = site.plan.vtrr()
    slow["QUEUES"][site.plan.name_of("plain")]["RECLAIM_INTERVAL"] = 3600
    settings.VTRR = slow
    call("vtrr_schedule")
    site.worker("-c", "1", "-P", "threads")
    beat(*ROWS)
    beaten(site, "other")  # before that it may not have looked at the time of the last change
    settings.VTRR = site.plan.vtrr()
    assert "updated, every 500000 microseconds" in call("vtrr_schedule")
    beaten(site, "plain")


def test_a_beat_that_reads_no_rows(site: Site, beat: Beats) -> None:
    call("vtrr_schedule")
    PeriodicTask.objects.update(enabled=False)
    orphan(site, "orphan")
    site.worker("-c", "1", "-P", "threads")
    log = beat("--schedule", str(site.folder / "schedule"))
    beaten(site, "plain")
    beaten(site, "other")
    site.heard("end", "orphan")
    assert "PersistentScheduler, does not read the rows" in log.read_text()


def test_a_row_that_enqueues(site: Site, beat: Beats) -> None:
    """Once for each tenant, into a queue that Celery runs; its message goes to any worker."""
    PeriodicTask.objects.create(
        name="an operator's",
        task="vtrr_queue.enqueue",
        interval=IntervalSchedule.objects.create(every=1, period="seconds"),
        queue="celery",
        kwargs=(
            f'{{"queue": "{site.plan.name_of("plain")}", "task": "{site.tasks["plain"].name}", '
            '"partitions": "tests.app.tasks.tenants", "args": ["report"]}'
        ),
    )
    site.worker("-c", "1", "-P", "threads")
    site.worker("-c", "1", "-P", "threads", "-Q", "celery")
    beat(*ROWS)
    site.heard("end", "report", count=4)  # twice for two tenants
