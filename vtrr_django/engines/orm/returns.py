"""Jobs that come back by themselves: due ones, and those whose lease ran out.

Both join the end of their partition's line. Several in one call join in the order in
which they fell due, one microsecond apart.
"""

from __future__ import annotations

from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.job import Reclaimed
from vtrr_django.engines.sql.history import ENDED, Ended, History, timed_out
from vtrr_django.engines.sql.store import Cursor, Store
from vtrr_django.engines.sql.tables import JOB, LEASED, NOT_LEASED, READY, SCHEDULED


class Returns:
    """Promotion and reclaim of one queue."""

    def __init__(self, name: str, config: QueueConfig, store: Store, history: History) -> None:
        self.name = name
        self.config = config
        self.store = store
        self.history = history

    def promote(self, limit: int) -> set[str]:
        """Make up to ``limit`` due jobs ready; return the partitions they joined."""

        def work(cursor: Cursor) -> set[str]:
            now = cursor.now()
            rows = cursor.rows(
                f"SELECT seq, partition_key FROM {JOB}{cursor.dialect.using('vtrr_job_due')} "
                "WHERE queue = %s AND state = %s AND scheduled_at <= %s "
                f"ORDER BY scheduled_at, seq LIMIT %s{cursor.dialect.lock_skip}",
                [self.name, SCHEDULED, now, limit],
            )
            cursor.run_each(
                f"UPDATE {JOB} SET state = %s, scheduled_at = %s WHERE seq = %s AND state = %s",
                [(READY, now + place, row[0], SCHEDULED) for place, row in enumerate(rows)],
            )
            return {row[1] for row in rows}

        return self.store.transact(work)

    def reclaim(self, limit: int) -> list[Reclaimed]:
        """Take back up to ``limit`` leases that ran out."""
        return self.store.transact(lambda cursor: self._reclaim(cursor, limit))

    def _reclaim(self, cursor: Cursor, limit: int) -> list[Reclaimed]:
        now = cursor.now()
        rows = cursor.rows(
            f"SELECT {ENDED} FROM {JOB}{cursor.dialect.using('vtrr_job_lease')} "
            f"WHERE queue = %s AND lease_expires_at <= %s "
            f"AND state = %s ORDER BY lease_expires_at, seq LIMIT %s{cursor.dialect.lock_skip}",
            [self.name, now, LEASED, limit],
        )
        jobs = [Ended(*row) for row in rows]
        most = self.config.max_timeouts
        back = [job for job in jobs if most is None or job.timeouts + 1 < most]
        dead = [job for job in jobs if most is not None and job.timeouts + 1 >= most]
        cursor.run_each(
            f"UPDATE {JOB} SET state = %s, timeouts = timeouts + 1, scheduled_at = %s, "
            f"{NOT_LEASED} WHERE seq = %s AND state = %s AND token = %s",
            [(READY, now + i, job.seq, LEASED, job.token) for i, job in enumerate(back)],
        )
        self._bury(cursor, dead, now)
        buried = {job.seq for job in dead}
        return [
            Reclaimed(
                job_id=job.id,
                partition_key=job.partition_key,
                task_name=job.task_name,
                timeouts=job.timeouts + 1,
                dead=job.seq in buried,
            )
            for job in jobs
        ]

    def _bury(self, cursor: Cursor, dead: list[Ended], now: int) -> None:
        if not dead:
            return
        cursor.delete(JOB, "seq", [job.seq for job in dead])
        self.history.record(cursor, [timed_out(_last_run(job), now) for job in dead])


def _last_run(job: Ended) -> Ended:
    """Return the job with the lease that just ran out counted."""
    values = {name: getattr(job, name) for name in Ended.__dataclass_fields__}
    return Ended(**(values | {"timeouts": job.timeouts + 1}))
