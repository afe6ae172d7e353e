"""Writing figures down: counters, samples by the minute, workers seen."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from vtrr_django.domain.histogram import Histogram
from vtrr_django.domain.job import PartitionStats, QueueStats
from vtrr_django.engines.sql.fields import from_microseconds, to_microseconds
from vtrr_django.engines.sql.known import MOST_KEYS
from vtrr_django.engines.sql.patience import BRIEF, patience
from vtrr_django.engines.sql.store import Cursor, Row, Store, marks
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.figures.recorder import (
    COUNTERS,
    MOST_PARTITIONS,
    REST,
    Counted,
    Tenant,
)
from vtrr_django.figures.statements import (
    ADD_ATTEMPT,
    ADD_MINUTE,
    ADD_TENANTS,
    MICROSECOND,
    NOTE_MINUTE,
    SEE_WORKERS,
    TENANTS,
    TOTALS,
)
from vtrr_django.figures.trimming import trim

T = TypeVar("T")

MINUTE: Final = timedelta(minutes=1)
TENANT_STEP: Final = timedelta(minutes=5)

LONGEST_LINES: Final = 10
"""Tenants whose waiting jobs are noted each minute."""

LOOKED_STEP: Final = timedelta(seconds=30)
"""How exact the last look for leases that ran out is kept while nothing else happens."""

_PATIENCE, _LONGEST_PAUSE = 5.0, 0.02
"""Seconds to wait while another process writes, and between two looks."""


def floor(moment: datetime, step: timedelta) -> datetime:
    """Return when the step of time began that ``moment`` is in."""
    return from_microseconds(_floor(to_microseconds(moment), step))


def _floor(microseconds: int, step: timedelta) -> int:
    return microseconds - microseconds % (step // MICROSECOND)


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What a process has to tell.

    Attributes:
        counted: what it counted.
        holding: leases that its workers hold, by worker id.
        worker_id: the worker that is alive and says so; "": none.
        beat: whether Celery's beat asked for it.
    """

    counted: Counted
    holding: Mapping[str, int]
    worker_id: str = ""
    beat: bool = False


class Keeper:
    """The figures of one queue, in the database of its history."""

    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self.store = store

    def add(self, told: Told) -> int | None:
        """Write down what a process tells.

        Returns the minute whose gauges the caller is to take, or None: in each minute one
        caller is.

        Nobody waits for another writer who never ends, as a process that was stopped in the
        middle of it: the row that all lock is passed over, and looked at again.

        Raises:
            StoreUnavailable: nothing was added.
        """
        if told.counted.is_idle and not told.beat and self._add_idle(told):
            return None
        minute, is_first = self._until_done(lambda cursor: self._add(cursor, told), _PATIENCE)
        return minute if is_first else None

    def _until_done(self, work: Callable[[Cursor], T | None], seconds: float) -> T:
        """Do ``work`` in a transaction, again while it returns None: another process writes.

        Raises:
            StoreUnavailable: that one does so for too long.
        """
        deadline = time.monotonic() + seconds
        while True:
            # Not durable: a database that crashes takes no more along than a process does.
            found = self.store.transact(work, durable=False)
            if found is not None:
                return found
            if time.monotonic() >= deadline:
                raise StoreUnavailable(
                    f"figures of queue {self.name} are being written by another process for more "
                    f"than {seconds:g} s"
                )
            time.sleep(random.uniform(0.0, _LONGEST_PAUSE))  # noqa: S311 - spreads writers only

    def note_resumed(self) -> None:
        """Note that jobs which waited may run from now on, so that nobody is to blame for before.

        It waits for no other writer for long: whoever lets jobs go on has done so already.

        Raises:
            StoreUnavailable: it was not noted.
        """
        with patience(BRIEF):
            self._until_done(self._note_resumed, BRIEF)

    def _note_resumed(self, cursor: Cursor) -> bool | None:
        row = self._lock(cursor)
        if row is None:
            return None
        self._change_totals(cursor, Counted(), {"resumed_at": row[0]})
        return True

    def _add_idle(self, told: Told) -> bool:
        """Note that a worker is alive, if there is no more to say; it locks no common row."""
        dialect = self.store.dialect
        rows = self.store.read(
            f"SELECT {dialect.clock}, sampled_at, reclaimed_at FROM {TOTALS} WHERE queue = %s",
            [*dialect.clock_params(), self.name],
        )
        if not rows:
            return False
        now, sampled_at, reclaimed_at = rows[0]
        looked_lately = reclaimed_at is not None and now - reclaimed_at < LOOKED_STEP // MICROSECOND
        if _is_first(now, sampled_at) or (told.counted.looked and not looked_lately):
            return False
        self.store.persist(
            lambda: self.store.in_cursor(lambda cursor: self._see(cursor, now, told))
        )
        return True

    def _add(self, cursor: Cursor, told: Told) -> tuple[int, bool] | None:
        """Add everything; None: another process is adding."""
        row = self._lock(cursor)
        if row is None:
            return None
        now, sampled_at, waits, runs = row
        counted, minute = told.counted, _floor(now, MINUTE)
        is_first = _is_first(now, sampled_at)
        values: dict[str, Any] = {
            "waits": _merged(waits, counted.waits) if counted.waits else None,
            "runs": _merged(runs, counted.runs) if counted.runs else None,
            "leased_at": now if counted.leases else None,
            "reclaimed_at": now if counted.looked else None,
            "beat_at": now if told.beat else None,
            "unknown_at": now if counted.unknown else None,
            "sampled_at": minute if is_first else None,
        }
        self._change_totals(cursor, counted, values)
        figures = (counted.leases, counted.completed, counted.failed, counted.reclaimed)
        if any(figures):
            ADD_MINUTE.run(cursor, [(self.name, minute, *figures, "")])
        if counted.tenants:
            self._add_tenants(cursor, _floor(now, TENANT_STEP), counted.tenants)
        self._add_attempts(cursor, now, counted)
        self._see(cursor, now, told)
        return minute, is_first

    def _lock(self, cursor: Cursor) -> Row | None:
        """Lock the queue's totals: no two write its figures at once. None: another does."""
        dialect = cursor.dialect
        select = f"SELECT {dialect.clock}, sampled_at, waits, runs FROM {TOTALS} WHERE queue = %s"

        def found(lock: str) -> list[Row]:
            return cursor.rows(select + lock, [*dialect.clock_params(), self.name])

        rows = found(dialect.lock_skip)
        if not rows and not found(""):
            self._begin_totals(cursor)
            rows = found(dialect.lock_skip)
        return rows[0] if rows else None

    def _begin_totals(self, cursor: Cursor) -> None:
        dialect, columns = cursor.dialect, ("queue", *COUNTERS, "waits", "runs")
        cursor.run(
            f"{dialect.insert_new} {TOTALS} ({', '.join(columns)}) "
            f"VALUES {marks(columns)}{dialect.ignore_conflict}",
            [self.name, *(0 for _ in COUNTERS), "", ""],
        )

    def _change_totals(self, cursor: Cursor, counted: Counted, values: Mapping[str, Any]) -> None:
        counts = {name: n for name in COUNTERS if (n := getattr(counted, name))}
        known = {column: value for column, value in values.items() if value is not None}
        changes = [
            *(f"{name} = {name} + %s" for name in counts),
            *(f"{name} = %s" for name in known),
        ]
        if changes:
            cursor.run(
                f"UPDATE {TOTALS} SET {', '.join(changes)} WHERE queue = %s",
                [*counts.values(), *known.values(), self.name],
            )

    def _add_tenants(self, cursor: Cursor, at: int, tenants: Mapping[str, Tenant]) -> None:
        """Add to the rows of tenants; while there is room, those with most leases get new ones."""
        known = self._known_waits(cursor, at, [*tenants, REST])
        strangers = [key for key in tenants if key not in known and key != REST]
        crowd: set[str] = set()
        if strangers:
            [(count,)] = cursor.rows(
                f"SELECT COUNT(*) FROM {TENANTS} WHERE queue = %s AND at = %s "
                "AND partition_key <> %s",
                [self.name, at, REST],
            )
            strangers.sort(key=lambda key: -tenants[key].leases)
            crowd.update(strangers[max(0, MOST_PARTITIONS - count) :])
        apart = {key: tenant for key, tenant in tenants.items() if key not in crowd}
        if crowd:
            apart[REST] = rest = Tenant()
            for key in crowd | (tenants.keys() & {REST}):
                rest.merge(tenants[key])
        # In the order of the key, as everybody who writes several rows.
        ADD_TENANTS.run(
            cursor,
            [
                (
                    *(self.name, at, key, one.leases, one.completed, one.failed),
                    *(one.worker_seconds, _merged(known.get(key, ""), one.waits)),
                )
                for key, one in sorted(apart.items())
            ],
        )

    def _add_attempts(self, cursor: Cursor, now: int, counted: Counted) -> None:
        """Write down what went wrong, at the times of the database's clock."""
        here = time.monotonic()
        cursor.run_each(
            ADD_ATTEMPT,
            [
                (
                    *(self.name, one.job_id, now - round((here - one.at) * 1_000_000)),
                    *(one.worker_id, one.error_class[:255], one.reason),
                )
                for one in counted.attempts
            ],
        )

    def _known_waits(self, cursor: Cursor, at: int, keys: list[str]) -> dict[str, str]:
        """Return the histograms of the rows that exist, by partition key."""
        known: dict[str, str] = {}
        for start in range(0, len(keys), MOST_KEYS):
            chunk = keys[start : start + MOST_KEYS]
            rows = cursor.rows(
                f"SELECT partition_key, waits FROM {TENANTS} WHERE queue = %s AND at = %s "
                f"AND partition_key IN {marks(chunk)}",
                [self.name, at, *chunk],
            )
            known.update((key, waits) for key, waits in rows)
        return known

    def _see(self, cursor: Cursor, now: int, told: Told) -> None:
        """Note workers that lease, and the one that is alive."""
        leases = {told.worker_id: 0} if told.worker_id else {}
        leases |= told.counted.workers
        rows = [
            (self.name, worker_id, n, now, told.holding.get(worker_id, 0), now if n else None, now)
            for worker_id, n in sorted(leases.items())
        ]
        SEE_WORKERS.run(cursor, rows)

    def note(self, minute: int, stats: QueueStats, longest: Iterable[PartitionStats]) -> None:
        """Note how the queue stood in a minute, and trim what is too old."""
        waiting = {one.partition_key: one.ready for one in longest if one.ready}
        gauges = (stats.ready, stats.scheduled, stats.leased, stats.oldest_wait_seconds)
        row = (self.name, minute, *gauges, json.dumps(waiting), 0, 0, 0, 0)
        # One statement that commits by itself: its lock does not outlast a stopped process.
        self.store.persist(
            lambda: self.store.in_cursor(lambda cursor: NOTE_MINUTE.run(cursor, [row]))
        )
        self.store.transact(lambda cursor: trim(cursor, self.name), durable=False)


def _is_first(now: int, sampled_at: int | None) -> bool:
    """Return whether nobody has taken this minute's gauges.

    A moment of the next minute is of one who was a little faster; one further ahead, of a
    clock that has been put back since.
    """
    minute = _floor(now, MINUTE)
    return sampled_at is None or not minute <= sampled_at <= minute + MINUTE // MICROSECOND


def _merged(text: str, more: Histogram) -> str:
    histogram = Histogram.load(text)
    histogram.merge(more)
    return histogram.dump()
