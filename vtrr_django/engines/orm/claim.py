"""Leasing: lock the candidates whose turn is next, give out their heads, move their tags.

Up to ``n`` jobs are leased in one transaction, in exactly the order in which ``n``
single leases would have taken them: the ``n`` candidates with the smallest tags are
locked, and the rule is played out over their heads in memory. The n-th job can come
from no other partition, for each of those ``n`` offers a job with a smaller tag.
"""

from __future__ import annotations

import heapq
import json
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.fairness import after_lease, initial_charge, start_tag
from vtrr_django.domain.job import LeasedJob
from vtrr_django.domain.parts import parts
from vtrr_django.engines.orm.busy_period import BusyPeriod
from vtrr_django.engines.orm.in_flight import leased_counts
from vtrr_django.engines.orm.partitions import SET_STANDING
from vtrr_django.engines.sql.fields import from_microseconds
from vtrr_django.engines.sql.store import Conflict, Cursor, Row, marks
from vtrr_django.engines.sql.tables import AVERAGE, JOB, LEASED, LINE, PARTITION, QUEUE, READY

_HEAD = (
    "partition_key, seq, id, precedence, weight, task_name, payload, delivery_count, timeouts, "
    "created_at, msg_id, parent_id, scheduled_at"
)
_WAITS = 5
"""Times one transaction waits for a partition that others hold."""

_UNITED = 250
"""Partitions whose heads one statement reads: SQLite unites 500 at most."""

_KEY, _SEQ, _ID, _PRECEDENCE, _WEIGHT, _TASK = range(6)
_SCHEDULED = 12


@dataclass(slots=True)
class _Line:
    """One locked candidate: what it may still give, and what it has given."""

    id: int
    key: str
    share: float
    limit: int | None
    virtual_time: float
    leased_tag: float
    overtaken: bool
    heads: deque[Row] = field(default_factory=deque)
    more: bool = True
    room: int | None = None
    given: int = 0

    @property
    def full(self) -> bool:
        return self.room is not None and self.given >= self.room


def _line_order(row: Row) -> tuple[int, int, int]:
    return row[_PRECEDENCE], row[_SCHEDULED], row[_SEQ]


@dataclass(slots=True)
class Claim:
    """What one leasing transaction took, which partitions it took out of the running or left in."""

    jobs: list[LeasedJob] = field(default_factory=list)
    taken_out: list[str] = field(default_factory=list)
    left_in: set[str] = field(default_factory=set)


class Claimer:
    """The leasing side of one queue."""

    def __init__(self, name: str, config: QueueConfig, busy_period: BusyPeriod) -> None:
        self.name = name
        self.config = config
        self.busy_period = busy_period

    def claim(self, cursor: Cursor, n: int, *, worker_id: str, lease_seconds: float) -> Claim:
        """Lease up to ``n`` jobs inside the caller's transaction."""
        rows = self._lock_candidates(cursor, n)
        if not rows:
            return Claim()
        # The row that we waited for may know of an end of the busy period that we did not see.
        period = max(rows[0][8], *(row[7] for row in rows))
        lines = [self._line(row, period) for row in rows]
        self._level(cursor, lines, period)
        self._measure_room(cursor, lines)
        now = self._fetch_heads(cursor, lines, n // len(lines) + 1)
        picks = self._play(cursor, lines, n)
        claim = Claim()
        claim.jobs = self._mark_leased(
            cursor, picks, now=now, worker_id=worker_id, lease_seconds=lease_seconds
        )
        claim.taken_out = self._store_lines(cursor, lines, period)
        claim.left_in = {line.key for line in lines}.difference(claim.taken_out)
        return claim

    # -- which partitions ----------------------------------------------------------

    def _lock_candidates(self, cursor: Cursor, n: int) -> list[Row]:
        rows = self._candidates(cursor, n, cursor.dialect.lock_skip)
        for _ in range(_WAITS):
            if rows or cursor.dialect.serial or not self._candidates(cursor, 1, ""):
                break
            # All are in the hands of other workers, each for a moment: wait for the next
            # one instead of coming back empty-handed and asking again. It may be empty
            # when its turn with us has come; then there may be others.
            rows = self._candidates(cursor, 1, cursor.dialect.lock_wait)
            rows = rows or self._candidates(cursor, n, cursor.dialect.lock_skip)
        return rows

    def _line(self, row: Row, period: int) -> _Line:
        return _Line(
            id=row[0],
            key=row[1],
            share=row[3] if row[2] is None else row[2],
            limit=self.config.effective_limit(row[4]),
            virtual_time=row[5],
            leased_tag=row[6] if row[7] == period else 0.0,
            overtaken=row[7] != period,
        )

    def _level(self, cursor: Cursor, lines: Sequence[_Line], period: int) -> None:
        """Let those that became candidates while a busy period ended join the one that is now."""
        overtaken = [line for line in lines if line.overtaken]
        if overtaken:
            current = self.busy_period.virtual_time(cursor, period)
            for line in overtaken:
                line.virtual_time = start_tag(0.0, current)

    def _candidates(self, cursor: Cursor, n: int, lock: str) -> list[Row]:
        # Whoever made a partition a candidate has made the queue's row.
        return cursor.rows(
            "SELECT id, partition_key, share, declared_share, in_flight_limit, virtual_time, "
            f"leased_tag, period, (SELECT period FROM {QUEUE} WHERE queue = %s) "
            f"FROM {PARTITION}{cursor.dialect.using('vtrr_partition_next')} "
            "WHERE queue = %s AND eligible = %s "
            f"ORDER BY virtual_time, head_id LIMIT %s{lock}",
            [self.name, self.name, True, n],
        )

    def _measure_room(self, cursor: Cursor, lines: Sequence[_Line]) -> None:
        """Count what limited partitions have in flight; exact, for we hold their locks."""
        limited = [line for line in lines if line.limit is not None]
        counts = leased_counts(cursor.rows, self.name, [line.key for line in limited])
        for line in limited:
            line.room = max(0, (line.limit or 0) - counts.get(line.key, 0))

    # -- which jobs ----------------------------------------------------------------

    def _fetch_heads(self, cursor: Cursor, lines: Sequence[_Line], count: int) -> int:
        """Read the first ``count`` jobs of each line; return the database's time."""
        clock = cursor.dialect.clock
        one = (
            f"SELECT * FROM (SELECT {_HEAD}, {clock} FROM {JOB} "
            "WHERE queue = %s AND state = %s AND partition_key = %s "
            f"ORDER BY {LINE} LIMIT %s) head"
        )
        rows: list[Row] = []
        for some in parts(lines, _UNITED):
            params: list[Any] = []
            for line in some:
                params += [*cursor.dialect.clock_params(), self.name, READY, line.key, count]
            rows += cursor.rows(" UNION ALL ".join([one] * len(some)), params)
        by_key = {line.key: line for line in lines}
        for row in rows:
            by_key[row[_KEY]].heads.append(row)
        for line in lines:
            line.more = len(line.heads) >= count
            # UNION ALL promises no order.
            line.heads = deque(sorted(line.heads, key=_line_order))
        return int(rows[0][-1]) if rows else cursor.now()

    def _refill(self, cursor: Cursor, line: _Line, skip: int, count: int) -> None:
        rows = cursor.rows(
            f"SELECT {_HEAD} FROM {JOB} WHERE queue = %s AND state = %s AND partition_key = %s "
            f"ORDER BY {LINE} LIMIT %s OFFSET %s",
            [self.name, READY, line.key, count, skip],
        )
        line.heads.extend(rows)
        line.more = len(rows) >= count

    def _play(self, cursor: Cursor, lines: Sequence[_Line], n: int) -> list[tuple[Row, float]]:
        """Play the fairness rule over the locked lines; return (job row, seconds charged)."""
        averages = self._averages(cursor, lines)
        turns = [
            (line.virtual_time, line.heads[0][_ID], index)
            for index, line in enumerate(lines)
            if line.heads and not line.full
        ]
        heapq.heapify(turns)
        picks: list[tuple[Row, float]] = []
        while turns and len(picks) < n:
            tag, _, index = heapq.heappop(turns)
            line = lines[index]
            row = line.heads.popleft()
            line.given += 1
            charged, cost = 0.0, float(row[_WEIGHT])
            if self.config.cost == "runtime":
                charged = cost = initial_charge(averages.get((line.key, row[_TASK])))
            picks.append((row, charged))
            line.leased_tag = max(line.leased_tag, tag)
            line.virtual_time = after_lease(tag, cost, line.share)
            if not line.heads and line.more:
                self._refill(cursor, line, line.given, n - len(picks) + 1)
            if line.heads and not line.full:
                heapq.heappush(turns, (line.virtual_time, line.heads[0][_ID], index))
        return picks

    def _averages(self, cursor: Cursor, lines: Sequence[_Line]) -> dict[tuple[str, str], float]:
        if self.config.cost != "runtime":
            return {}
        keys = [line.key for line in lines]
        rows = cursor.rows(
            f"SELECT partition_key, task_name, seconds FROM {AVERAGE} "
            f"WHERE queue = %s AND partition_key IN {marks(keys)}",
            [self.name, *keys],
        )
        return {(key, task): seconds for key, task, seconds in rows}

    # -- writing it down -----------------------------------------------------------

    def _mark_leased(
        self,
        cursor: Cursor,
        picks: Sequence[tuple[Row, float]],
        *,
        now: int,
        worker_id: str,
        lease_seconds: float,
    ) -> list[LeasedJob]:
        if not picks:
            return []
        expires = now + round(lease_seconds * 1_000_000)
        prefix = f"{uuid.uuid4().hex}-"
        seqs = [row[_SEQ] for row, _ in picks]
        changed = cursor.run(
            f"UPDATE {JOB}{cursor.dialect.using('PRIMARY')} SET state = %s, "
            f"token = {cursor.dialect.token}, claimed_by = %s, claimed_at = %s, "
            f"lease_expires_at = %s WHERE seq IN {marks(seqs)} AND state = %s",
            [LEASED, prefix, worker_id, now, expires, *seqs, READY],
        )
        if changed != len(seqs):
            # A job was cancelled between our reading and our writing.
            raise Conflict(f"{len(seqs) - changed} of {len(seqs)} jobs went away")
        if self.config.cost == "runtime":
            cursor.run_each(
                f"UPDATE {JOB} SET charged = %s WHERE seq = %s",
                [(charged, row[_SEQ]) for row, charged in picks],
            )
        return [self._leased_job(row, prefix, expires) for row, _ in picks]

    def _leased_job(self, row: Row, prefix: str, expires: int) -> LeasedJob:
        payload = json.loads(row[6])
        return LeasedJob(
            id=row[_ID],
            queue=self.name,
            task_name=row[_TASK],
            args=payload["args"],
            kwargs=payload["kwargs"],
            partition_key=row[_KEY],
            weight=row[_WEIGHT],
            priority=-row[_PRECEDENCE],
            token=f"{prefix}{row[_SEQ]}",
            delivery_count=row[7],
            timeouts=row[8],
            enqueued_at=from_microseconds(row[9]),
            lease_expires_at=from_microseconds(expires),
            msg_id=row[10],
            parent_id=row[11],
            ready_at=from_microseconds(row[_SCHEDULED]),
        )

    def _store_lines(self, cursor: Cursor, lines: Sequence[_Line], period: int) -> list[str]:
        updates: list[Sequence[Any]] = []
        taken_out: list[str] = []
        for line in lines:
            eligible = bool(line.heads) and not line.full
            at_limit = bool(line.heads) and line.full
            head_id = line.heads[0][_ID] if line.heads else ""
            precedence = line.heads[0][_PRECEDENCE] if line.heads else 0
            if not eligible:
                taken_out.append(line.key)
            elif not line.given and not line.overtaken:
                continue
            standing = (eligible, at_limit, head_id, precedence)
            updates.append((*standing, line.virtual_time, line.leased_tag, period, line.id))
        cursor.run_each(SET_STANDING, updates)
        return taken_out
