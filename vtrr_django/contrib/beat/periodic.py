"""The Celery tasks for beat, on every app; and reclaiming where beat reads no rows."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any, Final

from celery import _state as celery_state
from celery.signals import beat_init
from django.apps import apps
from django.utils.module_loading import import_string

from vtrr_django.contrib.beat.enqueue import enqueue
from vtrr_django.contrib.celery import reclaim
from vtrr_django.domain.chores import UPKEEP
from vtrr_django.exceptions import ConfigurationError, StoreUnavailable, VTRRError
from vtrr_django.queue import Queue
from vtrr_django.registry import all_queues

logger = logging.getLogger("vtrr_django.beat")

ENQUEUE: Final = "vtrr_queue.enqueue"
"""The Celery task that enqueues what its arguments describe."""


def connect() -> None:
    """Declare the tasks on every app there is or will be; again does nothing."""
    celery_state.connect_on_app_finalize(declare_on)
    for app in celery_state._get_active_apps():
        if app.finalized:
            declare_on(app)
    beat_init.connect(schedule_reclaims, dispatch_uid="vtrr_django.contrib.beat")


def declare_on(app: Any) -> None:
    """Declare the tasks on a finalized app, unless it has them."""
    if ENQUEUE not in app.tasks:
        app.task(
            run_enqueue,
            name=ENQUEUE,
            bind=True,
            shared=False,
            acks_late=True,  # a worker that dies half way leaves the other half to the next
            autoretry_for=(StoreUnavailable,),
            retry_backoff=5,
            max_retries=5,
        )
        app.task(
            upkeep, name=UPKEEP, shared=False, ignore_result=True, acks_late=False, max_retries=0
        )
    with suppress(ConfigurationError):  # the checks say so, and every use of a queue
        for queue in all_queues():
            if queue.config.celery_queue is not None:
                # Their rows call it, also where no task of the queue was ever imported.
                reclaim.declare(app, queue, periodic=False)


def run_enqueue(self: Any, *args: Any, **kwargs: Any) -> int:
    """Enqueue a job into a fair queue, or one for each tenant.

    Keyword arguments: queue, task, args, kwargs, weight, priority, delay, and partition_key
    or partitions, the dotted path of a callable that returns the keys of all tenants.
    """
    if args:
        raise TypeError(f"expected no positional arguments for {ENQUEUE}, got {len(args)}")
    ids = enqueue(kwargs, self.request.id)
    logger.info(
        "%d jobs of %s were enqueued to queue %s",
        len(ids),
        kwargs["task"],
        kwargs["queue"],
        extra={"queue": kwargs["queue"]},
    )
    return len(ids)


def upkeep() -> None:
    """Do for each queue that Celery does not run what its workers do all the time.

    Raises:
        VTRRError: it failed for a queue; the others were seen to.
    """
    failed: list[str] = []
    for queue in all_queues():
        if queue.config.celery_queue is None and not _seen_to(queue):
            failed.append(queue.name)
    if failed:
        raise VTRRError(f"upkeep failed for queues {', '.join(failed)}; the log says how")


def _seen_to(queue: Queue) -> bool:
    try:
        reclaim.run(queue)
    except Exception as error:
        logger.warning(
            "the upkeep of queue %s failed (%s: %s)",
            queue.name,
            type(error).__name__,
            error,
            exc_info=None if isinstance(error, StoreUnavailable) else error,
            extra={"queue": queue.name},
        )
        return False
    return True


def schedule_reclaims(sender: Any, **kwargs: Any) -> None:
    """Have a beat that reads no rows reclaim all the same, as settings say.

    With django-celery-beat installed, ``beat_schedule`` has no entries of ours: its scheduler
    would write them over an operator's edits at each start. Which scheduler beat uses is
    known in beat alone, for its command line may say it.
    """
    if not apps.is_installed("django_celery_beat"):
        return
    scheduler = sender.scheduler
    reads_rows = import_string("vtrr_django.contrib.beat.facts.reads_rows")
    if reads_rows(type(scheduler)):
        return
    logger.warning(
        "beat's scheduler, %s, does not read the rows of django-celery-beat: queues are reclaimed "
        "as settings say; start beat with --scheduler "
        "django_celery_beat.schedulers:DatabaseScheduler to have the rows count",
        type(scheduler).__name__,
    )
    for queue in all_queues():
        if queue.config.celery_queue is not None:
            scheduler.update_from_dict(reclaim.schedule_of(queue))
