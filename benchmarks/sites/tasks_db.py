"""The peer's side: Django's Tasks with django-tasks-db and its worker."""

from __future__ import annotations

import time
from typing import Any

import django
from django.core.management import call_command
from django.db import transaction

from benchmarks.sites import common
from benchmarks.sites.common import prepare, waits

if django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task

__all__ = ["prepare", "waits"]


@task
def no_op() -> None:
    """Do nothing."""
    common.no_op()


@task
def timed_job(tenant: str, sent_at: float, seconds: float) -> None:
    """Note how long this job waited, then take some time."""
    common.timed_job(tenant, sent_at, seconds)


def _work() -> float:
    """Run the worker until nothing waits, as fast as it can; return the seconds it took."""
    began = time.perf_counter()
    call_command(
        "db_worker",
        batch=True,
        interval=0,
        startup_delay=False,
        reload=False,
        verbosity=0,  # it logs no task
    )
    return time.perf_counter() - began


def end_to_end(n: int) -> dict[str, float]:
    """Enqueue no-op jobs one by one, then work them off."""
    common.empty_tables()
    began = time.perf_counter()
    for _ in range(n):
        no_op.enqueue()
    enqueued = time.perf_counter() - began
    common.gather_statistics()
    return {"enqueue": enqueued, "work": _work(), "megabytes": common.megabytes()}


def flood(n: int, seconds: float) -> None:
    """Enqueue the jobs of the heavy tenant at once."""
    with transaction.atomic():
        for _ in range(n):
            timed_job.enqueue("heavy", time.time(), seconds)
    common.gather_statistics()


def trickle(n: int, pause: float, seconds: float) -> None:
    """Enqueue jobs of the light tenant one by one."""
    for _ in range(n):
        timed_job.enqueue("light", time.time(), seconds)
        time.sleep(pause)


def work_timed_jobs() -> dict[str, Any]:
    """Work everything off; return how long each tenant's jobs waited."""
    seconds = _work()
    return {"seconds": seconds, "waits": waits}
