"""What to think of what was seen of a queue: one function for each finding."""

from __future__ import annotations

from typing import Any, Final

from django.apps import apps

from vtrr_django.domain.durations import duration
from vtrr_django.domain.job import QueueStats
from vtrr_django.figures.reading import Totals
from vtrr_django.health.looking import Look
from vtrr_django.health.report import Finding, QueueHealth, Status
from vtrr_django.health.workers import judge_workers

MISSED: Final = 3
"""How many reclaims in a row may fail to come."""

SHORTEST_LIMIT: Final = 60.0
"""Seconds after which reclaims are missed, however often they should come."""


SECONDS_IN_A_DAY: Final = 86_400.0

BEAT: Final[str] = "django_celery_beat"


def judge(look: Look) -> QueueHealth:
    """Return how a queue is. What cannot be known is not judged: the reason is a finding."""
    depth, totals = look.depth, look.totals
    findings = [_store(look), _database(look)]
    if depth is not None:
        findings += _thresholds(look, depth)
        if totals is not None:
            findings += [judge_workers(look, depth, totals), _reclaim(look, depth, totals)]
    if totals is not None and look.queue.config.celery_queue is not None:
        findings.append(_beat(look, totals))
    return QueueHealth(queue=look.queue.name, findings=tuple(findings))


def _store(look: Look) -> Finding:
    depth = look.depth
    if depth is None:
        return _critical("store", f"the store does not answer: {look.store_problem}")
    paused = ", paused" if depth.paused else ""
    counts = f"{depth.ready:,} ready, {depth.scheduled:,} scheduled, {depth.leased:,} leased"
    return _ok("store", f"the store answers: {counts}{paused}")


def _database(look: Look) -> Finding:
    alias = look.queue.config.database
    if look.totals is None:
        return _critical(
            "database",
            f"the figures in database {alias!r} cannot be read, so workers and reclaims are not "
            f"looked at: {look.database_problem}",
        )
    return _ok("database", f"the figures in database {alias!r} can be read")


# -- thresholds ------------------------------------------------------------------------


def _thresholds(look: Look, depth: QueueStats) -> list[Finding]:
    config, findings = look.queue.config, []
    if config.health_max_ready is not None:
        findings.append(_backlog(depth, config.health_max_ready))
    if config.health_max_wait is not None:
        findings.append(_age(look, depth, config.health_max_wait))
    return findings


def _backlog(depth: QueueStats, most: int) -> Finding:
    told = f"{depth.ready:,} jobs are ready; HEALTH_MAX_READY is {most:,}"
    if depth.paused:
        return _ok("backlog", f"the queue is paused; {told}")
    return _finding("backlog", "critical" if depth.ready > most else "ok", told)


def _age(look: Look, depth: QueueStats, most: float) -> Finding:
    wait, more = depth.oldest_wait_seconds, ""
    if depth.paused:
        more = "the queue is paused; "
    elif wait > most:
        # A tenant that is paused waits for as long as somebody wants it to.
        wait = max((look.waited(one) for one in look.waiting if not one.paused), default=0.0)
    late = wait > most and not depth.paused
    told = f"{more}the oldest job that is ready, of tenants not paused, has waited {duration(wait)}"
    return _finding(
        "age", "critical" if late else "ok", f"{told}; HEALTH_MAX_WAIT is {duration(most)}"
    )


# -- reclaim and beat ------------------------------------------------------------------


def _reclaim(look: Look, depth: QueueStats, totals: Totals) -> Finding:
    limit = _longest_silence(look)
    if totals.reclaimed_at is None:
        age, last = float("inf"), "nobody has ever looked for leases that ran out"
    else:
        age = (totals.now - totals.reclaimed_at).total_seconds()
        last = f"somebody looked for leases that ran out {duration(age)} ago"
    if depth.paused:
        return _ok("reclaim", f"the queue is paused; {last}")
    if age <= limit:
        return _ok("reclaim", last)
    waited = _waits_for_reclaim(look, depth, totals)
    if waited is None:
        return _ok("reclaim", f"{last}; nothing is leased or due")
    if waited <= limit:
        return _ok("reclaim", f"{last}; what is leased or due is so since {duration(waited)}")
    return _critical(
        "reclaim",
        f"{last}, though jobs have been leased or due for {duration(waited)}; start a worker, or "
        "run vtrr_reclaim from cron",
    )


def _longest_silence(look: Look) -> float:
    return max(MISSED * look.queue.config.reclaim_interval, SHORTEST_LIMIT)


def _waits_for_reclaim(look: Look, depth: QueueStats, totals: Totals) -> float | None:
    """Return for how many seconds a reclaim has had something to look at; None: it has not."""
    waited: list[float] = []
    if depth.ready:
        waited.append(depth.oldest_wait_seconds)
    if depth.leased:
        # The last lease: the others are older. Nobody has written down one: it was just now.
        since = totals.leased_at or totals.now
        waited.append((totals.now - since).total_seconds())
    if depth.scheduled and depth.now is not None:
        due = [job.ready_at for job in look.first("scheduled") if job.ready_at is not None]
        waited += [(depth.now - at).total_seconds() for at in due if at <= depth.now]
    return max(waited, default=None)


def _beat(look: Look, totals: Totals) -> Finding:
    if totals.beat_at is None:
        if _beat_interval(look):
            return _finding(
                "beat",
                "warning",
                "its periodic reclaim is enabled in django-celery-beat, but has never run; start "
                "celery beat, and a worker of its Celery queue",
            )
        return _ok("beat", "beat was never seen; workers and vtrr_reclaim do its work")
    age = (totals.now - totals.beat_at).total_seconds()
    last = f"beat's last reclaim ran {duration(age)} ago"
    if age <= _longest_silence(look):
        return _ok("beat", last)
    interval = _beat_interval(look)
    if interval == 0:
        return _ok("beat", f"{last}; somebody has disabled it in django-celery-beat")
    if interval is not None and age <= MISSED * interval:
        return _ok("beat", last)
    return _finding(
        "beat", "warning", f"{last}; see that celery beat runs, and a worker of its Celery queue"
    )


def _beat_interval(look: Look) -> float | None:
    """Return how often django-celery-beat is to reclaim a queue, in seconds.

    0: never, for its entries are disabled. None: it has no entry, and so cannot tell.
    """
    if not apps.is_installed(BEAT):
        return None
    entries: Any = apps.get_model(BEAT, "PeriodicTask")._default_manager
    mine = entries.filter(task=f"vtrr_queue.reclaim.{look.queue.name}").select_related("interval")
    found, _ = look.looker.ask((BEAT, mine.db), lambda: list(mine))
    if not found:
        return None
    # An entry may also go by the calendar.
    every = [
        SECONDS_IN_A_DAY if one.interval is None else one.schedule.run_every.total_seconds()
        for one in found
        if one.enabled
    ]
    return min(every, default=0)


def _ok(name: str, sentence: str) -> Finding:
    return _finding(name, "ok", sentence)


def _critical(name: str, sentence: str) -> Finding:
    return _finding(name, "critical", sentence)


def _finding(name: str, status: Status, sentence: str) -> Finding:
    return Finding(id=name, status=status, sentence=sentence)
