"""What is measured becomes a figure, and figures become a table."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Literal

from benchmarks.agents import Agent
from benchmarks.databases import Databases

VTRR_SETTINGS: dict[str, Any] = {
    # The peer keeps all its results, so the app keeps its history too.
    "QUEUES": {"default": {"COMPLETED_RETENTION": None}}
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What a ratio has to be."""

    bound: float
    at: Literal["least", "most"] = "least"

    def __str__(self) -> str:
        return f"{'>=' if self.at == 'least' else '<='} {self.bound:g}"

    def is_met(self, ratio: float) -> bool:
        """Return whether ``ratio`` is on the right side of the bound."""
        return ratio >= self.bound if self.at == "least" else ratio <= self.bound


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One line of the table.

    Attributes:
        database: kind of database.
        what: what was measured.
        ours: our side, as text.
        other: the side it is compared with, as text; ``""``: none.
        ratios: one for each pair of runs; their median counts. Where there is nothing to
            compare with: the figure itself, and its target.
        target: what the median has to be; None: it is only for information.
        profile: function of ``benchmarks.sites.vtrr``, or for Redis of
            ``benchmarks.sites.in_redis``, that shows where the time goes.
    """

    database: str
    what: str
    ours: str
    other: str = ""
    ratios: Sequence[float] = ()
    target: Target | None = None
    profile: str | None = None

    @property
    def ratio(self) -> float | None:
        """The median of the ratios."""
        return median(self.ratios) if self.ratios else None

    @property
    def spread(self) -> str:
        """Between which ratios the middle half of the pairs lies."""
        if len(self.ratios) < 2:
            return ""
        low, _, high = quantiles(self.ratios, n=4, method="inclusive")
        return f"{low:.2f}..{high:.2f}"

    @property
    def verdict(self) -> str:
        """Whether the target was met."""
        if self.target is None or self.ratio is None:
            return ""
        return "met" if self.target.is_met(self.ratio) else "SHORT"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """What a measurement gets.

    Attributes:
        kind: of the databases, or ``redis``: then the history is in SQLite.
        databases: makes them.
        quick: whether a rough answer will do.
        peer: interpreter of the peer's environment; None: it is missing.
        redis: URL of the Redis server of this run; None: it is not measured.
        scale: how much the admin's pages are measured over, of what is demanded.
        page: what is in the names of the pages that are measured.
    """

    kind: str
    databases: Databases
    quick: bool
    peer: Path | None
    redis: str | None = None
    scale: float = 1.0
    page: str = ""

    def vtrr(self) -> Agent:
        """Return a process of the app on a fresh database."""
        return self.vtrr_on(self.databases.new(self.kind))

    def vtrr_on(self, database: dict[str, Any]) -> Agent:
        """Return a process of the app on this database, or on Redis."""
        vtrr = VTRR_SETTINGS
        if self.redis is not None:
            store = {"ENGINE": "redis", "URL": self.redis}
            vtrr = {"QUEUES": {"default": vtrr["QUEUES"]["default"] | store}}
        return Agent("vtrr", {"default": database}, vtrr=vtrr)

    def in_redis(self) -> Agent:
        """Return a process with queues in Redis, and vtrr-queue's if that is installed."""
        store = {"ENGINE": "redis", "URL": self.redis}
        queues = {"default": store, "large": store, "ours": store | {"CELERY_QUEUE": "ours"}}
        return Agent(
            "in_redis",
            {"default": self.databases.new("sqlite")},
            vtrr={"QUEUES": queues},
            celery={"broker_url": self.redis, "task_ignore_result": True},
        )

    def peer_on(self, database: dict[str, Any]) -> Agent:
        """Return a process of the peer on this database."""
        return Agent("tasks_db", {"default": database}, interpreter=self.peer)

    def rounds(self, seconds: float, most: int, least: int = 3) -> Iterator[int]:
        """Count rounds: ``least`` of them, then up to ``most`` while ``seconds`` last.

        With ``quick`` a sixth of the time, and one round at least.
        """
        if self.quick:
            seconds, least = seconds / 6, 1
        deadline = time.monotonic() + seconds
        for number in range(most):
            if number >= least and time.monotonic() > deadline:
                return
            yield number


def rate(per_second: float) -> str:
    """Return a rate as text."""
    return f"{per_second:,.0f}/s"


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as text, one line each."""
    head = ("database", "measured", "vtrr-django", "compared with", "ratio", "", "target", "")
    rows = [head]
    for figure in figures:
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
        target = "" if figure.target is None else str(figure.target)
        spread = f"({figure.spread})" if figure.spread else ""
        rows.append(
            (
                *(figure.database, figure.what, figure.ours, figure.other),
                *(ratio, spread, target, figure.verdict),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
