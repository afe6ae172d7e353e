"""Which partitions are candidates: one function decides it, under the partition's lock.

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
from vtrr_django.domain.fairness import FIRST_TAG, start_tag
from vtrr_django.domain.job import NewJob
from vtrr_django.engines.sql.store import Cursor, Row, Store, marks
from vtrr_django.engines.sql.tables import (
    AVERAGE,
    JOB,
    LEASED,
    LINE,
    PARTITION,
    QUEUE,
    READY,
    SCHEDULED,
)
from vtrr_django.exceptions import so_far

_CHUNK = 100
"""Partitions refreshed in one transaction: bounds how long their locks are held."""

_SWEEP = 500
"""Partitions with waiting jobs that one sweep looks at."""


Read = Callable[[str, Sequence[object]], list[Row]]
"""Reads rows: a cursor's ``rows`` inside a transaction, a store's ``read`` outside."""

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
        shares_of: Callable[[Collection[str]], Mapping[str, float]],
    ) -> None:
        self.name = name
        self.config = config
        self.store = store
        self._shares_of = shares_of
        self._sweep_after = ""

    # -- deciding ------------------------------------------------------------------

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
        """After the commit: return what has to be decided again."""
        overtaken = decided.joined if self._is_over(decided) else []
        return [*self.stranded(decided.taken_out), *overtaken]

    def _is_over(self, decided: _Decided) -> bool:
        """Return whether the busy period ended while partitions became candidates in it.

        Whoever ended it could not see them yet. Whom it could see, it looks after itself.
        """
        if not decided.joined or self.store.dialect.serial:
            return False
        sql = f"SELECT period FROM {QUEUE} WHERE queue = %s"
        return any(row[0] > decided.period for row in self.store.read(sql, [self.name]))

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
                    current = self.current_virtual_time(cursor, period)
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
        decided = _Decided(period=self.current_period(cursor))
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

    # -- looking -------------------------------------------------------------------

    def current_period(self, cursor: Cursor) -> int:
        """Return the number of the busy period, creating the queue's row when it is new."""
        sql = f"SELECT period FROM {QUEUE} WHERE queue = %s"
        rows = cursor.rows(sql, [self.name])
        if not rows:
            cursor.run(
                f"{cursor.dialect.insert_new} {QUEUE} (queue, paused, period) VALUES (%s, %s, 1)"
                + cursor.dialect.ignore_conflict,
                [self.name, False],
            )
            rows = cursor.rows(sql, [self.name])
        return int(rows[0][0])

    def current_virtual_time(self, cursor: Cursor, period: int) -> float:
        """Return the queue's virtual time in this busy period."""
        return current_virtual_time(cursor, self.name, period)

    def awaiting(
        self, precedences: Mapping[str, int | None], shares: Mapping[str, float]
    ) -> list[str]:
        """Return the partitions that new jobs change.

        Nearly always none: the partition is a candidate already and its head stays.

        Args:
            precedences: by key the lowest of those that are ready; None: none is ready yet.
            shares: as in :meth:`~vtrr_django.engines.base.Engine.enqueue`.
        """
        keys = list(precedences)
        # A partition that is new has the share 1 until somebody says otherwise.
        unchanged = {
            key for key in keys if precedences[key] is None and shares.get(key, 1.0) == 1.0
        }
        for start in range(0, len(keys), 500):
            chunk = keys[start : start + 500]
            for key, eligible, barred, precedence, share in self.store.read(
                "SELECT partition_key, eligible, at_limit OR paused, head_precedence, "
                f"declared_share FROM {PARTITION} "
                f"WHERE queue = %s AND partition_key IN {marks(chunk)}",
                [self.name, *chunk],
            ):
                lowest = precedences[key]
                settled = lowest is None or barred or (eligible and precedence <= lowest)
                if settled and shares.get(key, share) == share:
                    unchanged.add(key)
                else:
                    unchanged.discard(key)
        return [key for key in keys if key not in unchanged]

    def is_settled(self, cursor: Cursor, job: NewJob, share: float | None) -> bool:
        """Return whether a new ready job changes nothing; as :meth:`awaiting`, for one."""
        rows = cursor.rows(
            "SELECT at_limit OR paused OR (eligible AND head_precedence <= %s), declared_share "
            f"FROM {PARTITION} WHERE queue = %s AND partition_key = %s",
            [-job.priority, self.name, job.partition_key],
        )
        return bool(rows) and bool(rows[0][0]) and share in (None, rows[0][1])

    def stranded(self, taken_out: Sequence[str]) -> list[str]:
        """Return which partitions, just taken out of the running, have a job to run after all."""
        if not taken_out or self.store.dialect.serial:
            return []
        one = (
            f"SELECT * FROM (SELECT partition_key FROM {JOB} "
            "WHERE queue = %s AND state = %s AND partition_key = %s LIMIT 1) head"
        )
        params = [value for key in taken_out for value in (self.name, READY, key)]
        waiting = [
            row[0] for row in self.store.read(" UNION ALL ".join([one] * len(taken_out)), params)
        ]
        return [key for key in waiting if self._could_run(key)]

    def _could_run(self, key: str) -> bool:
        rows = self.store.read(
            f"SELECT in_flight_limit, paused, eligible FROM {PARTITION} "
            "WHERE queue = %s AND partition_key = %s",
            [self.name, key],
        )
        if not rows:
            return True
        own, paused, eligible = rows[0]
        if paused or eligible:
            return False
        limit = self.config.effective_limit(own)
        if limit is None:
            return True
        counts = leased_counts(self.store.read, self.name, [key])
        return counts.get(key, 0) < limit

    def sweep(self) -> list[str]:
        """Find partitions with ready jobs that are not in the running but could be.

        And those that are, by a tag of a busy period that is over. Walks the partitions that
        have ready jobs, one index probe each, at most ``_SWEEP`` a call; the next call goes on
        where this one stopped.
        """
        walk, params = self._walk_of_waiting()
        rows = self.store.read(
            f"{walk} SELECT w.partition_key, p.id, p.eligible, p.paused, "
            f"p.period < (SELECT period FROM {QUEUE} WHERE queue = %s) FROM waiting w "
            f"LEFT JOIN {PARTITION} p ON p.queue = %s AND p.partition_key = w.partition_key "
            "WHERE w.partition_key IS NOT NULL ORDER BY w.partition_key",
            [*params, self.name, self.name],
        )
        self._sweep_after = rows[-1][0] if len(rows) >= _SWEEP else ""
        idle = [row[0] for row in rows if row[1] is None or not (row[2] or row[3])]
        found = [key for key in idle if self._could_run(key)]
        found += [row[0] for row in rows if row[2] and row[4]]
        self.refresh(found)
        return found

    def _walk_of_waiting(self) -> tuple[str, list[str | int]]:
        """Return what makes a table of the keys that have ready jobs, and its parameters."""
        if self.store.dialect.skips_equal_keys:
            # MariaDB reads every row for each step of the walk below.
            walk = f"""
                WITH waiting AS (
                    SELECT partition_key FROM {JOB} FORCE INDEX FOR GROUP BY (vtrr_job_line)
                    WHERE queue = %s AND state = %s AND partition_key >= %s
                    GROUP BY queue, state, partition_key
                    ORDER BY queue, state, partition_key LIMIT %s
                )
            """
            return walk, [self.name, READY, self._sweep_after, _SWEEP]
        # By the order of one index, in which the next row may be another queue's: a planner that
        # knows nothing of the table yet takes two equalities for one row, and any index.
        step = f"""(
            SELECT CASE WHEN j.queue = %s AND j.state = %s THEN j.partition_key END
            FROM {JOB} j WHERE (j.queue, j.state, j.partition_key) {{}} (%s, %s, {{}})
            ORDER BY j.queue, j.state, j.partition_key LIMIT 1
        )"""
        walk = f"""
            WITH RECURSIVE waiting (partition_key, n) AS (
                SELECT {step.format(">=", "%s")}, 1
                UNION ALL
                SELECT {step.format(">", "waiting.partition_key")}, waiting.n + 1
                FROM waiting WHERE waiting.partition_key IS NOT NULL AND waiting.n < %s
            )
        """
        line: list[str | int] = [self.name, READY, self.name, READY]
        return walk, [*line, self._sweep_after, *line, _SWEEP]

    # -- the busy period -----------------------------------------------------------

    def end_busy_period(self) -> None:
        """Make all partitions even again if nothing waits and nothing is leased.

        A partition may become a candidate while we decide, and keep the tag of the period that
        ends. Nobody waits for anybody: we look for such ones after our commit, and whoever made
        one a candidate looks after its own whether the period is over (:meth:`_is_over`).
        """
        if not self.store.read(*self._idle_period()):
            return
        # Not durable: what is lost with it is a queue that is idle, and found to be once more.
        ended = self.store.transact(self._end_period, durable=False)
        if ended is not None:
            rows = self.store.read(
                f"SELECT partition_key FROM {PARTITION} "
                "WHERE queue = %s AND eligible = %s AND period <= %s",
                [self.name, True, ended],
            )
            self.refresh(row[0] for row in rows)

    def _end_period(self, cursor: Cursor) -> int | None:
        """End the busy period if it still may; return its number."""
        rows = cursor.rows(*self._idle_period())
        # By what was read, not by what the UPDATE would find: InnoDB locks that under some
        # isolation levels, and would wait for transactions of those who enqueue.
        ended = rows and cursor.run(
            f"UPDATE {QUEUE} SET period = period + 1 WHERE queue = %s AND period = %s",
            [self.name, rows[0][0]],
        )
        return int(rows[0][0]) if ended else None

    def _idle_period(self) -> tuple[str, list[object]]:
        """Return what reads the busy period's number where nothing waits or is leased."""
        # MIN, not EXISTS: a planner that believes a table full of matches answers EXISTS by
        # reading it from the start, past everything that was deleted since its statistics.
        sql = (
            f"SELECT period FROM {QUEUE} WHERE queue = %s "
            f"AND (SELECT MIN(virtual_time) FROM {PARTITION} "
            "WHERE queue = %s AND eligible = %s) IS NULL "
            f"AND (SELECT MIN(scheduled_at) FROM {JOB} WHERE queue = %s AND state = %s) IS NULL "
            f"AND (SELECT MIN(lease_expires_at) FROM {JOB} WHERE queue = %s) IS NULL"
        )
        return sql, [self.name, self.name, True, self.name, READY, self.name]

    def forget_idle(self, batch: int) -> int:
        """Remove rows that say nothing a new row would not say; return how many.

        A tenant that has no jobs and no settings and is not ahead of the queue's virtual time
        starts level with the others whether it is remembered or not. Otherwise the table
        would grow with every tenant ever seen. One whose jobs are all scheduled is not
        forgotten, for when they fall due nobody tells its share again. What was measured of
        a tenant is forgotten with it.
        """

        def work(cursor: Cursor) -> int:
            period = self.current_period(cursor)
            current = self.current_virtual_time(cursor, period)
            rows = cursor.rows(
                f"SELECT id, partition_key FROM {PARTITION} p "
                "WHERE queue = %s AND eligible = %s AND paused = %s "
                "AND share IS NULL AND in_flight_limit IS NULL "
                # Behind, not level: the queue's virtual time is the largest tag in a row.
                "AND (period < %s OR (virtual_time < %s AND leased_tag < %s)) "
                f"AND NOT EXISTS (SELECT 1 FROM {JOB} j WHERE j.queue = %s "
                "AND j.state IN (%s, %s, %s) AND j.partition_key = p.partition_key) "
                f"ORDER BY id LIMIT %s{cursor.dialect.lock_skip}",
                [
                    *(self.name, False, False, period, current, current),
                    *(self.name, SCHEDULED, READY, LEASED, batch),
                ],
            )
            self._forget_averages(cursor, [row[1] for row in rows])
            return cursor.delete(PARTITION, "id", [row[0] for row in rows])

        return self.store.transact(work)

    def _forget_averages(self, cursor: Cursor, keys: Sequence[str]) -> None:
        """Remove what was measured of partitions: what they cost is learnt anew."""
        if not keys:
            return
        rows = cursor.rows(
            f"SELECT id FROM {AVERAGE} WHERE queue = %s AND partition_key IN {marks(keys)}",
            [self.name, *keys],
        )
        cursor.delete(AVERAGE, "id", [row[0] for row in rows])

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


def current_virtual_time(cursor: Cursor, queue: str, period: int) -> float:
    """Return the largest tag leased in a busy period: one index probe."""
    rows = cursor.rows(
        f"SELECT MAX(leased_tag) FROM {PARTITION} WHERE queue = %s AND period = %s",
        [queue, period],
    )
    return max(FIRST_TAG, rows[0][0] or 0.0)


def leased_counts(read: Read, queue: str, keys: Sequence[str]) -> dict[str, int]:
    """Return how many jobs each partition has leased; partitions with none are missing."""
    if not keys:
        return {}
    rows = read(
        f"SELECT partition_key, COUNT(*) FROM {JOB} WHERE queue = %s AND state = %s "
        f"AND partition_key IN {marks(keys)} GROUP BY partition_key",
        [queue, LEASED, *keys],
    )
    return dict(rows)
