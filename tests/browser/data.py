"""What the tests put into queues."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.contract.jobs import job
from tests.races.waiting import until
from vtrr_django.domain.job import JobInfo, LeasedJob
from vtrr_django.engines.sql.fields import to_microseconds
from vtrr_django.engines.sql.store import Store
from vtrr_django.figures.keeping import LONGEST_LINES, MINUTE, Keeper, floor
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

IDS = ("</pre><script>alert(1)</script>", '"><img/src=x/onerror=alert(1)>', "..", "W" * 64)
"""Ids as hostile as these names."""

LONG_NAME = "W" * 255
"""As wide as a name gets, with no place to break it."""

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


def fill_with_hostile(queue: Queue, names: Sequence[str]) -> dict[str, str]:
    """Put hostile jobs in each state into a queue; return their ids, by state."""
    long = (BIDI + "W" * 97 + "</pre><script>alert(1)</script>") * (LONG // 128)
    ids = {}
    for number, name in enumerate(names):
        job_id = IDS[number]
        fields = {"task_name": name, "given_id": True, "payload": payload(name, long)}
        common = {"parent_id": IDS[number], "msg_id": name}
        done = complete(queue, name, id=job_id, **fields)
        failed = fail(queue, name, id=f"f{job_id}"[:64], **fields, **common, reason=long)
        ids |= {"completed": done[0], "failed": failed[0]}
    raised = ValueError(long)
    fail(queue, names[0], reason=raised)
    for number, name in enumerate(names):
        fields = {"task_name": name, "given_id": True, "payload": payload(name, long)}
        put(queue, name, id=f"l{IDS[number]}"[:64], **fields)
        [begun] = take(queue, 1, name)
        queue.retry(begun, reason=long)
        take(queue, 1, name)
    for number, name in enumerate(names):
        fields = {"task_name": name, "given_id": True, "payload": payload(name, long)}
        put(queue, name, id=f"r{IDS[number]}"[:64], **fields)
        put(queue, name, id=f"s{IDS[number]}"[:64], **fields, delay=3600)
        queue.pause(name)
    queue.measure(names[0])
    return ids


def measure_now(queue: Queue) -> None:
    """Note how the queue stands in this minute, though a server may have done so before."""
    queue.measure("worker-1")
    minute = to_microseconds(floor(queue.figures.totals().now, MINUTE))
    keeper = Keeper(queue.name, Store(queue.config.database))
    keeper.note(minute, queue.depth(), queue.partitions(limit=LONGEST_LINES))
