"""How long each tenant waited, and how long first-in first-out would have made it wait."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

BAR_WIDTH = 44
EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One finished job; times in seconds on one clock."""

    tenant: str
    arrival: float
    start: float
    end: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Waits:
    """The waits of one tenant's jobs, in seconds."""

    p50: float
    p95: float
    longest: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One tenant in the table."""

    tenant: str
    jobs: int
    fair: Waits
    fifo: Waits


def fifo_starts(runs: Sequence[Run], workers: int) -> list[float]:
    """Return when each of ``runs`` starts if ``workers`` workers take them as they arrive.

    Arrivals and run times are those measured. Nothing is added for taking a job, which
    the measured waits do contain: the comparison leans towards first-in first-out.
    """
    free = [-math.inf] * workers  # when each worker ends what it does
    starts = [0.0] * len(runs)
    # sorted() is stable: jobs that arrived in the same moment keep their order.
    for place in sorted(range(len(runs)), key=lambda place: runs[place].arrival):
        run = runs[place]
        starts[place] = max(run.arrival, free[0])
        heapq.heapreplace(free, starts[place] + (run.end - run.start))
    return starts


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest of ``values`` that at least ``percent`` % of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(1, math.ceil(len(ordered) * percent / 100)) - 1]


def waits_of(values: Sequence[float]) -> Waits:
    return Waits(p50=percentile(values, 50), p95=percentile(values, 95), longest=max(values))


def compare(runs: Sequence[Run], workers: int) -> list[Line]:
    """Return one line for each tenant, the one with most jobs first."""
    fair: dict[str, list[float]] = defaultdict(list)
    fifo: dict[str, list[float]] = defaultdict(list)
    for run, start in zip(runs, fifo_starts(runs, workers), strict=True):
        fair[run.tenant].append(run.start - run.arrival)
        fifo[run.tenant].append(start - run.arrival)
    tenants = sorted(fair, key=lambda tenant: (-len(fair[tenant]), tenant))
    return [
        Line(
            tenant=tenant,
            jobs=len(fair[tenant]),
            fair=waits_of(fair[tenant]),
            fifo=waits_of(fifo[tenant]),
        )
        for tenant in tenants
    ]


def overtaken(runs: Sequence[Run], tenant: str) -> int:
    """Return how many jobs of others began while jobs of ``tenant`` waited.

    They are taken to arrive together.
    """
    own = [run for run in runs if run.tenant == tenant]
    first, last = min(run.arrival for run in own), max(run.start for run in own)
    return sum(run.tenant != tenant and first < run.start < last for run in runs)


def most_overtaken(jobs: int, workers: int) -> int:
    """Return how often a tenant with ``jobs`` jobs may be overtaken by one other tenant.

    This is the bound that the README states, ``|W_f − W_g| ≤ (D + 1) · (c_f + c_g)``, for
    equal shares and jobs of weight 1.
    """
    return jobs + 2 * (workers + 1)


def table(lines: Sequence[Line]) -> str:
    """Return the figures of ``lines``, in seconds, as text."""
    width = max(len("tenant"), *(len(line.tenant) for line in lines))
    columns = f"{'p50':>8}{'p95':>8}{'max':>8}"
    rows = [
        f"{'':{width}}  {'':>5}  |{'fair, measured':^26}|{'first-in first-out':^26}",
        f"{'tenant':{width}}  {'jobs':>5}  |{columns}  |{columns}",
        f"{'-' * (width + 9)}+{'-' * 26}+{'-' * 26}",
    ]
    for line in lines:
        figures = f"|{_figures(line.fair)}  |{_figures(line.fifo)}"
        rows.append(f"{line.tenant:{width}}  {line.jobs:>5}  {figures}")
    return "\n".join(rows)


def _figures(waits: Waits) -> str:
    return "".join(f"{seconds:>8.2f}" for seconds in (waits.p50, waits.p95, waits.longest))


def picture(lines: Sequence[Line], *, unicode: bool = True) -> str:
    """Return bars of each tenant's p95 wait, all on one scale."""
    scale = max(max(line.fair.p95, line.fifo.p95) for line in lines)
    rows = []
    for line in lines:
        rows.append(f"{line.tenant}: 95 % of the files waited at most")
        for label, waits in (("fair", line.fair), ("FIFO", line.fifo)):
            drawn = bar(waits.p95 / scale if scale else 0.0, unicode=unicode)
            rows.append(f"  {label}  {drawn} {waits.p95:.2f} s")
    return "\n".join(rows)


def bar(part: float, *, unicode: bool = True) -> str:
    """Return a bar for ``part`` (0 to 1) of the full width; never quite nothing."""
    if not unicode:
        return "#" * max(1, round(part * BAR_WIDTH))
    full, eighths = divmod(max(1, round(part * BAR_WIDTH * 8)), 8)
    return "█" * full + EIGHTHS[eighths].strip()


def can_show_bars(encoding: str | None) -> bool:
    """Return whether text in ``encoding`` can hold the characters of :func:`bar`."""
    try:
        f"█{EIGHTHS}".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
