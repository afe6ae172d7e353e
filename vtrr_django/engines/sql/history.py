"""Ended jobs of any engine: writing them down, looking them up, trimming them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.job import LEASE_TIMEOUT, NewJob
from vtrr_django.engines.sql.known import MOST_KEYS, Known, find_known
from vtrr_django.engines.sql.models import CompletedJob, FailedJob
from vtrr_django.engines.sql.packets import packets, text_length
from vtrr_django.engines.sql.store import Cursor, Store, field_time, marks
from vtrr_django.engines.sql.tables import COMPLETED, FAILED
from vtrr_django.exceptions import so_far

ENDED = (
    "seq, token, id, partition_key, task_name, payload, weight, precedence, delivery_count, "
    "timeouts, msg_id, parent_id, claimed_by, created_at, scheduled_at, claimed_at, charged"
)
"""The columns of a leased job that its end needs; :class:`Ended` names them."""

_KEPT = (
    "id, queue, partition_key, task_name, payload, weight, priority, delivery_count, timeouts, "
    "msg_id, parent_id, worker_id, created_at, ready_at, claimed_at, runtime"
)

_RECENT = 20

SPARED: Final = 120
"""Seconds for which an ended job is kept whatever the retention; far more than the 30 for which
a publisher over HTTP tries again."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A row of the columns ``ENDED``."""

    seq: int
    token: str
    id: str
    partition_key: str
    task_name: str
    payload: str
    weight: int
    precedence: int
    delivery_count: int
    timeouts: int
    msg_id: str | None
    parent_id: str | None
    claimed_by: str | None
    created_at: int
    scheduled_at: int
    claimed_at: int
    charged: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Death:
    """Why a job became a dead letter."""

    reason: str
    error_class: str = ""
    traceback: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """How one job ended.

    Attributes:
        job: the job as it was while it was leased.
        at: when, in microseconds since the epoch by the store's clock.
        runtime: seconds of its last run.
        death: why it is a dead letter; None: it is completed.
    """

    job: Ended
    at: int
    runtime: float
    death: Death | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLetter:
    """A dead letter that is about to come back."""

    seq: int
    id: str
    partition_key: str
    task_name: str
    payload: str
    weight: int
    priority: int
    msg_id: str | None
    parent_id: str | None


def timed_out(job: Ended, at: int) -> End:
    """Return the end of a job whose lease ran out once too often.

    ``job.timeouts`` counts that last time.
    """
    death = Death(
        reason=(
            f"lease ran out {job.timeouts} times, the most MAX_TIMEOUTS allows; "
            f"last held by worker {job.claimed_by or 'unknown'}. The job probably kills its "
            "worker, or outlives its hard time limit."
        ),
        error_class=LEASE_TIMEOUT,
    )
    return End(job=job, at=at, runtime=0.0, death=death)


def _delete(cursor: Cursor, table: str, seqs: Sequence[int]) -> int:
    return cursor.delete(table, "seq", seqs)


class History:
    """The completed jobs and dead letters of one queue."""

    def __init__(self, name: str, config: QueueConfig, store: Store) -> None:
        self.name = name
        self.config = config
        self.store = store

    # -- writing -------------------------------------------------------------------

    def record(self, cursor: Cursor, ends: Sequence[End]) -> None:
        """Keep jobs that have ended, as far as the retention settings want them."""
        completed = [end for end in ends if end.death is None]
        if completed and self.config.completed_retention != 0:
            rows = [[*self._kept(end), self.store.moment(end.at)] for end in completed]
            self._insert(cursor, COMPLETED, f"{_KEPT}, completed_at", rows)
        dead = [(end, end.death) for end in ends if end.death is not None]
        if dead:
            rows = [
                [
                    *(*self._kept(end), self.store.moment(end.at)),
                    *(death.reason, death.error_class[:255], death.traceback),
                ]
                for end, death in dead
            ]
            columns = f"{_KEPT}, failed_at, reason, error_class, traceback"
            self._insert(cursor, FAILED, columns, rows)

    def _kept(self, end: End) -> list[Any]:
        moment, job = self.store.moment, end.job
        return [
            *(job.id, self.name, job.partition_key, job.task_name, job.payload, job.weight),
            *(-job.precedence, job.delivery_count, job.timeouts, job.msg_id, job.parent_id),
            *(job.claimed_by or "", moment(job.created_at), moment(job.scheduled_at)),
            *(moment(job.claimed_at), end.runtime),
        ]

    def _insert(self, cursor: Cursor, table: str, columns: str, rows: list[list[Any]]) -> None:
        # A row of the same job may be there only if its id was given twice in a race; the
        # job still has to end, so the first row stays.
        for packet in packets(rows, text_length):
            cursor.run(
                f"{cursor.dialect.insert_new} {table} ({columns}) VALUES "
                + ", ".join([marks(rows[0])] * len(packet))
                + cursor.dialect.ignore_conflict,
                [value for row in packet for value in row],
            )

    def drop_earlier_deaths(self, cursor: Cursor, ends: Sequence[End]) -> None:
        """Delete the dead letters of jobs that lived again and have ended since."""
        by_id = {end.job.id: end for end in ends}
        for seq, job_id in cursor.rows(
            f"SELECT seq, id FROM {FAILED} WHERE queue = %s AND id IN {marks(ends)}",
            [self.name, *by_id],
        ):
            if by_id[job_id].death is None or self.is_earlier_death(cursor, seq, by_id[job_id]):
                cursor.delete(FAILED, "seq", [seq])

    def is_earlier_death(self, cursor: Cursor, seq: int, end: End) -> bool:
        """Return whether a dead letter tells of an earlier death of its job than ``end``."""
        sql = f"SELECT seq FROM {FAILED} WHERE seq = %s AND failed_at < %s"
        return bool(cursor.rows(sql, [seq, self.store.moment(end.at)]))

    # -- trimming ------------------------------------------------------------------

    def prune(self, batch: int) -> dict[str, int]:
        """Trim both tables to what the retention settings keep, ``batch`` rows at a time.

        What has ended in the last ``SPARED`` seconds stays: with it an enqueue is recognised that
        is repeated because its answer was lost.
        """
        until = field_time(self.store.now() - SPARED * 1_000_000)
        completed = self._trim(
            CompletedJob, "completed_at", until, self.config.completed_retention, batch
        )
        with so_far(lambda: completed):
            failed = self._trim(FailedJob, "failed_at", until, self.config.failed_retention, batch)
        return {"completed": completed, "failed": failed}

    def _trim(
        self,
        model: type[CompletedJob | FailedJob],
        column: str,
        until: datetime,
        keep: int | None,
        batch: int,
    ) -> int:
        if keep is None:
            return 0
        rows = self._rows(model)
        spared = rows.filter(**{f"{column}__gt": until})[:keep]
        skip = keep - self.store.persist(spared.count)
        newest_first = rows.filter(**{f"{column}__lte": until}).order_by(f"-{column}", "-seq")
        removed = 0
        with so_far(lambda: removed):
            while seqs := self.store.persist(
                lambda: list(newest_first.values_list("seq", flat=True)[skip : skip + batch])
            ):
                one_batch = partial(_delete, table=model._meta.db_table, seqs=seqs)
                removed += self.store.transact(one_batch)
        return removed

    # -- coming back ---------------------------------------------------------------

    def dead_letters(
        self, cursor: Cursor, ids: Sequence[str] | None, limit: int
    ) -> list[DeadLetter]:
        """Return dead letters, the oldest first, locked until the transaction ends."""
        chosen = "" if ids is None else f" AND id IN {marks(ids)}"
        rows = cursor.rows(
            "SELECT seq, id, partition_key, task_name, payload, weight, priority, msg_id, "
            f"parent_id FROM {FAILED} WHERE queue = %s{chosen} "
            f"ORDER BY failed_at, seq LIMIT %s{cursor.dialect.lock_skip}",
            [self.name, *(ids or []), limit],
        )
        names = DeadLetter.__dataclass_fields__
        return [DeadLetter(**dict(zip(names, row, strict=True))) for row in rows]

    def discard(self, cursor: Cursor, ids: Sequence[str]) -> list[str]:
        """Delete dead letters; return the ids of those there were, the oldest first."""
        letters = self.dead_letters(cursor, ids, len(ids))
        self.forget_dead(cursor, letters)
        return [letter.id for letter in letters]

    def forget_dead(self, cursor: Cursor, letters: Sequence[DeadLetter]) -> None:
        """Delete dead letters that are live jobs again, or wanted no more."""
        cursor.delete(FAILED, "seq", [letter.seq for letter in letters])

    # -- looking -------------------------------------------------------------------

    def known(self, cursor: Cursor, jobs: Sequence[NewJob]) -> Known:
        """Look for ended jobs with the given ids and the msg_ids of ``jobs``."""
        return find_known(cursor, self.name, jobs, (COMPLETED, FAILED))

    def kept(self, cursor: Cursor, ids: Sequence[str]) -> set[str]:
        """Return which of ``ids`` are those of ended jobs."""
        return {
            job_id
            for table in (COMPLETED, FAILED)
            for start in range(0, len(ids), MOST_KEYS)
            for (job_id,) in cursor.rows(
                f"SELECT id FROM {table} WHERE queue = %s "
                f"AND id IN {marks(ids[start : start + MOST_KEYS])}",
                [self.name, *ids[start : start + MOST_KEYS]],
            )
        }

    def letters(self, ids: Sequence[str] | None, limit: int) -> list[NewJob]:
        """Return dead letters as the jobs they once came in as.

        In the order of ``ids``; None: up to ``limit`` of them, the oldest first.
        """
        columns = "SELECT id, task_name, payload, partition_key, weight, priority"
        if ids is None:
            oldest = f"{columns} FROM {FAILED} WHERE queue = %s ORDER BY failed_at, seq LIMIT %s"
            return [NewJob(*row) for row in self.store.read(oldest, [self.name, limit])]
        found: dict[str, NewJob] = {}
        for start in range(0, len(ids), MOST_KEYS):
            chunk = ids[start : start + MOST_KEYS]
            rows = self.store.read(
                f"{columns} FROM {FAILED} WHERE queue = %s AND id IN {marks(chunk)}",
                [self.name, *chunk],
            )
            found |= {row[0]: NewJob(*row) for row in rows}
        return [found[job_id] for job_id in ids if job_id in found]

    def counts(self) -> dict[str, int]:
        """Return how many jobs are kept: ``{"completed": n, "failed": m}``."""
        return {
            "completed": self._rows(CompletedJob).count(),
            "failed": self._rows(FailedJob).count(),
        }

    def recent_runs(self) -> list[dict[str, Any]]:
        """Return the jobs completed last, the newest first."""
        return self._recent(CompletedJob, "completed_at", "runtime")

    def recent_failures(self) -> list[dict[str, Any]]:
        """Return the newest dead letters, the newest first."""
        return self._recent(FailedJob, "failed_at", "reason")

    def _recent(
        self, model: type[CompletedJob | FailedJob], moment: str, more: str
    ) -> list[dict[str, Any]]:
        columns = ("id", "task_name", "partition_key", "worker_id", "delivery_count", moment, more)
        return list(self._rows(model).order_by(f"-{moment}", "-seq").values(*columns)[:_RECENT])

    def _rows(self, model: type[CompletedJob | FailedJob]) -> Any:
        return model._default_manager.using(self.store.alias).filter(queue=self.name)
