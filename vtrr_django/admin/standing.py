"""How a queue stands, in words: its state, why its jobs wait, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from vtrr_django.admin.markup import count, duration, key_name
from vtrr_django.domain.job import Due, PartitionStats, QueueStats
from vtrr_django.figures.reading import ALIVE
from vtrr_django.overview import Kept
from vtrr_django.queue import Queue

_HELD: Final = (
    "All jobs that are ready are of partitions that are paused or at their limit: resume a "
    "partition, raise its limit, or wait for its jobs that run."
)

_CLUELESS: Final = (
    "Workers are given jobs whose task they do not have, and put them back. Their log names it: "
    "see that its module is imported there, and that they run the newest code."
)

_NAMED: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """A word for how a queue stands, and the class that says how loud it is."""

    label: str
    css: str = ""


def state_of(queue: Queue, stats: QueueStats | None, kept: Kept | None, due: Due) -> State:
    """Return how a queue stands; the arguments are those of :func:`notes`."""
    if stats is None:
        return State(label="no answer", css="vtrr-is-bad")
    if stats.paused:
        return State(label="paused", css="vtrr-is-paused")
    if kept is not None and not kept.alive and _needs_worker(queue, stats, due):
        return State(label="no worker", css="vtrr-is-bad")
    if due.held:
        return State(label="held back", css="vtrr-is-paused")
    return State(label="running")


def notes(queue: Queue, stats: QueueStats | None, kept: Kept, due: Due) -> list[str]:
    """Return why jobs wait, and what to do about it, where a page can tell.

    Args:
        queue: which.
        stats: its live jobs; None: nobody knows.
        kept: of it, when workers were seen.
        due: what is known of the jobs that wait.
    """
    if stats is None:
        return []
    if stats.paused:
        return ["Paused: its jobs wait until somebody resumes it."]
    told = [] if not due.held else [_HELD]
    if is_clueless(kept):
        told.append(_CLUELESS)
    return told + ([] if kept.alive else _unattended(queue, stats, kept, due))


def paused_partitions(partitions: Sequence[PartitionStats]) -> list[SafeString]:
    """Return what is said of those that are paused and have ready jobs, the longest line first."""
    paused = [one for one in partitions if one.paused and one.ready]
    if not paused:
        return []
    jobs = count(sum(one.ready for one in paused), "ready job")
    keys = format_html_join(", ", "{}", ((key_name(one.partition_key),) for one in paused[:_NAMED]))
    if len(paused) == 1:
        waits = "partition {}, with {}, which wait until somebody resumes it."
        return [format_html(f"Paused: {waits}", keys, jobs)]
    more = len(paused) - _NAMED
    return [
        format_html(
            "Paused: {} partitions, with {}, which wait until somebody resumes them: {}{}.",
            f"{len(paused):,}",
            jobs,
            keys,
            f" and {more:,} more" if more > 0 else "",
        )
    ]


def is_clueless(kept: Kept) -> bool:
    """Return whether workers were just given jobs whose task they do not have."""
    return kept.unknown_at is not None and kept.now - kept.unknown_at <= ALIVE


def _needing(queue: Queue, stats: QueueStats, due: Due) -> dict[str, int]:
    """Return how many jobs there are in each state that wait for a worker, or will."""
    ready = 0 if due.held or _has_time(queue, stats) else stats.ready
    counts = {"ready": ready, "scheduled": stats.scheduled, "leased": stats.leased}
    return {state: number for state, number in counts.items() if number}


def _needs_worker(queue: Queue, stats: QueueStats, due: Due) -> bool:
    needing = _needing(queue, stats, due)
    return bool(needing) and (needing.keys() != {"scheduled"} or due.overdue)


def _unattended(queue: Queue, stats: QueueStats, kept: Kept, due: Due) -> list[str]:
    """Return what is said of jobs that wait where no worker is; a health check must agree."""
    needing = [f"{number:,} {state}" for state, number in _needing(queue, stats, due).items()]
    if not needing:
        return []
    seen = "none in the last day"
    if kept.seen_at is not None:
        seen = f"the last {duration((kept.now - kept.seen_at).total_seconds())} ago"
    cure = f"manage.py vtrr_worker --queue {queue.name}"
    if queue.config.celery_queue is not None:
        cure = f"a Celery worker that consumes {queue.config.celery_queue}"
    unseen = f"no worker was seen in the last {ALIVE.seconds} seconds ({seen})"
    waits = _needs_worker(queue, stats, due)
    start = "Start one" if waits else "When they fall due they need one"
    told = [f"{', '.join(needing)}, and {unseen}. {start}: {cure}"]
    if stats.leased:
        told.append(
            "What dead workers held comes back when its lease has run out and somebody looks: a "
            "worker, beat, or Reclaim now."
        )
    return told


def _has_time(queue: Queue, stats: QueueStats) -> bool:
    """Return whether settings let jobs wait for this long, as for the next ``--burst``."""
    patience = queue.config.health_max_wait
    return patience is not None and stats.oldest_wait_seconds <= patience
