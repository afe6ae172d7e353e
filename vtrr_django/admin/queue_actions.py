"""What the buttons of the queue pages do: each is a POST, has its permission, and says it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from django.contrib import messages
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
)

from vtrr_django.admin.links import back
from vtrr_django.admin.markup import count, counted, key_name, number, spoken
from vtrr_django.admin.permissions import PURGE, REQUEUE, STEER, VIEW_QUEUES
from vtrr_django.admin.visit import Visit
from vtrr_django.engines.sql.store import Store
from vtrr_django.exceptions import ValidationError
from vtrr_django.overview import TROUBLE, history_counts
from vtrr_django.queue import Queue

REQUEUE_SECONDS: Final = 5.0
"""How long one click requeues; what is left then needs another."""

REQUEUE_BATCH: Final = 1000

_LONGEST_NUMBER = 18
_PLAIN = re.compile(r"[-+0-9.eEinfaN]{1,400}")

MOST_NAMED: Final = 20
"""Job ids that an entry of the admin's log names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """What an action did.

    Attributes:
        told: what the user is told.
        logged: what is written down; "": nothing was changed.
        level: of the message.
    """

    told: str
    logged: str = ""
    level: int = messages.SUCCESS


def _no_change(told: str) -> Done:
    return Done(told=told, level=messages.INFO)


# -- the verbs ---------------------------------------------------------------------


def _pause(queue: Queue, visit: Visit) -> Done:
    key = _key(visit)
    what = _what(queue, key)
    if _is_paused(queue, key):
        return _no_change(f"{what} was paused already.")
    queue.pause(key)
    return Done(told=f"{what} is paused: what runs, ends; nothing new starts.", logged="Paused")


def _resume(queue: Queue, visit: Visit) -> Done:
    key = _key(visit)
    what = _what(queue, key)
    if not _is_paused(queue, key):
        return _no_change(f"{what} was not paused.")
    queue.resume(key)
    return Done(told=f"{what} is resumed.", logged="Resumed")


def _reclaim(queue: Queue, visit: Visit) -> Done:
    back = queue.reclaim_and_dispatch()
    with suppress(*TROUBLE):  # what is counted is kept for the next time
        queue.measure()
    if not back:
        return _no_change(f"Queue {queue.name}: no lease had run out.")
    told = f"{count(back, 'lease')} that had run out came back"
    return Done(told=f"Queue {queue.name}: {told}.", logged=f"Reclaimed: {told}")


def _requeue(queue: Queue, visit: Visit) -> Done:
    ids = visit.request.POST.getlist("id")
    if ids:
        requeued = queue.requeue(ids)
        if not requeued:
            return _no_change("It was no dead letter any more: requeued already, or discarded.")
        return Done(
            told=f"{count(len(requeued), 'job')} requeued.", logged=f"Requeued {_named(requeued)}"
        )
    return _requeue_all(queue)


def _requeue_all(queue: Queue) -> Done:
    store = Store(queue.config.database)
    queue.archive()  # so that the dead letters on their way count
    end, before, requeued = monotonic() + REQUEUE_SECONDS, _failed(queue, store), 0
    # Not more than there were: those that fail again meanwhile would go round and round.
    while requeued < before and monotonic() < end:
        some = len(queue.requeue(limit=min(REQUEUE_BATCH, before - requeued)))
        requeued += some
        if not some:
            break
    if not requeued:
        return _no_change(f"Queue {queue.name} has no dead letters to requeue.")
    told = f"Queue {queue.name}: {count(requeued, 'dead letter')} requeued"
    left = _failed(queue, store)
    if left:
        told += f"; {counted(left)} {'is' if left == 1 else 'are'} left"
    return Done(told=f"{told}.", logged=f"Requeued {count(requeued, 'dead letter')}")


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
    queue.set_partition(key, **{name: value})
    now = default if value is None else f"the {name} {number(value)}"
    if before == _settings_of(queue, key):
        return _no_change(f"{_what(queue, key)} had {now} already.")
    return Done(told=f"{_what(queue, key)} has {now}.", logged=f"Gave it {now}")


def _cancel(queue: Queue, visit: Visit) -> Done:
    ids = visit.request.POST.getlist("id")
    if not ids:
        return Done(told="Choose the jobs to cancel first.", level=messages.WARNING)
    cancelled = queue.cancel(ids)
    left = len(dict.fromkeys(ids)) - len(cancelled)
    why = f"; {left:,} did not wait any more: leased, ended or cancelled already" if left else ""
    if not cancelled:
        return _no_change(f"No job was cancelled{why}.")
    return Done(
        told=f"{count(len(cancelled), 'job')} cancelled{why}.",
        logged=f"Cancelled {_named(cancelled)}",
    )


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
    """Ask whether so many jobs are to be removed; then remove them."""
    visit = Visit(model_admin, request, name, PURGE)
    queue = visit.queue
    key = _key(visit) if request.method == "POST" else request.GET.get("key")
    trouble, ready, scheduled = "", 0, 0
    try:
        ready, scheduled = _waiting(queue, key)
    except (*TROUBLE, ValidationError) as error:
        trouble = str(error)
    if request.method == "POST":
        seen = request.POST.get("seen", "")
        if trouble or not seen.isdecimal() or ready + scheduled <= int(seen[:_LONGEST_NUMBER]):
            _carry_out(visit, _purge)
            return HttpResponseRedirect(back(request, visit.links.to("detail", name)))
        messages.warning(request, "Nothing was purged: more jobs wait than you were asked about.")
    visit.need(VIEW_QUEUES)
    cancel_url = visit.links.to("detail", name) if key is None else visit.links.partition(name, key)
    return visit.render(
        "purge.html",
        "Purge?",
        {
            "key": key,
            "key_name": None if key is None else key_name(key),
            "trouble": trouble,
            "number": number(ready + scheduled),
            "jobs": count(ready + scheduled, "job"),
            "ready": number(ready),
            "scheduled": number(scheduled),
            "seen": ready + scheduled,
            "any": ready + scheduled > 0,
            "cancel_url": cancel_url,
        },
    )


def _purge(queue: Queue, visit: Visit) -> Done:
    key = _key(visit)
    what = _what(queue, key)
    removed = queue.purge(key)
    if not removed:
        return _no_change(f"{what}: no job waited; nothing was purged.")
    return Done(
        told=f"{what}: {count(removed, 'waiting job')} purged.",
        logged=f"Purged {count(removed, 'waiting job')}",
    )


def _carry_out(visit: Visit, act: Callable[[Queue, Visit], Done]) -> None:
    try:
        done = act(visit.queue, visit)
    except (*TROUBLE, ValidationError) as error:
        messages.error(visit.request, f"Nothing was done: {error}")
        return
    if done.logged:
        key = _key(visit)
        of = "" if key is None else f" (partition {spoken(key)})"
        visit.log(f"{done.logged}{of}.")
    messages.add_message(visit.request, done.level, done.told)


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
    return history_counts(store, [queue.name])[queue.name][1]


def _named(ids: list[str]) -> str:
    more = f" and {len(ids) - MOST_NAMED:,} more" if len(ids) > MOST_NAMED else ""
    return f"{count(len(ids), 'job')}: {', '.join(ids[:MOST_NAMED])}{more}"
