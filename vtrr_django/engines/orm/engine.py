"""The ORM engine: the contract's verbs, each a short transaction and what follows its commit."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from django.db import transaction

from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.job import (
    JobInfo,
    JobPage,
    LeasedJob,
    NewJob,
    Outcome,
    PartitionStats,
    QueueStats,
    Reclaimed,
    Renewal,
)
from vtrr_django.domain.states import State
from vtrr_django.engines.base import NO_SHARES, UNSET, Engine, Unset
from vtrr_django.engines.orm.browse import Browser
from vtrr_django.engines.orm.claim import Claim, Claimer
from vtrr_django.engines.orm.figures import Figures, depths
from vtrr_django.engines.orm.finish import Finished, Finisher, Mixup
from vtrr_django.engines.orm.insert import Inserter
from vtrr_django.engines.orm.partitions import Partitions
from vtrr_django.engines.orm.returns import Returns
from vtrr_django.engines.sql.history import History
from vtrr_django.engines.sql.store import Cursor, Store, marks
from vtrr_django.engines.sql.tables import JOB, LEASED, QUEUE, READY, SCHEDULED

_RETURNS_PER_LEASE = 200
"""Due jobs promoted and leases reclaimed at the start of one lease call."""

_EMPTY_ROUNDS = 20
"""Times one lease call goes on after finding only partitions whose jobs are gone."""

_CANCEL_CHUNK = 1000

_PURGE_ROUNDS, _PURGE_PAUSE = 40, 0.005
"""How often, and how many seconds apart, a purge comes back for jobs in others' hands."""


class OrmEngine(Engine):
    """One queue in one database."""

    def __init__(self, name: str, config: QueueConfig) -> None:
        super().__init__(name, config)
        self.store = Store(config.database)
        self.transaction_alias = config.database
        self._partitions = Partitions(name, config, self.store)
        self._history = History(name, config, self.store)
        self._inserter = Inserter(name, self.store)
        self._claimer = Claimer(name, config)
        self._finisher = Finisher(name, config, self.store, self._partitions, self._history)
        self._returns = Returns(name, config, self.store, self._history)
        self._figures = Figures(name, config, self.store, self._history)
        self._browser = Browser(name, self.store)

    # -- coming in -----------------------------------------------------------------

    def enqueue(self, jobs: Sequence[NewJob], shares: Mapping[str, float]) -> list[str]:
        if self._is_plain(jobs):
            [job] = jobs
            if self._inserter.insert_and_look(
                job,
                partial(self._partitions.is_settled, job=job, share=shares.get(job.partition_key)),
            ):
                return [job.id]
            ids, stored = [job.id], list(jobs)
        else:
            ids, stored = self._inserter.insert(jobs)
        precedences: dict[str, int] = {}
        for job in stored:
            if not job.delay and job.due_at is None:
                lowest = precedences.get(job.partition_key, -job.priority)
                precedences[job.partition_key] = min(lowest, -job.priority)
        if precedences:
            # After the commit, for nobody may wait for the caller's transaction. Should it
            # fail, Django logs it and the sweep of the next reclaim makes it good.
            transaction.on_commit(
                lambda: self._arrived(precedences, shares), using=self.store.alias, robust=True
            )
        return ids

    def _is_plain(self, jobs: Sequence[NewJob]) -> bool:
        """Return whether this is one job, ready at once, in no transaction: the common case."""
        if len(jobs) != 1 or self.store.in_transaction:
            return False
        [job] = jobs
        return not (job.given_id or job.msg_id or job.delay or job.due_at)

    def _arrived(self, precedences: Mapping[str, int], shares: Mapping[str, float]) -> None:
        self._partitions.refresh(self._partitions.awaiting(precedences, shares), shares)

    def known(self, jobs: Sequence[NewJob]) -> list[str | None]:
        return self._inserter.known(jobs)

    # -- running -------------------------------------------------------------------

    def lease(self, n: int, *, worker_id: str, lease_seconds: float) -> list[LeasedJob]:
        return self.finish_and_lease([], n, worker_id=worker_id, lease_seconds=lease_seconds)[1]

    def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        return self.finish_and_lease(outcomes, 0, worker_id="", lease_seconds=0.0)[0]

    def finish_and_lease(
        self, outcomes: Sequence[Outcome], n: int, *, worker_id: str, lease_seconds: float
    ) -> tuple[list[bool], list[LeasedJob]]:
        leasing = n > 0 and self._may_lease()

        def work(cursor: Cursor) -> tuple[Finished, Claim]:
            finished = self._finisher.finish(cursor, outcomes) if outcomes else Finished()
            claim = Claim()
            if leasing and outcomes:
                self._partitions.make_room(cursor, finished.settled, finished.returned)
            if leasing:
                claim = self._claimer.claim(
                    cursor, n, worker_id=worker_id, lease_seconds=lease_seconds
                )
            return finished, claim

        if not outcomes and not leasing:
            return [], []
        try:
            finished, claim = self.store.transact(work)
        except Mixup:
            done = [self.finish([outcome])[0] for outcome in outcomes]
            return done, self.lease(n, worker_id=worker_id, lease_seconds=lease_seconds)
        self._partitions.refresh([*finished.returned, *self._partitions.stranded(claim.taken_out)])
        # What the claim left in the running needs nobody's help.
        self._partitions.settle(finished.settled - claim.left_in)
        if leasing and not claim.jobs:
            claim.jobs = self._look_again(
                n, claim, worker_id=worker_id, lease_seconds=lease_seconds
            )
        return finished.done, claim.jobs

    def _look_again(
        self, n: int, claim: Claim, *, worker_id: str, lease_seconds: float
    ) -> list[LeasedJob]:
        """After finding nothing: pass over partitions that turned out empty, then sweep."""
        swept = False
        for _ in range(_EMPTY_ROUNDS):
            if not claim.taken_out:
                if swept or not self._partitions.sweep():
                    break
                swept = True
            claim = self.store.transact(
                lambda cursor: self._claimer.claim(
                    cursor, n, worker_id=worker_id, lease_seconds=lease_seconds
                )
            )
            self._partitions.refresh(self._partitions.stranded(claim.taken_out))
            if claim.jobs:
                return claim.jobs
        return []

    def _may_lease(self) -> bool:
        """Let jobs come back that are due to, and say whether the queue is running."""
        clock, clock_params = self.store.dialect.clock, self.store.dialect.clock_params()
        rows = self.store.read(
            f"SELECT {clock}, (SELECT paused FROM {QUEUE} WHERE queue = %s), "
            f"(SELECT MIN(scheduled_at) FROM {JOB} WHERE queue = %s AND state = %s), "
            f"(SELECT MIN(lease_expires_at) FROM {JOB} WHERE queue = %s)",
            [*clock_params, self.name, self.name, SCHEDULED, self.name],
        )
        now, paused, due, expires = rows[0]
        if due is not None and due <= now:
            self._promote(_RETURNS_PER_LEASE)
        if expires is not None and expires <= now:
            self._reclaim(_RETURNS_PER_LEASE)
        return not paused

    def renew(self, renewals: Sequence[Renewal], *, lease_seconds: float) -> list[bool]:
        return self.store.transact(
            lambda cursor: self._finisher.renew(cursor, renewals, lease_seconds)
        )

    # -- upkeep --------------------------------------------------------------------

    def reclaim(self, limit: int = 1000) -> list[Reclaimed]:
        self._promote(limit)
        reclaimed = self._reclaim(limit)
        self._partitions.sweep()
        return reclaimed

    def _promote(self, limit: int) -> None:
        self._partitions.refresh(self._returns.promote(limit))

    def _reclaim(self, limit: int) -> list[Reclaimed]:
        reclaimed = self._returns.reclaim(limit)
        if reclaimed:
            self._partitions.refresh(job.partition_key for job in reclaimed)
            self._partitions.end_busy_period()
            self.on_reclaimed(reclaimed)
        return reclaimed

    def prune(self, batch: int = 1000) -> dict[str, int]:
        while self._partitions.forget_idle(batch) >= batch:
            pass
        return self._history.prune(batch)

    # -- steering ------------------------------------------------------------------

    def _set_paused(
        self, partition_key: str | None, paused: bool, shares: Mapping[str, float]
    ) -> None:
        if partition_key is not None:
            self._partitions.configure(partition_key, {"paused": paused}, shares)
            return

        def work(cursor: Cursor) -> None:
            self._partitions.current_period(cursor)
            cursor.run(f"UPDATE {QUEUE} SET paused = %s WHERE queue = %s", [paused, self.name])

        self.store.transact(work)

    def set_partition(
        self,
        partition_key: str,
        *,
        share: float | Unset | None = UNSET,
        limit: int | Unset | None = UNSET,
        shares: Mapping[str, float] = NO_SHARES,
    ) -> None:
        values: dict[str, Any] = {}
        if not isinstance(share, Unset):
            values["share"] = share
        if not isinstance(limit, Unset):
            values["in_flight_limit"] = limit
        self._partitions.configure(partition_key, values, shares)

    def cancel(self, ids: Sequence[str]) -> list[str]:
        removed: list[tuple[str, str]] = []
        for start in range(0, len(ids), _CANCEL_CHUNK):
            removed += self._remove(ids=list(ids[start : start + _CANCEL_CHUNK]))
        self._removed({key for _, key in removed})
        gone = {job_id for job_id, _ in removed}
        return [job_id for job_id in ids if job_id in gone]

    def purge(self, partition_key: str | None = None) -> int:
        count, keys, rounds = 0, set(), 0
        while rounds < _PURGE_ROUNDS:
            removed = self._remove(partition_key=partition_key)
            count += len(removed)
            keys |= {key for _, key in removed}
            if not removed:
                if not self._waits(partition_key):
                    break
                # What waits is in somebody's hands: a worker that leases it, or makes it ready.
                rounds += 1
                time.sleep(_PURGE_PAUSE)
        self._removed(keys)
        return count

    def _remove(
        self, *, ids: Sequence[str] | None = None, partition_key: str | None = None
    ) -> list[tuple[str, str]]:
        """Delete one chunk of ready and scheduled jobs; return (id, partition) of each.

        Jobs that are named are waited for: the job that a worker just makes ready must not
        slip through. Where all are meant, the rows of open transactions are passed over.
        """

        def work(cursor: Cursor) -> list[tuple[str, str]]:
            dialect = cursor.dialect
            index, lock, where = "vtrr_job_line", dialect.lock_skip, ""
            params: list[str] = []
            if ids is not None:
                index, lock, where = "vtrr_job_id", dialect.lock_wait, f" AND id IN {marks(ids)}"
                params = list(ids)
            elif partition_key is not None:
                where, params = " AND partition_key = %s", [partition_key]
            rows = cursor.rows(
                f"SELECT seq, id, partition_key FROM {JOB}{dialect.using(index)} "
                f"WHERE queue = %s AND state IN (%s, %s){where} LIMIT %s{lock}",
                [self.name, SCHEDULED, READY, *params, _CANCEL_CHUNK],
            )
            cursor.delete(JOB, "seq", [row[0] for row in rows], f" AND state <> {LEASED}")
            return [(row[1], row[2]) for row in rows]

        return self.store.transact(work)

    def _waits(self, partition_key: str | None) -> bool:
        """Return whether a committed job is ready or scheduled."""
        where, params = "", []
        if partition_key is not None:
            where, params = " AND partition_key = %s", [partition_key]
        sql = f"SELECT MIN(seq) FROM {JOB} WHERE queue = %s AND state = %s{where}"
        return any(
            self.store.read(sql, [self.name, state, *params])[0][0] is not None
            for state in (SCHEDULED, READY)
        )

    def _removed(self, keys: Iterable[str]) -> None:
        affected = list(keys)
        if affected:
            self._partitions.refresh(affected)
            self._partitions.end_busy_period()

    def requeue(self, ids: Sequence[str] | None = None, *, limit: int = 1000) -> list[str]:
        back: list[tuple[str, str]] = []
        chunks = (
            [None]
            if ids is None
            else [list(ids[i : i + _CANCEL_CHUNK]) for i in range(0, len(ids), _CANCEL_CHUNK)]
        )
        for chunk in chunks:
            most = limit if chunk is None else len(chunk)
            back += self.store.transact(partial(self._requeue, ids=chunk, limit=most))
        self._partitions.refresh({key for _, key in back})
        return [job_id for job_id, _ in back]

    def _requeue(
        self, cursor: Cursor, ids: Sequence[str] | None, limit: int
    ) -> list[tuple[str, str]]:
        """Turn dead letters into ready jobs with no attempts used; return (id, partition)."""
        letters = self._history.dead_letters(cursor, ids, limit)
        if letters:
            self._inserter.insert_again(cursor, letters)
            self._history.forget_dead(cursor, letters)
        return [(letter.id, letter.partition_key) for letter in letters]

    def discard(self, ids: Sequence[str]) -> list[str]:
        gone: set[str] = set()
        for start in range(0, len(ids), _CANCEL_CHUNK):
            chunk = ids[start : start + _CANCEL_CHUNK]
            gone |= set(self.store.transact(partial(self._history.discard, ids=chunk)))
        return [job_id for job_id in ids if job_id in gone]

    # -- looking -------------------------------------------------------------------

    def stats(self) -> QueueStats:
        return self.store.persist(self._figures.stats)

    def depth(self) -> QueueStats:
        return self._figures.depth()

    counts_together = True

    @classmethod
    def depths(cls, engines: Sequence[Engine]) -> list[QueueStats]:
        store = Store(engines[0].config.database)
        found = depths(store, [engine.name for engine in engines])
        return [found[engine.name] for engine in engines]

    def partitions(
        self, *, partition_key: str | None = None, limit: int = 1000
    ) -> list[PartitionStats]:
        return self.store.persist(lambda: self._figures.partitions(partition_key, limit))

    def jobs(
        self,
        state: State,
        *,
        partition_key: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> JobPage:
        return self._browser.page(state, partition_key, after, limit)

    def job(self, job_id: str) -> JobInfo | None:
        return self._browser.find(job_id)

    def dead_letters(self, ids: Sequence[str]) -> list[NewJob]:
        return self._history.letters(ids)
