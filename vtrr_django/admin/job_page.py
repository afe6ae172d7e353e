"""Everything that is known about one job: live, completed or dead."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse

from vtrr_django.admin.attempts import earlier_attempts
from vtrr_django.admin.family import Family
from vtrr_django.admin.history_job import key_of
from vtrr_django.admin.links import Button, unquoted
from vtrr_django.admin.markup import aware, cut, duration, key_name, name, number, when
from vtrr_django.admin.permissions import PURGE, REQUEUE, SEE_PAYLOADS
from vtrr_django.admin.visit import Visit
from vtrr_django.conf import get_settings
from vtrr_django.domain.job import JobInfo
from vtrr_django.domain.states import State
from vtrr_django.engines.sql.fields import from_microseconds
from vtrr_django.engines.sql.store import Store
from vtrr_django.exceptions import ValidationError
from vtrr_django.models import CompletedJob, FailedJob
from vtrr_django.overview import TROUBLE
from vtrr_django.redact import arguments_for_people

LONGEST_TEXT: Final = 100_000
"""Characters of arguments or of a reason that a page shows."""

Ended = CompletedJob | FailedJob


def job(model_admin: Any, request: HttpRequest, name: str, quoted_id: str) -> HttpResponse:
    """Show one job, what went wrong with it, its parent and its children."""
    visit = Visit(model_admin, request, name)
    job_id = unquoted(quoted_id)
    store = Store(visit.queue.config.database)
    family = Family(name, store.alias, partial(_relative_address, visit))
    trouble, live, ended = "", None, None
    try:
        live = visit.queue.job(job_id)
    except TROUBLE as error:
        trouble = str(error)
    except ValidationError as error:
        raise Http404(str(error)) from error
    now, attempts, parents, children = None, [], [], []
    try:
        now = from_microseconds(store.now())
        ended = None if live is not None else _ended(store, name, job_id)
        may_see = visit.may(SEE_PAYLOADS)
        attempts = earlier_attempts(name, store, job_id, may_see=may_see, now=now)
        children = family.children(job_id)
        parents = family.parents(_parent_of(live or ended))
    except TROUBLE as error:
        trouble = trouble or str(error)
    context: dict[str, Any] = {"trouble": trouble, "job_id": job_id}
    context |= {"attempts": attempts, "parents": parents, "children": children}
    if live is not None:
        context |= _common(visit, live) | _live(visit, live, now)
    elif ended is not None:
        context |= _common(visit, ended) | _past(visit, ended, now)
    found = live is not None or ended is not None or bool(trouble)
    return visit.render("job.html", f"Job {cut(job_id)}", context, status=200 if found else 404)


def _ended(store: Store, queue: str, job_id: str) -> Ended | None:
    """Return the job from the history."""
    for model in (FailedJob, CompletedJob):
        rows = model._default_manager.using(store.alias).filter(queue=queue, id=job_id)
        found: Ended | None = store.persist(rows.first)
        if found is not None:
            return found
    return None


def _relative_address(visit: Visit, model: type[Ended] | None, queue: str, job_id: str) -> str:
    """Return where a relative's page is: one like this, if settings declare its queue."""
    if queue in get_settings().queues:
        return visit.links.job(queue, job_id)
    if model is None:
        return ""
    return visit.links.ended_job(model, key_of(queue, job_id)) or ""


def _parent_of(one: JobInfo | Ended | None) -> str | None:
    return None if one is None else one.parent_id


def _state(model: Any) -> str:
    return "failed" if model is FailedJob else "completed"


def _common(visit: Visit, one: JobInfo | Ended) -> dict[str, Any]:
    """Return what is shown of any job."""
    queue, may_see = visit.queue.name, visit.may(SEE_PAYLOADS)
    arguments = arguments_for_people(one.task_name, one.payload) if may_see else ""
    return {
        "known": True,
        "may_see": may_see,
        "arguments": shortened(arguments),
        "partition": key_name(one.partition_key),
        "partition_url": visit.links.partition(queue, one.partition_key),
        "parent": name(one.parent_id) if one.parent_id else "",
        "task": name(one.task_name),
        "numbers": [
            ("Priority", number(one.priority)),
            ("Weight", number(one.weight)),
            ("Retries used", number(one.delivery_count)),
            ("Timeouts", number(one.timeouts)),
            ("msg_id", name(one.msg_id)),
        ],
    }


def _live(visit: Visit, live: JobInfo, now: datetime | None) -> dict[str, Any]:
    """Return what is shown of a live job besides."""
    joined = "Due" if live.state is State.SCHEDULED else "Joined its line"
    facts = [("Enqueued", when(live.enqueued_at, now)), (joined, when(live.ready_at, now))]
    buttons, state = [], live.state.name.lower()
    if live.state is State.LEASED:
        facts += [
            ("Worker", name(live.worker_id)),
            ("Leased", when(live.leased_at, now)),
            ("Lease ends", when(live.lease_expires_at, now)),
        ]
    elif visit.may(PURGE):
        # A job that was cancelled has no page to come back to.
        onward = visit.links.jobs(visit.queue.name, state, live.partition_key)
        buttons.append(
            _button(visit, "cancel", "Cancel", live.id, onward=onward, css="vtrr-danger")
        )
    return {"state": state, "facts": facts, "buttons": buttons}


def _past(visit: Visit, ended: Ended, now: datetime | None) -> dict[str, Any]:
    """Return what is shown of a job of the history besides."""
    dead = isinstance(ended, FailedJob)
    at = ended.failed_at if isinstance(ended, FailedJob) else ended.completed_at
    facts = [
        ("Enqueued", when(aware(ended.created_at), now)),
        ("Joined its line", when(aware(ended.ready_at), now)),
        ("Leased", when(aware(ended.claimed_at), now)),
        ("Failed" if dead else "Completed", when(aware(at), now)),
        ("Ran for", duration(ended.runtime)),
        ("Worker", name(ended.worker_id)),
    ]
    shown: dict[str, Any] = {"state": _state(type(ended)), "facts": facts, "buttons": []}
    key = key_of(visit.queue.name, ended.id)
    shown["row_url"] = visit.links.ended_job(type(ended), key)
    if isinstance(ended, FailedJob):
        facts.append(("Error", name(ended.error_class)))
        shown["reason"] = shortened(ended.reason) if visit.may(SEE_PAYLOADS) else ""
        if visit.may(REQUEUE):
            shown["buttons"] = [_button(visit, "requeue", "Requeue", ended.id, onward=visit.here)]
    return shown


def _button(
    visit: Visit, verb: str, label: str, job_id: str, *, onward: str, css: str = ""
) -> Button:
    url = visit.links.to("do", visit.queue.name, verb)
    return Button(label=label, url=url, fields={"id": job_id, "next": onward}, css=css)


def shortened(text: str) -> str:
    """Return the beginning of a text that is too long for a page, and how much is missing."""
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n… and {len(text) - LONGEST_TEXT:,} characters more"
