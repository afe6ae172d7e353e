"""The partitions of a queue as rows: how each stands and what happened to it within the hour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from vtrr_django.admin.markup import seconds_between
from vtrr_django.domain.job import PartitionStats
from vtrr_django.figures.reading import REST, Tenant
from vtrr_django.intake import declared_shares
from vtrr_django.queue import Queue

MOST: Final = 10_000
"""Partitions that a page looks at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One partition.

    Attributes:
        stats: how it stands.
        past: what happened to it in the last hour.
        now: the store's time.
        used: its part of the worker time of that hour, 0 to 1; None: none was used.
        due: the part its share is of the shares of all that were active; None: it was not.
    """

    stats: PartitionStats
    past: Tenant
    now: datetime | None
    used: float | None = None
    due: float | None = None

    @property
    def key(self) -> str:
        """Its key."""
        return self.stats.partition_key

    @property
    def oldest_wait(self) -> float | None:
        """Seconds that its longest-waiting job has been ready; None: none is."""
        return seconds_between(self.stats.oldest_ready_at, self.now)

    def wait(self, q: float) -> float | None:
        """Return the quantile ``q`` of the waits of the last hour in seconds, or None."""
        return self.past.waits.quantile(q)

    @property
    def p95(self) -> float | None:
        """What 95 of 100 waits of the last hour were not above, in seconds."""
        return self.wait(0.95)

    @property
    def state(self) -> str:
        """Why it waits, or what it does, in a word or three."""
        stats = self.stats
        if stats.paused:
            return "paused"
        if stats.ready:
            full = stats.limit is not None and stats.leased >= stats.limit
            return "at its limit" if full else "waiting"
        if stats.leased:
            return "running"
        return "scheduled" if stats.scheduled else "idle"


SORTS: Final[Mapping[str, Callable[[Row], Any]]] = {
    "key": lambda row: row.key,
    "ready": lambda row: row.stats.ready,
    "leased": lambda row: row.stats.leased,
    "share": lambda row: row.stats.share,
    "oldest": lambda row: row.oldest_wait,
    "p95": lambda row: row.p95,
    "lag": lambda row: row.stats.lag,
    "seconds": lambda row: row.past.worker_seconds,
}
"""What the table can be sorted by."""

DEFAULT_SORT: Final = "-ready"


def rows_of(
    queue: Queue,
    found: Iterable[PartitionStats],
    past: Mapping[str, Tenant],
    now: datetime | None,
) -> list[Row]:
    """Return a row for each partition that has jobs or settings, or was active in the hour.

    Args:
        queue: whose partitions.
        found: how they stand.
        past: what happened to them in the last hour, by their keys.
        now: the store's time.
    """
    known = {one.partition_key: one for one in found}
    gone = [key for key in past if key not in known and key != REST]
    shares = _shares(queue, gone)
    limit = queue.config.default_limit
    for key in gone:
        known[key] = PartitionStats(partition_key=key, share=shares.get(key, 1.0), limit=limit)
    total = sum(one.worker_seconds for one in past.values())
    active = [key for key, one in past.items() if key != REST and one.worker_seconds > 0]
    shared = sum(known[key].share for key in active)
    busy = set(active)
    nothing = Tenant()
    return [
        Row(
            stats=stats,
            past=past.get(key, nothing),
            now=now,
            used=past[key].worker_seconds / total if key in busy else None,
            due=stats.share / shared if key in busy else None,
        )
        for key, stats in known.items()
    ]


def _shares(queue: Queue, keys: Sequence[str]) -> dict[str, float]:
    """Return declared shares, where finding them out runs none of the project's code.

    A callable may ask the database for each of a thousand partitions.
    """
    shares = queue.config.shares
    return {} if callable(shares) else declared_shares(shares, keys)


def matching(rows: Iterable[Row], searched: str) -> list[Row]:
    """Return the rows whose key begins with the text, the one whose key it is first."""
    found = [row for row in rows if row.key.startswith(searched)]
    return sorted(found, key=lambda row: row.key != searched)


def ordered(rows: Iterable[Row], sort: str) -> list[Row]:
    """Return the rows by one of ``SORTS``, backwards with a minus; the unknown come last."""
    value = SORTS[sort.removeprefix("-")]
    pairs = [(value(row), row) for row in rows]
    there = [pair for pair in pairs if pair[0] is not None]
    there.sort(key=lambda pair: pair[1].key)
    there.sort(key=lambda pair: pair[0], reverse=sort.startswith("-"))
    return [row for _, row in there] + [row for one, row in pairs if one is None]
