"""The page of all queues, and the page of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from vtrr_django import strays
from vtrr_django.admin import charts
from vtrr_django.admin.buttons import queue_buttons
from vtrr_django.admin.markup import NOTHING, counted, duration, name, number, relative
from vtrr_django.admin.partition_table import PartitionTable
from vtrr_django.admin.standing import State, is_clueless, notes, paused_partitions, state_of
from vtrr_django.admin.tenants import MOST, rows_of
from vtrr_django.admin.visit import Visit
from vtrr_django.domain.job import Due, PartitionStats, QueueStats
from vtrr_django.engines.sql.fields import from_microseconds, to_microseconds
from vtrr_django.engines.sql.store import Store
from vtrr_django.exceptions import ConfigurationError, ValidationError, VTRRError
from vtrr_django.figures.reading import ALIVE, Minute, Reader, SeenWorker, Tenant
from vtrr_django.health import check_workers
from vtrr_django.models import CompletedJob, FailedJob
from vtrr_django.overview import (
    TROUBLE,
    Kept,
    Overview,
    Still,
    at_a_glance,
    overviews,
    whats_due,
)
from vtrr_django.queue import Queue
from vtrr_django.registry import all_queues

SHOWN_WORKERS: Final = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """A number with what it counts, and where one sees what it counted."""

    label: str
    value: str | SafeString
    url: str | None = None
    about: str = ""


# -- all queues --------------------------------------------------------------------


def overview(visit: Visit, extra: dict[str, Any]) -> HttpResponse:
    """Show all queues."""
    trouble, found, left = "", [], list[str]()
    try:
        found = overviews(all_queues(), due=True)
        left = strays.told(
            strays.find(one.queue for one in found if not (one.trouble or one.history_trouble))
        )
    except ConfigurationError as error:
        trouble = str(error)
    rows = [_overview_row(visit, index, one) for index, one in enumerate(found)]
    return visit.render(
        "queues.html", "Queues", {"trouble": trouble, "left": left, "rows": rows, **extra}
    )


def _overview_row(visit: Visit, index: int, one: Overview) -> dict[str, Any]:
    queue, stats, kept = one.queue, one.stats, one.kept
    failed = None if kept is None else kept.failed
    plot: str | SafeString = ""
    if kept is not None:
        plot = charts.small_throughput(f"throughput-{index}", kept.minutes)
    return {
        "name": queue.name,
        "url": visit.links.to("detail", queue.name),
        "engine": queue.config.engine,
        "state": state_of(queue, stats, kept, one.due),
        "trouble": one.trouble,
        "history_trouble": one.history_trouble,
        "facts": [*_live_facts(visit, queue, stats), *_ended_facts(visit, queue, kept)],
        "oldest": _oldest(stats),
        "plot": plot,
        "ended": NOTHING if kept is None else number(sum(m.completed for m in kept.minutes)),
        "workers": NOTHING if kept is None else f"{kept.alive:,}",
        "notes": [] if kept is None else notes(queue, stats, kept, one.due),
        "buttons": queue_buttons(visit, queue.name, stats, failed),
    }


def _live_facts(visit: Visit, queue: Queue, stats: QueueStats | None) -> list[Fact]:
    counts = {
        state: None if stats is None else getattr(stats, state)
        for state in ("ready", "scheduled", "leased")
    }
    return [
        Fact(label=state, value=number(n), url=visit.links.jobs(queue.name, state) if n else None)
        for state, n in counts.items()
    ]


def _ended_facts(visit: Visit, queue: Queue, kept: Any) -> list[Fact]:
    """Return dead letters and completed jobs; ``kept`` has both as attributes, or is None."""
    return [
        Fact(
            label=state,
            value=counted(None if kept is None else getattr(kept, state)),
            url=visit.links.ended(model, queue=queue.name),
        )
        for state, model in (("failed", FailedJob), ("completed", CompletedJob))
    ]


def _oldest(stats: QueueStats | None) -> str:
    none = stats is None or stats.oldest_ready_at is None
    return NOTHING if none or stats is None else duration(stats.oldest_wait_seconds)


# -- one queue ---------------------------------------------------------------------


@dataclass(kw_only=True, slots=True)
class Looked:
    """What could be found out about one queue.

    ``trouble`` says why its store, and ``history_trouble`` why its history, did not tell the rest.
    """

    stats: QueueStats | None = None
    due: Due = field(default_factory=Due)
    partitions: list[PartitionStats] = field(default_factory=list)
    failed: int | None = None
    completed: int | None = None
    minutes: list[Minute] = field(default_factory=list)
    past: dict[str, Tenant] = field(default_factory=dict)
    workers: list[SeenWorker] = field(default_factory=list)
    unknown_at: datetime | None = None
    now: datetime | None = None
    store: Store | None = None
    more: bool = False
    trouble: str = ""
    history_trouble: str = ""


def detail(model_admin: Any, request: HttpRequest, name: str) -> HttpResponse:
    """Show one queue: its figures, plots, partitions and workers."""
    visit = Visit(model_admin, request, name)
    queue = visit.queue
    looked = _look(queue, request.GET.get("q", ""))
    store_now = None if looked.stats is None else looked.stats.now
    rows = rows_of(queue, looked.partitions, looked.past, store_now)
    alive = [one for one in looked.workers if _is_alive(one, looked.now)]
    looked.due = _due(queue, looked, alive)
    told = _notes(queue, looked, alive)
    return visit.render(
        "queue.html",
        f"Queue {name}",
        {
            "trouble": looked.trouble,
            "history_trouble": looked.history_trouble,
            "state": _state(queue, looked, alive),
            "notes": told,
            "failures_url": visit.links.ended(FailedJob, queue=name),
            "runs_url": visit.links.ended(CompletedJob, queue=name),
            "facts": [
                *_live_facts(visit, queue, looked.stats),
                *_ended_facts(visit, queue, None if looked.failed is None else looked),
                Fact(label="oldest wait", value=_oldest(looked.stats)),
                Fact(
                    label="workers alive",
                    value=NOTHING if looked.now is None else f"{len(alive):,}",
                    about=f"seen in the last {ALIVE.seconds} s",
                ),
            ],
            "buttons": queue_buttons(visit, name, looked.stats, looked.failed),
            "plots": [
                charts.throughput(looked.minutes),
                charts.waiting(looked.minutes),
                charts.waits(looked.past),
                charts.work(rows, looked.past),
            ],
            "table": PartitionTable(visit, rows),
            "most": number(MOST) if looked.more else "",
            "workers": [_worker(one, looked.now) for one in looked.workers[:SHOWN_WORKERS]],
            "more_workers": number(more)
            if (more := len(looked.workers) - SHOWN_WORKERS) > 0
            else "",
        },
    )


def _look(queue: Queue, searched: str) -> Looked:
    looked = Looked()
    try:
        looked.stats = queue.depth()
        found = queue.partitions(limit=MOST + 1)
        looked.partitions, looked.more = found[:MOST], len(found) > MOST
        if looked.more and searched:
            looked.partitions += _beyond(queue, searched, looked.partitions)
    except TROUBLE as error:
        looked.trouble = str(error)
    try:
        _look_back(queue, looked)
    except TROUBLE as error:
        looked.history_trouble = str(error)
    return looked


def _beyond(queue: Queue, searched: str, known: Sequence[PartitionStats]) -> list[PartitionStats]:
    """Return the partition of exactly that key, if it is not among the first ``MOST``."""
    if any(one.partition_key == searched for one in known):
        return []
    try:
        return queue.partitions(searched)
    except ValidationError:
        return []


def _look_back(queue: Queue, looked: Looked) -> None:
    alias, stats = queue.config.database, looked.stats
    store = Still(alias)
    if stats is not None and stats.now is not None and queue.engine.transaction_alias == alias:
        store.set_now(to_microseconds(stats.now))  # the same clock
    looked.store = store
    reader = Reader(queue.name, store)
    looked.now = from_microseconds(store.now())
    [(looked.completed, looked.failed, looked.unknown_at)] = at_a_glance(
        store, [queue.name]
    ).values()
    looked.minutes = reader.minutes()
    looked.past = reader.tenants()
    looked.workers = reader.workers()


def _notes(queue: Queue, looked: Looked, alive: Sequence[SeenWorker]) -> list[str]:
    kept = _kept(looked, alive)
    if kept is None:
        return []
    told = notes(queue, looked.stats, kept, looked.due)
    if looked.stats is not None and not (looked.stats.paused or looked.due.held):
        told += paused_partitions(looked.partitions)
    # A health check would say that first, in other words.
    return told if is_clueless(kept) else told + _idle_workers(queue, looked, alive)


def _state(queue: Queue, looked: Looked, alive: Sequence[SeenWorker]) -> State:
    stats = None if looked.trouble else looked.stats  # it may have gone away in the midst
    return state_of(queue, stats, _kept(looked, alive), looked.due)


def _kept(looked: Looked, alive: Sequence[SeenWorker]) -> Kept | None:
    if looked.now is None:
        return None
    return Kept(
        now=looked.now,
        alive=len(alive),
        seen_at=looked.workers[0].seen_at if looked.workers else None,
        unknown_at=looked.unknown_at,
    )


def _due(queue: Queue, looked: Looked, alive: Sequence[SeenWorker]) -> Due:
    """Return what keeps jobs waiting; the store is asked for what is not known yet."""
    stats = looked.stats
    if stats is None or stats.paused or looked.trouble:
        return Due()
    waiting = [one for one in looked.partitions if one.ready]
    held = bool(waiting) and not any(one.may_run for one in waiting)
    unsure = held and looked.more
    if not unsure:
        stats = replace(stats, ready=0, partitions_waiting=0)
    if alive:
        stats = replace(stats, scheduled=0)
    due = whats_due([queue], {queue.name: stats}).get(queue.name, Due())
    if isinstance(due, VTRRError):
        return Due(held=held and not unsure)
    return Due(held=due.held if unsure else held, overdue=due.overdue)


def _idle_workers(queue: Queue, looked: Looked, alive: Sequence[SeenWorker]) -> list[str]:
    """Return what a health check has against workers that take nothing though jobs wait."""
    stats, now = looked.stats, looked.now
    if (
        not alive
        or stats is None
        or now is None
        or looked.store is None
        or stats.oldest_wait_seconds <= ALIVE.seconds
    ):
        return []
    if any(one.holding or now - (one.leased_at or one.started_at) <= ALIVE for one in alive):
        return []
    # It asks for more than the page needs: so only when something seems wrong.
    try:
        totals = Reader(queue.name, looked.store).totals()
        found = check_workers(queue, stats, totals, workers=alive, partitions=looked.partitions)
    except TROUBLE as error:
        return [str(error)]
    return [] if found.status == "ok" else [f"Workers are {found.sentence}"]


def _is_alive(worker: SeenWorker, now: datetime | None) -> bool:
    return now is not None and now - worker.seen_at <= ALIVE


def _worker(worker: SeenWorker, now: datetime | None) -> dict[str, Any]:
    return {
        "name": name(worker.worker_id),
        "alive": _is_alive(worker, now),
        "cells": [
            relative(worker.seen_at, now),
            relative(worker.leased_at, now),
            number(worker.holding) if _is_alive(worker, now) else NOTHING,
            number(worker.jobs),
            relative(worker.started_at, now),
        ],
    }
