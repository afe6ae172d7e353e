"""Beginning something with many dead letters: the page that asks, and its confirmation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, F, Max, Value
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from vtrr_django.admin import history_names, markup
from vtrr_django.admin.bulk import Action, NotOurs, Run, why_not
from vtrr_django.admin.bulk_ledger import Ledger, last_entry
from vtrr_django.admin.bulk_page import go_on, jobs, list_url, page, refuse
from vtrr_django.admin.history_job import key_of
from vtrr_django.admin.history_outage import answering, no_answer
from vtrr_django.admin.history_search import Selection, database_of
from vtrr_django.exceptions import StoreUnavailable
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
    # Rows that have to be read are read as they lie in the table: MariaDB would go by an index
    # of queues, from which it looks up one after the other, all over the table.
    name = Coalesce("queue", Value("")) if selection.reads else F("queue")
    named = rows.annotate(name=name).values_list("name")
    counted = named.annotate(n=Count("seq"), upto=Max("seq"))
    counts = sorted((queue, n, upto) for queue, n, upto in counted)
    refusals = [(n, why) for queue, n, _ in counts if (why := why_not(queue, alias))]
    left = {queue: n for queue, n, _ in counts if why_not(queue, alias)}
    counts = [one for one in counts if one[0] not in left]
    if not counts:
        for n, why in refusals:
            messages.error(request, f"Nothing was done with {jobs(n)}: {why}.")
        if not refusals:
            messages.info(request, "No failed job matches any more: there was nothing to do.")
        return HttpResponseRedirect(list_url(model_admin, request.GET.urlencode()))
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
    site = model_admin.admin_site.name
    context = {
        "counts": [(queue, markup.number(n)) for queue, n, _ in counts],
        "refusals": [(markup.number(n), why) for n, why in refusals],
        "signed": run.signed(),
        "run_url": reverse("admin:vtrr_django_failedjob_run", current_app=site),
    }
    return page(model_admin, request, "confirm", run, context)


def start(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """Begin what was asked for, do the first batch of it, and lead to its page."""
    if request.method != "POST":
        return HttpResponseRedirect(list_url(model_admin))
    if not model_admin.has_requeue_permission(request):
        raise PermissionDenied
    try:
        asked = Run.read(request.POST.get("run", ""), request.user)
        ledger = Ledger.of(asked, _subject(asked))
    except NotOurs as error:
        return refuse(model_admin, request, error)
    except StoreUnavailable as error:
        return no_answer(model_admin, request, str(error))
    return go_on(model_admin, request, ledger)


def _words(selection: Selection, total: int, rows: Any, left: Mapping[str, int]) -> str:
    """Return what is chosen, for people."""
    if selection.seqs is None:
        told = [words] if (words := selection.in_words()) else []
        if left:
            told.append(f"without {sum(left.values()):,} of queues with which nothing can be done")
        return f"{jobs(total)} ({', '.join(told)})" if told else f"all {jobs(total)}"
    rows = rows.exclude(queue__in=left)
    named = [key_of(*row) for row in rows.order_by("seq").values_list("queue", "id")[: NAMED + 1]]
    more = f" and {total - NAMED:,} more" if len(named) > NAMED else ""
    return f"{jobs(total)}: {', '.join(named[:NAMED])}{more}"


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
