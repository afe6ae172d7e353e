"""Whether Celery's beat comes, where it is meant to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vtrr_django.domain.chores import UPKEEP, reclaim_task
from vtrr_django.domain.durations import duration
from vtrr_django.figures.reading import Totals
from vtrr_django.health.looking import Look
from vtrr_django.health.reclaiming import MISSED, longest_silence
from vtrr_django.health.report import Fact, Finding, Status

EXPECTED_FOR: Final = 86_400.0
"""Seconds for which a beat that was seen is expected again though no row says that it comes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Chore:
    """What beat does for a queue.

    Attributes:
        name: for people.
        task: of Celery.
        workers: who runs it, for people.
    """

    name: str
    task: str
    workers: str


def judge_beat(look: Look, totals: Totals) -> Finding | None:
    """Return whether beat comes; None: nobody expects it."""
    celery = look.queue.config.celery_queue
    if celery is None:
        chore = _Chore(name="upkeep", task=UPKEEP, workers="a worker of the queue it goes to")
    else:
        task = reclaim_task(look.queue.name)
        chore = _Chore(name="reclaim", task=task, workers="a worker of its Celery queue")
    age = None if totals.beat_at is None else (totals.now - totals.beat_at).total_seconds()
    limit = longest_silence(look)
    if celery is not None and age is not None and age <= limit:
        return _finding("ok", _last(chore, age), totals, age)
    entries = look.looker.entries()
    if entries.problem:
        told = f"the periodic tasks of django-celery-beat cannot be read: {entries.problem}"
        return _finding("warning", told, totals, age)
    interval = entries.interval_of(chore.task)
    if celery is None and not interval:
        return None  # workers, or vtrr_reclaim, do it
    status, told = _judged(chore, age, interval, limit)
    return _finding(status, told, totals, age, interval or None)


def _judged(
    chore: _Chore, age: float | None, interval: float | None, limit: float
) -> tuple[Status, str]:
    if age is None:
        if not interval:
            return "ok", "beat was never seen; workers and vtrr_reclaim do its work"
        return "warning", (
            f"its periodic {chore.name} is enabled in django-celery-beat, but has never run; start "
            f"celery beat, and {chore.workers}"
        )
    last = _last(chore, age)
    if interval == 0:
        return "ok", f"{last}; somebody has disabled it in django-celery-beat"
    if age <= max(limit, MISSED * (interval or 0.0)):
        return "ok", last
    if interval is None and age > EXPECTED_FOR:
        return "ok", f"{last}; it is expected no more, workers and vtrr_reclaim do its work"
    return "warning", f"{last}; see that celery beat runs, and {chore.workers}"


def _last(chore: _Chore, age: float) -> str:
    return f"beat's last {chore.name} ran {duration(age)} ago"


def _finding(
    status: Status,
    sentence: str,
    totals: Totals,
    age: float | None,
    interval: float | None = None,
) -> Finding:
    facts: dict[str, Fact] = {
        "seen_at": totals.beat_at,
        "silent_seconds": age,
        "interval_seconds": interval,
    }
    return Finding(id="beat", status=status, sentence=sentence, facts=facts)
