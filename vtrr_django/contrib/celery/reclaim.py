"""The periodic reclaim: a Celery task, and its entry in beat's schedule."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from vtrr_django.contrib.celery.broker import RECLAIM_PRIORITY
from vtrr_django.domain.chores import reclaim_task
from vtrr_django.worker.logs import Outage
from vtrr_django.worker.upkeep import PRUNE_INTERVAL

if TYPE_CHECKING:
    from vtrr_django.queue import Queue

logger = logging.getLogger("vtrr_django.celery")

_pruned: dict[str, float] = {}
_outages: dict[str, Outage] = {}
_lock = threading.Lock()


def task_name(queue: Queue) -> str:
    """Return the name of the queue's reclaim task, which names its beat entry too."""
    return reclaim_task(queue.name)


def schedule_of(queue: Queue) -> dict[str, dict[str, Any]]:
    """Return the beat entry of a queue, for apps that assign ``beat_schedule`` whole.

    A message that waited as long as the interval is dropped: the next one does its work.
    """
    config = queue.config
    interval = config.reclaim_interval
    return {
        task_name(queue): {
            "task": task_name(queue),
            "schedule": interval,
            "options": {
                "queue": config.reclaim_queue or config.celery_queue,
                "expires": max(1.0, interval),
                "expiration": max(1.0, interval),
                "priority": RECLAIM_PRIORITY,
                "ignore_result": True,
            },
        }
    }


def declare(app: Any, queue: Queue, *, periodic: bool) -> None:
    """Declare the reclaim task on an app and, if ``periodic``, put it on its schedule."""
    name = task_name(queue)
    if name not in app.tasks:

        def reclaim() -> int:
            return run(queue)

        reclaim.__doc__ = f"Bring back what workers of queue {queue.name} left, and send triggers."
        app.task(
            reclaim, name=name, shared=False, ignore_result=True, acks_late=False, max_retries=0
        )
    if periodic:
        for key, entry in schedule_of(queue).items():
            app.add_periodic_task(
                entry["schedule"], app.signature(entry["task"]), name=key, **entry["options"]
            )


def run(queue: Queue) -> int:
    """Reclaim, send triggers, write history and figures and, once a minute, trim.

    Returns how many leases had run out.
    """
    reclaimed = queue.reclaim_and_dispatch()
    queue.archive()
    _measure(queue)
    if reclaimed:
        logger.info(
            "%d leases of queue %s had run out and were reclaimed",
            reclaimed,
            queue.name,
            extra={"queue": queue.name},
        )
    now = time.monotonic()
    with _lock:
        due = now >= _pruned.get(queue.name, 0.0)
        if due:
            _pruned[queue.name] = now + PRUNE_INTERVAL
    if due:
        queue.prune()
    return reclaimed


def _measure(queue: Queue) -> None:
    """Write figures down. Without them jobs run as well: what is wrong is said once."""
    outage = _outages.get(queue.name)
    if outage is None:
        what = f"writing down figures of queue {queue.name}"
        outage = _outages[queue.name] = Outage(what, {"queue": queue.name}, logging.WARNING)
    try:
        queue.measure(beat=True)
    except Exception as error:  # noqa: BLE001 - see above
        outage.failed(error)
    else:
        outage.recovered()
