"""Whether somebody looks for leases that ran out, where there is something to find."""

from __future__ import annotations

from typing import Final

from vtrr_django.domain.durations import duration
from vtrr_django.domain.job import JobInfo, QueueStats
from vtrr_django.figures.reading import Totals
from vtrr_django.health.looking import Look
from vtrr_django.health.report import Fact, Finding, Status
from vtrr_django.health.workers import runnable, waited_in_vain

MISSED: Final = 3
"""How many times in a row somebody may fail to come."""

SHORTEST_LIMIT: Final = 180.0
"""Seconds after which reclaims are missed, however often they should come.

Cron and ``vtrr_queue.upkeep`` come once a minute.
"""

_MOST_DUE, _MOST_TENANTS = 100, 10
"""Jobs that are due, and their tenants, that are looked at for one that is not paused."""


def longest_silence(look: Look) -> float:
    """Return for how many seconds whoever reclaims leases may not come."""
    return max(MISSED * look.queue.config.reclaim_interval, SHORTEST_LIMIT)


def judge_reclaim(look: Look, depth: QueueStats, totals: Totals) -> Finding:
    """Return whether leases that ran out come back."""
    # Where jobs may wait for longer, as for the next --burst from cron, so may these.
    limit, age = max(longest_silence(look), look.queue.config.health_max_wait or 0.0), None
    if totals.reclaimed_at is None:
        last = "nobody has ever looked for leases that ran out"
    else:
        age = (totals.now - totals.reclaimed_at).total_seconds()
        last = f"somebody looked for leases that ran out {duration(age)} ago"
    facts: dict[str, Fact] = {
        "looked_at": totals.reclaimed_at,
        "silent_seconds": age,
        "limit_seconds": limit,
        "waiting_seconds": None,
    }
    if depth.paused:
        return _finding("ok", f"the queue is paused; {last}", facts)
    if age is not None and age <= limit:
        return _finding("ok", last, facts)
    what, waited = _waits(look, depth, totals)
    facts["waiting_seconds"] = waited
    if waited is None:
        return _finding("ok", f"{last}; nothing waits for that", facts)
    told = f"jobs have been {what} for {duration(waited)}"
    if waited <= limit:
        return _finding("ok", f"{last}; {told}", facts)
    cure = "start a worker, or run vtrr_reclaim from cron"
    return _finding("critical", f"{last}, though {told}; {cure}", facts)


def _waits(look: Look, depth: QueueStats, totals: Totals) -> tuple[str, float | None]:
    """Return what a reclaim has had to look at, and for how many seconds; None: nothing."""
    waited: dict[str, float] = {}
    if depth.leased:
        # The last lease: the others are older. Nobody has written down one: it was just now.
        since = totals.leased_at or totals.now
        waited["leased"] = (totals.now - since).total_seconds()
    for job in _due(look, depth) if depth.scheduled else ():
        if depth.now is not None and job.ready_at is not None:
            overdue = waited_in_vain((depth.now - job.ready_at).total_seconds(), totals)
            waited["due"] = max(overdue, waited.get("due", 0.0))
    # Celery runs what it has a trigger for, and a reclaim sends those that got lost. A worker of
    # ours looks by itself: that none is there is another finding.
    if depth.ready and look.queue.config.celery_queue is not None:
        for one in runnable(look):
            seconds = waited_in_vain(look.waited(one), totals)
            waited["ready"] = max(seconds, waited.get("ready", 0.0))
    if not waited:
        return "", None
    what = max(waited, key=lambda name: waited[name])
    return what, waited[what]


def _due(look: Look, depth: QueueStats) -> list[JobInfo]:
    """Return the first job that is due of each of a few tenants that are not paused."""
    first: dict[str, JobInfo] = {}
    for job in look.first("scheduled", _MOST_DUE):
        if depth.now is not None and job.ready_at is not None and job.ready_at <= depth.now:
            first.setdefault(job.partition_key, job)
    few = list(first.items())[:_MOST_TENANTS]
    return [job for key, job in few if not any(one.paused for one in look.partition(key))]


def _finding(status: Status, sentence: str, facts: dict[str, Fact]) -> Finding:
    return Finding(id="reclaim", status=status, sentence=sentence, facts=facts)
