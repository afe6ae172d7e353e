"""Which partitions to decide about: those that should perhaps be candidates, or no longer.

All of it is looked at outside their locks, so it is a guess that may be wrong either way;
:class:`~vtrr_django.engines.orm.partitions.Partitions` decides, under the lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.job import NewJob
from vtrr_django.domain.parts import parts
from vtrr_django.engines.orm.in_flight import leased_counts
from vtrr_django.engines.sql.store import Cursor, Store, marks
from vtrr_django.engines.sql.tables import JOB, PARTITION, QUEUE, READY

_SWEEP = 500
"""Partitions with waiting jobs that one sweep looks at."""


class Candidates:
    """Looks for the partitions of one queue that have to be decided about."""

    def __init__(self, name: str, config: QueueConfig, store: Store) -> None:
        self.name = name
        self.config = config
        self.store = store
        self._sweep_after = ""

    # -- after what was done -------------------------------------------------------

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
        for chunk in parts(keys, 500):
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

    # -- after a crash -------------------------------------------------------------

    def missed(self) -> list[str]:
        """Return partitions with ready jobs that are not in the running but could be.

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
