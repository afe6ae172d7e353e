"""Which pages of the admin there are."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode, urljoin

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import quote
from django.db.models import Avg
from django.utils import timezone

from benchmarks.sites.pages.data import ERRORS, OLD_ERROR, OLD_TASK, QUEUES
from benchmarks.sites.pages.figures import be_seen
from benchmarks.sites.pages.visiting import Visitor
from vtrr_django import get_queue
from vtrr_django.admin.links import quoted
from vtrr_django.models import CompletedJob, FailedJob
from vtrr_django.queue import Queue

APP = "/admin/vtrr_django/"
FAILED = f"{APP}failedjob/"
LARGEST, SMALLEST = "uploads", "exports"


def walk(visitor: Visitor, tenants: list[str]) -> None:
    """Open every page; ``tenants`` are those of the largest queue, the busiest first."""
    visitor.get("admin, index", "/admin/")
    visitor.get("admin, app", APP)
    _walk_queues(visitor, tenants)
    _walk_live_jobs(visitor, tenants)
    for model, moment in ((FailedJob, "failed_at"), (CompletedJob, "completed_at")):
        _walk_list(visitor, model, moment, tenants)
        _walk_ended_jobs(visitor, model)
    _walk_asking(visitor)


def _walk_queues(visitor: Visitor, tenants: list[str]) -> None:
    base = f"{APP}queuestate/"
    here = f"{base}{LARGEST}/"
    be_seen()
    visitor.get("queues", base)
    for name in (LARGEST, SMALLEST):
        visitor.get(f"queue {name}", f"{base}{name}/")
    for sort in ("ready", "leased", "share", "oldest", "p95", "lag", "seconds"):
        visitor.get(f"queue, by {sort}", here, o=f"-{sort}")
        be_seen()
    for name, query in {
        "by key": {"o": "key"},
        "by key, backwards": {"o": "-key"},
        "page 2": {"p": "2"},
        "last page": {"p": str(-(-len(tenants) // 50))},
        "searched by a prefix": {"q": "tenant-00"},
        "… page 2 by lag": {"q": "tenant-00", "o": "-lag", "p": "2"},
        "searched for a key": {"q": tenants[-1]},
        "nothing found": {"q": "nobody"},
    }.items():
        visitor.get(f"queue, {name}", here, **query)
        be_seen()
    be_seen(idle=True)
    visitor.get("queue, idle workers", here)
    be_seen()
    for name, key in {"largest": tenants[0], "smallest": tenants[-1], "unknown": "nobody"}.items():
        visitor.get(f"partition, {name}", f"{here}partition/", key=key)
    visitor.get("purge a queue", f"{here}purge/")
    visitor.get("purge a partition", f"{here}purge/", key=tenants[0])
    visitor.get("who did what", f"{here}history/")
    visitor.get("who did what, page 2", f"{here}history/", p="2")


def _walk_live_jobs(visitor: Visitor, tenants: list[str]) -> None:
    base, queue = f"{APP}queuestate/{LARGEST}/", get_queue(LARGEST)
    for state in ("ready", "scheduled", "leased"):
        here, busiest = f"{base}jobs/{state}/", tenants[0]
        for name, query in {
            "": {},
            " of the largest partition": {"partition": busiest},
            " of the smallest partition": {"partition": tenants[-1]},
        }.items():
            text = visitor.get(f"{state} jobs{name}", here, **query)
            for page in (2, 3):
                onward = _link(text, "Next page", here)
                if onward is None:
                    break
                text = visitor.get(f"{state} jobs{name}, page {page}", onward)
        after = _halfway(queue, state)
        if after is not None:
            visitor.get(f"{state} jobs, halfway", here, after=after)
        first = queue.jobs(state, limit=1).jobs[0]
        visitor.get(f"{state} job", f"{base}job/{quoted(first.id)}/")


def _halfway(queue: Queue, state: str) -> str | None:
    """Return the cursor of a page in the middle of a queue's jobs."""
    after = None
    for _ in range(getattr(queue.depth(), state) // 2000):
        after = queue.jobs(state, after=after, limit=1000).next
    return after


def _walk_list(visitor: Visitor, model: Any, moment: str, tenants: list[str]) -> None:
    kind = model._meta.model_name.removesuffix("job")
    here = f"{APP}{kind}job/"
    for name, query in _lists(model, moment, tenants):
        text = visitor.get(f"{kind}, {name}", here, **query)
        pages = [int(page) for page in re.findall(r"[?&;]p=(\d+)", text)]
        if pages and not query.keys() & {"p", "o"}:
            visitor.get(f"{kind}, {name}, last page", here, **{**query, "p": str(max(pages))})
        onward = None
        for label in ("Older ones", "Look further back"):
            onward = onward or _link(text, label, here)
        if onward is not None:
            visitor.get(f"{kind}, {name}, further back", onward)


def _lists(model: Any, moment: str, tenants: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield what a list is asked for, under a name."""
    row, child = model.objects.earliest("seq"), model.objects.filter(parent_id__isnull=False)
    task = QUEUES[LARGEST].tasks[0]
    now = timezone.localtime(getattr(model.objects.latest("seq"), moment))
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    day = {f"{moment}__{part}": str(getattr(now, part)) for part in ("year", "month", "day")}
    month = {name: value for name, value in day.items() if "day" not in name}
    first = timezone.localtime(getattr(row, moment))
    oldest = {f"{moment}__{part}": str(getattr(first, part)) for part in ("year", "month")}
    half = model.objects.aggregate(seq=Avg("seq"))["seq"]
    middle = model.objects.filter(seq__gte=half).earliest("seq")
    place = {"before": f"{middle.seq}~{getattr(middle, moment).isoformat()}"}
    yield from {
        "all": {},
        "page 2": {"p": "2"},
        "otherwise sorted": {"o": "-3"},
        "halfway": {"before": str(middle.seq)},
        "queue": {"queue": LARGEST},
        "queue, halfway": {"queue": LARGEST, **place},
        "small queue": {"queue": SMALLEST},
        "task": {"task": task},
        "old task": {"task": OLD_TASK},
        "queue and task": {"queue": LARGEST, "task": task},
        "queue and old task": {"queue": LARGEST, "task": OLD_TASK},
        "queue and old task, halfway": {"queue": LARGEST, "task": OLD_TASK, **place},
        "partition": {"partition": tenants[0]},
        "small partition": {"partition": tenants[-1]},
        "partition and task": {"partition": tenants[0], "task": task},
        "partition and old task": {"partition": tenants[0], "task": OLD_TASK},
        "small partition and task": {"partition": tenants[-1], "task": task},
        "partition, queue and old task": {
            "partition": tenants[0],
            "queue": LARGEST,
            "task": OLD_TASK,
        },
        "parent and task": {"parent": child.latest("seq").parent_id, "task": task},
        "parent": {"parent": child.latest("seq").parent_id},
        "year": {f"{moment}__year": str(now.year)},
        "year, halfway": {f"{moment}__year": str(now.year), **place},
        "month": month,
        "day": day,
        "month and queue": {**month, "queue": SMALLEST},
        "month and old task": {**month, "task": OLD_TASK},
        "month and partition": {**month, "partition": tenants[0]},
        "oldest month": oldest,
        "oldest month and task": {**oldest, "task": task},
        "oldest month and partition": {**oldest, "partition": tenants[0]},
        "search id": {"q": row.id},
        "search msg_id": {"q": row.msg_id},
        "search partition": {"q": tenants[0]},
        "search task": {"q": task},
        "search part of a task": {"q": "tasks.s"},
        "search nothing": {"q": "no such thing"},
        "search in queue": {"q": tenants[0], "queue": LARGEST},
        "search task in month": {"q": task, **month},
        "search task in partition": {"q": task, "partition": tenants[0]},
        "search partition and task": {"q": tenants[0], "task": task},
        "search partition in oldest month": {"q": tenants[0], **oldest},
    }.items()
    for name, days in {"today": 0, "past 7 days": 7, "past 30 days": 30}.items():
        since = midnight - timedelta(days=days)
        until = midnight + timedelta(days=1)
        yield name, {f"{moment}__gte": str(since), f"{moment}__lt": str(until)}
    if model is FailedJob:
        common_error = ERRORS[0][0]
        yield "error class", {"error_class": common_error}
        yield "old error class", {"error_class": OLD_ERROR}
        yield "queue and old error class", {"queue": LARGEST, "error_class": OLD_ERROR}
        yield "everything", {"queue": LARGEST, "task": task, "error_class": common_error, **month}


def _walk_ended_jobs(visitor: Visitor, model: Any) -> None:
    kind = model._meta.model_name.removesuffix("job")
    made = model.objects.filter(parent_id__isnull=False).latest("seq")
    for name, row in {
        "made by another": made,
        "with children": model.objects.filter(id=made.parent_id).first(),
        "oldest": model.objects.earliest("seq"),
    }.items():
        if row is None:
            continue
        here = f"{APP}{kind}job/{quote(f'{row.queue}:{row.id}')}/"
        visitor.get(f"{kind} job, {name}", f"{here}change/")
        visitor.get(f"{kind} job, {name}, among its queue's", _page_of(row.queue, row.id))
    visitor.get(f"{kind} job, who did what", f"{here}history/")


def _page_of(queue: str, job_id: str) -> str:
    return f"{APP}queuestate/{queue}/job/{quoted(job_id)}/"


def _walk_asking(visitor: Visitor) -> None:
    """Ask to do things with dead letters, without doing them."""
    newest = timezone.localtime(FailedJob.objects.latest("seq").failed_at)
    month = {"failed_at__year": str(newest.year), "failed_at__month": str(newest.month)}
    common = {"task": QUEUES[LARGEST].tasks[0], "error_class": ERRORS[0][0]}
    for name, query in {
        "all": {},
        "a queue": {"queue": LARGEST},
        "a task": {"task": QUEUES[LARGEST].tasks[0]},
        "an old error class": {"error_class": OLD_ERROR},
        "searched": {"q": QUEUES[LARGEST].tasks[0]},
        "a month": month,
        "a task and an error class": common,
        "a queue, a task, an error class": {"queue": LARGEST, **common},
        "a partition": {"partition": "tenant-00000"},
        "a partition and a task": {"partition": "tenant-00000", "task": common["task"]},
        "by everything": {"queue": LARGEST, "partition": "tenant-00000", **common},
    }.items():
        visitor.post(f"requeue {name}?", f"{FAILED}?{urlencode(query)}", asked("requeue"))
    for action in ("copy", "discard"):
        visitor.post(f"{action} all?", FAILED, asked(action))
    seqs = [*FailedJob.objects.order_by("-seq").values_list("seq", flat=True)[:50]]
    ticked = {"action": "requeue", "index": "0", ACTION_CHECKBOX_NAME: seqs}
    visitor.post("requeue those ticked?", FAILED, ticked)


def asked(action: str) -> dict[str, Any]:
    """Return what the list sends to have something done with all that match."""
    seq = FailedJob.objects.order_by("seq").values_list("seq", flat=True).first()
    return {"action": action, "index": "0", "select_across": "1", ACTION_CHECKBOX_NAME: seq}


def _link(text: str, label: str, here: str) -> str | None:
    """Return where the link of that name leads."""
    found = re.search(rf'<a href="([^"]*)"[^>]*>{label}</a>', text)
    return urljoin(here, html.unescape(found[1])) if found else None
