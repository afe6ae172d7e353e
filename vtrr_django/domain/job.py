"""The values that cross the seam between :class:`~vtrr_django.queue.Queue` and an engine.

All are frozen and keyword-only. Times are timezone-aware UTC datetimes taken from
the store's clock; durations are seconds.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from vtrr_django.domain.states import State
from vtrr_django.exceptions import DuplicateJobError

MAX_ID_LENGTH = 64
MAX_QUEUE_NAME_LENGTH = 64
MAX_PARTITION_KEY_LENGTH = 255
MAX_TASK_NAME_LENGTH = 255
MAX_MSG_ID_LENGTH = 255
MAX_WORKER_ID_LENGTH = 255
MIN_WEIGHT, MAX_WEIGHT = 1, 1_000_000
MIN_PRIORITY, MAX_PRIORITY = -100, 100


class NewJob(NamedTuple):
    """A job that has been validated and is about to be stored.

    A tuple, where the other values are frozen dataclasses: those take three times as long
    to make, and a bulk makes ten thousand. Give its fields by name all the same.

    Attributes:
        id: 1 to 64 printable ASCII characters, a UUIDv7 unless the caller gave one.
        task_name: which task or message type runs it.
        payload: the JSON text ``{"args": [...], "kwargs": {...}}``; stores keep it as it is.
        partition_key: the tenant, ``""`` when none was given.
        weight: what it costs its partition, 1 to 1,000,000.
        priority: -100 to 100; higher goes first inside the partition.
        delay: seconds from the store's now until it is due; None or 0: ready at once.
        due_at: the moment it is due, instead of ``delay``; one that is past: ready at once.
        msg_id: idempotency key, unique per queue, or None.
        parent_id: id of the job that made this one, or None.
        given_id: whether the caller chose ``id`` (then an existing job is looked for).
        delivery_count: attempts it has used already, elsewhere: a job that is taken over.
    """

    id: str
    task_name: str
    payload: str
    partition_key: str = ""
    weight: int = 1
    priority: int = 0
    delay: float | None = None
    due_at: datetime | None = None
    msg_id: str | None = None
    parent_id: str | None = None
    given_id: bool = False
    delivery_count: int = 0


def check_same_job(job: NewJob, partition_key: str, task_name: str, payload: str) -> None:
    """Refuse ``job`` if its id belongs to a job of another partition, task or payload.

    Raises:
        DuplicateJobError: it does.
    """
    if (partition_key, task_name, payload) != (job.partition_key, job.task_name, job.payload):
        raise DuplicateJobError(
            f"expected id {job.id!r} to be new or to be this very job, got one that belongs to a "
            f"different job (partition {partition_key!r}, task {task_name!r}); give another id, "
            "or none"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LeasedJob:
    """A job together with the right to run it until ``lease_expires_at``.

    ``token`` proves the lease; it is new for every lease, and every finishing verb
    compares it in the statement that acts. ``ready_at`` is when the job took its place in
    the line it was leased from: how long it waited is counted from there. None: unknown.
    """

    id: str
    queue: str
    task_name: str
    args: list[Any]
    kwargs: dict[str, Any]
    partition_key: str
    weight: int
    priority: int
    token: str
    delivery_count: int
    timeouts: int
    enqueued_at: datetime
    lease_expires_at: datetime
    parent_id: str | None = None
    msg_id: str | None = None
    ready_at: datetime | None = None


LEASE_TIMEOUT = "vtrr_django.LeaseTimeout"
"""Stands for an exception's class where there was none: the lease ran out."""

UNKNOWN_TASK = "unknown task name"
"""The reason of a job that is put back because its worker has no such task."""


class OutcomeKind(enum.Enum):
    """How a lease ends; one member per finishing verb."""

    ACK = "ack"
    FAIL = "fail"
    RETRY = "retry"
    SNOOZE = "snooze"
    RELEASE = "release"


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The end of one lease, as the engine is told it.

    Attributes:
        kind: which verb.
        job_id: the job.
        token: the lease's proof.
        delay: seconds until the job is due again (RETRY and SNOOZE); 0: it is ready at once.
        reason: why it failed or is retried, for people.
        error_class: dotted name of the exception's class, ``""`` when there was none.
        traceback: formatted traceback, ``""`` when there was none.
        runtime: seconds the job really ran; None: the store measures from the lease.
    """

    kind: OutcomeKind
    job_id: str
    token: str
    delay: float = 0.0
    reason: str = ""
    error_class: str = ""
    traceback: str = ""
    runtime: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Renewal:
    """A request to extend one lease.

    Attributes:
        job_id: the job.
        token: the lease's proof.
        runtime: seconds the job has run so far; None: the store measures from the lease.
        delivery_count: attempts used so far, where one was used under this lease; None: as the
            store has it.
        new_token: the lease's proof from now on, of at most 64 printable ASCII characters: who
            else has the old one has none any more. Told again, as by a client whose answer got
            lost, it is accepted again. None: the proof stays.
    """

    job_id: str
    token: str
    runtime: float | None = None
    delivery_count: int | None = None
    new_token: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reclaimed:
    """What became of one lease that ran out.

    Attributes:
        job_id: the job.
        partition_key: its tenant.
        task_name: its task.
        timeouts: how often a lease of this job has run out, this time included.
        dead: True when it reached ``MAX_TIMEOUTS`` and became a dead letter.
    """

    job_id: str
    partition_key: str
    task_name: str
    timeouts: int
    dead: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class JobInfo:
    """A live job as it stands, for people; it gives no right to run the job.

    ``payload`` is JSON, ``{"args": [...], "kwargs": {...}}``, unless somebody has spoilt it
    in Redis. ``ready_at`` is when the job joined its line, or when a scheduled one is due.
    Moments are None where they are unknown, as of jobs that vtrr-queue stored; the worker
    and the moments of the lease are None unless the job is leased.
    """

    id: str
    queue: str
    state: State
    task_name: str
    payload: str
    partition_key: str
    weight: int
    priority: int
    delivery_count: int
    timeouts: int
    msg_id: str | None = None
    parent_id: str | None = None
    enqueued_at: datetime | None = None
    ready_at: datetime | None = None
    worker_id: str | None = None
    leased_at: datetime | None = None
    lease_expires_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPage:
    """Some live jobs, and where the next ones are.

    ``next`` is the cursor of the next page, None where there is none. A page may be shorter
    than was asked for, even empty, and yet have a next.
    """

    jobs: list[JobInfo]
    next: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionStats:
    """One partition of one queue, as an operator sees it.

    ``share`` and ``limit`` are the values in force; ``limit`` is None when there is none.
    ``virtual_time`` is the partition's own, ``lag`` how far it is ahead of the queue's
    (0 for a partition whose turn is next or that is idle).
    """

    partition_key: str
    ready: int = 0
    scheduled: int = 0
    leased: int = 0
    share: float = 1.0
    limit: int | None = None
    paused: bool = False
    oldest_ready_at: datetime | None = None
    virtual_time: float = 0.0
    lag: float = 0.0
    candidate: bool = False

    @property
    def may_run(self) -> bool:
        """Whether a job of it may be leased, if one is ready and the queue is not paused."""
        return not self.paused and (self.limit is None or self.leased < self.limit)


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """What keeps the jobs of a queue waiting, as far as its store knows.

    Attributes:
        held: jobs are ready, and all are of partitions that are paused or at their limit.
        overdue: a scheduled one is due already.
    """

    held: bool = False
    overdue: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Stray:
    """Live jobs that are where settings look for no queue of their name.

    Attributes:
        queue: the name of the queue they are in.
        place: where they are, for people; no address, which may hold a password.
        ready, scheduled, leased: how many there are.
    """

    queue: str
    place: str
    ready: int = 0
    scheduled: int = 0
    leased: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueStats:
    """Counts of one queue; ``Queue.stats()`` turns it into the documented dict.

    ``outbox`` counts ended jobs that are not in the history yet, the first of them since
    ``outbox_since``; None where the transaction that ends a job writes its history too.
    """

    paused: bool = False
    ready: int = 0
    scheduled: int = 0
    leased: int = 0
    failed: int = 0
    completed: int = 0
    partitions_waiting: int = 0
    oldest_ready_at: datetime | None = None
    now: datetime | None = None
    recent_failures: list[dict[str, Any]] = field(default_factory=list)
    recent_runs: list[dict[str, Any]] = field(default_factory=list)
    outbox: int | None = None
    outbox_since: datetime | None = None

    @property
    def outbox_seconds(self) -> float:
        """How long the oldest job on the outbox has been on it; 0 where none is."""
        if self.outbox_since is None or self.now is None:
            return 0.0
        return max(0.0, (self.now - self.outbox_since).total_seconds())

    @property
    def oldest_wait_seconds(self) -> float:
        """How long the job that is ready longest has waited; 0 where none is."""
        if self.oldest_ready_at is None or self.now is None:
            return 0.0
        return max(0.0, (self.now - self.oldest_ready_at).total_seconds())
