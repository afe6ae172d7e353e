"""Jobs come in."""

from __future__ import annotations

from typing import Any, Final

from django.utils.module_loading import autodiscover_modules

from vtrr_django.api.endpoint import ENQUEUE, Call, Fields, answer, endpoint
from vtrr_django.domain.job import MAX_PRIORITY, MAX_WEIGHT, MIN_PRIORITY, MIN_WEIGHT
from vtrr_django.domain.values import describe
from vtrr_django.exceptions import ValidationError
from vtrr_django.queue import BATCH, Queue
from vtrr_django.tasks import ITEM_KEYS

MOST_JOBS: Final = BATCH
"""Jobs of one request: so many are stored at once, all or none."""

JOB_KEYS: Final = ("task", "partition_key", *ITEM_KEYS)
"""What a job may say."""


@endpoint(read=False, permission=ENQUEUE)
def publish(call: Call) -> Any:
    """Store one job, or the jobs of a list.

    Their arguments are not compared with what a function of this process expects: who runs them
    may know another version of it, or speak another language.
    """
    queue = call.queue
    if call.has("jobs"):
        call.only("jobs")
        path, jobs = "jobs", call.objects("jobs", 1, MOST_JOBS)
    else:
        path, jobs = "", [call]
    items = [_item(job) for job in jobs]
    if queue.config.celery_queue is not None:
        _check_task(queue, jobs)
    return answer({"ids": queue.put_all(items, path=path)}, 201)


def _item(job: Fields) -> dict[str, Any]:
    """Return a job as :meth:`Queue.put_all` takes it."""
    job.only(*JOB_KEYS)
    item = {name: value for name, value in job.values.items() if value is not None}
    if "weight" in item:
        item["weight"] = job.whole("weight", MIN_WEIGHT, MAX_WEIGHT)
    if "priority" in item:
        item["priority"] = job.whole("priority", MIN_PRIORITY, MAX_PRIORITY)
    if "scheduled_at" in item:
        item["scheduled_at"] = job.moment("scheduled_at")
    return item


def _check_task(queue: Queue, jobs: list[Fields]) -> None:
    """Refuse jobs that Celery would never run.

    Its triggers name the one task of the queue, which this process must know to send them.
    """
    if not queue.runnables:
        autodiscover_modules("tasks")
    known = next(iter(queue.runnables), None)
    for job in jobs:
        named = job.values.get("task")
        if known is None:
            raise ValidationError(
                job.path("task"),
                f"expected a queue whose task this server knows, got {queue.name!r}, which Celery "
                "runs, and of which no task is declared here; on the server, declare it in a "
                "tasks module of an installed app",
            )
        if named != known:
            raise ValidationError(
                job.path("task"),
                f"expected {known!r}, the one task of queue {queue.name!r}, which is run by "
                f"Celery, got {describe(named)}",
            )
