"""The page of a run: how far it is, its next batch, its end, and how it has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.cache import add_never_cache_headers

from vtrr_django.admin import markup
from vtrr_django.admin.bulk import NotOurs, Run, why_not
from vtrr_django.admin.bulk_ledger import DONE, RUNNING, STOPPED, Ledger, Progress
from vtrr_django.admin.bulk_step import step, stop
from vtrr_django.exceptions import VTRRError

_PRESSED: Final = "vtrr_django.run"
"""Where a session keeps which run its user has just begun or gone on with, and when.

The next page of that run has its script go on, and uses it up. Nothing in an address does that:
a link from elsewhere, a bookmark or a restored tab must not set a run going.
"""

_JUST: Final = 60.0
"""Seconds after which that page was not waited for."""


def show(model_admin: Any, request: HttpRequest, number: int) -> HttpResponse:
    """Show a run; POST does its next batch or stops it."""
    if not model_admin.has_requeue_permission(request):
        raise PermissionDenied
    try:
        ledger = Ledger.find(number)
        if request.method == "POST":
            if not ledger.run.is_of(request.user):
                raise NotOurs("This was asked for by somebody else, and only they go on with it.")
            return go_on(model_admin, request, ledger)
        return _page(model_admin, request, ledger)
    except NotOurs as error:
        return refuse(model_admin, request, error)


def go_on(model_admin: Any, request: HttpRequest, ledger: Ledger) -> HttpResponse:
    """Do a batch of a run or stop it; lead to its page, or back to the list when it has ended."""
    run = ledger.run
    try:
        before = ledger.read()
        progress, trouble = _advance(ledger, wanted="stop" in request.POST)
    except NotOurs as error:
        return refuse(model_admin, request, error)
    if progress.state != RUNNING:
        _tell(request, run, progress, again=before.state != RUNNING)
        return _lead(request, list_url(model_admin, run.back))
    told = f"{trouble.rstrip('.')}. Press Continue to go on." if trouble else ""
    if request.accepts("text/html"):
        if told:
            messages.error(request, told)
        request.session[_PRESSED] = [ledger.number, time.time()]
        return HttpResponseRedirect(_address(model_admin, ledger))
    return JsonResponse({**_numbers(run, progress), "trouble": told})


def refuse(model_admin: Any, request: HttpRequest, error: NotOurs) -> HttpResponse:
    """Say why nothing was done, on the list."""
    begin = "Nothing was done. " if request.method == "POST" else ""
    messages.error(request, f"{begin}{error}")
    return _lead(request, list_url(model_admin))


def _advance(ledger: Ledger, *, wanted: bool) -> tuple[Progress, str]:
    """Do one batch or, if that is wanted, stop; return the progress, and what is in its way."""
    if wanted:
        return stop(ledger), ""
    try:
        return step(ledger.run, ledger), ""
    except NotOurs:
        raise
    except VTRRError as error:
        return ledger.read(), str(error)


# -- what is said ------------------------------------------------------------------


def jobs(n: int) -> str:
    """Return ``1 failed job``, ``20 failed jobs``."""
    return markup.count(n, "failed job")


def _numbers(run: Run, progress: Progress) -> dict[str, Any]:
    return {
        "percent": min(99, progress.taken * 100 // (run.total + sum(run.left.values()))),
        "text": f"{progress.all_done:,} of {jobs(run.total)} {run.action.done}",
    }


def _tell(request: HttpRequest, run: Run, progress: Progress, *, again: bool) -> None:
    for level, text in _outcome(run, progress):
        said = level
        if again and level == messages.SUCCESS:
            said, text = messages.INFO, f"This had ended already: {text}"  # noqa: PLW2901
        messages.add_message(request, said, text)


def _outcome(run: Run, progress: Progress) -> Iterator[tuple[int, str]]:
    """Return how a run has ended, as messages with their levels."""
    done, verb = progress.all_done, run.action.done
    if progress.state == STOPPED:
        yield messages.SUCCESS, f"Stopped: {done:,} of {jobs(run.total)} {verb}."
    else:
        yield messages.SUCCESS, f"{jobs(done)} {verb}."
    for queue, n in progress.refused.items():
        why = why_not(queue, run.alias) or f"settings had no place for queue {queue} then"
        yield messages.ERROR, f"Nothing was done with {jobs(n)}: {why}."
    if progress.state != DONE:
        return
    refused = sum(n for queue, n in progress.refused.items() if queue not in run.left)
    missing = max(0, run.total - done - refused)
    kept = min(progress.kept, missing)
    if kept:
        whose, them = ("its", "it") if kept == 1 else ("their", "them")
        why = f"{whose} record is spoilt, or others held {them}"
        yield messages.WARNING, f"{jobs(kept)} could not be {verb}: {why}."
    if gone := missing - kept:
        were, them = ("was", "it") if gone == 1 else ("were", "them")
        told = f"{jobs(gone)} {were} gone when the run came to {them}: "
        told += "requeued or discarded by others"
        if not run.action.stays:
            told += ", or by this run before its server process or the store failed"
        yield messages.WARNING, f"{told}."


# -- the page ----------------------------------------------------------------------


def _page(model_admin: Any, request: HttpRequest, ledger: Ledger) -> HttpResponse:
    run, progress = ledger.run, ledger.read()
    context = {
        **_numbers(run, progress),
        "address": _address(model_admin, ledger),
        "mine": run.is_of(request.user),
        "who": ledger.who(),
        "outcome": [
            (level > messages.SUCCESS, text)
            for level, text in (() if progress.state == RUNNING else _outcome(run, progress))
        ],
        "goes": _was_pressed(request, ledger),
    }
    return page(model_admin, request, "progress", run, context)


def _was_pressed(request: HttpRequest, ledger: Ledger) -> bool:
    """Return, once, whether this page follows the button that began the run or went on with it."""
    number, at = request.session.get(_PRESSED, (None, 0.0))
    if number != ledger.number:
        return False
    del request.session[_PRESSED]
    return bool(0.0 <= time.time() - at <= _JUST)


def page(
    model_admin: Any, request: HttpRequest, name: str, run: Run, context: Mapping[str, Any]
) -> HttpResponse:
    """Return a page about a run."""
    site = model_admin.admin_site
    request.current_app = site.name
    whole = {
        **site.each_context(request),
        "opts": model_admin.opts,
        "title": run.action.label,
        "asked": run,
        "jobs": jobs(run.total),
        "list_url": list_url(model_admin),
        "back_url": list_url(model_admin, run.back),
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


def address_of(model_admin: Any, number: int) -> str:
    """Return where the page of a run is."""
    site = model_admin.admin_site.name
    return reverse("admin:vtrr_django_failedjob_progress", args=[number], current_app=site)


def _address(model_admin: Any, ledger: Ledger) -> str:
    return address_of(model_admin, ledger.number)


def list_url(model_admin: Any, query: str = "") -> str:
    """Return where the list is that a run was asked for from."""
    site = model_admin.admin_site.name
    address = reverse("admin:vtrr_django_failedjob_changelist", current_app=site)
    return f"{address}?{query}" if query else address
