"""The fairness rule, once, in pure Python: formulas the engines share, and the oracle.

The rule is start-time fair queueing (P. Goyal, H. M. Vin, H. Cheng, "Start-time Fair
Queueing", SIGCOMM 1996) with D workers serving at once, SFQ(D) (W. Jin, J. S. Chase,
J. Kaur, "Interposed Proportional Sharing for a Storage Service Utility", SIGMETRICS
2004). It is not the "Virtual-Time Round-Robin" of Nieh, Vaill and Zhong (2001), whose
name it resembles.

Each partition has one number ``p``, the virtual time at which its next job may start.
While the partition is a candidate, ``p`` is the start tag of the job at its head; the
jobs behind the head have no tag, so that a new share, a limit, a pause or a cancel
reaches the jobs that already wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

FIRST_TAG = 1.0
"""The start tag of the first job of a busy period, and virtual time when it begins."""

ESTIMATE_SMOOTHING = 0.2
"""How much the newest run counts in the running average of measured costs."""

INITIAL_ESTIMATE = 1.0
"""Seconds a job is taken to need before its task was ever measured for its partition."""


def start_tag(virtual_time: float, current_virtual_time: float) -> float:
    """Return the tag of a partition's next job when the partition becomes a candidate."""
    return max(virtual_time, current_virtual_time)


def after_lease(tag: float, cost: float, share: float) -> float:
    """Return the partition's virtual time after a job of ``cost`` was leased at ``tag``."""
    return tag + cost / share


def after_charge(
    virtual_time: float, seconds: float, share: float, current_virtual_time: float
) -> float:
    """Return the partition's virtual time after ``seconds`` more (or, negative, fewer) of cost.

    A refund never takes it below the current virtual time, or the partition would be
    served ahead of everybody for time it once did not use.
    """
    moved = virtual_time + seconds / share
    if seconds < 0:
        return max(moved, min(virtual_time, current_virtual_time))
    return moved


def initial_charge(average: float | None) -> float:
    """Return the seconds charged at the lease: half of the running average.

    Charging the whole average and refunding the difference breaks the fairness bound;
    half of it keeps the gap within (design, section 4, "measured cost").
    """
    return (INITIAL_ESTIMATE if average is None else average) / 2


def new_average(average: float | None, runtime: float) -> float:
    """Return the exponentially weighted running average after one more run."""
    return runtime if average is None else average + ESTIMATE_SMOOTHING * (runtime - average)


@dataclass(slots=True)
class _Job:
    id: str
    partition: str
    weight: int
    priority: int
    task: str
    position: int
    charged: float = 0.0

    @property
    def order(self) -> tuple[int, int]:
        return (-self.priority, self.position)


@dataclass(slots=True)
class _Partition:
    ready: list[tuple[tuple[int, int], str]] = field(default_factory=list)
    leased: set[str] = field(default_factory=set)
    virtual_time: float = 0.0
    share: float = 1.0
    limit: int | None = None
    paused: bool = False
    candidate: bool = False


class FairQueue:
    """The oracle: one queue's whole behaviour in memory, one operation after another.

    Tests drive every engine and this class with the same operations and demand the same
    job each time. It knows no clock: what a lease, a delay or a runtime amounts to is told.
    """

    def __init__(self, *, default_limit: int | None = None, measured: bool = False) -> None:
        self.default_limit = default_limit
        self.measured = measured
        self.paused = False
        self.virtual_time = FIRST_TAG
        self._partitions: dict[str, _Partition] = {}
        self._jobs: dict[str, _Job] = {}
        self._scheduled: set[str] = set()
        self._averages: dict[tuple[str, str], float] = {}
        self._positions = 0

    # -- jobs ----------------------------------------------------------------------

    def enqueue(
        self,
        job_id: str,
        partition: str = "",
        *,
        weight: int = 1,
        priority: int = 0,
        task: str = "",
        scheduled: bool = False,
    ) -> None:
        """Add a job at the end of its partition's line, or outside it until :meth:`promote`."""
        job = _Job(job_id, partition, weight, priority, task, 0)
        self._jobs[job_id] = job
        if scheduled:
            self._scheduled.add(job_id)
        else:
            self._join(job)

    def lease(self) -> str | None:
        """Lease the next job and return its id; None when nothing may run."""
        if self.paused:
            return None
        heads = [
            (part.virtual_time, part.ready[0][1], key)
            for key, part in self._partitions.items()
            if part.candidate
        ]
        if not heads:
            return None
        tag, job_id, key = min(heads)
        part, job = self._partitions[key], self._jobs[job_id]
        heapq.heappop(part.ready)
        part.leased.add(job_id)
        self.virtual_time = max(self.virtual_time, tag)
        cost = float(job.weight)
        if self.measured:
            cost = job.charged = initial_charge(self._averages.get((key, job.task)))
        part.virtual_time = after_lease(tag, cost, part.share)
        self._update(key)
        return job_id

    def renew(self, job_id: str, runtime: float) -> None:
        """Charge a running job for what has elapsed (measured cost only)."""
        if self.measured and runtime > self._jobs[job_id].charged:
            self._charge(self._jobs[job_id], runtime)

    def finish(self, job_id: str, runtime: float = 0.0) -> None:
        """End a lease for good: completed or failed."""
        job = self._end_lease(job_id, runtime)
        del self._jobs[job_id]
        self._settled(job.partition)

    def put_off(self, job_id: str, runtime: float = 0.0, *, delayed: bool = True) -> None:
        """End a lease with the job retried or snoozed: scheduled, or ready if there is no delay."""
        job = self._end_lease(job_id, runtime)
        if delayed:
            self._scheduled.add(job_id)
        else:
            self._join(job)
        self._settled(job.partition)

    def release(self, job_id: str, runtime: float = 0.0) -> None:
        """End a lease with the job back at its old place in the line."""
        job = self._end_lease(job_id, runtime, ran=False)
        heapq.heappush(self._partitions[job.partition].ready, (job.order, job_id))
        self._settled(job.partition)

    def reclaim(self, job_ids: Iterable[str]) -> None:
        """Bring jobs whose lease ran out back, each to the end of its partition's line."""
        for job_id in job_ids:
            job = self._jobs[job_id]
            self._partitions[job.partition].leased.discard(job_id)
            self._join(job)

    def bury(self, job_id: str) -> None:
        """End a lease that ran out once too often: no cost is settled, the job is gone."""
        job = self._jobs.pop(job_id)
        self._partitions[job.partition].leased.discard(job_id)
        self._settled(job.partition)

    def promote(self, job_ids: Iterable[str]) -> None:
        """Let scheduled jobs that are due join the end of their lines, in the order given."""
        for job_id in job_ids:
            self._scheduled.discard(job_id)
            self._join(self._jobs[job_id])

    def cancel(self, job_id: str) -> bool:
        """Remove a ready or scheduled job; False when it is neither."""
        job = self._jobs.get(job_id)
        if job is None or job_id in self._partition(job.partition).leased:
            return False
        if job_id in self._scheduled:
            self._scheduled.discard(job_id)
        else:
            part = self._partitions[job.partition]
            part.ready.remove((job.order, job_id))
            heapq.heapify(part.ready)
        del self._jobs[job_id]
        self._settled(job.partition)
        return True

    # -- steering ------------------------------------------------------------------

    def set_share(self, partition: str, share: float) -> None:
        """Change a partition's share; it counts from the partition's next lease on."""
        self._partition(partition).share = share

    def set_limit(self, partition: str, limit: int | None) -> None:
        """Change a partition's in-flight limit (None: the queue's default)."""
        self._partition(partition).limit = limit
        self._update(partition)

    def pause_partition(self, partition: str, paused: bool) -> None:
        """Pause or resume one partition."""
        self._partition(partition).paused = paused
        self._update(partition)

    # -- looking -------------------------------------------------------------------

    def leased(self, partition: str | None = None) -> set[str]:
        """Return the ids of leased jobs, of one partition or of all."""
        parts = self._partitions.values() if partition is None else [self._partition(partition)]
        return {job_id for part in parts for job_id in part.leased}

    def ready(self, partition: str | None = None) -> set[str]:
        """Return the ids of ready jobs, of one partition or of all."""
        parts = self._partitions.values() if partition is None else [self._partition(partition)]
        return {job_id for part in parts for _, job_id in part.ready}

    def line(self, partition: str) -> list[str]:
        """Return the ids of a partition's ready jobs in the order in which they will run."""
        return [job_id for _, job_id in sorted(self._partition(partition).ready)]

    def scheduled(self) -> set[str]:
        """Return the ids of scheduled jobs."""
        return set(self._scheduled)

    # -- the rule ------------------------------------------------------------------

    def _partition(self, key: str) -> _Partition:
        return self._partitions.setdefault(key, _Partition())

    def _join(self, job: _Job) -> None:
        self._positions += 1
        job.position = self._positions
        heapq.heappush(self._partition(job.partition).ready, (job.order, job.id))
        self._update(job.partition)

    def _update(self, key: str) -> None:
        part = self._partition(key)
        limit = self.default_limit if part.limit is None else part.limit
        below = limit is None or len(part.leased) < limit
        candidate = bool(part.ready) and not part.paused and below
        if candidate and not part.candidate:
            part.virtual_time = start_tag(part.virtual_time, self.virtual_time)
        part.candidate = candidate

    def _charge(self, job: _Job, runtime: float) -> None:
        part = self._partitions[job.partition]
        part.virtual_time = after_charge(
            part.virtual_time, runtime - job.charged, part.share, self.virtual_time
        )
        job.charged = runtime

    def _end_lease(self, job_id: str, runtime: float, *, ran: bool = True) -> _Job:
        job = self._jobs[job_id]
        self._partitions[job.partition].leased.remove(job_id)
        if self.measured:
            self._charge(job, runtime)
            if ran:
                key = (job.partition, job.task)
                self._averages[key] = new_average(self._averages.get(key), runtime)
        return job

    def _settled(self, key: str) -> None:
        """Update one partition, then end the busy period if nothing waits and nothing runs."""
        self._update(key)
        if not any(part.ready or part.leased for part in self._partitions.values()):
            self.virtual_time = FIRST_TAG
            for part in self._partitions.values():
                part.virtual_time = 0.0
