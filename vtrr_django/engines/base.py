"""The engine contract: what a store must do, in verbs.

Only :class:`vtrr_django.queue.Queue` calls an engine. What it passes has been
validated; an engine neither validates, logs nor sends signals. No connection, key or
queryset crosses this seam. ``tests/contract`` holds every engine to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

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
    Stray,
)
from vtrr_django.domain.states import State


class Unset:
    """Type of :data:`UNSET`."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset()
"""Leave this setting of a partition as it is (``None`` means: back to the queue's default)."""


NO_SHARES: Final[Mapping[str, float]] = {}
"""``SHARES`` says nothing about any partition of the call."""


def _tell_nobody(reclaimed: Sequence[Reclaimed]) -> None:
    """Stand in for :attr:`Engine.on_reclaimed` until somebody wants to know."""


def _tell_nobody_of(error: Exception) -> None:
    """Stand in for :attr:`Engine.on_left_undone` until somebody wants to know."""


def _declare_nothing(partition_keys: Collection[str]) -> Mapping[str, float]:
    """Stand in for :attr:`Engine.shares_of` where nothing is declared."""
    return NO_SHARES


class Engine(ABC):
    """One queue in one store.

    Every verb raises :class:`~vtrr_django.exceptions.StoreUnavailable` when the store
    cannot be reached or stays contended after the engine's own bounded retries.
    """

    transaction_alias: str | None = None
    """The database whose open transaction an enqueue joins; None when it joins none."""

    counts_together: bool = False
    """Whether :meth:`depths`, :meth:`dues` and :meth:`each_job` ask once for a whole place."""

    on_reclaimed: Callable[[Sequence[Reclaimed]], None]
    """Called after the commit with leases that ran out, whichever verb brought them back."""

    on_left_undone: Callable[[Exception], None]
    """Called with an error that came after jobs were leased or ended, which the verb then tells.

    What it kept from being done, such as that others may run now, the next reclaim does.
    """

    shares_of: Callable[[Collection[str]], Mapping[str, float]]
    """Asks ``SHARES`` about partitions that have jobs and that the store knows nothing of.

    Raises nothing: of what cannot be found out, it says nothing.
    """

    def __init__(self, name: str, config: QueueConfig) -> None:
        self.name = name
        self.config = config
        self.on_reclaimed = _tell_nobody
        self.on_left_undone = _tell_nobody_of
        self.shares_of = _declare_nothing

    # -- coming in -----------------------------------------------------------------

    @abstractmethod
    def enqueue(self, jobs: Sequence[NewJob], shares: Mapping[str, float]) -> list[str]:
        """Store ``jobs``, all or none, and return one id per job, in order.

        ``shares`` gives the share ``SHARES`` declares for partitions in the call; an
        operator's own setting outranks it. A job whose ``msg_id`` is known already
        (live or in history) is not stored; the first job's id stands in its place.
        So it is for a ``given_id`` that belongs to a job of the same task, partition
        and payload; one that belongs to a different job raises ``DuplicateJobError``.
        """

    @abstractmethod
    def known(self, jobs: Sequence[NewJob]) -> list[str | None]:
        """Return the id of the job that each of ``jobs`` is already, live or in history.

        Raises:
            DuplicateJobError: a ``given_id`` belongs to a different job.
        """

    # -- running -------------------------------------------------------------------

    @abstractmethod
    def lease(self, n: int, *, worker_id: str, lease_seconds: float) -> list[LeasedJob]:
        """Lease up to ``n`` jobs in fair order; empty when nothing may run.

        First promotes scheduled jobs that are due and reclaims leases that ran out,
        both bounded.
        """

    @abstractmethod
    def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """End leases. False where the token is not the current one; the rest still counts."""

    def finish_and_lease(
        self, outcomes: Sequence[Outcome], n: int, *, worker_id: str, lease_seconds: float
    ) -> tuple[list[bool], list[LeasedJob]]:
        """Do :meth:`finish`, then :meth:`lease`; engines may do it in one round trip."""
        done = self.finish(outcomes)
        return done, self.lease(n, worker_id=worker_id, lease_seconds=lease_seconds)

    @abstractmethod
    def renew(self, renewals: Sequence[Renewal], *, lease_seconds: float) -> list[bool]:
        """Let leases run for ``lease_seconds`` from now. False where the token is not current.

        A lease that ran out but was not reclaimed yet may still be renewed.
        """

    # -- upkeep --------------------------------------------------------------------

    @abstractmethod
    def reclaim(self, limit: int = 1000) -> list[Reclaimed]:
        """Bring back up to ``limit`` jobs whose lease ran out; promote due jobs; heal."""

    def archive(self, limit: int = 1000) -> int:
        """Move about ``limit`` ended jobs to the history tables; return how many.

        0 where the transaction that ends a job writes its history too.
        """
        return 0

    @abstractmethod
    def prune(self, batch: int = 1000) -> dict[str, int]:
        """Trim history to the retention settings; return ``{"completed": n, "failed": m}``."""

    # -- steering ------------------------------------------------------------------

    def pause(
        self, partition_key: str | None = None, *, shares: Mapping[str, float] = NO_SHARES
    ) -> None:
        """Stop leasing from one partition, or (None) from the whole queue.

        ``shares`` as in :meth:`enqueue`, should the partition be new; so in the next two.
        """
        self._set_paused(partition_key, True, shares)

    def resume(
        self, partition_key: str | None = None, *, shares: Mapping[str, float] = NO_SHARES
    ) -> None:
        """Undo :meth:`pause`."""
        self._set_paused(partition_key, False, shares)

    @abstractmethod
    def _set_paused(
        self, partition_key: str | None, paused: bool, shares: Mapping[str, float]
    ) -> None:
        """Do :meth:`pause` or :meth:`resume`."""

    @abstractmethod
    def set_partition(
        self,
        partition_key: str,
        *,
        share: float | Unset | None = UNSET,
        limit: int | Unset | None = UNSET,
        shares: Mapping[str, float] = NO_SHARES,
    ) -> None:
        """Set a partition's share or in-flight limit; it reaches the jobs that already wait."""

    @abstractmethod
    def cancel(self, ids: Sequence[str]) -> list[str]:
        """Remove ready and scheduled jobs; return the ids removed. Leased ones stay."""

    @abstractmethod
    def purge(self, partition_key: str | None = None) -> int:
        """Remove all ready and scheduled jobs (of one partition); return how many."""

    @abstractmethod
    def requeue(
        self,
        ids: Sequence[str] | None = None,
        *,
        limit: int = 1000,
        shares: Mapping[str, float] = NO_SHARES,
    ) -> list[str]:
        """Bring dead letters back to life with a fresh attempt budget; return their ids.

        A ``msg_id`` stays unique among live jobs: a letter comes back without the one that a
        live job has, or an older letter of the same call. A letter whose own job is live is
        not brought back and is a letter no more.

        Args:
            ids: None: the queue's dead letters, the oldest first, until ``limit`` are back or
                all have been looked at.
            limit: how many are brought back, without ``ids``.
            shares: what partitions are declared to be due, as in :meth:`enqueue`.
        """

    @abstractmethod
    def discard(self, ids: Sequence[str]) -> list[str]:
        """Delete dead letters for good; return the ids of those there were."""

    # -- looking -------------------------------------------------------------------

    @abstractmethod
    def stats(self) -> QueueStats:
        """Count everything once."""

    @abstractmethod
    def depth(self) -> QueueStats:
        """Count live jobs, and nothing that has ended: what :meth:`stats` says of those is 0."""

    @classmethod
    def depths(cls, engines: Sequence[Engine]) -> list[QueueStats]:
        """Count as :meth:`depth` for engines of this class that share one place."""
        return [engine.depth() for engine in engines]

    @abstractmethod
    def due(self, depth: QueueStats) -> Due:
        """Return what keeps jobs waiting; ``depth`` is what :meth:`depth` said a moment ago."""

    @classmethod
    def dues(cls, engines: Sequence[Engine], depths: Sequence[QueueStats]) -> list[Due]:
        """Do :meth:`due` for engines of this class that share one place."""
        return [engine.due(depth) for engine, depth in zip(engines, depths, strict=True)]

    @classmethod
    def strays(cls, engines: Sequence[Engine]) -> list[Stray]:
        """Return what waits in the place that engines of this class share, and in none of them.

        Bounded: where a store has no record of its queues, some may be missed. Empty where jobs
        are rows of a database, which is asked itself.
        """
        return []

    def waiting(self) -> int:
        """Count ready jobs, and nothing else; 0 while the queue is paused."""
        depth = self.depth()
        return 0 if depth.paused else depth.ready

    @abstractmethod
    def partitions(
        self, *, partition_key: str | None = None, limit: int = 1000
    ) -> list[PartitionStats]:
        """Return partitions that have live jobs or settings, most ready jobs first."""

    @abstractmethod
    def jobs(
        self,
        state: State,
        *,
        partition_key: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> JobPage:
        """Return up to ``limit`` jobs that are ready, scheduled or leased, and a cursor.

        Ready ones come by partition (their keys compare byte by byte), those of one partition
        in the order in which they will run; scheduled ones as they fall due, leased ones as
        their leases run out. The work of a call is bounded, however many jobs there are: of
        one partition's scheduled or leased jobs a store may find only some, or none, and say
        that there are more. Jobs that move meanwhile may be missed or come twice.

        Args:
            state: SCHEDULED, READY or LEASED.
            partition_key: only this partition's; None: all.
            after: the cursor of an earlier page of the same listing; None: the first page.
            limit: at least 1.

        Raises:
            ValidationError: ``after`` is no such cursor.
        """

    @abstractmethod
    def job(self, job_id: str) -> JobInfo | None:
        """Return a job that is ready, scheduled or leased; None if there is none."""

    @classmethod
    def each_job(cls, engines: Sequence[Engine], job_id: str) -> list[JobInfo | None]:
        """Do :meth:`job` for engines of this class that share one place."""
        return [engine.job(job_id) for engine in engines]

    @abstractmethod
    def dead_letters(self, ids: Sequence[str] | None = None, *, limit: int = 1000) -> list[NewJob]:
        """Return dead letters as the jobs they were when they came in.

        In the order of ``ids``; None: up to ``limit`` of the queue's, the oldest first.
        """
