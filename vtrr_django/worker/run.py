"""Running one job to its outcome."""

from __future__ import annotations

import logging
import threading
import time
from contextvars import copy_context

from vtrr_django.domain.job import UNKNOWN_TASK, LeasedJob, Outcome, OutcomeKind
from vtrr_django.domain.values import check_delay
from vtrr_django.exceptions import (
    Discard,
    Retry,
    Snooze,
    SoftTimeLimitExceeded,
    ValidationError,
)
from vtrr_django.worker import describe
from vtrr_django.worker.context import MaxRetriesExceeded, TaskContext
from vtrr_django.worker.lanes import Lease
from vtrr_django.worker.limits import Watchdog
from vtrr_django.worker.logs import call_hook, job_extra, logger
from vtrr_django.worker.source import JobSource, Runnable, WorkerHooks

UNKNOWN_TASK_DELAY = 5.0
MAX_NAMES_SAID = 1000

DEATHS = (SystemExit, KeyboardInterrupt, GeneratorExit)
"""What counts as the death of the worker, and is never retried."""


class Runner:
    """Runs jobs, one at a time per thread; shared by all slots of a worker.

    Args:
        worker_id: who runs them.
        watchdog: enforces the limits of jobs that have some.
        hooks: of the worker.
    """

    def __init__(self, worker_id: str, watchdog: Watchdog, hooks: WorkerHooks) -> None:
        self._worker_id = worker_id
        self._watchdog = watchdog
        self._hooks = hooks
        self._said: set[tuple[str, str]] = set()
        self._said_lock = threading.Lock()

    def run(self, lease: Lease) -> Outcome | None:
        """Run the job of ``lease``; None: it counts as dead, let the lease run out.

        Context variables that are set meanwhile, and with them Django's active language and time
        zone, are this job's alone: the next one in the thread is another tenant's.
        """
        runnable = self.resolve(lease.lane.source, lease.job)
        if runnable is None:
            return outcome_of(
                OutcomeKind.SNOOZE, lease, delay=UNKNOWN_TASK_DELAY, reason=UNKNOWN_TASK
            )
        context = self.make_context(runnable, lease)
        return copy_context().run(self._run, lease, runnable, context)

    def _run(self, lease: Lease, runnable: Runnable, context: TaskContext) -> Outcome | None:
        job, source = lease.job, lease.lane.source
        call_hook(self._hooks.before_job, self._worker_id, job)
        lease.started = started = time.monotonic()
        try:
            try:
                source.job_started(job, self._worker_id)
            except Exception:  # noqa: BLE001 - a listener is no part of the job
                logger.exception("a listener of job_started failed", extra=self._extra(job))
            self.call(lease, runnable, context)
            if context.pending_retry is not None:
                raise context.pending_retry
            if not lease.overdue:
                lease.ran = time.monotonic() - started
                return Outcome(
                    kind=OutcomeKind.ACK, job_id=job.id, token=job.token, runtime=lease.ran
                )
        except BaseException as exc:  # noqa: BLE001 - whatever a job raises is its outcome
            lease.ran = time.monotonic() - started
            if not lease.overdue:
                return self.ended_by(exc, lease, runnable, context)
        finally:
            call_hook(self._hooks.after_job, self._worker_id, job)
        logger.warning(
            "job %s ended after its hard time limit: its result is dropped",
            job.id,
            extra=self._extra(job),
        )
        return None

    def make_context(self, runnable: Runnable, lease: Lease) -> TaskContext:
        """Return what is known about one run."""
        return TaskContext(runnable, lease.job, self._worker_id)

    def call(self, lease: Lease, runnable: Runnable, context: TaskContext) -> None:
        """Run the job, under its limits if it has some."""
        if runnable.soft_time_limit is None and runnable.time_limit is None:
            runnable.run(context, lease.job)
        else:
            self._watchdog.call(lease, runnable, context)

    def ended_by(
        self, exc: BaseException, lease: Lease, runnable: Runnable, context: TaskContext
    ) -> Outcome | None:
        """Return how a job that raised ends; None: it counts as dead."""
        if is_death(exc):
            logger.error(
                "job %s raised %s, which counts as the death of its worker: its lease runs out, "
                "then it runs again",
                lease.job.id,
                type(exc).__name__,
                exc_info=exc,
                extra=self._extra(lease.job),
            )
            return None
        try:
            outcome = self._signalled(exc, lease)
        except BaseException as wrong:  # noqa: BLE001 - a signal that carries nonsense is an error
            return self.failed(wrong, lease)
        if outcome is not None:
            return outcome
        why = ""
        if isinstance(exc, SoftTimeLimitExceeded) and not exc.args:
            limit = runnable.soft_time_limit  # None: the trigger brought one from elsewhere
            long = "its soft time limit allows" if limit is None else f"{limit} s"
            why = f"SoftTimeLimitExceeded: it ran for more than {long}"
        hopeless = isinstance(exc, (ValidationError, MaxRetriesExceeded))
        if hopeless or exc is context.given_up:
            return self.failed(exc, lease, why)
        delay = self._retry_delay(exc, lease.job, runnable)
        if delay is None:
            return self.failed(exc, lease, why)
        return self._retried(exc, lease, delay, why)

    def _signalled(self, exc: BaseException, lease: Lease) -> Outcome | None:
        """Return what the job asked for with an exception of ours; None: it is another one."""
        match exc:
            case Snooze():
                return outcome_of(
                    OutcomeKind.SNOOZE, lease, delay=check_delay(exc.delay, "Snooze.delay")
                )
            case Discard():
                reason = describe.storable(str(exc.reason), describe.MAX_REASON)
                return self.failed(exc, lease, reason)
            case Retry():
                return self._retried(exc.exc, lease, check_delay(exc.delay, "Retry.delay"))
        return None

    def _retry_delay(self, exc: BaseException, job: LeasedJob, runnable: Runnable) -> float | None:
        try:
            delay = runnable.retry_delay(exc, job)
            return None if delay is None else check_delay(delay, "retry_delay")
        except BaseException:  # noqa: BLE001 - not to lose the job over a broken policy
            logger.exception(
                "the retry policy of task %s failed: job %s becomes a dead letter",
                job.task_name,
                job.id,
                extra=self._extra(job),
            )
            return None

    def failed(self, exc: BaseException, lease: Lease, reason: str = "") -> Outcome:
        """Return the outcome of a job that becomes a dead letter."""
        reason = reason or describe.reason(exc)
        logger.error(
            "job %s failed: %s",
            lease.job.id,
            reason,
            exc_info=exc,
            extra=self._extra_raised(lease.job, exc),
        )
        return outcome_of(OutcomeKind.FAIL, lease, reason=reason, exc=exc)

    def _retried(
        self, exc: BaseException | None, lease: Lease, delay: float, reason: str = ""
    ) -> Outcome:
        if not reason:
            reason = describe.reason(exc) if exc is not None else describe.RETRY_ASKED
        logger.warning(
            "job %s is retried in %.1f s: %s",
            lease.job.id,
            delay,
            reason,
            extra=self._extra_raised(lease.job, exc),
        )
        return outcome_of(OutcomeKind.RETRY, lease, delay=delay, reason=reason, exc=exc)

    def resolve(self, source: JobSource, job: LeasedJob) -> Runnable | None:
        """Return what runs the job; None, said once, when this process does not know it."""
        try:
            runnable = source.resolve(job.task_name)
        except BaseException as exc:  # noqa: BLE001 - e.g. a module of a deploy that does not import
            if self._is_news(source.name, job.task_name):
                logger.error(
                    "task %r of queue %s cannot be loaded: its jobs are put back for %d s each "
                    "time; fix the error, then restart this worker",
                    job.task_name,
                    source.name,
                    UNKNOWN_TASK_DELAY,
                    exc_info=exc,
                    extra=self._extra(job),
                )
            return None
        if runnable is None and self._is_news(source.name, job.task_name):
            logger.error(
                "expected task %r of queue %s to be known here, but nothing registered it: its "
                "jobs are put back for %d s each time and use no attempt; restart this worker "
                "with the code that has the task, or cancel the jobs",
                job.task_name,
                source.name,
                UNKNOWN_TASK_DELAY,
                extra=self._extra(job),
            )
        return runnable

    def _is_news(self, queue: str, task_name: str) -> bool:
        with self._said_lock:
            known = (queue, task_name) in self._said
            if not known and len(self._said) < MAX_NAMES_SAID:
                self._said.add((queue, task_name))
                return True
            return False

    def _extra(self, job: LeasedJob) -> dict[str, str]:
        return job_extra(job, self._worker_id)

    def _extra_raised(self, job: LeasedJob, exc: BaseException | None) -> dict[str, str]:
        """Return the ``extra`` of a record that quotes what a task has raised."""
        raised = "" if exc is None else describe.error_class(exc)
        return {**self._extra(job), "error_class": raised}

    def debug_ended(self, lease: Lease, outcome: Outcome | None) -> None:
        """Log the end of one job at DEBUG."""
        logger.log(
            logging.DEBUG,
            "job %s of %s ended: %s",
            lease.job.id,
            lease.job.task_name,
            outcome.kind.value if outcome is not None else "died",
            extra=self._extra(lease.job),
        )


def outcome_of(
    kind: OutcomeKind,
    lease: Lease,
    *,
    delay: float = 0.0,
    reason: str = "",
    exc: BaseException | None = None,
) -> Outcome:
    """Return the end of ``lease``, with what is known about it."""
    told = {} if exc is None else describe.describe_exception(exc)
    if reason:
        told["reason"] = reason
    return Outcome(
        kind=kind,
        job_id=lease.job.id,
        token=lease.job.token,
        delay=delay,
        runtime=lease.ran or 0.0,
        **told,
    )


def is_death(exc: BaseException) -> bool:
    """Return whether an exception counts as the death of the worker."""
    if isinstance(exc, BaseExceptionGroup):
        return exc.subgroup(DEATHS) is not None
    return isinstance(exc, DEATHS)
