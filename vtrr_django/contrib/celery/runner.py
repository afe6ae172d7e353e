"""Running one job as ``vtrr_worker`` does, with Celery's ``self`` and Celery's exceptions."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from celery.exceptions import Ignore, Reject
from celery.exceptions import Retry as CeleryRetry

from vtrr_django.contrib.celery.pool import is_green, is_prefork, limits_of, soft_limit
from vtrr_django.domain.job import LeasedJob, Outcome, OutcomeKind
from vtrr_django.exceptions import Retry
from vtrr_django.worker.context import TaskContext
from vtrr_django.worker.lanes import Lease
from vtrr_django.worker.limits import Watchdog
from vtrr_django.worker.logs import call_hook
from vtrr_django.worker.run import UNKNOWN_TASK_DELAY, Runner, is_death, outcome_of
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
        enqueued: the job's arguments as they were before it ran, which may change them.
        raised: what the job raised; None: nothing.
        again: the retry that was asked for: a lease has one.
        keep: keeps the lease for it, as soon as the function that asked has ended.
        kept: the message of a retry run was sent, which takes the lease over.
        gone: when it was to be kept, the lease was not ours any more.
        most_retries: what the first ``self.retry(max_retries=...)`` of the run said.
    """

    __slots__ = (
        "again",
        "celery_request",
        "enqueued",
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
        self.enqueued = Enqueued(lease.job)
        self.lease = lease
        self.worker_id = worker_id
        self.raised: BaseException | None = None
        self.again: BaseException | None = None
        self.keep: Callable[[], BaseException] | None = None
        self.kept = False
        self.gone = False
        self.most_retries: int | None = None


class Enqueued:
    """The arguments of a job as they were enqueued.

    A function may change a list or a dict that it is given, in place. Under ``vtrr_worker`` the
    next attempt gets what the store has; under Celery it gets what a message carries.
    """

    __slots__ = ("_args", "_frozen", "_kwargs")

    def __init__(self, job: LeasedJob) -> None:
        self._args, self._kwargs = tuple(job.args), dict(job.kwargs)
        self._frozen: bytes | None = None
        for value in (*self._args, *self._kwargs.values()):
            if isinstance(value, (list, dict)):
                self._frozen = pickle.dumps((self._args, self._kwargs))
                break

    def of(self, job: LeasedJob) -> LeasedJob:
        """Return the job with these arguments."""
        args, kwargs = self._args, self._kwargs
        if self._frozen is not None:
            args, kwargs = pickle.loads(self._frozen)  # noqa: S301 - our own, of this run
        return replace(job, args=list(args), kwargs=kwargs)


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
        """Run the job under the limits that count here, then do what it asked for.

        A retry is asked for by ``self.retry()``, in the middle of the user's function: in a
        transaction of theirs, which may be broken, before what they do in ``finally``, in a
        coroutine, under the soft limit. So it is made when all that is over. What was asked for
        happens, whatever the function makes of the ``Retry`` that it was given.

        Raises:
            BaseException: what the job raises, or the ``Retry`` that it asked for.
        """
        assert isinstance(context, Run)  # noqa: S101 - make_context() made it
        try:
            self._call(lease, runnable, context)
        except BaseException as raised:
            again = None if is_death(raised) else self._retry_of(lease, context)
            if again is None or context.kept:
                raise
            raise again from (None if isinstance(raised, (CeleryRetry, Retry)) else raised)
        again = self._retry_of(lease, context)
        if again is not None:
            raise again

    def _retry_of(self, lease: Lease, run: Run) -> BaseException | None:
        """Make the retry that a run which has ended asked for; None: it asked for none."""
        if run.keep is not None and not lease.overdue:
            keep, run.keep = run.keep, None
            # What it left open would take the extension of the lease with it.
            call_hook(self._hooks.after_job, self._worker_id, run.job)
            run.again = keep()
        return run.again

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
        if context.gone or context.kept:
            return None  # whatever it raised, the retry is on its way
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
