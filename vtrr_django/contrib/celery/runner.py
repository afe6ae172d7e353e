"""Running one job as ``vtrr_worker`` does, with Celery's ``self`` and Celery's exceptions."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from celery.exceptions import Ignore, Reject
from celery.exceptions import Retry as CeleryRetry

from vtrr_django.contrib.celery.pool import is_green, is_prefork, limits_of, soft_limit
from vtrr_django.domain.job import LeasedJob, Outcome, OutcomeKind
from vtrr_django.worker.context import TaskContext
from vtrr_django.worker.lanes import Lease
from vtrr_django.worker.limits import Watchdog
from vtrr_django.worker.run import UNKNOWN_TASK_DELAY, Runner, outcome_of
from vtrr_django.worker.source import JobSource, Runnable, WorkerHooks

TASK: ContextVar[Any] = ContextVar("vtrr_task")
"""The Celery task whose trigger runs in this thread, or greenlet."""

RUNNING: ContextVar[Run | None] = ContextVar("vtrr_running", default=None)
"""The run in this thread, or greenlet."""


class Run(TaskContext):
    """What is known about one run of one job under Celery.

    Attributes:
        task: the Celery task, which is the function's ``self``.
        lease: the job's.
        celery_request: of the trigger, which only its own thread finds on the task.
        raised: what the job raised; None: nothing.
        again: the retry that was asked for: a lease has one.
        keep: keeps the lease for it, as soon as the coroutine that asked has ended.
        kept: ``self.retry()`` sent the message of a retry run, which takes the lease over.
        gone: ``self.retry()`` found that the lease is not ours any more.
        most_retries: what the first ``self.retry(max_retries=...)`` of the run said.
    """

    __slots__ = (
        "again",
        "celery_request",
        "gone",
        "keep",
        "kept",
        "lease",
        "most_retries",
        "raised",
        "task",
        "worker_id",
    )

    def __init__(self, body: Body, lease: Lease, worker_id: str) -> None:
        super().__init__(body, lease.job, worker_id)
        self.task = body.task
        self.celery_request: Any = body.task.request
        self.lease = lease
        self.worker_id = worker_id
        self.raised: BaseException | None = None
        self.again: BaseException | None = None
        self.keep: Callable[[], BaseException] | None = None
        self.kept = False
        self.gone = False
        self.most_retries: int | None = None


class Body:
    """A runnable with the limits of its Celery task, run by way of that task's classes."""

    def __init__(self, runnable: Runnable, task: Any) -> None:
        self.runnable = runnable
        self.task = task
        self.name = runnable.name
        self.time_limit, self.soft_time_limit = limits_of(task)
        self.max_retries: int | None = task.max_retries
        self.default_retry_delay: float = task.default_retry_delay

    def run(self, context: TaskContext, job: LeasedJob) -> object:
        """Call the user's function."""
        return self.task.call_function(job)

    def retry_delay(self, exc: BaseException, job: LeasedJob) -> float | None:
        """Return what the queue's ``RETRY``, or the handler's policy, says."""
        return self.runnable.retry_delay(exc, job)


class CeleryRunner(Runner):
    """Runs jobs in a pool process.

    Limits are Celery's own in a prefork process that runs one job a trigger. Where Celery
    has none (threads, solo), or one for all jobs of a trigger that drains, they are
    enforced as under ``vtrr_worker``. Greenlets cannot be interrupted: there they are
    whatever Celery's pool does.

    Args:
        watch_limits: starts the watchdog.
    """

    def __init__(
        self,
        worker_id: str,
        watchdog: Watchdog,
        hooks: WorkerHooks,
        watch_limits: Callable[[], None],
    ) -> None:
        super().__init__(worker_id, watchdog, hooks)
        self._watch_limits = watch_limits
        self._bodies: dict[Any, Body] = {}

    def resolve(self, source: JobSource, job: LeasedJob) -> Runnable | None:
        """Return the body that runs the job; None, said once, when it is not known here."""
        runnable = super().resolve(source, job)
        if runnable is None:
            return None
        task = TASK.get()
        body = self._bodies.get(task)
        if body is None or body.runnable is not runnable:
            body = self._bodies[task] = Body(runnable, task)
        return body

    def make_context(self, runnable: Runnable, lease: Lease) -> TaskContext:
        """Return the run, and tell the Celery task's request of it."""
        assert isinstance(runnable, Body)  # noqa: S101 - resolve() made it
        run, job = Run(runnable, lease, self._worker_id), lease.job
        request = run.celery_request
        request.args, request.kwargs = job.args, job.kwargs
        request.vtrr_job, request.vtrr_timeouts = job, job.timeouts
        RUNNING.set(run)
        return run

    def call(self, lease: Lease, runnable: Runnable, context: TaskContext) -> None:
        """Run the job under the limits that count here.

        Raises:
            BaseException: what the job raises, or the ``Retry`` that it only asked for.
        """
        self._call(lease, runnable, context)
        if isinstance(context, Run) and context.kept and context.raised is not None:
            raise context.raised

    def _call(self, lease: Lease, runnable: Runnable, context: TaskContext) -> None:
        if runnable.soft_time_limit is None and runnable.time_limit is None:
            runnable.run(context, lease.job)
        elif is_prefork() and not lease.lane.config.options.get("DRAIN_SECONDS"):
            soft_limit.open()
            try:
                runnable.run(context, lease.job)
            finally:
                soft_limit.close()
        elif is_green():
            runnable.run(context, lease.job)
        else:
            self._watch_limits()
            self._watchdog.call(lease, runnable, context)

    def ended_by(
        self, exc: BaseException, lease: Lease, runnable: Runnable, context: TaskContext
    ) -> Outcome | None:
        """Return how a job that raised ends; None: its lease is not ours to end.

        ``Ignore`` says that Celery should not note the task: the job is done. ``Reject``
        with ``requeue`` puts the job back for a moment; without, it is a dead letter.
        """
        assert isinstance(context, Run)  # noqa: S101 - make_context() made it
        context.raised = exc
        if context.gone or (context.kept and isinstance(exc, CeleryRetry)):
            return None
        if context.kept:
            # It raised something after retry(throw=False): the retry is on its way.
            return None
        match exc:
            case Ignore():
                return outcome_of(OutcomeKind.ACK, lease)
            case Reject() if exc.requeue:
                reason = f"rejected: {exc.reason}"
                return outcome_of(
                    OutcomeKind.SNOOZE, lease, delay=UNKNOWN_TASK_DELAY, reason=reason
                )
            case Reject():
                return self.failed(exc, lease, f"rejected: {exc.reason}")
        return super().ended_by(exc, lease, runnable, context)
