"""What the buttons of the queue pages do: each is a POST, has its permission, and says it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, TypeVar

from django.contrib import messages
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
)

from vtrr_django.admin.links import back
from vtrr_django.admin.markup import count, counted, key_name, number, spoken
from vtrr_django.admin.permissions import PURGE, REQUEUE, STEER
from vtrr_django.admin.visit import Visit
from vtrr_django.engines.sql.store import Store
from vtrr_django.exceptions import ValidationError, VTRRError, so_far
from vtrr_django.overview import TROUBLE, at_a_glance
from vtrr_django.queue import Queue

REQUEUE_SECONDS: Final = 5.0
"""How long one click requeues; what is left then needs another."""

REQUEUE_BATCH: Final = 1000

_LONGEST_NUMBER = 18
_PLAIN = re.compile(r"[-+0-9.eEinfaN]{1,400}")

_TROUBLE: Final = (*TROUBLE, ValidationError)

MOST_NAMED: Final = 20
"""Job ids that an entry of the admin's log names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """What an action did.

    Attributes:
        told: what the user is told.
        logged: what is written down; "": nothing was changed.
        stopped: what stopped it half way; None: it was done to its end.
        level: of the message.
    """

    told: str
    logged: str = ""
    stopped: VTRRError | None = None
    level: int = messages.SUCCESS


def _no_change(told: str) -> Done:
    return Done(told=told, level=messages.INFO)


T = TypeVar("T")


def _as_far_as_it_goes(verb: Callable[[], T]) -> tuple[T | int, VTRRError | None]:
    """Return what a verb returns, or how much it had done when an error stopped it, and that.

    Raises:
        StoreUnavailable, ConfigurationError, ValidationError: nothing was done.
    """
    try:
        return verb(), None
    except _TROUBLE as error:
        if not error.done:
            raise
        return error.done, error


# -- the verbs ---------------------------------------------------------------------


def _pause(queue: Queue, visit: Visit) -> Done:
    key = _key(visit)
    what = _what(queue, key)
    if _is_paused(queue, key):
        return _no_change(f"{what} was paused already.")
    _, stopped = _as_far_as_it_goes(lambda: queue.pause(key))
    told = f"{what} is paused: what runs, ends; nothing new starts."
    return Done(told=told, logged="Paused", stopped=stopped)


def _resume(queue: Queue, visit: Visit) -> Done:
    key = _key(visit)
    what = _what(queue, key)
    if not _is_paused(queue, key):
        return _no_change(f"{what} was not paused.")
    _, stopped = _as_far_as_it_goes(lambda: queue.resume(key))
    return Done(told=f"{what} is resumed.", logged="Resumed", stopped=stopped)


def _reclaim(queue: Queue, visit: Visit) -> Done:
    back, stopped = _as_far_as_it_goes(queue.reclaim_and_dispatch)
    with suppress(*TROUBLE):  # what is counted is kept for the next time
        queue.measure()
    if not back:
        return _no_change(f"Queue {queue.name}: no lease had run out.")
    told = f"{count(back, 'lease')} that had run out came back"
    told_of = f"Queue {queue.name}: {told}."
    return Done(told=told_of, logged=f"Reclaimed: {told}", stopped=stopped)


def _requeue(queue: Queue, visit: Visit) -> Done:
    ids = visit.request.POST.getlist("id")
    if ids:
        requeued, stopped = _as_far_as_it_goes(lambda: queue.requeue(ids))
        if not requeued:
            return _no_change("It was no dead letter any more: requeued already, or discarded.")
        told = f"{_counted(requeued)} requeued."
        return Done(told=told, logged=f"Requeued {_named(requeued)}", stopped=stopped)
    return _requeue_all(queue)


def _requeue_all(queue: Queue) -> Done:
    store = Store(queue.config.database)
    queue.archive()  # so that the dead letters on their way count
    requeued, stopped = _as_far_as_it_goes(lambda: _requeue_some(queue, _failed(queue, store)))
    if not requeued:
        return _no_change(f"Queue {queue.name} has no dead letters to requeue.")
    letters, left = count(requeued, "dead letter"), 0
    with suppress(*TROUBLE):  # they are requeued, whatever becomes of this look
        left = _failed(queue, store)
    rest = f"; {counted(left)} {'is' if left == 1 else 'are'} left" if left else ""
    told = f"Queue {queue.name}: {letters} requeued{rest}."
    return Done(told=told, logged=f"Requeued {letters}", stopped=stopped)


def _requeue_some(queue: Queue, most: int) -> int:
    """Requeue dead letters for a while; return how many.

    Not more than there were: those that fail again meanwhile would go round and round.
    """
    end, requeued = monotonic() + REQUEUE_SECONDS, 0
    with so_far(lambda: requeued):
        while requeued < most and monotonic() < end:
            some = len(queue.requeue(limit=min(REQUEUE_BATCH, most - requeued)))
            requeued += some
            if not some:
                break
    return requeued


def _set_share(queue: Queue, visit: Visit) -> Done:
    return _configure(queue, visit, "share", float, "its declared share")


def _set_limit(queue: Queue, visit: Visit) -> Done:
    return _configure(queue, visit, "limit", int, "the queue's default limit")


def _configure(
    queue: Queue, visit: Visit, name: str, kind: Callable[[str], Any], default: str
) -> Done:
    key, given = _needed_key(visit), _given(visit, name)
    value = None if given is None else _parsed(given, kind, name)
    before = _settings_of(queue, key)
    _, stopped = _as_far_as_it_goes(lambda: queue.set_partition(key, **{name: value}))
    now = default if value is None else f"the {name} {number(value)}"
    with suppress(*TROUBLE):  # it is set, whatever becomes of this look
        if before == _settings_of(queue, key):
            return _no_change(f"{_what(queue, key)} had {now} already.")
    told = f"{_what(queue, key)} has {now}."
    return Done(told=told, logged=f"Gave it {now}", stopped=stopped)


def _cancel(queue: Queue, visit: Visit) -> Done:
    ids = visit.request.POST.getlist("id")
    if not ids:
        return Done(told="Choose the jobs to cancel first.", level=messages.WARNING)
    cancelled, stopped = _as_far_as_it_goes(lambda: queue.cancel(ids))
    left = len(dict.fromkeys(ids)) - len(cancelled) if isinstance(cancelled, list) else 0
    why = f"; {left:,} did not wait any more: leased, ended or cancelled already" if left else ""
    if not cancelled:
        return _no_change(f"No job was cancelled{why}.")
    told = f"{_counted(cancelled)} cancelled{why}."
    return Done(told=told, logged=f"Cancelled {_named(cancelled)}", stopped=stopped)


VERBS: Final[Mapping[str, tuple[str, Callable[[Queue, Visit], Done]]]] = {
    "pause": (STEER, _pause),
    "resume": (STEER, _resume),
    "reclaim": (STEER, _reclaim),
    "share": (STEER, _set_share),
    "limit": (STEER, _set_limit),
    "requeue": (REQUEUE, _requeue),
    "cancel": (PURGE, _cancel),
}
"""By the last step of the address: the permission, and what is done."""


# -- views -------------------------------------------------------------------------


def do(model_admin: Any, request: HttpRequest, name: str, verb: str) -> HttpResponse:
    """Do what a button says, and lead back to its page."""
    if verb not in VERBS:
        raise Http404(f"expected one of {', '.join(VERBS)}, got {verb!r}")
    permission, act = VERBS[verb]
    visit = Visit(model_admin, request, name, permission)
    if request.method == "POST":
        _carry_out(visit, act)
    else:  # the log-in page leads here when a session had ended
        messages.info(request, "Nothing was done: press the button again.")
    return HttpResponseRedirect(back(request, visit.links.to("detail", name)))


def purge(model_admin: Any, request: HttpRequest, name: str) -> HttpResponse:
    """Ask whether so many jobs are to be removed; then remove them.

    Where more wait by then it asks again, now also whether all that has come since may go: the
    number on a page that somebody reads never catches up with a queue that grows.
    """
    visit = Visit(model_admin, request, name, PURGE)
    key = _key(visit) if request.method == "POST" else request.GET.get("key")
    trouble, ready, scheduled, grew = "", 0, 0, False
    try:
        ready, scheduled = _waiting(visit.queue, key)
    except _TROUBLE as error:
        trouble = str(error)
    if request.method == "POST":
        asked = _asked(visit)
        if trouble:
            messages.error(request, f"Nothing was done: {trouble}")
            return HttpResponseRedirect(back(request, visit.links.to("detail", name)))
        agreed = asked is not None and "since" in request.POST
        if agreed or ready + scheduled <= (asked or 0):
            _carry_out(visit, _purge)
            return HttpResponseRedirect(back(request, visit.links.to("detail", name)))
        grew = asked is not None
        more = "more jobs wait than you were asked" if grew else "you were not asked"
        messages.warning(request, f"Nothing was purged: {more} about.")
    return _question(visit, key, ready, scheduled, {"trouble": trouble, "grew": grew})


def _question(
    visit: Visit, key: str | None, ready: int, scheduled: int, more: Mapping[str, Any]
) -> HttpResponse:
    """Return the page that asks whether to purge, and names the number."""
    name, links, waiting = visit.queue.name, visit.links, ready + scheduled
    context: dict[str, Any] = {
        **more,
        "key": key,
        "key_name": None if key is None else key_name(key),
        "jobs": count(waiting, "job"),
        "ready": number(ready),
        "scheduled": number(scheduled),
        "seen": str(waiting),
        "any": waiting > 0,
        "cancel_url": links.to("detail", name) if key is None else links.partition(name, key),
    }
    return visit.render("purge.html", "Purge?", context)


def _asked(visit: Visit) -> int | None:
    """Return about how many jobs the user was asked; None: about none."""
    seen = visit.request.POST.get("seen", "")
    return int(seen[:_LONGEST_NUMBER]) if seen.isascii() and seen.isdecimal() else None


def _purge(queue: Queue, visit: Visit) -> Done:
    key = _key(visit)
    what = _what(queue, key)
    removed, stopped = _as_far_as_it_goes(lambda: queue.purge(key))
    if not removed:
        return _no_change(f"{what}: no job waited; nothing was purged.")
    jobs, since = count(removed, "waiting job"), removed - (_asked(visit) or 0)
    of_these = f", {since:,} more than you were asked about" if since > 0 else ""
    told = f"{what}: {jobs} purged{of_these}."
    return Done(told=told, logged=f"Purged {jobs}", stopped=stopped)


def _carry_out(visit: Visit, act: Callable[[Queue, Visit], Done]) -> None:
    try:
        done = act(visit.queue, visit)
    except _TROUBLE as error:
        messages.error(visit.request, f"Nothing was done: {error}")
        return
    if done.logged:
        key = _key(visit)
        of = "" if key is None else f" (partition {spoken(key)})"
        then = "" if done.stopped is None else ", and was then stopped by an error"
        visit.log(f"{done.logged}{of}{then}.")
    if done.stopped is None:
        messages.add_message(visit.request, done.level, done.told)
    else:
        messages.error(visit.request, f"{done.told} Then it was stopped: {done.stopped}")


# -- what they need ----------------------------------------------------------------


def _key(visit: Visit) -> str | None:
    """Return the partition a form is about; None: the whole queue."""
    key: str | None = visit.request.POST.get("partition")
    return key


def _needed_key(visit: Visit) -> str:
    key = _key(visit)
    if key is None:
        raise ValidationError("partition", "expected the key of a partition, got none")
    return key


def _given(visit: Visit, field: str) -> str | None:
    """Return what was entered; None: nothing, or that the default is wanted."""
    entered = str(visit.request.POST.get(field, "")).strip()
    return None if "default" in visit.request.POST or not entered else entered


def _parsed(entered: str, kind: Callable[[str], Any], path: str) -> Any:
    """Return a number as the queue takes it; what is none, it refuses in its own words."""
    try:
        if not _PLAIN.fullmatch(entered):  # Python takes 1_000 too, and the digits of all scripts
            raise ValueError
        return kind(entered)
    except ValueError as error:
        what = "a whole number" if kind is int else "a number"
        raise ValidationError(path, f"expected {what}, got {spoken(entered)}") from error


def _what(queue: Queue, key: str | None) -> str:
    if key is None:
        return f"Queue {queue.name}"
    return f"Partition {spoken(key)} of queue {queue.name}"


def _is_paused(queue: Queue, key: str | None) -> bool:
    if key is None:
        return queue.depth().paused
    return any(one.paused for one in queue.partitions(key))


def _settings_of(queue: Queue, key: str) -> list[tuple[float, int | None]]:
    """Return the share and the limit in force; nothing for a partition that is unknown."""
    return [(one.share, one.limit) for one in queue.partitions(key)]


def _waiting(queue: Queue, key: str | None) -> tuple[int, int]:
    """Return how many jobs are ready and scheduled."""
    if key is None:
        stats = queue.depth()
        return stats.ready, stats.scheduled
    found = queue.partitions(key)
    return sum(one.ready for one in found), sum(one.scheduled for one in found)


def _failed(queue: Queue, store: Store) -> int:
    return at_a_glance(store, [queue.name])[queue.name].failed


def _counted(jobs: list[str] | int) -> str:
    return count(jobs if isinstance(jobs, int) else len(jobs), "job")


def _named(ids: list[str] | int) -> str:
    """Return the number of jobs and, where they are known, the ids of some."""
    if isinstance(ids, int):
        return _counted(ids)
    more = f" and {len(ids) - MOST_NAMED:,} more" if len(ids) > MOST_NAMED else ""
    return f"{_counted(ids)}: {', '.join(ids[:MOST_NAMED])}{more}"
