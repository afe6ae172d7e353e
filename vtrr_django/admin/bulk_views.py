"""The pages of what is done with many dead letters: are you sure, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Max
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.cache import add_never_cache_headers

from vtrr_django.admin import history_names, markup
from vtrr_django.admin.bulk import Action, NotOurs, Run, why_not
from vtrr_django.admin.bulk_ledger import DONE, RUNNING, STOPPED, Ledger, Progress, last_entry
from vtrr_django.admin.bulk_step import step
from vtrr_django.admin.history_job import key_of
from vtrr_django.admin.history_outage import answering, no_answer
from vtrr_django.admin.history_search import Selection, database_of
from vtrr_django.exceptions import StoreUnavailable, VTRRError
from vtrr_django.models import FailedJob

NAMED: Final = 20
"""Letters chosen one by one that are named to people."""


def ask(
    model_admin: Any, request: HttpRequest, action: Action, selection: Selection
) -> HttpResponse:
    """Ask whether to do it, naming the number; with nothing to be done say why."""
    alias = database_of(selection.queue)
    tasks = history_names.recent(FailedJob, alias, selection.queue).tasks if selection.term else ()
    selection = selection.knowing({*tasks, *history_names.known_tasks(selection.queue)})
    rows = selection.rows(FailedJob)
    counted = rows.values_list("queue").annotate(n=Count("seq"), upto=Max("seq"))
    counts = sorted((queue, n, upto) for queue, n, upto in counted)
    refusals = [(n, why) for queue, n, _ in counts if (why := why_not(queue, alias))]
    left = {queue: n for queue, n, _ in counts if why_not(queue, alias)}
    counts = [one for one in counts if one[0] not in left]
    if not counts:
        for n, why in refusals:
            messages.error(request, f"Nothing was done with {_jobs(n)}: {why}.")
        if not refusals:
            messages.info(request, "No failed job matches any more: there was nothing to do.")
        return HttpResponseRedirect(_list(model_admin, request.GET.urlencode()))
    total = sum(n for _, n, _ in counts)
    run = Run(
        action=action,
        selection=selection,
        upto=max(upto for _, _, upto in counts),
        total=total,
        words=_words(selection, total, rows, left),
        user=str(request.user.pk),
        logged=last_entry(),
        counts={queue: n for queue, n, _ in counts},
        back=request.GET.urlencode(),
        left=left,
    )
    context = {
        "counts": [(queue, markup.number(n)) for queue, n, _ in counts],
        "refusals": [(markup.number(n), why) for n, why in refusals],
    }
    return _page(model_admin, request, "confirm", run, context)


def run(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """Do one batch of what was asked for, or stop it."""
    if request.method != "POST":
        return HttpResponseRedirect(_list(model_admin))
    if not model_admin.has_requeue_permission(request):
        raise PermissionDenied
    try:
        asked = Run.read(request.POST.get("run", ""), request.user)
        ledger = Ledger.of(asked, _subject(asked))
        before = ledger.read()
        progress, trouble = _advance(asked, ledger, stop="stop" in request.POST)
    except NotOurs as error:
        messages.error(request, f"Nothing was done. {error}")
        return _lead(request, _list(model_admin))
    except StoreUnavailable as error:
        return no_answer(model_admin, request, str(error))
    if progress.state == RUNNING:
        return _progress_page(model_admin, request, asked, progress, trouble)
    _tell(request, asked, progress, again=before.state != RUNNING)
    return _lead(request, _list(model_admin, asked.back))


def _advance(asked: Run, ledger: Ledger, *, stop: bool) -> tuple[Progress, str]:
    """Do one batch or stop; return how far the run has come, and what is in its way."""
    if stop:
        return ledger.change(_stopped), ""
    try:
        return step(asked, ledger), ""
    except NotOurs:
        raise
    except VTRRError as error:
        return ledger.read(), str(error)


def _stopped(progress: Progress) -> Progress:
    return replace(progress, state=STOPPED) if progress.state == RUNNING else progress


def _tell(request: HttpRequest, asked: Run, progress: Progress, *, again: bool) -> None:
    """Say how a run has ended."""
    text = f"{_jobs(progress.done)} {asked.action.done}."
    if again:
        messages.info(request, f"This had ended already: {text}")
        return
    if progress.state == STOPPED:
        text = f"Stopped: {progress.done:,} of {_jobs(asked.total)} {asked.action.done}."
    messages.success(request, text)
    for queue, n in progress.refused.items():
        why = why_not(queue, asked.alias) or f"settings had no place for queue {queue} then"
        messages.error(request, f"Nothing was done with {_jobs(n)}: {why}.")
    refused = sum(n for queue, n in progress.refused.items() if queue not in asked.left)
    missing = asked.total - progress.done - refused
    if missing > 0 and progress.state == DONE:
        messages.warning(
            request,
            f"{_jobs(missing)} could not be {asked.action.done}: requeued or discarded by "
            "others meanwhile, or their record is spoilt.",
        )


def _words(selection: Selection, total: int, rows: Any, left: Mapping[str, int]) -> str:
    """Return what is chosen, for people."""
    if selection.seqs is None:
        told = [words] if (words := selection.in_words()) else []
        if left:
            told.append(f"without {sum(left.values()):,} of queues with which nothing can be done")
        return f"{_jobs(total)} ({', '.join(told)})" if told else f"all {_jobs(total)}"
    rows = rows.exclude(queue__in=left)
    named = [key_of(*row) for row in rows.order_by("seq").values_list("queue", "id")[: NAMED + 1]]
    more = f" and {total - NAMED:,} more" if len(named) > NAMED else ""
    return f"{_jobs(total)}: {', '.join(named[:NAMED])}{more}"


def _subject(asked: Run) -> Mapping[str, str] | None:
    """Return what the log entry is about, if it is one letter."""
    if asked.selection.seqs is None or asked.total != 1:
        return None
    with answering(asked.alias):
        rows = asked.selection.rows(FailedJob).exclude(queue__in=asked.left)
        letter = rows.defer("payload", "reason", "traceback").first()
    if letter is None:
        return None
    return {"object_id": key_of(letter.queue, letter.id), "object_repr": str(letter)[:200]}


def _jobs(n: int) -> str:
    return markup.count(n, "failed job")


def _progress_page(
    model_admin: Any, request: HttpRequest, asked: Run, progress: Progress, trouble: str
) -> HttpResponse:
    percent = min(99, progress.taken * 100 // (asked.total + sum(asked.left.values())))
    text = f"{progress.done:,} of {_jobs(asked.total)} {asked.action.done}"
    if request.accepts("text/html"):
        context = {"percent": percent, "text": text, "trouble": trouble}
        return _page(model_admin, request, "progress", asked, context)
    return JsonResponse({"percent": percent, "text": text, "trouble": trouble})


def _page(
    model_admin: Any,
    request: HttpRequest,
    name: str,
    asked: Run,
    context: Mapping[str, Any],
) -> HttpResponse:
    site = model_admin.admin_site
    request.current_app = site.name
    whole = {
        **site.each_context(request),
        "opts": model_admin.opts,
        "title": asked.action.label,
        "asked": asked,
        "jobs": _jobs(asked.total),
        "signed": asked.signed(),
        "run_url": reverse("admin:vtrr_django_failedjob_run", current_app=site.name),
        "list_url": _list(model_admin),
        "back_url": _list(model_admin, asked.back),
        **context,
    }
    response = TemplateResponse(request, f"vtrr_django/admin/bulk_{name}.html", whole)
    add_never_cache_headers(response)
    return response


def _lead(request: HttpRequest, address: str) -> HttpResponse:
    """Lead on; a script is told where, as it would swallow the messages of the page there."""
    if request.accepts("text/html"):
        return HttpResponseRedirect(address)
    return JsonResponse({"location": address})


def _list(model_admin: Any, query: str = "") -> str:
    site = model_admin.admin_site.name
    address = reverse("admin:vtrr_django_failedjob_changelist", current_app=site)
    return f"{address}?{query}" if query else address
