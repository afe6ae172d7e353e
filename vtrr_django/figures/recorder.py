"""What this process has done with one queue since it last told the database."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple
from weakref import WeakSet

from vtrr_django.domain.forks import at_fork
from vtrr_django.domain.histogram import Histogram, bucket_of
from vtrr_django.domain.job import (
    LEASE_TIMEOUT,
    UNKNOWN_TASK,
    LeasedJob,
    Outcome,
    OutcomeKind,
    Reclaimed,
    Renewal,
)

REST: Final = "\x1f"
"""Stands for all partitions beyond the most that are told apart; no partition is named so."""

MOST_PARTITIONS: Final = 1000
"""Partitions that are told apart, in one process and in one sample."""

MOST_WORKERS: Final = 500
"""Workers that are told apart, in one process and in the table."""

MOST_ATTEMPTS: Final = 50
"""Failed attempts that one process tells about each time, the newest."""

_MOST_HELD = 20_000
_HELD_PAST_ITS_END = 3600.0
"""Seconds for which an end of a lease is still expected after the lease ran out."""


@dataclass(slots=True)
class Tenant:
    """What happened to one partition."""

    leases: int = 0
    completed: int = 0
    failed: int = 0
    worker_seconds: float = 0.0
    waits: Histogram = field(default_factory=Histogram)

    def merge(self, other: Tenant) -> None:
        """Add ``other``."""
        self.leases += other.leases
        self.completed += other.completed
        self.failed += other.failed
        self.worker_seconds += other.worker_seconds
        self.waits.merge(other.waits)


class Attempt(NamedTuple):
    """An attempt that went wrong, after which its job was to run again.

    Attributes:
        job_id: the job.
        at: when, by this process's monotonic clock.
        worker_id: who ran it; "": unknown.
        error_class: dotted name of the exception's class, "" if there was none.
        reason: for people.
    """

    job_id: str
    at: float
    worker_id: str
    error_class: str
    reason: str


def _no_attempts() -> deque[Attempt]:
    return deque(maxlen=MOST_ATTEMPTS)


COUNTERS: Final = (
    *("leases", "completed", "failed", "retried", "snoozed", "released", "reclaimed", "refused"),
)
"""Fields of :class:`Counted`, and columns of ``QueueTotals``."""


@dataclass(slots=True)
class Counted:
    """What happened on a queue: the counters, and what they do not tell.

    Attributes:
        waits: how long jobs waited for their lease.
        runs: how long jobs ran.
        tenants: by partition key, or ``REST``.
        workers: leases by worker id.
        attempts: the newest that went wrong.
        looked: whether somebody looked for leases that ran out.
        unknown: whether a job was put back because a worker had no such task.
    """

    leases: int = 0
    completed: int = 0
    failed: int = 0
    retried: int = 0
    snoozed: int = 0
    released: int = 0
    reclaimed: int = 0
    refused: int = 0
    waits: Histogram = field(default_factory=Histogram)
    runs: Histogram = field(default_factory=Histogram)
    tenants: dict[str, Tenant] = field(default_factory=dict)
    workers: dict[str, int] = field(default_factory=dict)
    attempts: deque[Attempt] = field(default_factory=_no_attempts)
    looked: bool = False
    unknown: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing happened, but perhaps somebody looked."""
        return not (self.tenants or any(getattr(self, name) for name in COUNTERS))

    def tenant(self, partition_key: str) -> Tenant:
        """Return the figures of a partition, to be added to."""
        found = self.tenants.get(partition_key)
        if found is None:
            if len(self.tenants) >= MOST_PARTITIONS:
                partition_key = REST
            found = self.tenants.setdefault(partition_key, Tenant())
        return found

    def got(self, worker_id: str, leases: int) -> None:
        """Note leases of a worker."""
        if worker_id in self.workers or len(self.workers) < MOST_WORKERS:
            self.workers[worker_id] = self.workers.get(worker_id, 0) + leases

    def add_up(self) -> None:
        """Make the leases and waits of all those of the tenants: counting each once is cheaper."""
        self.leases, self.waits = 0, Histogram()
        for tenant in self.tenants.values():
            self.leases += tenant.leases
            self.waits.merge(tenant.waits)

    def merge(self, other: Counted) -> None:
        """Add ``other``."""
        for name in COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.waits.merge(other.waits)
        self.runs.merge(other.runs)
        for key, tenant in other.tenants.items():
            self.tenant(key).merge(tenant)
        for worker_id, leases in other.workers.items():
            self.got(worker_id, leases)
        self.attempts.extend(other.attempts)
        self.looked = self.looked or other.looked
        self.unknown = self.unknown or other.unknown


_ACK, _RELEASE, _SNOOZE = OutcomeKind.ACK, OutcomeKind.RELEASE, OutcomeKind.SNOOZE

_recorders: WeakSet[Recorder] = WeakSet()


def _forget() -> None:
    """Begin anew in a forked process: what the parent has counted, the parent will tell."""
    for recorder in list(_recorders):
        recorder._begin()


at_fork(after_in_child=_forget)


class Recorder:
    """Counts for one queue in one process; its threads call it at the same time.

    Every job passes here twice, so loops name attributes once and call little.
    """

    def __init__(self) -> None:
        self._begin()
        _recorders.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._counted = Counted()
        # Who ends a lease names its token only. The token -> partition, worker, when the lease
        # began and when it runs out by this process's clock, seconds charged to the partition.
        self._held: dict[str, tuple[str, str, float, float, float]] = {}

    def leased(self, jobs: Sequence[LeasedJob], worker_id: str, lease_seconds: float) -> None:
        """Count leases, and how long their jobs waited by the clock of the store."""
        if not jobs:
            return
        now = time.monotonic()
        until = now + lease_seconds
        with self._lock:
            counted, held = self._counted, self._held
            tenants = counted.tenants
            if len(held) + len(jobs) > _MOST_HELD:
                self._make_room()
            counted.got(worker_id, len(jobs))
            for job in jobs:
                key = job.partition_key
                held[job.token] = key, worker_id, now, until, 0.0
                left = (job.lease_expires_at - (job.ready_at or job.enqueued_at)).total_seconds()
                wait = left - lease_seconds
                tenant = tenants.get(key) or counted.tenant(key)
                tenant.leases += 1
                waits = tenant.waits
                waits.counts[bucket_of(wait)] += 1
                if wait > 0.0:  # else it came in by another clock
                    waits.total += wait

    def took_over(self, job: LeasedJob, worker_id: str, lease_seconds: float) -> None:
        """Know of a lease that another process began."""
        now = time.monotonic()
        with self._lock:
            self._held[job.token] = job.partition_key, worker_id, now, now + lease_seconds, 0.0

    def heard_of(
        self, token: str, partition_key: str, worker_id: str, *, age: float, lease_seconds: float
    ) -> None:
        """Know of a lease that another process gave out, unless it was this one.

        Args:
            token: of the lease.
            partition_key: of its job.
            worker_id: who holds it; "": unknown.
            age: seconds since it began.
            lease_seconds: for how long it may last from now on.
        """
        now = time.monotonic()
        with self._lock:
            if token not in self._held:
                if len(self._held) >= _MOST_HELD:
                    self._make_room()
                held = partition_key, worker_id, now - age, now + lease_seconds, 0.0
                self._held[token] = held

    def seen(self, worker_id: str) -> None:
        """Note that a worker is alive, though it may have been given nothing."""
        with self._lock:
            self._counted.got(worker_id, 0)

    def _make_room(self) -> None:
        """Forget the leases known longest, many at once: nobody has ended them here."""
        for token in list(islice(self._held, _MOST_HELD // 4)):
            del self._held[token]

    def renewed(
        self, renewals: Sequence[Renewal], done: Sequence[bool], lease_seconds: float
    ) -> None:
        """Charge running jobs to their partitions, so that a long one shows while it runs."""
        until = time.monotonic() + lease_seconds
        with self._lock:
            for renewal, accepted in zip(renewals, done, strict=True):
                held = self._held.pop(renewal.token, None)
                if held is None or not accepted:
                    continue
                key, worker_id, since, _, charged = held
                ran = renewal.runtime or 0.0
                if ran > charged:
                    self._counted.tenant(key).worker_seconds += ran - charged
                    charged = ran
                token = renewal.new_token or renewal.token
                self._held[token] = key, worker_id, since, until, charged

    def finished(self, outcomes: Sequence[Outcome], done: Sequence[bool]) -> None:
        """Count the ends of leases, and how long their jobs ran."""
        if not outcomes:
            return
        now = time.monotonic()
        with self._lock:
            counted, runs = self._counted, self._counted.runs
            pop, tenants = self._held.pop, counted.tenants
            for outcome, accepted in zip(outcomes, done, strict=True):
                held = pop(outcome.token, None)
                kind = outcome.kind
                if not accepted:
                    counted.refused += 1
                    continue
                if kind is _RELEASE:
                    counted.released += 1
                    continue
                ran, tenant = outcome.runtime, None
                if held is not None:
                    key, _, since, _, charged = held
                    tenant = tenants.get(key) or counted.tenant(key)
                    if ran is None:
                        ran = now - since
                    if ran > charged:
                        tenant.worker_seconds += ran - charged
                if ran is not None:
                    runs.counts[bucket_of(ran)] += 1
                    runs.total += ran
                _count_end(kind, counted, tenant)
                if kind is not _ACK:
                    _note_reason(outcome, counted, now, "" if held is None else held[1])

    def reclaimed(self, jobs: Sequence[Reclaimed]) -> None:
        """Count leases that ran out, and the dead letters they became."""
        now = time.monotonic()
        with self._lock:
            counted = self._counted
            counted.reclaimed += len(jobs)
            for job in jobs:
                if job.dead:
                    _count_end(OutcomeKind.FAIL, counted, counted.tenant(job.partition_key))
                else:
                    lost = Attempt(job.job_id, now, "", LEASE_TIMEOUT, "its lease ran out")
                    counted.attempts.append(lost)

    def looked(self) -> None:
        """Note that somebody looked for leases that ran out."""
        with self._lock:
            self._counted.looked = True

    def take(self) -> Counted:
        """Return what has been counted, and begin anew."""
        long_ago = time.monotonic() - _HELD_PAST_ITS_END
        with self._lock:
            counted, self._counted = self._counted, Counted()
            for token in [token for token, held in self._held.items() if held[3] < long_ago]:
                del self._held[token]
        counted.add_up()
        return counted

    def put_back(self, counted: Counted) -> None:
        """Count again what could not be kept."""
        with self._lock:
            counted.merge(self._counted)
            self._counted = counted

    def holding(self) -> Counter[str]:
        """Return how many leases each worker of this process holds that have not run out."""
        now = time.monotonic()
        with self._lock:
            return Counter(held[1] for held in self._held.values() if held[3] >= now)


def _note_reason(outcome: Outcome, counted: Counted, now: float, worker_id: str) -> None:
    if outcome.kind is OutcomeKind.RETRY:
        told = outcome.error_class, outcome.reason
        counted.attempts.append(Attempt(outcome.job_id, now, worker_id, *told))
    elif outcome.kind is _SNOOZE and outcome.reason == UNKNOWN_TASK:
        counted.unknown = True


def _count_end(kind: OutcomeKind, counted: Counted, tenant: Tenant | None) -> None:
    if kind is _ACK:
        counted.completed += 1
        if tenant is not None:
            tenant.completed += 1
    elif kind is OutcomeKind.FAIL:
        counted.failed += 1
        if tenant is not None:
            tenant.failed += 1
    elif kind is OutcomeKind.RETRY:
        counted.retried += 1
    else:  # a release is counted where it is met
        counted.snoozed += 1
