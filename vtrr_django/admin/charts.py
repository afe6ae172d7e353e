"""The plots of a queue: which figures they show, and how to read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from django.utils.safestring import SafeString

from vtrr_django.admin import plots
from vtrr_django.admin.markup import NO_KEY, REST_NAME, clock, count, duration, number, percent
from vtrr_django.admin.plots import REST_CLASS, Bar, Plot, Series, colour
from vtrr_django.admin.tenants import Row
from vtrr_django.figures.keeping import LONGEST_LINES
from vtrr_django.figures.reading import REST, Minute, Tenant

LINES: Final = 6
"""Partitions that have a colour of their own over time."""

BARS: Final = 10
"""Partitions that have a bar."""


def shown(partition_key: str) -> str:
    """Return a partition's key as a plot has it."""
    return REST_NAME if partition_key == REST else partition_key or NO_KEY


def _ended(minutes: Sequence[Minute]) -> list[Series]:
    return [
        Series(label="completed", values=[one.completed for one in minutes], css="vtrr-s1"),
        Series(label="failed", values=[one.failed for one in minutes], css="vtrr-bad"),
    ]


def throughput_in_words(minutes: Sequence[Minute]) -> str:
    """Return what the plots of the throughput show."""
    completed, failed = sum(m.completed for m in minutes), sum(m.failed for m in minutes)
    most = max((m.completed + m.failed for m in minutes), default=0)
    return f"{completed:,} completed and {failed:,} failed; at most {most:,} in one minute"


def small_throughput(ident: str, minutes: Sequence[Minute]) -> SafeString:
    """Return the throughput of the last hour as a small plot."""
    told = throughput_in_words(minutes)
    return plots.spark(ident, "Jobs ended per minute, last hour", told, _ended(minutes))


def throughput(minutes: Sequence[Minute]) -> Plot:
    """Return how many jobs ended, minute by minute."""
    return plots.columns(
        "throughput",
        "Jobs ended per minute",
        throughput_in_words(minutes),
        [clock(one.at) for one in minutes],
        _ended(minutes),
        what="a minute",
    )


def waiting(minutes: Sequence[Minute]) -> Plot:
    """Return how many jobs were ready, minute by minute: the longest lines, and the rest."""
    sums: dict[str, int] = {}
    for minute in minutes:
        for key, ready in minute.waiting.items():
            sums[key] = sums.get(key, 0) + ready
    longest = sorted(sums, key=lambda key: (-sums[key], key))[:LINES]
    series = [
        Series(
            label=shown(key),
            values=[_waited(minute, key) for minute in minutes],
            css=colour(index),
        )
        for index, key in enumerate(longest)
    ]
    rest = [
        None if m.ready is None else max(0, m.ready - sum(m.waiting.get(k, 0) for k in longest))
        for m in minutes
    ]
    if any(rest) or not series:
        series.append(Series(label=REST_NAME, values=rest, css=REST_CLASS))
    return plots.columns(
        "waiting",
        "Jobs that wait, by partition",
        f"Ready jobs at each minute of the last hour: the {count(LINES, 'partition')} that "
        f"waited most, and all others together. Of a minute the {LONGEST_LINES} longest lines are "
        "kept: the jobs of a partition that was not among them are with all others, and its "
        "own number is not known. A gap: nobody looked.",
        [clock(one.at) for one in minutes],
        series,
        what="ready",
    )


def _waited(minute: Minute, key: str) -> int | None:
    """Return how many jobs of a partition were ready; None: nobody looked, or kept it."""
    if minute.ready is None:
        return None
    rest = None if len(minute.waiting) >= LONGEST_LINES else 0
    return minute.waiting.get(key, rest)


def waits(past: Mapping[str, Tenant]) -> Plot:
    """Return how long jobs waited: the partitions that waited longest."""
    found = [(one.waits.quantile(0.95) or 0.0, key, one) for key, one in past.items() if one.waits]
    longest = sorted(found, key=lambda each: (-each[0], each[1]))[:BARS]
    bars = []
    for p95, key, tenant in longest:
        p50 = tenant.waits.quantile(0.5) or 0.0
        bars.append(
            Bar(
                label=shown(key),
                value=p95,
                inner=p50,
                text=f"{duration(p50)} / {duration(p95)}",
                cells=[duration(p50), duration(p95), number(tenant.waits.count)],
            )
        )
    return plots.lying(
        "waits",
        "Wait before a job starts, by partition",
        "Last hour, the longest first. Full colour: half of the jobs waited no longer (p50); pale: "
        "95 of 100 (p95).",
        bars,
        ["partition", "p50", "p95", "jobs"],
    )


def work(rows: Sequence[Row], past: Mapping[str, Tenant]) -> Plot:
    """Return who had the workers, beside what each partition's share is due."""
    total = sum(one.worker_seconds for one in past.values())
    busy = sorted((r for r in rows if r.used), key=lambda r: (-(r.used or 0), r.key))
    bars = [_work(shown(r.key), r.past.worker_seconds, r.used or 0.0, r.due) for r in busy[:BARS]]
    seconds = total - sum(r.past.worker_seconds for r in busy[:BARS])
    if bars and seconds > 0.0005 * total:
        due = sum(r.due or 0.0 for r in busy[BARS:])
        exact = REST not in past
        bars.append(_work(REST_NAME, seconds, seconds / total, due if exact else None, REST_CLASS))
    return plots.lying(
        "work",
        "Worker time against share, by partition",
        "Last hour. Bar: the part of all worker time that its jobs took. Mark: the part its share "
        "is due among the partitions that were active. Who asks for less than that leaves the "
        "rest to others.",
        bars,
        ["partition", "took", "due", "worker time"],
    )


def _work(label: str, seconds: float, used: float, due: float | None, css: str = "vtrr-s1") -> Bar:
    return Bar(
        label=label,
        value=used,
        mark=due,
        text=f"{percent(used)} / {percent(due)}",
        cells=[percent(used), percent(due), duration(seconds)],
        css=css,
    )
