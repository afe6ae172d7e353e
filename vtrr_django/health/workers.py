"""Whether workers are there, and take what there is to take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from vtrr_django.domain.durations import duration
from vtrr_django.domain.job import PartitionStats, QueueStats
from vtrr_django.figures.reading import ALIVE, SeenWorker, Totals
from vtrr_django.health.looking import Look
from vtrr_django.health.report import Fact, Finding, Status

STALL_SECONDS: Final = 60.0
"""How long a worker may take nothing while jobs wait that it could take.

It polls every two seconds at least, unless ``--poll-interval`` says otherwise, and what it
does is written down every ten.
"""

_ROLLOUT = timedelta(minutes=5)
"""How long workers of two versions may well be up together."""

_MOST_LEASES = 1000
_NAMED = 3


def judge_workers(look: Look, depth: QueueStats, totals: Totals) -> Finding:
    """Return whether somebody takes the jobs of a queue."""
    facts: dict[str, Fact] = {
        "alive": len(look.workers),
        "leased_at": totals.leased_at,
        "silent_seconds": _since_last_lease(totals),
    }
    return replace(_judged(look, depth, totals), facts=facts)


def _judged(look: Look, depth: QueueStats, totals: Totals) -> Finding:
    count = len(look.workers)
    seen = f"{count:,} {'worker is' if count == 1 else 'workers are'} alive{_last_lease(totals)}"
    if depth.paused:
        return _finding("ok", f"the queue is paused; {seen}")
    if _is_recent(totals.unknown_at, totals):
        return _clueless(look, totals)
    if not depth.ready:
        return _finding("ok", f"{seen}; no job is ready")
    if not count:
        return _unattended(look, depth, totals)
    idle = _idle(look, totals) if depth.oldest_wait_seconds > STALL_SECONDS else []
    if not idle:
        return _finding("ok", seen)
    return _stalled(look, depth, totals, idle) or _finding("ok", seen)


def _clueless(look: Look, totals: Totals) -> Finding:
    """Judge workers that are given jobs whose task they do not have.

    They put them back for a while, so that none is lost while a new version is rolled out. If
    nothing else ends meanwhile, nobody runs this queue, however busy its workers are.
    """
    runs = look.ended(_ROLLOUT)
    return _finding(
        "warning" if runs else "critical",
        f"workers are given jobs whose task they do not have{_last_lease(totals)}; their log "
        "names it: see that its module is imported there, and that they run the newest code",
    )


def _unattended(look: Look, depth: QueueStats, totals: Totals) -> Finding:
    """Judge a queue with ready jobs whose workers were not seen."""
    missing = f"no worker was seen for {duration(ALIVE.total_seconds())}"
    patience = look.queue.config.health_max_wait
    oldest = depth.oldest_wait_seconds
    if patience is not None and oldest <= patience:
        return _finding("ok", f"{missing}; no job has waited for longer than HEALTH_MAX_WAIT")
    waits = [waited_in_vain(look.waited(one), totals) for one in runnable(look)]
    if not waits:
        return _finding("ok", f"{missing}; all that waits is of tenants paused or at their limit")
    late = max(waits) > max(STALL_SECONDS, patience or 0.0)
    celery = look.queue.config.celery_queue
    cure = "start vtrr_worker" if celery is None else f"start a Celery worker with -Q {celery}"
    return _finding(
        "critical" if late else "warning",
        f"{missing}, though jobs have waited for {duration(max(waits))}; {cure}",
    )


def _stalled(
    look: Look, depth: QueueStats, totals: Totals, idle: list[SeenWorker]
) -> Finding | None:
    """Judge workers that took nothing while jobs waited; None: they are not to blame."""
    ready = [
        one for one in runnable(look) if waited_in_vain(look.waited(one), totals) > STALL_SECONDS
    ]
    celery = look.queue.config.celery_queue
    if depth.leased or _is_recent(totals.leased_at, totals):
        # Others take jobs. Whether there is one left for this worker is certain only of tenants
        # without a limit, and who gets a trigger is the broker's choice.
        if celery is not None:
            return None
        ready = [one for one in ready if one.limit is None]
        holders = {job.worker_id for job in look.first("leased", _MOST_LEASES)}
        idle = [worker for worker in idle if worker.worker_id not in holders]
    if not ready or not idle:
        return None
    longest = max(waited_in_vain(look.waited(one), totals) for one in ready)
    since = min(_idle_seconds(worker, totals) for worker in idle)
    cure = (
        "restart it if that goes on"
        if celery is None
        else f"triggers may be lost: see that the broker answers, and that workers consume {celery}"
    )
    return _finding(
        "critical",
        f"alive, but without a job for {duration(since)}: {_named(idle)}, though jobs that may run "
        f"have waited for {duration(longest)}; {cure}",
    )


def _idle(look: Look, totals: Totals) -> list[SeenWorker]:
    """Return the workers that have taken nothing for too long and hold nothing anywhere."""
    idle = [worker for worker in look.workers if _idle_seconds(worker, totals) > STALL_SECONDS]
    if not idle:
        return []
    # A station of Celery has an id for each queue: what they share is the process.
    whole = look.queue.config.celery_queue is None
    holders = look.busy(totals.now - ALIVE)
    if holders is None:
        return []  # they may be at work for a queue whose database does not answer
    busy = {_who(worker_id, whole=whole) for worker_id in holders}
    return [worker for worker in idle if _who(worker.worker_id, whole=whole) not in busy]


def _who(worker_id: str, *, whole: bool) -> str:
    return worker_id if whole else worker_id.rpartition(":")[0] or worker_id


def _last_lease(totals: Totals) -> str:
    seconds = _since_last_lease(totals)
    return "" if seconds is None else f", the last lease was {duration(seconds)} ago"


def _since_last_lease(totals: Totals) -> float | None:
    return None if totals.leased_at is None else (totals.now - totals.leased_at).total_seconds()


def waited_in_vain(seconds: float, totals: Totals) -> float:
    """Return for how long a job that has waited so many seconds could have been taken.

    A job of a tenant, or a queue, that was paused or at its limit could not.
    """
    if totals.resumed_at is None:
        return seconds
    return max(0.0, min(seconds, (totals.now - totals.resumed_at).total_seconds()))


def _is_recent(moment: datetime | None, totals: Totals) -> bool:
    return moment is not None and (totals.now - moment).total_seconds() <= STALL_SECONDS


def _idle_seconds(worker: SeenWorker, totals: Totals) -> float:
    return (totals.now - (worker.leased_at or worker.started_at)).total_seconds()


def runnable(look: Look) -> list[PartitionStats]:
    """Return partitions whose next job may run now."""
    return [one for one in look.waiting if one.may_run]


def _named(workers: Iterable[SeenWorker]) -> str:
    names = sorted(worker.worker_id for worker in workers)
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _finding(status: Status, sentence: str) -> Finding:
    return Finding(id="workers", status=status, sentence=sentence)
