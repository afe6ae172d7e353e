"""What an operator is told about a queue in Redis."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.job import Due, PartitionStats, QueueStats
from vtrr_django.engines.redis.commands import Commands
from vtrr_django.engines.redis.wire import text
from vtrr_django.engines.sql.fields import from_microseconds, to_microseconds
from vtrr_django.engines.sql.history import History

_SCAN, _LOOK = 1000, 250
"""Partitions in one reply of HSCAN, and in one script."""

_VALUES = 10


class Figures:
    """The looking side of one queue."""

    def __init__(self, name: str, config: QueueConfig, commands: Commands) -> None:
        self.name = name
        self.config = config
        self.commands = commands

    def stats(self, history: History) -> QueueStats:
        """Count everything once."""
        depth, completed, failed = self._counts()
        kept = history.store.persist(history.counts)
        return replace(
            depth,
            failed=kept["failed"] + failed,
            completed=kept["completed"] + completed,
            recent_failures=history.store.persist(history.recent_failures),
            recent_runs=history.store.persist(history.recent_runs),
        )

    def depth(self) -> QueueStats:
        """Count live jobs."""
        return self._counts()[0]

    def due(self, depth: QueueStats) -> Due:
        """Return what keeps jobs waiting: nothing is a candidate though jobs are ready."""
        keys = self.commands.keys
        now = 0 if depth.now is None else to_microseconds(depth.now) / 1_000_000
        candidates, overdue = self.commands.look(
            ("ZCARD", keys["queue"]), ("ZCOUNT", keys["scheduled"], "-inf", repr(now))
        )
        return Due(held=depth.ready > 0 and not candidates, overdue=overdue > 0)

    def _counts(self) -> tuple[QueueStats, int, int]:
        """Count live jobs, and the completed and failed ones that are on their way."""
        values = list(map(text, self.commands.run("stats")))
        paused, ready, scheduled, leased, waiting, since, now, completed, failed, *first = values
        depth = QueueStats(
            paused=paused == "1",
            ready=int(ready),
            scheduled=int(scheduled),
            leased=int(leased),
            partitions_waiting=int(waiting),
            oldest_ready_at=_moment(since),
            now=from_microseconds(int(now)),
            outbox=int(completed) + int(failed),
            outbox_since=min((_entered(one) for one in first if one), default=None),
        )
        return depth, 0 if self.config.completed_retention == 0 else int(completed), int(failed)

    def waiting(self) -> int:
        """Count ready jobs; 0 while the queue is paused."""
        depth = self.depth()
        return 0 if depth.paused else depth.ready

    def partition_keys(self) -> list[str]:
        """Return every partition Redis remembers."""
        return [key for key, _ in self._records("partition")]

    def _records(self, which: str) -> Iterator[tuple[str, str]]:
        """Yield key and record (see ``state.lua``) of each partition; some maybe twice."""
        cursor: Any = 0
        while True:
            cursor, found = self.commands.call(
                "HSCAN", self.commands.keys[which], cursor, "COUNT", _SCAN
            )
            pairs = (
                found.items() if isinstance(found, dict) else zip(*[iter(found)] * 2, strict=True)
            )
            for key, record in pairs:
                yield text(key), text(record)
            if int(cursor) == 0:
                return

    def partitions(self, partition_key: str | None, limit: int) -> list[PartitionStats]:
        """Return the partitions with live jobs or settings, most ready jobs first."""
        keys = self.commands.keys
        if partition_key is None:
            records = dict(self._records("partition"))
            configured = dict(self._records("settings"))
        else:
            records, configured = (
                {} if found is None else {partition_key: text(found)}
                for found in (
                    self.commands.call("HGET", keys[which], partition_key)
                    for which in ("partition", "settings")
                )
            )
        shown = (
            (key, record)
            for key, record in records.items()
            if _is_live(record) or _is_set(configured.get(key, ""))
        )
        first = heapq.nsmallest(limit, shown, key=lambda one: _rank(*one))
        found: list[PartitionStats] = []
        for start in range(0, len(first), _LOOK):
            found += self._look([key for key, _ in first[start : start + _LOOK]])
        return found

    def _look(self, keys: Sequence[str]) -> list[PartitionStats]:
        *values, current = map(text, self.commands.run("partitions", *keys))
        rows = zip(*[iter(values)] * _VALUES, strict=True)
        return [self._one(key, row, float(current)) for key, row in zip(keys, rows, strict=True)]

    def _one(self, key: str, row: Sequence[str], current: float) -> PartitionStats:
        leased, ready, scheduled, share, declared, limit, paused, head, at, since = row
        virtual_time = float(at)
        return PartitionStats(
            partition_key=key,
            ready=int(ready),
            scheduled=int(scheduled),
            leased=int(leased),
            share=float(declared if share == "-" else share),
            limit=self.config.effective_limit(None if limit == "-" else int(limit)),
            paused=paused == "1",
            oldest_ready_at=_moment(since),
            virtual_time=virtual_time,
            lag=max(0.0, virtual_time - current),
            candidate=head != "",
        )


def _moment(microseconds: str) -> datetime | None:
    return from_microseconds(int(microseconds)) if microseconds else None


def _entered(entry: str) -> datetime:
    """Return when an entry was put on a stream."""
    moment: datetime = from_microseconds(int(entry.partition("-")[0]) * 1000)
    return moment


def _is_live(record: str) -> bool:
    return record.split(" ")[:3] != ["0", "0", "0"]


def _is_set(settings: str) -> bool:
    """Return whether an operator has set something; what SHARES declares does not count."""
    if not settings:
        return False
    share, _, limit, paused = settings.split(" ")
    return (share, limit, paused) != ("-", "-", "0")


def _rank(key: str, record: str) -> tuple[bool, int, str]:
    leased, ready, scheduled, *_ = map(int, record.split(" ")[:3])
    return leased + ready + scheduled == 0, -ready, key
