"""The settings of one queue as a frozen value; ``vtrr_django.conf`` builds it from settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from vtrr_django.domain.retry import RetryPolicy

Shares = Mapping[str, float] | Callable[[str], float | None]

DEFAULT_MAX_PAYLOAD_BYTES = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueConfig:
    """Everything that can be said about one queue in ``VTRR["QUEUES"][alias]``.

    Attributes:
        engine: ``"orm"``, ``"redis"`` or the dotted path of an ``Engine`` subclass.
        database: DATABASES alias of the ORM engine's tables.
        celery_queue: Celery queue the triggers go to; None: run by ``vtrr_worker`` only.
        max_concurrency: how many jobs workers can run at once, as the operator says: what
            ``reserve`` is taken from, and the most triggers that wait in Celery's broker. It
            does not bound how many run: that is up to the workers.
        lease_seconds: how long a lease lasts unless it is renewed.
        heartbeat: whether a lease is renewed while its job runs.
        max_timeouts: leases that may run out before the job is a dead letter; None: no end.
        reclaim_interval: seconds between two reclaims by one worker or by beat.
        partition_limit: most leased jobs of one partition; None: no limit.
        reserve: places of ``max_concurrency`` that no single partition may take.
        shares: partition key -> share, a mapping or a callable; None: everyone 1.
        cost: what a job costs its partition: its ``weight``, or its ``runtime``.
        completed_retention: completed jobs kept; None: all, 0: none.
        failed_retention: dead letters kept; None: all.
        retry: what happens to a job that raises; None: it becomes a dead letter at once.
        enqueue_on_commit: whether an enqueue waits for the caller's transaction when the
            store is not part of it.
        max_payload_bytes: longest payload accepted, in bytes of JSON.
        prefetch: most short jobs one worker slot leases in one transaction.
        health_max_ready: ready jobs above which the queue is not healthy; None: any number is.
        health_max_wait: seconds that a job may wait before the queue is not healthy; None:
            any time is.
        options: the settings only this queue's engine reads (``CACHE``, ``URL``, ...).
    """

    engine: str = "orm"
    database: str = "default"
    celery_queue: str | None = None
    max_concurrency: int = 8
    lease_seconds: float = 60.0
    heartbeat: bool = True
    max_timeouts: int | None = 5
    reclaim_interval: float = 10.0
    reclaim_queue: str | None = None
    partition_limit: int | None = None
    reserve: int = 0
    shares: Shares | None = None
    cost: Literal["weight", "runtime"] = "weight"
    completed_retention: int | None = 1000
    failed_retention: int | None = None
    retry: RetryPolicy | None = field(default_factory=RetryPolicy)
    enqueue_on_commit: bool = True
    max_payload_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES
    prefetch: int = 10
    health_max_ready: int | None = None
    health_max_wait: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> tuple[str | None, ...]:
        """What has to answer for the queue to be used: queues of one place are away together."""
        where = [self.options.get(key) for key in ("CACHE", "URL")]
        return (self.engine, *(where if any(where) else [self.database]))

    @property
    def default_limit(self) -> int | None:
        """The in-flight limit of a partition that has none of its own; None: no limit."""
        return self.effective_limit(None)

    def effective_limit(self, own: int | None) -> int | None:
        """Return the limit in force for a partition whose own limit is ``own``."""
        limit, most = self.partition_limit if own is None else own, self.most_of_one
        if most is None:
            return limit
        return most if limit is None else min(limit, most)

    @property
    def most_of_one(self) -> int | None:
        """What ``reserve`` leaves for any one partition; None: it is not set."""
        return max(1, self.max_concurrency - self.reserve) if self.reserve else None
