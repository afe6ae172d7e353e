"""Leases and their ends, made by hand."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

from vtrr_django.domain.job import LeasedJob, Outcome, OutcomeKind, Reclaimed, Renewal

LEASE_SECONDS = 60.0
LEASED_AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)

_numbers = itertools.count()


def lease(partition_key: str = "acme", *, waited: float = 0.0, **fields: Any) -> LeasedJob:
    """Return a job leased at ``LEASED_AT``, for ``LEASE_SECONDS``."""
    number = next(_numbers)
    values: dict[str, Any] = {
        "id": f"job-{number}",
        "queue": "q",
        "task_name": "task",
        "args": [],
        "kwargs": {},
        "partition_key": partition_key,
        "weight": 1,
        "priority": 0,
        "token": f"token-{number}",
        "delivery_count": 0,
        "timeouts": 0,
        "enqueued_at": LEASED_AT - timedelta(days=1),
        "ready_at": LEASED_AT - timedelta(seconds=waited),
        "lease_expires_at": LEASED_AT + timedelta(seconds=LEASE_SECONDS),
    }
    return LeasedJob(**(values | fields))


def end(
    job: LeasedJob, kind: OutcomeKind = OutcomeKind.ACK, runtime: float | None = None
) -> Outcome:
    return Outcome(kind=kind, job_id=job.id, token=job.token, runtime=runtime)


def renewal(job: LeasedJob, runtime: float | None = None) -> Renewal:
    return Renewal(job_id=job.id, token=job.token, runtime=runtime)


def reclaimed(job: LeasedJob, *, dead: bool) -> Reclaimed:
    return Reclaimed(
        job_id=job.id,
        task_name=job.task_name,
        partition_key=job.partition_key,
        timeouts=1,
        dead=dead,
    )
