"""Partition rows, their settings, and which are candidates: decided under the row's lock.

An enqueue only inserts its job; the partition becomes a candidate afterwards, in a
transaction of its own. Between the two a worker may find the partition empty and take it
out of the running. Nothing is stranded, because whoever takes a partition out looks
again after its commit, in a new snapshot, and whoever adds or frees a job looks after
*its* commit: one of the two sees the other. What a crash leaves between the two steps
is found by :meth:`Partitions.sweep`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.fairness import start_tag
from vtrr_django.engines.orm.busy_period import BusyPeriod
from vtrr_django.engines.orm.candidates import Candidates
from vtrr_django.engines.orm.in_flight import leased_counts
from vtrr_django.engines.sql.store import Cursor, Read, Row, Store, marks
from vtrr_django.engines.sql.tables import JOB, LINE, PARTITION, READY
from vtrr_django.exceptions import so_far

_CHUNK = 100
"""Partitions refreshed in one transaction: bounds how long their locks are held."""

SET_STANDING = (
    f"UPDATE {PARTITION} SET eligible = %s, at_limit = %s, head_id = %s, head_precedence = %s, "
    "virtual_time = %s, leased_tag = %s, period = %s WHERE id = %s"
)
"""Writes down whether a partition is a candidate, for which job, and its times."""


@dataclass(slots=True)
class _Standing:
    """A partition row, locked, as :meth:`Partitions._refresh_locked` decides about it.

    ``overtaken``: it became a candidate in a busy period that was just ending.
    """

    id: int
    key: str
    limit: int | None
    paused: bool
    virtual_time: float
    leased_tag: float
    eligible: bool
    overtaken: bool


@dataclass(slots=True)
class _Decided:
    """What one transaction decided about some partitions: the keys of those it concerns.

    ``made`` are those that had no row yet, ``taken_out`` those taken out of the running, and
    ``joined`` those that became candidates, all in the busy period ``period``.
    """

    period: int
    made: list[str] = field(default_factory=list)
    taken_out: list[str] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)


class Partitions:
    """The partition rows of one queue."""

    def __init__(
        self,
        name: str,
        config: QueueConfig,
        store: Store,
        busy_period: BusyPeriod,
        candidates: Candidates,
        *,
        shares_of: Callable[[Collection[str]], Mapping[str, float]],
    ) -> None:
        self.name = name
        self.config = config
        self.store = store
        self.busy_period = busy_period
        self.candidates = candidates
        self._shares_of = shares_of

    # -- when to decide ------------------------------------------------------------

    def refresh(self, keys: Iterable[str], shares: Mapping[str, float] | None = None) -> None:
        """Make each partition a candidate, or not, as its jobs and settings say now."""
        told = dict(shares or {})
        pending = sorted(set(keys))
        while pending:
            chunk, pending = pending[:_CHUNK], pending[_CHUNK:]
            # Not durable: after a crash of the database the sweep decides again.
            decided = self.store.transact(
                partial(self._refresh_locked, keys=chunk, shares=told), durable=False
            )
            pending += self._look_after(decided)
            pending += self._undeclared(decided.made, told)

    def _look_after(self, decided: _Decided) -> list[str]:
        """After the commit: return what has to be decided again.

        Whoever ended the busy period could not see yet who became a candidate in it. Whom it
        could see, it looks after itself.
        """
        joined = decided.joined
        overtaken = joined if joined and self.busy_period.is_over(decided.period) else []
        return [*self.candidates.stranded(decided.taken_out), *overtaken]

    def _undeclared(self, made: Sequence[str], told: dict[str, float]) -> list[str]:
        """Ask what nobody told of partitions that are new; return those whose share is not 1.

        Their jobs came in long ago, and who enqueued them died before it made the rows, or they
        were forgotten just then. After the commit, for what is asked may be the project's code.
        """
        unknown = [key for key in made if key not in told]
        if unknown:
            told.update(self._shares_of(unknown))
        return [key for key in unknown if told.get(key, 1.0) != 1.0]

    def configure(
        self, key: str, values: Mapping[str, object], shares: Mapping[str, float]
    ) -> None:
        """Change a partition's settings, and whether it is a candidate, in one transaction."""

        def work(cursor: Cursor) -> _Decided:
            self._lock(cursor, [key], shares)
            if values:
                assignments = ", ".join(f"{column} = %s" for column in values)
                cursor.run(
                    f"UPDATE {PARTITION} SET {assignments} WHERE queue = %s AND partition_key = %s",
                    [*values.values(), self.name, key],
                )
            return self._refresh_locked(cursor, [key], {})

        decided = self.store.transact(work)
        with so_far(lambda: 1):
            self.refresh(self._look_after(decided))

    def make_room(self, cursor: Cursor, freed: Iterable[str], returned: Iterable[str]) -> None:
        """Let partitions whose jobs just ended in this transaction take part in its lease.

        Only those at their limit, or that got jobs back, can have become candidates.
        """
        full = [key for key, at_limit in self._idle(cursor.rows, freed) if at_limit]
        changed = sorted({*full, *returned})
        if changed:
            self._refresh_locked(cursor, changed, {})

    def settle(self, freed: Iterable[str]) -> None:
        """After the commit: use the places that ended jobs freed, or end the busy period."""
        idle = self._idle(self.store.read, freed)
        self.refresh(key for key, at_limit in idle if at_limit)
        if idle:
            self.end_busy_period()

    def _idle(self, read: Read, keys: Iterable[str]) -> list[Row]:
        """Return (key, at_limit) of those partitions that are not candidates."""
        wanted = sorted(set(keys))
        if not wanted:
            return []
        return read(
            f"SELECT partition_key, at_limit FROM {PARTITION} WHERE queue = %s "
            f"AND partition_key IN {marks(wanted)} AND eligible = %s",
            [self.name, *wanted, False],
        )

    def sweep(self) -> list[str]:
        """Decide about what nobody else did, part of the queue's partitions at a time."""
        found = self.candidates.missed()
        self.refresh(found)
        return found

    def end_busy_period(self) -> None:
        """Make all partitions even again if nothing waits and nothing is leased."""
        self.refresh(self.busy_period.end())

    # -- deciding, under the lock --------------------------------------------------

    def _refresh_locked(
        self, cursor: Cursor, keys: Sequence[str], shares: Mapping[str, float]
    ) -> _Decided:
        """Decide about ``keys``."""
        standings, decided = self._lock(cursor, keys, shares)
        period = decided.period
        heads = self._heads(cursor, [s.key for s in standings if not s.paused])
        leased = leased_counts(
            cursor.rows,
            self.name,
            [s.key for s in standings if s.limit is not None and s.key in heads],
        )
        current: float | None = None
        updates: list[Sequence[object]] = []
        for standing in standings:
            head = heads.get(standing.key)
            full = standing.limit is not None and leased.get(standing.key, 0) >= standing.limit
            eligible = head is not None and not full
            if eligible and (not standing.eligible or standing.overtaken):
                decided.joined.append(standing.key)
                if current is None:
                    current = self.busy_period.virtual_time(cursor, period)
                standing.virtual_time = start_tag(standing.virtual_time, current)
            elif not eligible and (standing.eligible or full):
                # Full by a count that a job ending meanwhile may have made wrong: whoever
                # ended it saw no partition at its limit yet.
                decided.taken_out.append(standing.key)
            head_id, precedence = head if head is not None else ("", 0)
            at_limit = head is not None and full
            tags = (standing.virtual_time, standing.leased_tag)
            updates.append((eligible, at_limit, head_id, precedence, *tags, period, standing.id))
        cursor.run_each(SET_STANDING, updates)
        return decided

    def _lock(
        self, cursor: Cursor, keys: Sequence[str], shares: Mapping[str, float]
    ) -> tuple[list[_Standing], _Decided]:
        decided = _Decided(period=self.busy_period.number(cursor))
        rows = self._select_locked(cursor, keys)
        if len(rows) < len(keys):
            decided.made = sorted(set(keys) - {row[1] for row in rows})
            self._create(cursor, decided.made)
            rows = self._select_locked(cursor, keys)
        changed = [(shares[row[1]], row[0]) for row in rows if shares.get(row[1], row[7]) != row[7]]
        cursor.run_each(f"UPDATE {PARTITION} SET declared_share = %s WHERE id = %s", changed)
        # It may have ended since we looked, and others have written that down here.
        decided.period = period = max([decided.period, *(row[5] for row in rows)])
        standings = [
            _Standing(
                id=row[0],
                key=row[1],
                limit=self.config.effective_limit(row[2]),
                paused=bool(row[3]),
                # What an earlier busy period left behind counts no more.
                virtual_time=row[4] if row[5] == period else 0.0,
                leased_tag=row[8] if row[5] == period else 0.0,
                eligible=bool(row[6]),
                overtaken=bool(row[6]) and row[5] != period,
            )
            for row in rows
        ]
        return standings, decided

    def _select_locked(self, cursor: Cursor, keys: Sequence[str]) -> list[Row]:
        # In the order of id, as everybody who locks several does: no deadlock among us.
        return cursor.rows(
            "SELECT id, partition_key, in_flight_limit, paused, virtual_time, period, eligible, "
            f"declared_share, leased_tag FROM {PARTITION}"
            f"{cursor.dialect.using('vtrr_partition_key')} "
            f"WHERE queue = %s AND partition_key IN {marks(keys)} "
            f"ORDER BY id{cursor.dialect.lock_wait}",
            [self.name, *keys],
        )

    def _create(self, cursor: Cursor, keys: Sequence[str]) -> None:
        cursor.run_each(
            f"{cursor.dialect.insert_new} {PARTITION} "
            "(queue, partition_key, share, declared_share, in_flight_limit, paused, period, "
            "virtual_time, leased_tag, eligible, at_limit, head_id, head_precedence) "
            "VALUES (%s, %s, NULL, 1.0, NULL, %s, 0, 0.0, 0.0, %s, %s, '', 0)"
            + cursor.dialect.ignore_conflict,
            [(self.name, key, False, False, False) for key in keys],
        )

    def _heads(self, cursor: Cursor, keys: Sequence[str]) -> dict[str, tuple[str, int]]:
        if not keys:
            return {}
        one = (
            f"SELECT * FROM (SELECT partition_key, id, precedence FROM {JOB} "
            "WHERE queue = %s AND state = %s AND partition_key = %s "
            f"ORDER BY {LINE} LIMIT 1) head"
        )
        params = [value for key in keys for value in (self.name, READY, key)]
        rows = cursor.rows(" UNION ALL ".join([one] * len(keys)), params)
        return {key: (job_id, precedence) for key, job_id, precedence in rows}
