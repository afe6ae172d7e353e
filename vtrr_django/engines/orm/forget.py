"""Forgetting partitions: rows that say nothing any more, and what was measured with them."""

from __future__ import annotations

from collections.abc import Sequence

from vtrr_django.engines.orm.busy_period import BusyPeriod
from vtrr_django.engines.sql.store import Cursor, Store, marks
from vtrr_django.engines.sql.tables import AVERAGE, JOB, LEASED, PARTITION, READY, SCHEDULED


class Forgetter:
    """The forgetting side of one queue."""

    def __init__(self, name: str, store: Store, busy_period: BusyPeriod) -> None:
        self.name = name
        self.store = store
        self.busy_period = busy_period

    def forget(self, batch: int) -> int:
        """Remove rows that say nothing a new row would not say; return how many.

        A tenant that has no jobs and no settings and is not ahead of the queue's virtual time
        starts level with the others whether it is remembered or not. Otherwise the table
        would grow with every tenant ever seen. One whose jobs are all scheduled is not
        forgotten, for when they fall due nobody tells its share again. What was measured of
        a tenant is forgotten with it.
        """

        def work(cursor: Cursor) -> int:
            period = self.busy_period.number(cursor)
            current = self.busy_period.virtual_time(cursor, period)
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
