"""One trigger, from its first lease to the trigger after it."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from celery.exceptions import Ignore
from celery.exceptions import Retry as CeleryRetry

from vtrr_django.connections import lent_connections
from vtrr_django.contrib.celery import pool
from vtrr_django.contrib.celery.runner import RUNNING, TASK, Run
from vtrr_django.contrib.celery.station import Station, station_of
from vtrr_django.contrib.celery.wire import load_job
from vtrr_django.domain.job import Outcome, OutcomeKind
from vtrr_django.worker import describe
from vtrr_django.worker.lanes import Lease
from vtrr_django.worker.logs import job_extra, logger


class JobFailed(Exception):
    """Stands, for Celery, for a job's exception that another process could not rebuild."""


def run_trigger(task: Any, retried: Mapping[str, Any] | None) -> None:
    """Run a trigger: lease one job and run it, or more while it drains.

    It ends as Celery should see the job that ran last: it returns, or raises what the job
    raised, Celery's ``Retry``, or ``Ignore`` (of which Celery makes nothing) for a job that
    was put back and for a trigger that found none.

    Args:
        task: the Celery task.
        retried: the job whose lease was kept for this run; None: lease one.
    """
    # An eager one runs in the thread of whoever enqueued, as a function that is called: it leaves
    # no thread behind (Celery's own hooks pass over it, too).
    eager = bool(task.request.is_eager)
    station = station_of(task.vtrr_queue, attended=not eager)
    if pool.is_prefork():
        pool.soft_limit.install()
    signal_was = pool.soft_limit.enter()
    tokens = TASK.set(task), RUNNING.set(None)
    try:
        with lent_connections() if eager else nullcontext():
            _Trigger(station, task, eager).run(retried)
    finally:
        TASK.reset(tokens[0])
        RUNNING.reset(tokens[1])
        pool.soft_limit.leave(signal_was)


class _Trigger:
    def __init__(self, station: Station, task: Any, eager: bool) -> None:
        self._station = station
        self._task = task
        self._eager = eager
        drain = station.lane.config.options.get("DRAIN_SECONDS") or 0.0
        self._request = _copied(vars(task.request)) if eager or drain else None
        self._drain_until = math.inf if self._eager else time.monotonic() + drain

    def run(self, retried: Mapping[str, Any] | None) -> None:
        lease = self._lease() if retried is None else self._resume(retried)
        if lease is None:
            raise Ignore
        ran: Run | None = None
        outcome: Outcome | None = None
        more = True
        try:
            while lease is not None:
                outcome = lease.outcome = self._station.runner.run(lease)
                ran = RUNNING.get()
                more = self._goes_on(outcome)
                ended, lease = lease, None
                lease = self._end(ended, outcome, ran, 1 if more else 0)
                if lease is None and more and self._eager:
                    lease = self._lease()  # a retry that is due at once is so from now on
            more = not more  # it looked, and found nothing
        except BaseException:
            if lease is not None:
                self._give_up(lease)
            raise
        finally:
            if more and not self._eager:
                self._replace()
        _present(ran, outcome)

    # -- leasing -------------------------------------------------------------------

    def _lease(self) -> Lease | None:
        station = self._station
        try:
            leases = station.lane.exchange([], 1, stale=True)
        except Exception as error:  # noqa: BLE001 - the store is down: said once; look again later
            pause = station.leasing.failed(error)
            # An eager one would look again at once, and again.
            if not (self._eager or station.dispatcher.later(pause)):
                station.owe_trigger()
            return None
        station.leasing.recovered()
        return self._first(leases)

    def _first(self, leases: list[Lease]) -> Lease | None:
        """Return the lease, if there is one, and make the request its job's.

        What the job before it has left there (attributes, children) is another tenant's.
        """
        if not leases:
            return None
        request = self._task.request
        if self._request is not None:
            vars(request).clear()
            vars(request).update(_copied(self._request))
        request.retries = leases[0].job.delivery_count
        return leases[0]

    def _resume(self, retried: Mapping[str, Any]) -> Lease | None:
        """Take over the lease that was kept for a retry."""
        # The store has not counted this retry yet: its lease was kept for it.
        job = replace(load_job(retried), delivery_count=self._task.request.retries)
        try:
            lease = self._station.resume(job)
        except Exception as error:  # noqa: BLE001 - the store is down: said once; look again later
            # If it took the lease over for us all the same, the next message comes in vain, and
            # the lease runs out.
            pause = self._station.leasing.failed(error)
            self._task.send_retry_again(retried, pause)
            return None
        if lease is None:
            logger.warning(
                "a retry of job %s is dropped: its message was delivered before, or came too late "
                "and its lease was reclaimed; a job that did not end runs again",
                job.id,
                extra=job_extra(job, self._station.worker_id),
            )
        return lease

    # -- ending --------------------------------------------------------------------

    def _goes_on(self, outcome: Outcome | None) -> bool:
        """Return whether the trigger may run another job after this one.

        Not after a job that Celery should hear of: of several it would hear of the last.
        An eager one runs all that are ready, for there is no other.
        """
        if self._eager:
            return outcome is not None
        return (
            outcome is not None
            and outcome.kind is OutcomeKind.ACK
            and time.monotonic() < self._drain_until
            and not pool.is_shutting_down()
        )

    def _end(self, lease: Lease, outcome: Outcome | None, ran: Run | None, n: int) -> Lease | None:
        """End a lease as its job ended; return the next one, if ``n`` is 1 and there is one."""
        station = self._station
        if outcome is None:
            if station.lane.drop(lease, "died"):  # else a retry took it over
                station.dispatcher.after_a_death()
            return None
        leases = station.hand_in(lease, n)
        if outcome.kind in (OutcomeKind.SNOOZE, OutcomeKind.RETRY):
            station.dispatcher.wake(outcome.delay)
        return self._first(leases)

    def _give_up(self, lease: Lease) -> None:
        """End a lease whose job did not get as far as its end, as by a signal's exception.

        What was held on to would be renewed for as long as the process lives.
        """
        if lease.outcome is not None:
            self._station.hand_in(lease, 0)
        elif self._station.lane.drop(lease, "died"):
            self._station.dispatcher.after_a_death()

    def _replace(self) -> None:
        """Send the trigger after this one.

        Also after a failure and after a kept lease: the jobs of others wait. The last of a
        busy time finds nothing; so no trigger has to ask whether jobs wait.
        """
        if not self._station.dispatcher.replace():
            self._station.owe_trigger()


def _copied(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a request, the lists and dicts among them copied."""
    return {
        name: value.copy() if isinstance(value, (list, dict)) else value
        for name, value in attributes.items()
    }


def _present(run: Run | None, outcome: Outcome | None) -> None:
    """Return or raise what Celery should see of the job that ran last."""
    raised = None if run is None else run.raised
    if outcome is None:
        if raised is None or run is None or run.gone:
            raise Ignore  # it came to its end after its hard limit, or was reclaimed
        if isinstance(raised, CeleryRetry) or pool.is_prefork():
            raise raised
        # A death: in the worker's own process Celery itself would stumble over it.
        raise JobFailed(describe.reason(raised)).with_traceback(raised.__traceback__)
    match outcome.kind:
        case OutcomeKind.ACK:
            return
        case OutcomeKind.RETRY:
            cause = None if raised is None else _presentable(raised)
            raise CeleryRetry(exc=cause, when=outcome.delay)
        case OutcomeKind.FAIL if raised is not None:
            raise _presentable(raised)
    raise Ignore


def _presentable(exc: BaseException) -> BaseException:
    """Return the exception, or what stands for it if the parent process could not load it.

    One that cannot be unpickled would end the thread that listens to the pool; and a
    MemoryError, which may be one job's alone, makes Celery end the whole worker, as does what is
    no ``Exception``, such as asyncio's ``CancelledError``.
    """
    if isinstance(exc, MemoryError) or not isinstance(exc, Exception):
        return JobFailed(describe.reason(exc)).with_traceback(exc.__traceback__)
    if not pool.is_prefork():
        return exc
    try:
        pickle.loads(pickle.dumps(exc))  # noqa: S301 - what was written the line before
    except BaseException:  # noqa: BLE001 - its own code runs here, and may raise anything
        return JobFailed(describe.reason(exc)).with_traceback(exc.__traceback__)
    return exc
