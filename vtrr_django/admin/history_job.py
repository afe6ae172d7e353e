"""The page of one completed or failed job: all that is kept of it, and where it came from."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import NoReverseMatch, reverse
from django.utils.text import capfirst

from vtrr_django.admin import markup
from vtrr_django.admin.attempts import earlier_attempts
from vtrr_django.admin.family import Family
from vtrr_django.admin.history_names import rows_in
from vtrr_django.admin.history_search import database_of
from vtrr_django.admin.links import quoted, with_query
from vtrr_django.admin.permissions import SEE_PAYLOADS, may, may_view
from vtrr_django.conf import get_settings
from vtrr_django.engines.sql.store import Store
from vtrr_django.exceptions import VTRRError
from vtrr_django.models import CompletedJob, FailedJob, QueueState
from vtrr_django.redact import arguments_for_people
from vtrr_django.registry import get_queue

Ended = CompletedJob | FailedJob

LONGEST_TEXT: Final = 200_000
"""Characters of arguments, of a reason or a traceback that a page shows."""


def address_of(site: AdminSite, model: type[Ended], queue: str, job_id: str) -> str:
    """Return where the page of an ended job is: by its queue and id, which outlive its row."""
    return page_at(site, f"{model._meta.model_name}_change", quote(key_of(queue, job_id)))


def page_at(site: AdminSite, page: str, *args: str) -> str:
    """Return the address of a page; "": this admin site does not have it."""
    try:
        return reverse(f"admin:vtrr_django_{page}", args=args, current_app=site.name)
    except NoReverseMatch:
        return ""


def key_of(queue: str, job_id: str) -> str:
    """Return what an ended job is called in addresses and in the admin's log."""
    return f"{queue}:{job_id}"


def queue_in(key: str) -> str | None:
    """Return the queue that the name of an ended job names, if it names one."""
    queue, colon, _ = key.partition(":")
    return queue if colon else None


def find(model: type[Ended], key: str) -> Ended | None:
    """Return the job of that name, or that row number in the database of all."""
    queue, colon, job_id = key.partition(":")
    if "\0" in key:
        return None
    if colon:
        rows = rows_in(model, database_of(queue)).filter(queue=queue, id=job_id)
    elif key.isascii() and key.isdecimal() and len(key) <= 18:
        rows = rows_in(model, database_of(None)).filter(seq=int(key))
    else:
        return None
    found: Ended | None = rows.first()
    return found


def page(request: HttpRequest, site: AdminSite, row: Ended) -> dict[str, Any]:
    """Return what the template shows."""
    may_see = may(request, SEE_PAYLOADS)
    texts = [("Arguments", arguments_for_people(row.task_name, row.payload) if may_see else "")]
    if isinstance(row, FailedJob) and may_see:
        texts = [("Reason", row.reason), ("Traceback", row.traceback), *texts]
    store = Store(str(row._state.db))
    family = Family(row.queue, store.alias, partial(_address, request, site))
    return {
        "title": f"{capfirst(row._meta.verbose_name)} {markup.cut(row.id)}",
        "original": row,
        "row": row,
        "may_see": may_see,
        "facts": _facts(request, site, row),
        "texts": [(title, _shortened(text)) for title, text in texts if text],
        "attempts": earlier_attempts(row.queue, store, row.id, may_see=may_see),
        "parents": family.parents(row.parent_id),
        "parent_id": row.parent_id,
        "children": family.children(row.id),
        "undeclared": row.queue not in get_settings().queues,
    }


def _facts(request: HttpRequest, site: AdminSite, row: Ended) -> list[tuple[str, Any, str]]:
    """Return labels, values and where these lead."""
    changelist = page_at(site, f"{row._meta.model_name}_changelist")
    dead = isinstance(row, FailedJob)
    ended = row.failed_at if isinstance(row, FailedJob) else row.completed_at
    seen = row.queue in get_settings().queues and may_view(request, site, QueueState)
    same = {"queue": row.queue, "partition": row.partition_key}
    facts = [
        (
            "Queue",
            markup.name(row.queue),
            page_at(site, "queuestate_detail", row.queue) if seen else "",
        ),
        ("Task", markup.name(row.task_name), ""),
        ("Partition", markup.key_name(row.partition_key), with_query(changelist, same)),
        ("msg_id", markup.name(row.msg_id), ""),
        ("Weight", markup.number(row.weight), ""),
        ("Priority", markup.number(row.priority), ""),
        ("Retries used", markup.number(row.delivery_count), ""),
        ("Timeouts", markup.number(row.timeouts), ""),
        ("Worker", markup.name(row.worker_id), ""),
        ("Enqueued", markup.when(row.created_at), ""),
        ("Joined its line", markup.when(row.ready_at), ""),
        ("Leased", markup.when(row.claimed_at), ""),
        ("Failed" if dead else "Completed", markup.when(ended), ""),
        ("Ran for", markup.duration(row.runtime), ""),
    ]
    if isinstance(row, FailedJob):
        facts.append(("Error class", markup.name(row.error_class), ""))
    return facts


def _address(
    request: HttpRequest, site: AdminSite, model: type[Ended] | None, queue: str, job_id: str
) -> str:
    """Return where a relative's page is; "" for those who may not see it."""
    if model is None:
        return live_address(request, site, queue, job_id)
    visible = may_view(request, site, model)
    return address_of(site, model, queue, job_id) if visible else ""


def live_address(request: HttpRequest, site: AdminSite, queue: str, job_id: str) -> str:
    """Return where a live job's page is; "" for those who may not see it."""
    if not may_view(request, site, QueueState):
        return ""
    return page_at(site, "queuestate_job", queue, quoted(job_id))


def elsewhere(
    request: HttpRequest, site: AdminSite, model: type[Ended], key: str
) -> HttpResponseRedirect:
    """Lead from the page of a job that is not in this table (any more) to where it is now."""
    queue, _, job_id = key.partition(":")
    other: type[Ended] = CompletedJob if model is FailedJob else FailedJob
    there = ""
    if may_view(request, site, other) and find(other, key):
        there = address_of(site, other, queue, job_id)
        text = "it is a dead letter" if other is FailedJob else "it was completed"
    elif queue in get_settings().queues and _is_live(queue, job_id):
        there = live_address(request, site, queue, job_id)
        text = "it is to run, or runs"
    else:
        text = "it was discarded, its history was trimmed, or there never was one"
    kind = model._meta.verbose_name
    messages.info(request, f"There is no {kind} {markup.spoken(job_id or key)} (any more): {text}.")
    return HttpResponseRedirect(there or page_at(site, f"{model._meta.model_name}_changelist"))


def _is_live(queue: str, job_id: str) -> bool:
    try:
        return get_queue(queue).job(job_id) is not None
    except VTRRError:
        return False


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n… and {len(text) - LONGEST_TEXT:,} characters more"
