"""The worker: leases jobs and runs them until it is stopped."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from vtrr_django.domain.values import check_worker_id, describe
from vtrr_django.exceptions import ConfigurationError
from vtrr_django.worker.crew import Crew, CrewPlan, Order
from vtrr_django.worker.heartbeat_file import HeartbeatFile
from vtrr_django.worker.lanes import Tally
from vtrr_django.worker.logs import logger
from vtrr_django.worker.process import WorkerError, default_worker_id, exit_hard, handle_signals
from vtrr_django.worker.source import JobSource, NoHooks, WorkerHooks

__all__ = ["Worker", "WorkerSummary", "default_worker_id"]


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSummary:
    """What one run of a worker did.

    Attributes:
        jobs: jobs run: the sum of the next seven.
        succeeded: acked.
        failed: dead letters.
        retried: put back after an exception.
        snoozed: put back without using an attempt, unknown tasks included.
        lost: ended when their lease was not ours any more.
        died: raised ``SystemExit`` or the like; their leases run out.
        stuck: passed their hard time limit; their leases run out.
        released: leases given back before the job ended, most before it started.
        aborted: ended by a second signal, with jobs that had not ended.
    """

    jobs: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    snoozed: int = 0
    lost: int = 0
    died: int = 0
    stuck: int = 0
    released: int = 0
    aborted: bool = False


class Worker:
    """Leases jobs from ``sources`` and runs them in ``concurrency`` threads.

    May run several times, one run after the other. ``stop()`` is for good.

    Args:
        sources: queues, served in turn.
        worker_id: 1 to 255 characters; None: ``host:pid:random``, new for every run.
        concurrency: jobs run at once.
        poll_interval: seconds between two polls of a queue that has nothing to run.
        backoff_interval: the same after ``max_empty`` such polls.
        max_empty: see there.
        burst: end when nothing is ready and nothing runs.
        max_jobs: end after this many jobs; None: never.
        hooks: the caller's care for connections.
        replace: called in the thread of ``run()``, after everything was handed in, when a
            job passed its hard time limit: a thread cannot be ended, a process can. Give
            :func:`~vtrr_django.worker.process.replace_process` in a process of its own.
            None: ``run()`` returns a summary whose ``stuck`` is not 0.
        replace_grace: seconds that other jobs may go on until then; after that they are
            released.
        heartbeat_file: path of a file that is written every five seconds while the threads of
            the worker make progress, ``UNIX-TIME WORKER-ID``, and removed when ``run()``
            returns. ``run()`` refuses a path that cannot be written.

    Raises:
        ConfigurationError: for a value out of range.
    """

    def __init__(
        self,
        sources: Sequence[JobSource],
        *,
        worker_id: str | None = None,
        concurrency: int = 1,
        poll_interval: float = 0.5,
        backoff_interval: float = 2.0,
        max_empty: int = 4,
        burst: bool = False,
        max_jobs: int | None = None,
        hooks: WorkerHooks | None = None,
        replace: Callable[[], object] | None = None,
        replace_grace: float = 60.0,
        heartbeat_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self.sources = tuple(sources)
        names = [source.name for source in self.sources]
        if not names or len(set(names)) < len(names):
            raise ConfigurationError(
                "sources: expected one queue or more, each named once, "
                f"got {', '.join(names) or 'none'}"
            )
        self.worker_id = None if worker_id is None else check_worker_id(worker_id, "worker_id")
        self.concurrency = _whole("concurrency", concurrency, 1)
        self.poll_interval = _seconds("poll_interval", poll_interval)
        self.backoff_interval = _seconds("backoff_interval", backoff_interval)
        self.max_empty = _whole("max_empty", max_empty, 1)
        self.burst = burst
        self.max_jobs = None if max_jobs is None else _whole("max_jobs", max_jobs, 1)
        self.hooks: WorkerHooks = NoHooks() if hooks is None else hooks
        self.replace = replace
        self.replace_grace = _seconds("replace_grace", replace_grace)
        self.heartbeat_file = heartbeat_file
        self._crew: Crew | None = None
        self._stopped = False
        self._aborted = False
        self._signals = 0
        self._exit_status: int | None = None

    def run(self) -> WorkerSummary:
        """Run jobs until stopped, or until ``burst`` or ``max_jobs`` says it is enough.

        Raises:
            WorkerError: it runs already, or failed in itself.
            KeyboardInterrupt: Ctrl-C without signal handlers, after ending like ``stop()``.
        """
        return self._run(self.burst)

    def run_burst(self) -> WorkerSummary:
        """Run what is ready and what becomes ready meanwhile, then return."""
        return self._run(burst=True)

    def stop(self) -> None:
        """Lease no more, finish the running jobs, give back the others; then ``run`` returns.

        From any thread, a job or a signal handler; again does no more.
        """
        self._stopped = True
        self._order(Order.STOP)

    def abort(self) -> None:
        """Release all leases and return from ``run`` without waiting for running jobs.

        Their threads go on until the process ends.
        """
        self._stopped = self._aborted = True
        self._order(Order.ABORT)

    def wake(self) -> None:
        """Look for jobs now instead of at the next poll. Not from a signal handler."""
        crew = self._crew
        if crew is not None:
            crew.rota.stir()

    def install_signal_handlers(self) -> Callable[[], None]:
        """Have SIGTERM and SIGINT call ``stop()``; return what restores the old handlers.

        The second signal releases the running jobs and then ends the process, whatever its
        threads do; the third does not even wait for the releases.

        Raises:
            WorkerError: in another thread than the main one.
        """
        return handle_signals(self._on_signal)

    def _on_signal(self, number: int) -> None:
        # It interrupts the main thread anywhere, so it takes no lock and logs nothing.
        self._signals += 1
        if self._signals == 1:
            self.stop()
            return
        self._exit_status = 128 + number
        if self._signals > 2 or self._crew is None:
            os._exit(self._exit_status)
        self.abort()

    def _order(self, order: Order) -> None:
        crew = self._crew
        if crew is not None:
            crew.rota.stopping = True  # seen at once by slots that run; the others are told
            crew.mailbox.put(order)

    def _run(self, burst: bool) -> WorkerSummary:
        if self._crew is not None:
            raise WorkerError("expected a worker that does not run yet, got one that does")
        self.hooks.before_run()
        plan = self._plan(burst)
        self._crew = crew = Crew(self.sources, plan)
        if self._stopped:  # asked before there was a crew to tell
            self._order(Order.STOP)
        extra = {"worker_id": plan.worker_id}
        queues = ", ".join(source.name for source in self.sources)
        logger.info(
            "worker %s starts: queues %s, concurrency %d",
            plan.worker_id,
            queues,
            plan.concurrency,
            extra=extra,
        )
        try:
            crew.run()
        finally:
            self._crew = None
            summary = summarize(crew.tally, aborted=crew.aborted)
            logger.info(
                "worker %s stopped after %d jobs", plan.worker_id, summary.jobs, extra=extra
            )
            replace = None if self._stopped or not crew.wants_replacing else self.replace
            if plan.heartbeat is not None and replace is None:
                plan.heartbeat.end()
            if self._exit_status is not None:
                exit_hard(self._exit_status)
        if replace is not None:
            logger.warning("worker %s is replaced", plan.worker_id, extra=extra)
            replace()
        return summary

    def _plan(self, burst: bool) -> CrewPlan:
        worker_id = self.worker_id or default_worker_id()
        heartbeat = None
        if self.heartbeat_file is not None:
            heartbeat = HeartbeatFile(self.heartbeat_file, worker_id)
            heartbeat.begin()
        return CrewPlan(
            worker_id=worker_id,
            concurrency=self.concurrency,
            poll_interval=self.poll_interval,
            backoff_interval=self.backoff_interval,
            max_empty=self.max_empty,
            burst=burst,
            max_jobs=self.max_jobs,
            replace_grace=self.replace_grace,
            hooks=self.hooks,
            heartbeat=heartbeat,
        )


def summarize(tally: Tally, *, aborted: bool) -> WorkerSummary:
    """Return the counts of a run as its summary."""
    counts = {field.name: getattr(tally, field.name) for field in fields(Tally)}
    return WorkerSummary(jobs=tally.jobs, aborted=aborted, **counts)


def _whole(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(
            f"{name}: expected a whole number >= {least}, got {describe(value)}"
        )
    return value


def _seconds(name: str, value: object) -> float:
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or not math.isfinite(value) or value <= 0:  # type: ignore[arg-type,operator]
        raise ConfigurationError(f"{name}: expected a number of seconds > 0, got {describe(value)}")
    return float(value)  # type: ignore[arg-type]
