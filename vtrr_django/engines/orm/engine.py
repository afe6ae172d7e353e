"""The ORM engine: the contract's verbs, each a short transaction and what follows its commit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from django.db import Error, transaction

from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.job import (
    Due,
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
from vtrr_django.domain.parts import parts
from vtrr_django.domain.states import State
from vtrr_django.engines.base import NO_SHARES, UNSET, Engine, Unset
from vtrr_django.engines.orm.browse import Browser, holders
from vtrr_django.engines.orm.busy_period import BusyPeriod
from vtrr_django.engines.orm.candidates import Candidates
from vtrr_django.engines.orm.claim import Claim, Claimer
from vtrr_django.engines.orm.figures import Figures, depths, dues
from vtrr_django.engines.orm.finish import Finished, Finisher, Mixup
from vtrr_django.engines.orm.forget import Forgetter
from vtrr_django.engines.orm.insert import Inserter, may_be_ready
from vtrr_django.engines.orm.partitions import Partitions
from vtrr_django.engines.orm.returns import Returns
from vtrr_django.engines.sql.history import History
from vtrr_django.engines.sql.store import Cursor, Store, marks
from vtrr_django.engines.sql.tables import JOB, LEASED, QUEUE, READY, SCHEDULED
from vtrr_django.exceptions import VTRRError, so_far

_RETURNS_PER_LEASE = 200
"""Due jobs promoted and leases reclaimed at the start of one lease call."""

_EMPTY_ROUNDS = 20
"""Times one lease call goes on after finding only partitions whose jobs are gone."""

_CANCEL_CHUNK = 1000

_PURGE_ROUNDS, _PURGE_PAUSE = 40, 0.005
"""How often, and how many seconds apart, a purge comes back for jobs in others' hands."""


class OrmEngine(Engine):
    """One queue in one database."""

    counts_together = True

    def __init__(self, name: str, config: QueueConfig) -> None:
        super().__init__(name, config)
        self.store = Store(config.database)
        self.transaction_alias = config.database
        self._busy_period = BusyPeriod(name, self.store)
        self._candidates = Candidates(name, config, self.store)
        self._partitions = Partitions(
            name,
            config,
            self.store,
            self._busy_period,
            self._candidates,
            shares_of=self._ask_shares,
        )
        self._forgetter = Forgetter(name, self.store, self._busy_period)
        self._history = History(name, config, self.store)
        self._inserter = Inserter(name, self.store)
        self._claimer = Claimer(name, config, self._busy_period)
        self._finisher = Finisher(name, config, self.store, self._busy_period, self._history)
        self._returns = Returns(name, config, self.store, self._history)
        self._figures = Figures(name, config, self.store, self._history)
        self._browser = Browser(name, self.store)

    # -- coming in -----------------------------------------------------------------

    def enqueue(self, jobs: Sequence[NewJob], shares: Mapping[str, float]) -> list[str]:
        if self._is_plain(jobs):
            [job] = jobs
            if self._inserter.insert_and_look(
                job,
                partial(self._candidates.is_settled, job=job, share=shares.get(job.partition_key)),
            ):
                return [job.id]
            ids, stored = [job.id], list(jobs)
        else:
            ids, stored = self._inserter.insert(jobs)
        precedences: dict[str, int | None] = {}
        for job in stored:
            key = job.partition_key
            if may_be_ready(job):
                lowest = precedences.get(key)
                precedences[key] = -job.priority if lowest is None else min(lowest, -job.priority)
            elif key in shares:
                # Nobody knows its share any more when the job falls due.
                precedences.setdefault(key, None)
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

    def _arrived(self, precedences: Mapping[str, int | None], shares: Mapping[str, float]) -> None:
        self._partitions.refresh(self._candidates.awaiting(precedences, shares), shares)

    def _ask_shares(self, keys: Collection[str]) -> Mapping[str, float]:
        return self.shares_of(keys)  # which is set when the engine is there

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
            done, jobs = [self.finish([outcome])[0] for outcome in outcomes], []
            with self._told_after(any(done)):
                jobs = self.lease(n, worker_id=worker_id, lease_seconds=lease_seconds)
            return done, jobs
        with self._told_after(any(finished.done) or bool(claim.jobs)):
            stranded = self._candidates.stranded(claim.taken_out)
            self._partitions.refresh([*finished.returned, *stranded])
            # What the claim left in the running needs nobody's help.
            self._partitions.settle(finished.settled - claim.left_in)
            if leasing and not claim.jobs:
                claim.jobs = self._look_again(
                    n, claim, worker_id=worker_id, lease_seconds=lease_seconds
                )
        return finished.done, claim.jobs

    @contextlib.contextmanager
    def _told_after(self, done: bool) -> Iterator[None]:
        """Have an error be told, not raised, that comes after the commit of what is ``done``.

        What is leased has to be run, and who ended jobs would end them in vain once more. What
        was not done instead, a sweep does. In the caller's transaction nothing is sure yet.
        """
        try:
            yield
        except (VTRRError, Error) as error:
            if not done or self.store.in_transaction:
                raise
            self.on_left_undone(error)

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
            with self._told_after(bool(claim.jobs)):
                self._partitions.refresh(self._candidates.stranded(claim.taken_out))
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
        with so_far(lambda: len(reclaimed)):
            self._partitions.sweep()
        return reclaimed

    def _promote(self, limit: int) -> None:
        self._partitions.refresh(self._returns.promote(limit))

    def _reclaim(self, limit: int) -> list[Reclaimed]:
        reclaimed = self._returns.reclaim(limit)
        if reclaimed:
            try:
                with so_far(lambda: len(reclaimed)):
                    self._partitions.refresh(job.partition_key for job in reclaimed)
                    self._partitions.end_busy_period()
            finally:
                self.on_reclaimed(reclaimed)
        return reclaimed

    def prune(self, batch: int = 1000) -> dict[str, int]:
        while self._forgetter.forget(batch) >= batch:
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
            self._busy_period.number(cursor)
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
        with so_far(lambda: len(removed)):
            for chunk in parts(ids, _CANCEL_CHUNK):
                removed += self._remove(ids=list(chunk))
            self._removed({key for _, key in removed})
        gone = {job_id for job_id, _ in removed}
        return [job_id for job_id in ids if job_id in gone]

    def purge(self, partition_key: str | None = None) -> int:
        count, keys, rounds = 0, set(), 0
        with so_far(lambda: count):
            while rounds < _PURGE_ROUNDS:
                removed = self._remove(partition_key=partition_key)
                count += len(removed)
                keys |= {key for _, key in removed}
                if not removed:
                    if not self._waits(partition_key):
                        break
                    # It is in somebody's hands: a worker that leases it, or makes it ready.
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

    def requeue(
        self,
        ids: Sequence[str] | None = None,
        *,
        limit: int = 1000,
        shares: Mapping[str, float] = NO_SHARES,
    ) -> list[str]:
        back: list[tuple[str, str]] = []
        with so_far(lambda: len(back)):
            if ids is None:
                while len(back) < limit:
                    most = min(_CANCEL_CHUNK, limit - len(back))
                    found, letters = self.store.transact(
                        partial(self._requeue, ids=None, limit=most)
                    )
                    back += found
                    if letters < most:
                        break
            else:
                for start in range(0, len(ids), _CANCEL_CHUNK):
                    chunk = ids[start : start + _CANCEL_CHUNK]
                    requeue = partial(self._requeue, ids=chunk, limit=len(chunk))
                    back += self.store.transact(requeue)[0]
            self._partitions.refresh({key for _, key in back}, shares)
        return [job_id for job_id, _ in back]

    def _requeue(
        self, cursor: Cursor, ids: Sequence[str] | None, limit: int
    ) -> tuple[list[tuple[str, str]], int]:
        """Turn dead letters into ready jobs with no attempts used.

        Return (id, partition) of each, and how many letters there were: one whose job is live
        is no job once more, and no letter either.
        """
        letters = self._history.dead_letters(cursor, ids, limit)
        back = self._inserter.insert_again(cursor, letters)
        self._history.forget_dead(cursor, letters)
        return [(letter.id, letter.partition_key) for letter in back], len(letters)

    def discard(self, ids: Sequence[str]) -> list[str]:
        gone: set[str] = set()
        with so_far(lambda: len(gone)):
            for chunk in parts(ids, _CANCEL_CHUNK):
                gone |= set(self.store.transact(partial(self._history.discard, ids=chunk)))
        return [job_id for job_id in ids if job_id in gone]

    # -- looking -------------------------------------------------------------------

    def stats(self) -> QueueStats:
        return self.store.persist(self._figures.stats)

    def depth(self) -> QueueStats:
        return self._figures.depth()

    @classmethod
    def depths(cls, engines: Sequence[Engine]) -> list[QueueStats]:
        store = Store(engines[0].config.database)
        found = depths(store, [engine.name for engine in engines])
        return [found[engine.name] for engine in engines]

    def due(self, depth: QueueStats) -> Due:
        return self.dues([self], [depth])[0]

    @classmethod
    def dues(cls, engines: Sequence[Engine], depths: Sequence[QueueStats]) -> list[Due]:
        store = Store(engines[0].config.database)
        known = {engine.name: depth for engine, depth in zip(engines, depths, strict=True)}
        found = dues(store, {engine.name: engine.config for engine in engines}, known)
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

    @classmethod
    def each_job(cls, engines: Sequence[Engine], job_id: str) -> list[JobInfo | None]:
        holding = holders(Store(engines[0].config.database), [one.name for one in engines], job_id)
        return [engine.job(job_id) if engine.name in holding else None for engine in engines]

    def dead_letters(self, ids: Sequence[str] | None = None, *, limit: int = 1000) -> list[NewJob]:
        return self._history.letters(ids, limit)
