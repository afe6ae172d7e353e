"""How queues stand, and what happened to them. No arguments of jobs are told here."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from vtrr_django.api.endpoint import Call, endpoint
from vtrr_django.domain.values import check_partition_key
from vtrr_django.figures.reading import Minute
from vtrr_django.overview import Overview, overviews
from vtrr_django.registry import all_queues

MOST_PARTITIONS: Final = 1000
PARTITIONS: Final = 100
"""How many partitions are told, at most and by default."""

MINUTE_FIELDS: Final = (
    *("at", "leases", "completed", "failed", "ready", "leased", "scheduled", "oldest_wait"),
    "waiting",
)


HIDDEN: Final = "(hidden: seeing it needs the permission see_payloads)"


@endpoint(read=True)
def queues(call: Call) -> Any:
    """Return every queue; one that does not answer says so."""
    return {"queues": [_told(one) for one in overviews(all_queues())]}


def _told(one: Overview) -> dict[str, Any]:
    config, stats, kept = one.queue.config, one.stats, one.kept
    return {
        "queue": one.queue.name,
        "engine": config.engine,
        "celery_queue": config.celery_queue,
        "paused": None if stats is None else stats.paused,
        "ready": None if stats is None else stats.ready,
        "claimed": None if stats is None else stats.leased,
        "scheduled": None if stats is None else stats.scheduled,
        "partitions_waiting": None if stats is None else stats.partitions_waiting,
        "oldest_wait_seconds": None if stats is None else stats.oldest_wait_seconds,
        "failed": None if kept is None else kept.failed,
        "completed": None if kept is None else kept.completed,
        "workers": None if kept is None else kept.alive,
        "trouble": one.trouble or one.history_trouble or None,
    }


@endpoint(read=True)
def stats(call: Call) -> Any:
    """Return the counts of a queue, and its most recent runs and failures."""
    told = call.queue.stats()
    if not call.may_see_payloads:
        told["recent_failures"] = [{**one, "reason": HIDDEN} for one in told["recent_failures"]]
    return told


@endpoint(read=True, query=("partition_key", "limit"))
def partitions(call: Call) -> Any:
    """Return partitions with live jobs or settings, most ready jobs first."""
    limit = call.whole("limit", 1, MOST_PARTITIONS, default=PARTITIONS)
    key = None
    if call.has("partition_key"):
        key = check_partition_key(call.values["partition_key"], "partition_key", required=False)
    found = call.queue.partitions(key, limit=limit)
    return {"partitions": [asdict(one) for one in found]}


@endpoint(read=True)
def minutes(call: Call) -> Any:
    """Return every minute of the last hour, oldest first."""
    return {"minutes": [_minute(one) for one in call.queue.figures.minutes()]}


def _minute(one: Minute) -> dict[str, Any]:
    return {name: getattr(one, name) for name in MINUTE_FIELDS}
