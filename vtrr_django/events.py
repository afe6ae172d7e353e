"""Sending the signals: once for every verb, and for nothing when nobody listens."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.dispatch import Signal

from vtrr_django import signals
from vtrr_django.domain.job import LeasedJob, NewJob, Outcome, OutcomeKind, Reclaimed

if TYPE_CHECKING:
    from vtrr_django.queue import Queue

logger = logging.getLogger("vtrr_django.signals")

_STATUS = {OutcomeKind.ACK: "completed", OutcomeKind.FAIL: "failed"}


def enqueued(queue: Queue, jobs: Sequence[NewJob], ids: Sequence[str], alias: str | None) -> None:
    """Send ``job_enqueued``, after the commit of the transaction the jobs are part of."""
    if not signals.job_enqueued.has_listeners(queue):
        return

    def send() -> None:
        _send(
            signals.job_enqueued,
            queue,
            ids=list(ids),
            task_names=[job.task_name for job in jobs],
            partition_keys=[job.partition_key for job in jobs],
        )

    if alias is None:
        send()
    else:
        transaction.on_commit(send, using=alias, robust=True)


def started(queue: Queue, job: LeasedJob, worker_id: str) -> None:
    """Send ``job_started``."""
    if signals.job_started.has_listeners(queue):
        _send(signals.job_started, queue, job=job, worker_id=worker_id)


def finished(
    queue: Queue, outcomes: Sequence[Outcome], done: Sequence[bool], *, worker_id: str
) -> None:
    """Send ``job_finished`` or ``job_retried`` for each outcome the store accepted."""
    ends = signals.job_finished.has_listeners(queue)
    retries = signals.job_retried.has_listeners(queue)
    if not (ends or retries):
        return
    for outcome, accepted in zip(outcomes, done, strict=True):
        if not accepted:
            continue
        if outcome.kind in _STATUS:
            if ends:
                _send(
                    signals.job_finished,
                    queue,
                    job_id=outcome.job_id,
                    status=_STATUS[outcome.kind],
                    reason=outcome.reason,
                    error_class=outcome.error_class,
                    worker_id=worker_id,
                )
        elif retries:
            _send(
                signals.job_retried,
                queue,
                job_id=outcome.job_id,
                kind=outcome.kind.value,
                delay=outcome.delay,
                reason=outcome.reason,
                worker_id=worker_id,
            )


def reclaimed(queue: Queue, jobs: Sequence[Reclaimed]) -> None:
    """Send ``job_reclaimed`` for each lease that ran out."""
    if not signals.job_reclaimed.has_listeners(queue):
        return
    for job in jobs:
        _send(
            signals.job_reclaimed,
            queue,
            job_id=job.job_id,
            partition_key=job.partition_key,
            task_name=job.task_name,
            timeouts=job.timeouts,
            dead=job.dead,
        )


def _send(signal: Signal, queue: Queue, **details: Any) -> None:
    for receiver, response in signal.send_robust(queue, queue=queue, **details):
        if isinstance(response, Exception):
            logger.error(
                "Receiver %r of a signal of queue %s raised; the job is not affected.",
                receiver,
                queue.name,
                exc_info=response,
            )
