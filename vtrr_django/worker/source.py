"""What the worker needs from its caller, as protocols.

The worker knows neither Django nor an engine: a :class:`JobSource` is a queue of this
process, or one behind HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.job import LeasedJob, Outcome, Renewal

if TYPE_CHECKING:
    from vtrr_django.worker.context import TaskContext


class Runnable(Protocol):
    """A task or a handler.

    Attributes:
        name: the task name.
        time_limit: hard limit in seconds; None: none.
        soft_time_limit: seconds until ``SoftTimeLimitExceeded`` is raised in the job.
        max_retries: most retries by ``self.retry()``; None: no end.
        default_retry_delay: seconds ``self.retry()`` waits when it is not told.
    """

    @property
    def name(self) -> str: ...
    @property
    def time_limit(self) -> float | None: ...
    @property
    def soft_time_limit(self) -> float | None: ...
    @property
    def max_retries(self) -> int | None: ...
    @property
    def default_retry_delay(self) -> float: ...

    def run(self, context: TaskContext, job: LeasedJob) -> object:
        """Decode the payload and run the job in this thread; the result is ignored.

        Raises:
            ValidationError: the payload cannot be decoded: a dead letter, never retried.
        """

    def retry_delay(self, exc: BaseException, job: LeasedJob) -> float | None:
        """Return seconds until the job runs again after ``exc``; None: dead letter."""


class JobSource(Protocol):
    """A queue, as the worker sees it. Every method is called from several threads.

    Whatever a verb raises counts as "the store is down": the worker keeps what it wanted
    to say, waits and says it again. ``StoreUnavailable`` is believed at once; any other
    exception also puts the outcomes of the call under suspicion (see ``lanes``).
    """

    @property
    def name(self) -> str: ...
    @property
    def config(self) -> QueueConfig: ...

    def finish_and_lease(
        self, outcomes: Sequence[Outcome], n: int, *, worker_id: str
    ) -> tuple[list[bool], list[LeasedJob]]:
        """End leases, then lease up to ``n`` jobs; ``n`` may be 0.

        Returns one bool per outcome, in order (False: the lease was not ours any more),
        and the jobs.
        """

    def renew_many(self, renewals: Sequence[Renewal]) -> list[bool]:
        """Let leases run for the queue's ``lease_seconds`` from now; False: not ours."""

    def reclaim(self) -> int:
        """Bring back jobs whose lease ran out; return how many."""

    def archive(self) -> object:
        """Move ended jobs that the store still holds to the history; nothing where it does so."""

    def prune(self) -> object:
        """Trim history to its retention settings."""

    def measure(self, worker_id: str) -> object:
        """Say that the worker is alive, and write down what was counted."""

    def resolve(self, task_name: str) -> Runnable | None:
        """Return what runs jobs of this name, or None when this process knows none."""

    def job_started(self, job: LeasedJob, worker_id: str) -> None:
        """Tell listeners that ``job`` is about to run, in the thread that will run it."""


class WorkerHooks(Protocol):
    """The caller's care for what threads hold open, such as database connections.

    Attributes are called in the worker's own threads. An exception out of
    ``before_store`` counts as one of the store; out of the others it is logged.
    """

    def before_run(self) -> None:
        """Run in the thread that calls ``run()``, first; what it raises ends the run."""

    def before_job(self) -> None:
        """Run in a slot's thread before each job."""

    def after_job(self) -> None:
        """Run in a slot's thread after each job, however it ended."""

    def before_store(self) -> None:
        """Run before a thread talks to the store after idling, an error or a slow batch."""

    def thread_exit(self) -> None:
        """Run as the last thing in each thread the worker started."""


class NoHooks:
    """Hooks that do nothing; subclass it to need only some of them."""

    def before_run(self) -> None:
        """Do nothing."""

    def before_job(self) -> None:
        """Do nothing."""

    def after_job(self) -> None:
        """Do nothing."""

    def before_store(self) -> None:
        """Do nothing."""

    def thread_exit(self) -> None:
        """Do nothing."""
