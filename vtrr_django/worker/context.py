"""The ``self`` of a task under ``vtrr_worker``: what a bound Celery task offers there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from vtrr_django.domain.job import LeasedJob
from vtrr_django.exceptions import Retry, ValidationError, VTRRError
from vtrr_django.worker.source import Runnable


class MaxRetriesExceeded(VTRRError):
    """``self.retry()`` was called once more than ``max_retries`` allows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskRequest:
    """What ``self.request`` tells a task about this run, under Celery's names.

    Attributes:
        id: the job's id.
        task: the task's name.
        args: positional arguments.
        kwargs: keyword arguments.
        retries: how often the job was retried: its ``delivery_count``.
        hostname: the worker's id.
        timelimit: ``(hard, soft)`` in seconds, as in Celery's messages.
        parent_id: the job that made this one, or None.
        vtrr_timeouts: how often the job's lease ran out.
        vtrr_job: the job itself.
    """

    id: str
    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    retries: int
    hostname: str
    timelimit: tuple[float | None, float | None]
    parent_id: str | None
    vtrr_timeouts: int
    vtrr_job: LeasedJob
    is_eager: bool = False
    called_directly: bool = False
    root_id: str | None = None
    correlation_id: str | None = None
    group: str | None = None
    eta: str | None = None
    expires: str | None = None
    delivery_info: Mapping[str, Any] = field(default_factory=dict)

    def get(self, key: str, default: Any = None) -> Any:
        """Return one of the attributes, as Celery's request does."""
        return getattr(self, key, default)


class TaskContext:
    """A task's first argument. Made for every job, so it does nothing until it is asked.

    Args:
        runnable: the task.
        job: what it runs.
        worker_id: who runs it.
        called_directly: the task was called like a function, outside any queue.
    """

    __slots__ = (
        "_called_directly",
        "_request",
        "_runnable",
        "_worker_id",
        "given_up",
        "job",
        "pending_retry",
    )

    def __init__(
        self, runnable: Runnable, job: LeasedJob, worker_id: str, called_directly: bool = False
    ) -> None:
        self.job = job
        self._called_directly = called_directly
        self._runnable = runnable
        self._worker_id = worker_id
        self._request: TaskRequest | None = None
        self.given_up: BaseException | None = None
        """The exception that :meth:`retry` raised because no retry is left."""
        self.pending_retry: Retry | None = None
        """What :meth:`retry` returned instead of raising it."""

    @property
    def name(self) -> str:
        """The task's name."""
        return self._runnable.name

    @property
    def max_retries(self) -> int | None:
        """Most retries by :meth:`retry`; None: no end."""
        return self._runnable.max_retries

    @property
    def default_retry_delay(self) -> float:
        """Seconds :meth:`retry` waits unless it is told otherwise."""
        return self._runnable.default_retry_delay

    @property
    def request(self) -> TaskRequest:
        """This run."""
        if self._request is None:
            job = self.job
            self._request = TaskRequest(
                id=job.id,
                task=job.task_name,
                args=job.args,
                kwargs=job.kwargs,
                retries=job.delivery_count,
                hostname=self._worker_id,
                timelimit=(self._runnable.time_limit, self._runnable.soft_time_limit),
                parent_id=job.parent_id,
                vtrr_timeouts=job.timeouts,
                vtrr_job=job,
                called_directly=self._called_directly,
                root_id=job.id,
                correlation_id=job.id,
                delivery_info={"routing_key": job.queue, "priority": job.priority},
            )
        return self._request

    def retry(  # noqa: PLR0917 - Celery's signature
        self,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        exc: BaseException | None = None,
        throw: bool = True,
        eta: datetime | None = None,
        countdown: float | None = None,
        max_retries: int | None = None,
    ) -> Retry:
        """Have the job run again later, with the same arguments.

        A task that was called like a function cannot run again: then ``exc`` is raised, or
        the ``Retry``.

        Args:
            args: only for Celery's signature: the arguments of the job, unchanged.
            kwargs: likewise.
            exc: why; raised instead when no retry is left.
            throw: False: return the ``Retry`` instead of raising it.
            eta: when; a naive one is UTC.
            countdown: in how many seconds; without both, ``default_retry_delay``.
            max_retries: instead of the task's; None: the task's.

        Raises:
            Retry: the job runs again.
            MaxRetriesExceeded: no retry is left and ``exc`` was not given.
            ValidationError: other arguments than the job's.
        """
        job = self.job
        refuse_change("args", None if args is None else list(args), job.args)
        refuse_change("kwargs", None if kwargs is None else dict(kwargs), job.kwargs)
        delay = self.default_retry_delay if countdown is None else countdown
        if self._called_directly:
            raise exc or Retry(max(0.0, delay))
        limit = self.max_retries if max_retries is None else max_retries
        if limit is not None and job.delivery_count >= limit:
            self.given_up = exc or MaxRetriesExceeded(
                f"job {job.id} of {self.name} was retried {job.delivery_count} times, "
                f"max_retries is {limit}"
            )
            raise self.given_up
        if eta is not None:
            aware = eta if eta.tzinfo is not None else eta.replace(tzinfo=UTC)
            delay = (aware - datetime.now(UTC)).total_seconds()
        retry = Retry(max(0.0, delay), exc)
        if throw:
            raise retry
        self.pending_retry = retry
        return retry


def refuse_change(name: str, given: object, own: object) -> None:
    """Refuse other arguments for a retry than the job's.

    Raises:
        ValidationError: ``given`` is not ``own``, nor None.
    """
    if given is not None and given != own:
        raise ValidationError(
            f"retry.{name}",
            "expected the job's own, got others: a job that is retried keeps its arguments; "
            "enqueue a new job instead",
        )
