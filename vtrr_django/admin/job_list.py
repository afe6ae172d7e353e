"""The jobs of a queue that wait or run, page by page."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse

from vtrr_django.admin.links import partition_query, with_query
from vtrr_django.admin.markup import key_name, name, number, relative, since
from vtrr_django.admin.permissions import PURGE
from vtrr_django.admin.visit import Visit
from vtrr_django.domain.job import JobInfo, JobPage
from vtrr_django.domain.states import State
from vtrr_django.exceptions import ValidationError
from vtrr_django.overview import TROUBLE

PER_PAGE: Final = 50

STATES: Final = ("ready", "scheduled", "leased")

_HEADS: Final = {
    "ready": ("Ready for", "Attempts", "Timeouts"),
    "scheduled": ("Due", "Attempts", "Timeouts"),
    "leased": ("Leased for", "Lease ends", "Worker", "Attempts", "Timeouts"),
}


def jobs(model_admin: Any, request: HttpRequest, name: str, state: str) -> HttpResponse:
    """Show a page of the jobs in one state."""
    if state not in STATES:
        raise Http404(f"expected one of {', '.join(STATES)}, got {state!r}")
    visit = Visit(model_admin, request, name)
    key = "" if "none" in request.GET else request.GET.get("partition") or None
    page, now, trouble = _look_at_page(visit, state, key)
    links = visit.links
    onward = ""
    if page.next is not None:
        onward = with_query(
            links.to("jobs", name, state), {**partition_query(key), "after": page.next}
        )
    return visit.render(
        "jobs.html",
        f"{state.capitalize()} jobs",
        {
            "state": state,
            "states": [(one, links.jobs(name, one, key)) for one in STATES],
            "key": key,
            "key_name": None if key is None else key_name(key),
            "key_url": None if key is None else links.partition(name, key),
            "all_url": links.jobs(name, state),
            "first_url": links.jobs(name, state, key) if "after" in request.GET else "",
            "next_url": onward,
            "trouble": trouble,
            "heads": _HEADS[state],
            "jobs": [_line(visit, job, now) for job in page.jobs],
            "may_cancel": state != "leased" and visit.may(PURGE) and bool(page.jobs),
            "cancel_url": links.to("do", name, "cancel"),
        },
    )


def _look_at_page(
    visit: Visit, state: str, key: str | None
) -> tuple[JobPage, datetime | None, str]:
    queue = visit.queue
    after = visit.request.GET.get("after") or None
    try:
        page = queue.jobs(state, partition_key=key, after=after, limit=PER_PAGE)
        return page, queue.depth().now, ""
    except (*TROUBLE, ValidationError) as error:
        return JobPage(jobs=[]), None, str(error)


def _line(visit: Visit, job: JobInfo, now: datetime | None) -> dict[str, Any]:
    cells = [number(job.delivery_count), number(job.timeouts)]
    if job.state is State.LEASED:
        cells = [
            since(job.leased_at, now),
            relative(job.lease_expires_at, now),
            name(job.worker_id),
            *cells,
        ]
    elif job.state is State.SCHEDULED:
        cells = [relative(job.ready_at, now), *cells]
    else:
        cells = [since(job.ready_at, now), *cells]
    return {
        "id": job.id,
        "name": name(job.id),
        "url": visit.links.job(visit.queue.name, job.id),
        "task": name(job.task_name),
        "partition": key_name(job.partition_key),
        "partition_url": visit.links.partition(visit.queue.name, job.partition_key),
        "priority": number(job.priority),
        "weight": number(job.weight),
        "cells": cells,
    }
