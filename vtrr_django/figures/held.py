"""Whether a change lets jobs go on that nobody could have taken before.

From then on their waiting counts, for who judges workers. So it matters what is no such change:
what is done again, or to a tenant without jobs, must not make up for a queue that nobody serves.
"""

from __future__ import annotations

from typing import Final

from vtrr_django.domain.job import PartitionStats, QueueStats
from vtrr_django.engines.base import Engine

LONG: Final = 60.0
"""Seconds after which it is not for this tenant's jobs alone that workers are missed."""

_MOST = 10_000
"""Partitions that are looked at, those with the most ready jobs first."""


def holds_back(engine: Engine, partition_key: str | None) -> bool:
    """Return whether jobs wait that a pause or a limit holds back: the tenant's, or the queue's.

    Args:
        engine: of the queue.
        partition_key: the tenant; None: the queue is what is paused, or not.
    """
    if partition_key is None:
        depth = engine.depth()
        return depth.paused and _waits(depth)
    return any(
        _waits(one) and not one.may_run
        for one in engine.partitions(partition_key=partition_key, limit=1)
    )


def goes_on(engine: Engine, partition_key: str | None) -> bool:
    """Return whether what was held back may run now, and nothing else has waited for long."""
    depth = engine.depth()
    if depth.paused:
        return False
    if partition_key is None:
        return True
    if not any(one.may_run for one in engine.partitions(partition_key=partition_key, limit=1)):
        return False
    if depth.now is None or depth.oldest_wait_seconds <= LONG:
        return True
    return not any(
        one.ready
        and one.may_run
        and one.partition_key != partition_key
        and one.oldest_ready_at is not None
        and (depth.now - one.oldest_ready_at).total_seconds() > LONG
        for one in engine.partitions(limit=max(1, min(depth.partitions_waiting, _MOST)))
    )


def _waits(counted: PartitionStats | QueueStats) -> bool:
    return bool(counted.ready or counted.scheduled)
