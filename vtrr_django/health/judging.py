"""What to think of what was seen of a queue: one function for each finding."""

from __future__ import annotations

from typing import Final

from vtrr_django.domain.durations import duration
from vtrr_django.domain.job import QueueStats
from vtrr_django.health.beat import judge_beat
from vtrr_django.health.looking import Look
from vtrr_django.health.reclaiming import judge_reclaim, longest_silence
from vtrr_django.health.report import Fact, Finding, QueueHealth, Status
from vtrr_django.health.workers import judge_workers

MOST_ON_THEIR_WAY: Final = 10_000
"""Ended jobs that may be on their way to the database: workers take them there each second."""


def judge(look: Look) -> QueueHealth:
    """Return how a queue is. What cannot be known is not judged: the reason is a finding."""
    known, findings = look.problems, []
    for finding in (_backlog, _age, _workers, _reclaim, _outbox, _beat):
        found = finding(look)
        if look.problems != known:
            # A place has gone away in the midst: what it did not tell is not "nothing".
            break
        if found is not None:
            findings.append(found)
    return QueueHealth(queue=look.queue.name, findings=(_store(look), _database(look), *findings))


def _store(look: Look) -> Finding:
    depth, problem = look.depth, look.problems[0]
    if depth is None or problem:
        return _finding("store", "critical", f"the store does not answer: {problem}")
    paused = ", paused" if depth.paused else ""
    counts = f"{depth.ready:,} ready, {depth.scheduled:,} scheduled, {depth.leased:,} leased"
    return _finding(
        "store",
        "ok",
        f"the store answers: {counts}{paused}",
        paused=depth.paused,
        ready=depth.ready,
        scheduled=depth.scheduled,
        leased=depth.leased,
        partitions_waiting=depth.partitions_waiting,
        oldest_wait_seconds=depth.oldest_wait_seconds,
    )


def _database(look: Look) -> Finding:
    alias, problem = look.queue.config.database, look.problems[1]
    if problem:
        return _finding(
            "database",
            "critical",
            f"the figures in database {alias!r} cannot be read, so workers and reclaims are not "
            f"looked at: {problem}",
            database=alias,
        )
    return _finding(
        "database", "ok", f"the figures in database {alias!r} can be read", database=alias
    )


# -- thresholds ------------------------------------------------------------------------


def _backlog(look: Look) -> Finding | None:
    depth, most = look.depth, look.queue.config.health_max_ready
    if depth is None or most is None:
        return None
    told, more = f"{depth.ready:,} jobs are ready; HEALTH_MAX_READY is {most:,}", ""
    if depth.paused:
        more = "the queue is paused; "
    late = depth.ready > most and not depth.paused
    return _finding(
        "backlog",
        "critical" if late else "ok",
        more + told,
        ready=depth.ready,
        limit=most,
    )


def _age(look: Look) -> Finding | None:
    depth, most = look.depth, look.queue.config.health_max_wait
    if depth is None or most is None:
        return None
    more = "the queue is paused; " if depth.paused else ""
    wait = _oldest_wait(look, depth, most)
    told = f"{more}the oldest job that is ready, of tenants not paused, has waited {duration(wait)}"
    return _finding(
        "age",
        "critical" if wait > most and not depth.paused else "ok",
        f"{told}; HEALTH_MAX_WAIT is {duration(most)}",
        oldest_wait_seconds=wait,
        limit_seconds=most,
    )


def _oldest_wait(look: Look, depth: QueueStats, most: float) -> float:
    wait = depth.oldest_wait_seconds
    if depth.paused or wait <= most:
        return wait
    # A tenant that is paused waits for as long as somebody wants it to.
    return max((look.waited(one) for one in look.waiting if not one.paused), default=0.0)


# -- what the figures tell -------------------------------------------------------------


def _workers(look: Look) -> Finding | None:
    depth, totals = look.depth, look.totals
    return None if depth is None or totals is None else judge_workers(look, depth, totals)


def _reclaim(look: Look) -> Finding | None:
    depth, totals = look.depth, look.totals
    return None if depth is None or totals is None else judge_reclaim(look, depth, totals)


def _outbox(look: Look) -> Finding | None:
    """Judge how jobs that have ended in Redis get into the database; None: they are in it."""
    depth = look.depth
    if depth is None or depth.outbox is None:
        return None
    count, seconds, limit = depth.outbox, depth.outbox_seconds, longest_silence(look)
    facts: dict[str, Fact] = {"jobs": count, "oldest_seconds": seconds, "limit_seconds": limit}
    if not count:
        return _finding("outbox", "ok", "all jobs that ended are in the history", **facts)
    told = (
        f"{count:,} jobs that ended are not in the history yet, the first for {duration(seconds)}"
    )
    if seconds <= limit and count <= MOST_ON_THEIR_WAY:
        return _finding("outbox", "ok", told, **facts)
    return _finding(
        "outbox",
        "warning",
        f"{told}; see what the workers' log says of writing the history, or run vtrr_reclaim",
        **facts,
    )


def _beat(look: Look) -> Finding | None:
    return None if look.totals is None else judge_beat(look, look.totals)


def _finding(name: str, status: Status, sentence: str, **facts: Fact) -> Finding:
    return Finding(id=name, status=status, sentence=sentence, facts=facts)
