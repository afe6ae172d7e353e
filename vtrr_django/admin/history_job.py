"""The page of one completed or failed job: all that is kept of it, and where it came from."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import messages
from django.contrib.admin.utils import quote
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import NoReverseMatch, reverse
from django.utils.text import capfirst

from vtrr_django.admin import markup
from vtrr_django.admin.history_names import queue_names, rows_in
from vtrr_django.admin.history_search import database_of
from vtrr_django.admin.links import quoted, with_query
from vtrr_django.admin.permissions import SEE_PAYLOADS, VIEW_QUEUES, may
from vtrr_django.conf import get_settings
from vtrr_django.exceptions import VTRRError
from vtrr_django.models import CompletedJob, FailedJob
from vtrr_django.redact import arguments_for_people
from vtrr_django.registry import get_queue

Ended = CompletedJob | FailedJob

CHILDREN: Final = 20
"""Children of each kind that are listed."""

LONGEST_TEXT: Final = 200_000
"""Characters of arguments, of a reason or a traceback that a page shows."""


def address_of(site: str, model: type[Ended], queue: str, job_id: str) -> str:
    """Return where the page of an ended job is: by its queue and id, which outlive its row."""
    return page_at(site, f"{model._meta.model_name}_change", quote(key_of(queue, job_id)))


def page_at(site: str, page: str, *args: str) -> str:
    """Return the address of a page; "": this admin site does not have it."""
    try:
        return reverse(f"admin:vtrr_django_{page}", args=args, current_app=site)
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


def page(request: HttpRequest, site: str, row: Ended) -> dict[str, Any]:
    """Return what the template shows."""
    may_see = may(request, SEE_PAYLOADS)
    texts = [("Arguments", arguments_for_people(row.task_name, row.payload) if may_see else "")]
    if isinstance(row, FailedJob) and may_see:
        texts = [("Reason", row.reason), ("Traceback", row.traceback), *texts]
    family = _Family(request, site, row)
    return {
        "title": f"{capfirst(row._meta.verbose_name)} {markup.cut(row.id)}",
        "original": row,
        "row": row,
        "may_see": may_see,
        "facts": _facts(request, site, row),
        "texts": [(title, _shortened(text)) for title, text in texts if text],
        "parents": family.parents(),
        "parent_id": row.parent_id,
        "children": family.children(),
        "undeclared": row.queue not in get_settings().queues,
    }


def _facts(request: HttpRequest, site: str, row: Ended) -> list[tuple[str, Any, str]]:
    """Return labels, values and where these lead."""
    changelist = page_at(site, f"{row._meta.model_name}_changelist")
    dead = isinstance(row, FailedJob)
    ended = row.failed_at if isinstance(row, FailedJob) else row.completed_at
    seen = row.queue in get_settings().queues and may(request, VIEW_QUEUES)
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


class _Family:
    """The job that made a job, and those it made, as far as they have ended."""

    def __init__(self, request: HttpRequest, site: str, row: Ended) -> None:
        self._request = request
        self._site = site
        self._row = row
        self._alias = str(row._state.db)
        models = (FailedJob, CompletedJob)
        self._queues = {model: queue_names(model, self._alias) for model in models}

    def parents(self) -> list[dict[str, Any]]:
        """Return the job that made this one, where it is known."""
        parent_id = self._row.parent_id
        if not parent_id:
            return []
        found = self._ended(1, id=parent_id)
        return found or self._live(parent_id)

    def children(self) -> list[dict[str, Any]]:
        """Return the newest of the ended jobs that this one made."""
        return self._ended(CHILDREN, parent_id=self._row.id)

    def _ended(self, most: int, **condition: str) -> list[dict[str, Any]]:
        found = []
        for model, queues in self._queues.items():
            rows = rows_in(model, self._alias).filter(queue__in=queues, **condition)
            newest = rows.order_by("-seq").values_list("queue", "id", "task_name")[:most]
            visible = may(self._request, f"vtrr_django.view_{model._meta.model_name}")
            for queue, job_id, task_name in newest:
                there = address_of(self._site, model, queue, job_id) if visible else ""
                state = "failed" if model is FailedJob else "completed"
                found.append(_relative(queue, job_id, task_name, state, there))
        return found

    def _live(self, job_id: str) -> list[dict[str, Any]]:
        """Return a live job of the same queue."""
        try:
            live = get_queue(self._row.queue).job(job_id)
        except VTRRError:  # the queue is not declared, its store does not answer, it is no id
            return []
        if live is None:
            return []
        there = live_address(self._request, self._site, live.queue, live.id)
        return [_relative(live.queue, live.id, live.task_name, live.state.name.lower(), there)]


def _relative(queue: str, job_id: str, task: str, state: str, there: str) -> dict[str, Any]:
    return {
        "id": markup.name(job_id),
        "queue": markup.name(queue),
        "task": markup.name(task),
        "state": state,
        "url": there,
    }


def live_address(request: HttpRequest, site: str, queue: str, job_id: str) -> str:
    """Return where a live job's page is; "" for those who may not see it."""
    if not may(request, VIEW_QUEUES):
        return ""
    return page_at(site, "queuestate_job", queue, quoted(job_id))


def elsewhere(
    request: HttpRequest, site: str, model: type[Ended], key: str
) -> HttpResponseRedirect:
    """Lead from the page of a job that is not in this table (any more) to where it is now."""
    queue, _, job_id = key.partition(":")
    other: type[Ended] = CompletedJob if model is FailedJob else FailedJob
    there = ""
    if may(request, f"vtrr_django.view_{other._meta.model_name}") and find(other, key):
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
