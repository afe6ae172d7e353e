"""The page of one partition: how it stands, and its settings."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse

from vtrr_django.admin.buttons import partition_buttons
from vtrr_django.admin.markup import LONGEST_NAME, NOTHING, duration, key_name, number, spoken
from vtrr_django.admin.permissions import STEER
from vtrr_django.admin.queue_pages import Fact
from vtrr_django.admin.tenants import Row, rows_of
from vtrr_django.admin.visit import Visit
from vtrr_django.domain.job import PartitionStats
from vtrr_django.domain.values import check_partition_key
from vtrr_django.exceptions import ConfigurationError, ValidationError
from vtrr_django.figures.reading import Tenant
from vtrr_django.intake import declared_shares
from vtrr_django.models import CompletedJob, FailedJob
from vtrr_django.overview import TROUBLE
from vtrr_django.queue import Queue


def partition(model_admin: Any, request: HttpRequest, name: str) -> HttpResponse:
    """Show one partition, which ``key`` in the query names, and what steers it."""
    visit = Visit(model_admin, request, name)
    key = request.GET.get("key", "")
    try:
        check_partition_key(key, "key", required=False)
    except ValidationError as error:
        raise Http404(str(error)) from error
    row, trouble, history_trouble, notes = _look(visit, key)
    stats = row.stats
    return visit.render(
        "partition.html",
        f"Partition {spoken(key)}",
        {
            "key": key,
            "key_name": key_name(key),
            "key_is_long": len(key) > LONGEST_NAME,
            "trouble": trouble,
            "history_trouble": history_trouble,
            "notes": notes,
            "state": "" if trouble else row.state,
            "facts": [*_live(visit, row, trouble), *_past(visit, row, history_trouble)],
            "buttons": [] if trouble else partition_buttons(visit, name, stats),
            "may_steer": visit.may(STEER) and not trouble,
            "share": repr(stats.share).removesuffix(".0"),
            "limit": "" if stats.limit is None else str(stats.limit),
            "share_url": visit.links.to("do", name, "share"),
            "limit_url": visit.links.to("do", name, "limit"),
        },
    )


def _look(visit: Visit, key: str) -> tuple[Row, str, str, list[str]]:
    """Return the partition, what kept the store and the history from telling of it, and more."""
    queue, trouble, history_trouble = visit.queue, "", ""
    now, found, past = None, [], {}
    notes: list[str] = []
    try:
        now, found = queue.depth().now, queue.partitions(key)
        if not found:
            found, notes = _as_declared(queue, key)
    except (*TROUBLE, ValidationError) as error:
        trouble = str(error)
    try:
        past = queue.figures.tenants([key])
    except TROUBLE as error:
        history_trouble = str(error)
    found = found or [PartitionStats(partition_key=key)]
    [row] = rows_of(queue, found, past, now)
    return row, trouble, history_trouble, notes


def _as_declared(queue: Queue, key: str) -> tuple[list[PartitionStats], list[str]]:
    """Return a partition that has neither jobs nor settings of its own, and what to say of it."""
    share, notes = 1.0, []
    try:
        share = declared_shares(queue.config.shares, [key]).get(key, 1.0)
    except (ConfigurationError, ValidationError):  # what it says may quote anything
        notes.append(
            "SHARES did not tell its share, so 1 is shown. It can be steered all the same."
        )
    limit = queue.config.default_limit
    return [PartitionStats(partition_key=key, share=share, limit=limit)], notes


def _live(visit: Visit, row: Row, trouble: str) -> list[Fact]:
    stats, links, name = row.stats, visit.links, visit.queue.name
    if trouble:
        return []
    limit = "no limit" if stats.limit is None else f"limit {stats.limit:,}"
    counts = [("ready", stats.ready), ("scheduled", stats.scheduled), ("leased", stats.leased)]
    return [
        *(
            Fact(label=state, value=number(n), url=links.jobs(name, state, row.key) if n else None)
            for state, n in counts
        ),
        Fact(label="share", value=number(stats.share)),
        Fact(label="at once", value=limit),
        Fact(label="oldest wait", value=duration(row.oldest_wait)),
        Fact(label="virtual-time lag", value=number(round(stats.lag, 2))),
    ]


def _past(visit: Visit, row: Row, trouble: str) -> list[Fact]:
    past: Tenant = row.past
    links, query = visit.links, {"queue": visit.queue.name, "partition": row.key}
    hour = "in the last hour"
    return [
        Fact(label="p50 wait", value=duration(row.wait(0.5)), about=hour),
        Fact(label="p95 wait", value=duration(row.p95), about=hour),
        Fact(
            label="worker time",
            value=duration(past.worker_seconds) if past.leases else NOTHING,
            about=hour,
        ),
        Fact(
            label="failed",
            value=number(None if trouble else past.failed),
            url=links.ended(FailedJob, **query),
            about=hour,
        ),
        Fact(
            label="completed",
            value=number(None if trouble else past.completed),
            url=links.ended(CompletedJob, **query),
            about=hour,
        ),
    ]
