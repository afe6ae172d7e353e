"""The leases this process holds, and how their ends reach the store."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

from vtrr_django.domain.job import LeasedJob, Outcome, OutcomeKind
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.worker.logs import job_extra, logger
from vtrr_django.worker.source import JobSource, WorkerHooks

MAX_HAND_IN = 100
"""Most kept outcomes that are added to one call."""

SUSPECT_PAUSE = 1.0
MAX_TRIES = 5
"""Times one outcome may fail alone while the store answers other calls."""

_STATE_OF = {
    OutcomeKind.ACK: "succeeded",
    OutcomeKind.FAIL: "failed",
    OutcomeKind.RETRY: "retried",
    OutcomeKind.SNOOZE: "snoozed",
    OutcomeKind.RELEASE: "released",
}


class Lease:
    """One lease of this process: its job waits in a batch, runs, or ended and is not handed in.

    Attributes:
        job: the job.
        lane: where it came from.
        started: ``time.monotonic()`` when it began to run; None: it waits.
        ran: seconds it ran; None: it has not ended.
        outcome: how it ended; None: it did not.
        renewed_at: ``time.monotonic()`` of the lease or its last renewal.
        overdue: it passed its hard time limit: whatever it returns is dropped.
        lost: the store said that the lease is not ours any more.
        tries: calls that failed with its outcome alone while the store answered others.
    """

    __slots__ = (
        "job",
        "lane",
        "lost",
        "outcome",
        "overdue",
        "ran",
        "renewed_at",
        "started",
        "tries",
    )

    def __init__(self, job: LeasedJob, lane: Lane, now: float) -> None:
        self.job = job
        self.lane = lane
        self.renewed_at = now
        self.started: float | None = None
        self.ran: float | None = None
        self.outcome: Outcome | None = None
        self.overdue = False
        self.lost = False
        self.tries = 0

    def released(self) -> Outcome:
        """Return the outcome that puts the job back in its place."""
        return Outcome(kind=OutcomeKind.RELEASE, job_id=self.job.id, token=self.job.token)


@dataclass(slots=True)
class Tally:
    """How leases ended, counted when the store confirmed it."""

    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    snoozed: int = 0
    released: int = 0
    lost: int = 0
    died: int = 0
    stuck: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Tally)))

    def add(self, name: str) -> None:
        """Add one to the count ``name``."""
        setattr(self, name, getattr(self, name) + 1)

    @property
    def jobs(self) -> int:
        """Jobs that were run."""
        return (
            self.succeeded
            + self.failed
            + self.retried
            + self.snoozed
            + self.lost
            + self.died
            + self.stuck
        )


class Lane:
    """One source, the leases held from it, and the outcomes its store has not taken yet.

    An outcome is *kept* when the call that carried it failed, and goes with a later one. If
    the call failed with something else than ``StoreUnavailable``, an outcome of it may be
    the reason: then each goes alone, so that one bad outcome holds up no other, and one that
    fails again and again while the store answers is given up: its lease runs out.
    """

    def __init__(self, source: JobSource, worker_id: str, hooks: WorkerHooks) -> None:
        self.source = source
        self.name = source.name
        self.config = source.config
        self.worker_id = worker_id
        self._hooks = hooks
        self._lock = threading.Lock()
        self._held: set[Lease] = set()
        self._kept: deque[Lease] = deque()
        self._suspects: deque[Lease] = deque()
        self._suspects_due = 0.0
        self.tally = Tally()

    def exchange(self, ended: list[Lease], n: int, *, stale: bool = False) -> list[Lease]:
        """Hand in the ends of leases and lease up to ``n`` jobs, in one call.

        If it raises, the outcomes are kept.

        Args:
            ended: leases with an outcome.
            n: may be 0.
            stale: whether this thread has not talked to the store for a while.
        """
        if self._kept:
            ended = [*ended, *_popped(self._kept, MAX_HAND_IN)]
        blamed: list[Lease] = []
        try:
            if stale:
                self._hooks.before_store()
            if self._suspects:
                blamed = self._try_suspects()
            if not ended and not n:
                return []
            outcomes = [lease.outcome for lease in ended if lease.outcome is not None]
            answers, jobs = self.source.finish_and_lease(outcomes, n, worker_id=self.worker_id)
        except BaseException as exc:
            self._keep(ended, exc)
            raise
        now = time.monotonic()
        leases = [Lease(job, self, now) for job in jobs]
        self._settle(ended, outcomes, answers, leases)
        self._blame(blamed)
        return leases

    def _keep(self, ended: Iterable[Lease], exc: BaseException) -> None:
        if isinstance(exc, StoreUnavailable):
            self._kept.extend(ended)
        else:
            self._suspects.extend(ended)

    def _try_suspects(self) -> list[Lease]:
        """Hand in each suspect alone; return those that failed again."""
        if time.monotonic() < self._suspects_due:
            return []
        self._suspects_due = time.monotonic() + SUSPECT_PAUSE
        again: list[Lease] = []
        try:
            for lease in _popped(self._suspects, MAX_HAND_IN):
                try:
                    self._hand_in_alone(lease)
                except StoreUnavailable:
                    again.append(lease)
                    raise
                except BaseException:  # noqa: BLE001 - the call after this tells if the store is down
                    again.append(lease)
        finally:
            self._suspects.extend(again)
        return again

    def _hand_in_alone(self, lease: Lease) -> None:
        outcomes = [lease.outcome] if lease.outcome is not None else []
        answers, _ = self.source.finish_and_lease(outcomes, 0, worker_id=self.worker_id)
        self._settle([lease], outcomes, answers)

    def _blame(self, suspects: Iterable[Lease]) -> None:
        """Count a try of outcomes that the store, which just answered, fails over."""
        for lease in suspects:
            lease.tries += 1
            if lease.tries < MAX_TRIES:
                continue
            with contextlib.suppress(ValueError):  # another thread took it to try it again
                self._suspects.remove(lease)
                self.drop(lease, "lost")
                logger.error(
                    "the store failed %d times over the outcome (%s) of job %s, not otherwise: "
                    "giving it up, the lease runs out and the job runs again",
                    lease.tries,
                    lease.outcome and lease.outcome.kind.value,
                    lease.job.id,
                    extra=job_extra(lease.job, self.worker_id),
                )

    def _settle(
        self,
        ended: Sequence[Lease],
        outcomes: Sequence[Outcome],
        answers: Sequence[bool],
        leases: Sequence[Lease] = (),
    ) -> None:
        """Note that ``ended`` are ours no more, with what answers, and ``leases`` are."""
        refused = []
        with self._lock:
            self._held.difference_update(ended)
            self._held.update(leases)
            tally = self.tally
            for lease, outcome, accepted in zip(ended, outcomes, answers, strict=False):
                kind = outcome.kind
                if accepted and kind is OutcomeKind.ACK:
                    tally.succeeded += 1
                elif accepted:
                    tally.add(_STATE_OF[kind])
                elif kind is not OutcomeKind.RELEASE:
                    tally.lost += 1
                    refused.append(lease)
        for lease in refused:
            if not lease.lost:
                logger.warning(
                    "job %s ended, but its lease was not ours any more: its result is dropped",
                    lease.job.id,
                    extra=job_extra(lease.job, self.worker_id),
                )

    def adopt(self, job: LeasedJob) -> Lease:
        """Hold a lease that was taken elsewhere, and has just been renewed."""
        lease = Lease(job, self, time.monotonic())
        with self._lock:
            self._held.add(lease)
        return lease

    def drop(self, lease: Lease, as_what: str) -> bool:
        """Let a lease run out: hold, renew and hand it in no more; count it under ``as_what``.

        False: it is not held any more, and is not counted again.
        """
        with self._lock:
            if lease not in self._held:
                return False
            self._held.discard(lease)
            self.tally.add(as_what)
            return True

    def lose(self, lease: Lease) -> bool:
        """Note that the store refused to renew ``lease``.

        False: it has ended meanwhile, and the answer to its outcome will tell.
        """
        with self._lock:
            if lease.outcome is not None or lease not in self._held:
                return False
            self._held.discard(lease)
            lease.lost = True
            return True

    def held(self) -> list[Lease]:
        """Return every lease that waits, runs, or ended and was not handed in."""
        with self._lock:
            return list(self._held)

    def release_held(self) -> int:
        """Hand in everything at once: outcomes of jobs that ended, releases of the others.

        Returns how many were released; a job among them that still runs may end, but its
        lease is not ours any more.
        """
        held = self.held()
        outcomes = [lease.outcome or lease.released() for lease in held]
        if not outcomes:
            return 0
        self._hooks.before_store()
        answers, _ = self.source.finish_and_lease(outcomes, 0, worker_id=self.worker_id)
        self._settle(held, outcomes, answers)
        return sum(lease.outcome is None for lease in held)

    def keep(self, ended: Iterable[Lease]) -> None:
        """Have outcomes go with the next call."""
        self._kept.extend(ended)

    @property
    def kept(self) -> int:
        """How many outcomes wait for the store."""
        return len(self._kept) + len(self._suspects)


def by_store(lanes: Iterable[Lane]) -> list[list[Lane]]:
    """Return the lanes, those together whose stores, or databases of history, are the same.

    What looks after lanes has a thread for each of these, for a store may hang: it holds up
    its own queues, and no other's lease runs out meanwhile.
    """
    stores: dict[Hashable, list[Lane]] = {}
    for lane in lanes:
        stores.setdefault((lane.config.place, lane.config.database), []).append(lane)
    return list(stores.values())


def count_released(ended: Iterable[Lease]) -> int:
    """Return how many of ``ended`` are jobs that were given back unstarted."""
    released = OutcomeKind.RELEASE
    return sum([1 for lease in ended if lease.outcome and lease.outcome.kind is released])


def _popped(leases: deque[Lease], most: int) -> Iterator[Lease]:
    """Take up to ``most`` off the left; another thread may do the same meanwhile."""
    for _ in range(min(most, len(leases))):
        try:
            yield leases.popleft()
        except IndexError:
            return
