"""The busy period of a queue: its number, its virtual time and its end.

It ends when nothing waits and nothing is leased. A number in the queue's row says which
one it is; what a partition's row says of an earlier one counts no more, so that to end it
is one update of one row.
"""

from __future__ import annotations

from vtrr_django.domain.fairness import FIRST_TAG
from vtrr_django.engines.sql.store import Cursor, Store
from vtrr_django.engines.sql.tables import JOB, PARTITION, QUEUE, READY


class BusyPeriod:
    """The busy period of one queue."""

    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self.store = store

    def number(self, cursor: Cursor) -> int:
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

    def virtual_time(self, cursor: Cursor, period: int) -> float:
        """Return the queue's virtual time in a busy period: the largest tag leased in it.

        It is one index probe.
        """
        rows = cursor.rows(
            f"SELECT MAX(leased_tag) FROM {PARTITION} WHERE queue = %s AND period = %s",
            [self.name, period],
        )
        return max(FIRST_TAG, rows[0][0] or 0.0)

    def is_over(self, period: int) -> bool:
        """Return whether others may have ended the busy period since we read its number.

        Where one transaction is done at a time, nobody comes between.
        """
        if self.store.dialect.serial:
            return False
        sql = f"SELECT period FROM {QUEUE} WHERE queue = %s"
        return any(row[0] > period for row in self.store.read(sql, [self.name]))

    def end(self) -> list[str]:
        """End it if nothing waits and nothing is leased; return who has to be decided again.

        A partition may become a candidate while we decide, and keep the tag of the period that
        ends. Nobody waits for anybody: we look for such ones after our commit, and whoever made
        one a candidate looks after its own whether the period is over (:meth:`is_over`).
        """
        if not self.store.read(*self._idle_period()):
            return []
        # Not durable: what is lost with it is a queue that is idle, and found to be once more.
        ended = self.store.transact(self._end_period, durable=False)
        if ended is None:
            return []
        rows = self.store.read(
            f"SELECT partition_key FROM {PARTITION} "
            "WHERE queue = %s AND eligible = %s AND period <= %s",
            [self.name, True, ended],
        )
        return [row[0] for row in rows]

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
