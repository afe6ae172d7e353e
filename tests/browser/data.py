"""What the tests put into queues."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.contract.jobs import job
from tests.races.waiting import until
from vtrr_django.domain.job import JobInfo, LeasedJob
from vtrr_django.intake import declared_shares
from vtrr_django.queue import Queue

one_store = pytest.mark.parametrize("queue", ["orm"], indirect=True)
"""For tests of what no store has a part in."""

CANARY = "CANARY-in-arguments"

BIDI = "\u202egpj.exe\u2066\u2067\u200f\u061c"
"""Marks that turn the direction of text."""

HOSTILE = (
    "</pre><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    f"'{BIDI}{{{{ 7 }}}}%s",
)
"""Names that are not to be taken at their word."""

LONG = 20_000
"""Characters of a long text."""


def payload(*args: Any, **kwargs: Any) -> str:
    """Return the payload of a job."""
    return json.dumps({"args": args, "kwargs": kwargs})


def put(queue: Queue, *partition_keys: str, **fields: Any) -> list[str]:
    """Enqueue a job for each of these partitions; return the ids."""
    shares = declared_shares(queue.config.shares, set(partition_keys))
    return queue.engine.enqueue([job(key, **fields) for key in partition_keys], shares)


def fail(
    queue: Queue, *partition_keys: str, reason: str | BaseException = "it broke", **fields: Any
) -> list[str]:
    """Make a dead letter for each of these partitions; return the ids.

    Nothing else may wait in the queue.
    """
    ids = put(queue, *partition_keys, **fields)
    leased = take(queue, len(ids))
    assert {one.id for one in leased} == set(ids)
    for one in leased:
        assert queue.fail(one, reason)
    queue.archive()
    return ids


def complete(queue: Queue, *partition_keys: str, **fields: Any) -> list[str]:
    """Run a job for each of these partitions; return the ids. Nothing else may wait."""
    ids = put(queue, *partition_keys, **fields)
    leased = take(queue, len(ids))
    assert {one.id for one in leased} == set(ids)
    for one in leased:
        assert queue.ack(one)
    queue.archive()
    return ids


def take(queue: Queue, n: int, worker_id: str = "worker-1") -> Sequence[LeasedJob]:
    """Lease jobs."""
    return queue.lease(n, worker_id)


def lapse(queue: Queue, n: int = 1) -> list[str]:
    """Lease jobs, and wait until these leases have run out; return the ids."""
    leased = queue.engine.lease(n, worker_id="gone", lease_seconds=0.05)

    def past() -> bool:
        now = queue.depth().now
        ends = [one.lease_expires_at for one in (queue.job(job.id) for job in leased) if one]
        return now is not None and all(end is not None and end < now for end in ends)

    until(past, "leases to run out")
    return [one.id for one in leased]


def waiting(queue: Queue, state: str = "ready") -> list[JobInfo]:
    """Return the live jobs in one state."""
    return queue.jobs(state, limit=1000).jobs
