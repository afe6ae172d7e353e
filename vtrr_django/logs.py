"""Logging what happens to jobs, as a receiver of the signals like any other.

A worker says itself how the jobs it runs end: failures at ERROR with the traceback, retries
at WARNING, the rest at DEBUG, all as ``vtrr_django.worker``. What is said here, as
``vtrr_django.jobs``, is what no worker sees or says: leases that ran out, jobs that other
code leased and ended, and at DEBUG the way of every single job.

A connected ``job_finished`` or ``job_started`` costs 5 to 6 microseconds a job, 4 to 5 % of
one that does nothing (SQLite, CPU time; ``job_retried`` costs 0.2). So these and
``job_enqueued`` are connected only where the logger is at DEBUG when the app starts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from django.dispatch import Signal

from vtrr_django import signals
from vtrr_django.domain.job import LeasedJob

if TYPE_CHECKING:
    from vtrr_django.queue import Queue

logger = logging.getLogger("vtrr_django.jobs")

Receivers = dict[Signal, Callable[..., None]]


def connect() -> None:
    """Connect the receivers; again after the logger's level has changed."""
    rare: Receivers = {signals.job_reclaimed: on_reclaimed, signals.job_retried: on_retried}
    frequent: Receivers = {
        signals.job_enqueued: on_enqueued,
        signals.job_started: on_started,
        signals.job_finished: on_finished,
    }
    for signal, receiver in rare.items():
        signal.connect(receiver)
    for signal, receiver in frequent.items():
        if logger.isEnabledFor(logging.DEBUG):
            signal.connect(receiver)
        else:
            signal.disconnect(receiver)


def on_enqueued(
    *,
    queue: Queue,
    ids: Sequence[str],
    task_names: Sequence[str],
    partition_keys: Sequence[str],
    **more: Any,
) -> None:
    """Say which jobs came in."""
    for job_id, task_name, partition_key in zip(ids, task_names, partition_keys, strict=True):
        logger.debug(
            "job %s of %s was enqueued to queue %s for partition %r",
            job_id,
            task_name,
            queue.name,
            partition_key,
            extra={
                "queue": queue.name,
                "job_id": job_id,
                "task_name": task_name,
                "partition_key": partition_key,
            },
        )


def on_started(*, queue: Queue, job: LeasedJob, worker_id: str, **more: Any) -> None:
    """Say that a job begins."""
    logger.debug(
        "job %s of %s starts (attempt %d)",
        job.id,
        job.task_name,
        job.delivery_count + 1,
        extra={
            "queue": queue.name,
            "job_id": job.id,
            "task_name": job.task_name,
            "partition_key": job.partition_key,
            "worker_id": worker_id,
        },
    )


def on_finished(
    *,
    queue: Queue,
    job_id: str,
    status: str,
    reason: str,
    error_class: str,
    worker_id: str,
    **more: Any,
) -> None:
    """Say that a job that no worker ran is completed, or a dead letter."""
    if worker_id:  # then the worker says it itself
        return
    extra = {"queue": queue.name, "job_id": job_id, "error_class": error_class}
    if status == "failed":
        logger.warning(
            "job %s of queue %s is a dead letter: %s", job_id, queue.name, reason, extra=extra
        )
    else:
        logger.debug("job %s of queue %s is completed", job_id, queue.name, extra=extra)


def on_retried(
    *, queue: Queue, job_id: str, kind: str, delay: float, reason: str, worker_id: str, **more: Any
) -> None:
    """Say that a job that no worker ran was put back."""
    if worker_id:  # then the worker says it itself
        return
    extra = {"queue": queue.name, "job_id": job_id}
    if kind == "retry":
        logger.info("job %s is retried in %.1f s: %s", job_id, delay, reason, extra=extra)
    elif kind == "snooze":
        logger.info("job %s is snoozed for %.1f s", job_id, delay, extra=extra)
    else:
        logger.debug("job %s was released", job_id, extra=extra)


def on_reclaimed(
    *,
    queue: Queue,
    job_id: str,
    partition_key: str,
    task_name: str,
    timeouts: int,
    dead: bool,
    **more: Any,
) -> None:
    """Say that a lease ran out: its worker died, or lost the store for too long."""
    extra = {
        "queue": queue.name,
        "job_id": job_id,
        "task_name": task_name,
        "partition_key": partition_key,
    }
    if dead:
        logger.error(
            "job %s of %s is a dead letter: its lease ran out %d times, the most MAX_TIMEOUTS "
            "allows; it probably kills its worker",
            job_id,
            task_name,
            timeouts,
            extra=extra,
        )
    else:
        logger.warning(
            "the lease of job %s of %s ran out (%d so far): it runs again",
            job_id,
            task_name,
            timeouts,
            extra=extra,
        )
