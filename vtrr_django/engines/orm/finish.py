"""The end of a lease: acked, failed, retried, snoozed or released, always against its token."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.fairness import after_charge, new_average
from vtrr_django.domain.job import Outcome, OutcomeKind, Renewal
from vtrr_django.engines.orm.busy_period import BusyPeriod
from vtrr_django.engines.sql.history import ENDED, Death, End, Ended, History
from vtrr_django.engines.sql.store import Cursor, Store, marks
from vtrr_django.engines.sql.tables import (
    AVERAGE,
    JOB,
    LEASED,
    NOT_LEASED,
    PARTITION,
    READY,
    SCHEDULED,
)

_ENDING = (OutcomeKind.ACK, OutcomeKind.FAIL)


@dataclass(slots=True)
class Finished:
    """What one finishing transaction did.

    ``settled`` are partitions whose jobs left; ``returned`` those that got ready jobs back.
    """

    done: list[bool] = field(default_factory=list)
    settled: set[str] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)


class Finisher:
    """The finishing side of one queue."""

    def __init__(
        self,
        name: str,
        config: QueueConfig,
        store: Store,
        busy_period: BusyPeriod,
        history: History,
    ) -> None:
        self.name = name
        self.config = config
        self.store = store
        self.busy_period = busy_period
        self.history = history

    def finish(self, cursor: Cursor, outcomes: Sequence[Outcome]) -> Finished:
        """End leases inside the caller's transaction."""
        result = Finished(done=[False] * len(outcomes))
        ending = [(i, o) for i, o in enumerate(outcomes) if o.kind in _ENDING]
        leaving = [(i, o) for i, o in enumerate(outcomes) if o.kind not in _ENDING]
        settled: list[tuple[Ended, Outcome, float]] = []
        if ending:
            settled += self._end(cursor, ending, result)
        if leaving:
            settled += self._put_back(cursor, leaving, result)
        if self.config.cost == "runtime" and settled:
            self._settle_cost(cursor, settled)
        return result

    # -- for good ------------------------------------------------------------------

    def _end(
        self, cursor: Cursor, ending: Sequence[tuple[int, Outcome]], result: Finished
    ) -> list[tuple[Ended, Outcome, float]]:
        rows, now = self._remove(cursor, [outcome for _, outcome in ending])
        ended: list[tuple[Ended, Outcome, float]] = []
        for index, outcome in ending:
            row = rows.get(outcome.job_id)
            if row is None or row.token != outcome.token:
                continue
            del rows[outcome.job_id]
            result.done[index] = True
            result.settled.add(row.partition_key)
            ended.append((row, outcome, _runtime(row, outcome, now)))
        if rows:
            # Two outcomes carried each other's tokens: nothing of theirs may have happened.
            raise Mixup
        self.history.record(
            cursor, [End(job=row, at=now, runtime=t, death=_death(o)) for row, o, t in ended]
        )
        return ended

    def _remove(self, cursor: Cursor, outcomes: Sequence[Outcome]) -> tuple[dict[str, Ended], int]:
        ids = [outcome.job_id for outcome in outcomes]
        tokens = [outcome.token for outcome in outcomes]
        clock, clock_params = cursor.dialect.clock, cursor.dialect.clock_params()
        which = f"queue = %s AND id IN {marks(ids)} AND token IN {marks(tokens)}"
        params = [self.name, *ids, *tokens]
        if cursor.dialect.delete_returning:
            rows = cursor.rows(
                f"DELETE FROM {JOB} WHERE {which} RETURNING {ENDED}, {clock}",
                [*params, *clock_params],
            )
        else:
            rows = cursor.rows(
                f"SELECT {ENDED}, {clock} FROM {JOB}{cursor.dialect.using('vtrr_job_id')} "
                f"WHERE {which}{cursor.dialect.lock_wait}",
                [*clock_params, *params],
            )
            cursor.delete(JOB, "seq", [row[0] for row in rows])
        now = int(rows[0][-1]) if rows else 0
        return {row[2]: Ended(*row[:-1]) for row in rows}, now

    # -- for later -----------------------------------------------------------------

    def _put_back(
        self, cursor: Cursor, leaving: Sequence[tuple[int, Outcome]], result: Finished
    ) -> list[tuple[Ended, Outcome, float]]:
        ids = [outcome.job_id for _, outcome in leaving]
        clock, clock_params = cursor.dialect.clock, cursor.dialect.clock_params()
        rows = cursor.rows(
            f"SELECT {ENDED}, {clock} FROM {JOB}{cursor.dialect.using('vtrr_job_id')} "
            f"WHERE queue = %s AND id IN {marks(ids)} AND state = %s "
            f"ORDER BY seq{cursor.dialect.lock_wait}",
            [*clock_params, self.name, *ids, LEASED],
        )
        by_id = {row[2]: (Ended(*row[:-1]), int(row[-1])) for row in rows}
        left: list[tuple[Ended, Outcome, float]] = []
        for index, outcome in leaving:
            found = by_id.get(outcome.job_id)
            if found is None or found[0].token != outcome.token:
                continue
            row, now = found
            due = _due(row, outcome, now + len(left))
            if not self._leave(cursor, row, outcome, due):
                continue
            result.done[index] = True
            result.settled.add(row.partition_key)
            if _is_ready(outcome):
                result.returned.add(row.partition_key)
            left.append((row, outcome, _runtime(row, outcome, now)))
            del by_id[outcome.job_id]
        return left

    def _leave(self, cursor: Cursor, row: Ended, outcome: Outcome, due: int) -> bool:
        changed = cursor.run(
            f"UPDATE {JOB} SET state = %s, scheduled_at = %s, "
            f"delivery_count = delivery_count + %s, {NOT_LEASED} "
            "WHERE seq = %s AND token = %s AND state = %s",
            [
                READY if _is_ready(outcome) else SCHEDULED,
                due,
                1 if outcome.kind is OutcomeKind.RETRY else 0,
                row.seq,
                outcome.token,
                LEASED,
            ],
        )
        return changed == 1

    # -- for longer ----------------------------------------------------------------

    def renew(
        self, cursor: Cursor, renewals: Sequence[Renewal], lease_seconds: float
    ) -> list[bool]:
        """Extend leases inside the caller's transaction."""
        clock = cursor.dialect.clock
        done = []
        for renewal in renewals:
            token, fresh = renewal.token, renewal.new_token or renewal.token
            count = renewal.delivery_count
            changed = cursor.run(
                f"UPDATE {JOB} SET lease_expires_at = {clock} + %s"
                f"{', token = %s' if fresh != token else ''}"
                f"{'' if count is None else ', delivery_count = %s'} "
                "WHERE queue = %s AND id = %s AND token IN (%s, %s) AND state = %s",
                [
                    *(*cursor.dialect.clock_params(), round(lease_seconds * 1_000_000)),
                    *((fresh,) if fresh != token else ()),
                    *(() if count is None else (count,)),
                    *(self.name, renewal.job_id, token, fresh, LEASED),
                ],
            )
            done.append(changed == 1)
        if self.config.cost == "runtime":
            self._charge_renewals(cursor, [r for r, ok in zip(renewals, done, strict=True) if ok])
        return done

    # -- measured cost -------------------------------------------------------------

    def _charge_renewals(self, cursor: Cursor, renewals: Sequence[Renewal]) -> None:
        """Charge running jobs for what has elapsed beyond what they were charged."""
        by_id = {renewal.job_id: renewal for renewal in renewals}
        if not by_id:
            return
        clock, clock_params = cursor.dialect.clock, cursor.dialect.clock_params()
        rows = cursor.rows(
            f"SELECT {ENDED}, {clock} FROM {JOB} WHERE queue = %s AND id IN {marks(list(by_id))} "
            "AND state = %s",
            [*clock_params, self.name, *by_id, LEASED],
        )
        owed: dict[str, list[float]] = defaultdict(list)
        charged: list[tuple[float, int]] = []
        for raw in rows:
            row, now = Ended(*raw[:-1]), int(raw[-1])
            told = by_id[row.id].runtime
            elapsed = (now - row.claimed_at) / 1e6 if told is None else told
            if elapsed > row.charged:
                owed[row.partition_key].append(elapsed - row.charged)
                charged.append((elapsed, row.seq))
        cursor.run_each(f"UPDATE {JOB} SET charged = %s WHERE seq = %s", charged)
        self._charge(cursor, owed)

    def _settle_cost(self, cursor: Cursor, settled: Sequence[tuple[Ended, Outcome, float]]) -> None:
        """Charge or refund the difference to the real run time, and learn from it."""
        owed: dict[str, list[float]] = defaultdict(list)
        ran: dict[tuple[str, str], list[float]] = defaultdict(list)
        for row, outcome, runtime in settled:
            owed[row.partition_key].append(runtime - row.charged)
            if outcome.kind is not OutcomeKind.RELEASE:
                ran[row.partition_key, row.task_name].append(runtime)
        self._charge(cursor, owed)
        self._learn(cursor, ran)

    def _charge(self, cursor: Cursor, owed: dict[str, list[float]]) -> None:
        if not owed:
            return
        period = self.busy_period.number(cursor)
        current = self.busy_period.virtual_time(cursor, period)
        rows = cursor.rows(
            "SELECT id, partition_key, share, declared_share, virtual_time "
            f"FROM {PARTITION}{cursor.dialect.using('vtrr_partition_key')} "
            f"WHERE queue = %s AND partition_key IN {marks(list(owed))} "
            f"ORDER BY id{cursor.dialect.lock_wait}",
            [self.name, *owed],
        )
        updates = []
        for row_id, key, own, declared, before in rows:
            after, share = before, declared if own is None else own
            for seconds in owed[key]:
                after = after_charge(after, seconds, share, current)
            updates.append((after, row_id))
        cursor.run_each(f"UPDATE {PARTITION} SET virtual_time = %s WHERE id = %s", updates)

    def _learn(self, cursor: Cursor, ran: dict[tuple[str, str], list[float]]) -> None:
        for (key, task), runtimes in sorted(ran.items()):
            where = "queue = %s AND partition_key = %s AND task_name = %s"
            found = cursor.rows(
                f"SELECT seconds FROM {AVERAGE} WHERE {where}{cursor.dialect.lock_wait}",
                [self.name, key, task],
            )
            average = found[0][0] if found else None
            for runtime in runtimes:
                average = new_average(average, runtime)
            if found:
                cursor.run(
                    f"UPDATE {AVERAGE} SET seconds = %s WHERE {where}",
                    [average, self.name, key, task],
                )
            else:
                cursor.run(
                    f"{cursor.dialect.insert_new} {AVERAGE} "
                    "(queue, partition_key, task_name, seconds) VALUES (%s, %s, %s, %s)"
                    + cursor.dialect.ignore_conflict,
                    [self.name, key, task, average],
                )


class Mixup(Exception):
    """Outcomes of one call carried each other's tokens; they must be told one at a time."""


def _death(outcome: Outcome) -> Death | None:
    if outcome.kind is OutcomeKind.ACK:
        return None
    return Death(
        reason=outcome.reason, error_class=outcome.error_class, traceback=outcome.traceback
    )


def _is_ready(outcome: Outcome) -> bool:
    """Return whether a job that is put back may run at once."""
    return outcome.kind is OutcomeKind.RELEASE or not _delay(outcome)


def _due(row: Ended, outcome: Outcome, now: int) -> int:
    """Return when a job that is put back is due: that is its place in the line, too.

    One that is released keeps its own; of those that are due at once, each gets another moment.
    """
    return row.scheduled_at if outcome.kind is OutcomeKind.RELEASE else now + _delay(outcome)


def _delay(outcome: Outcome) -> int:
    return round(outcome.delay * 1_000_000)


def _runtime(row: Ended, outcome: Outcome, now: int) -> float:
    if outcome.runtime is not None:
        return outcome.runtime
    if outcome.kind is OutcomeKind.RELEASE:
        return 0.0
    return max(0.0, (now - row.claimed_at) / 1e6)
