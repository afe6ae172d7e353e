"""What a process of a Celery pool keeps for one queue: its leases, and threads for them."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from celery import signals

from vtrr_django.connections import DjangoHooks
from vtrr_django.contrib.celery.caretaker import Caretaker, Upkeep
from vtrr_django.contrib.celery.pool import SoftTimeLimitExceeded, is_prefork
from vtrr_django.contrib.celery.runner import CeleryRunner
from vtrr_django.domain.forks import at_fork
from vtrr_django.domain.job import LeasedJob, Outcome, OutcomeKind, Renewal
from vtrr_django.worker import describe
from vtrr_django.worker.lanes import Lane, Lease
from vtrr_django.worker.limits import Watchdog
from vtrr_django.worker.logs import Outage, job_extra, logger
from vtrr_django.worker.process import default_worker_id

if TYPE_CHECKING:
    from vtrr_django.contrib.celery.dispatch import CeleryDispatcher
    from vtrr_django.queue import Queue


class Station:
    """One queue in one process of a pool.

    Attributes:
        lane: the leases the process holds, and the outcomes the store has not taken.
        runner: runs their jobs.
        leasing: says once that the store cannot be reached, and when it can be again.
    """

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.worker_id = default_worker_id()
        self.hooks = DjangoHooks()
        self.lane = Lane(queue, self.worker_id, self.hooks)
        extra = {"queue": queue.name, "worker_id": self.worker_id}
        self.leasing = Outage(f"leasing from queue {queue.name}", extra)
        self._caretaker = Caretaker(self)
        self._upkeep = Upkeep(self)
        self._watchdog = Watchdog(
            self._on_overdue, self.hooks, self.worker_id, SoftTimeLimitExceeded
        )
        self.runner = CeleryRunner(self.worker_id, self._watchdog, self.hooks, self.watch_limits)
        self._lock = threading.Lock()

    @property
    def dispatcher(self) -> CeleryDispatcher:
        """Whose triggers run here."""
        return cast("CeleryDispatcher", self.queue.dispatcher)

    def watch_limits(self) -> None:
        """Start the thread that enforces limits which Celery does not, once."""
        with self._lock:
            if self._watchdog.ident is None:
                self._watchdog.start()

    def start(self) -> None:
        """Start what looks after it, once."""
        if self._caretaker.ident is not None:
            return
        with self._lock:
            if self._caretaker.ident is None:
                self._caretaker.start()
                self._upkeep.start()

    def owe_trigger(self) -> None:
        """Have a trigger sent as soon as the broker takes one."""
        self._upkeep.owed += 1
        self._upkeep.kick()

    def hand_in(self, lease: Lease, n: int) -> list[Lease]:
        """Hand in the end of a lease, and lease up to ``n`` more jobs.

        What the store does not take now, the caretaker hands in later; meanwhile the lease
        is renewed.
        """
        try:
            return self.lane.exchange([lease], n)
        except Exception as error:  # noqa: BLE001 - the lane keeps it; said once
            self.leasing.failed(error)
            self._caretaker.kick()
            return []

    def extend(self, lease: Lease, seconds: float, exc: BaseException | None) -> bool:
        """Give up holding a lease, and let it run for ``seconds`` from now.

        False: it was not ours any more. ``exc`` is why the job is to run again.

        Raises:
            StoreUnavailable: nobody knows; it runs out when it would have.
        """
        self.lane.drop(lease, "retried")
        job = lease.job
        self.hooks.before_store()
        with self._caretaker.renewing:  # a renewal under way would cut it short
            renewal = Renewal(job_id=job.id, token=job.token)
            ours = self.queue.renew_many([renewal], seconds)[0]
        retried = Outcome(
            kind=OutcomeKind.RETRY,
            job_id=job.id,
            token=job.token,
            reason=describe.RETRY_ASKED if exc is None else describe.reason(exc),
            error_class="" if exc is None else describe.error_class(exc),
        )
        self.queue.recorder.finished([retried], [ours])
        return ours

    def resume(self, job: LeasedJob) -> Lease | None:
        """Take over a lease that waited for its job's retry; None: it is not to be had any more.

        The lease gets a new token, for a broker may deliver the message of one retry more than
        once, even while it runs: only one of the deliveries takes it over. Where that one dies,
        the lease runs out.

        Raises:
            StoreUnavailable: nobody knows.
        """
        self.hooks.before_store()
        token = secrets.token_hex(16)
        renewal = Renewal(
            job_id=job.id, token=job.token, delivery_count=job.delivery_count, new_token=token
        )
        if not self.queue.renew_many([renewal])[0]:
            return None
        job = replace(job, token=token)
        self.queue.recorder.took_over(job, self.worker_id, self.lane.config.lease_seconds)
        return self.lane.adopt(job)

    def measure(self) -> None:
        """Say that this process is alive, and write down what it counted."""
        self.queue.measure(self.worker_id)

    def close(self) -> None:
        """Hand in what is left, before the process ends."""
        try:
            self.lane.exchange([], 0, stale=True)
        except Exception as error:  # noqa: BLE001 - then their leases run out
            self.leasing.failed(error)
        self._upkeep.measure.run()

    def end(self) -> None:
        """Close, and let the threads go."""
        self.close()
        self._caretaker.end()
        self._upkeep.end()

    def _on_overdue(self, lease: Lease) -> None:
        """End what cannot be ended otherwise: a process can, a thread cannot."""
        prefork = is_prefork()
        logger.error(
            "job %s passed its hard time limit: its lease runs out, then it runs again%s",
            lease.job.id,
            "; its process is killed" if prefork else "; its thread goes on, which nobody can end",
            extra=job_extra(lease.job, self.worker_id),
        )
        if prefork:
            for handler in logging.getLogger().handlers:
                handler.flush()
            os.kill(os.getpid(), signal.SIGKILL)


_stations: dict[Queue, Station] = {}
_lock = threading.Lock()


def station_of(queue: Queue, *, attended: bool = True) -> Station:
    """Return this process's station of a queue, its thread running if it is to be attended."""
    station = _stations.get(queue)
    if station is None or station.lane.config is not queue.config:
        with _lock:  # all threads of a pool may come here with their first triggers
            station = _stations.get(queue)
            if station is None or station.lane.config is not queue.config:
                if station is not None:
                    station.end()  # the settings have changed
                station = _stations[queue] = Station(queue)
    if attended:
        station.start()
    return station


def end_all() -> None:
    """End every station of this process, as between tests."""
    while _stations:
        _stations.popitem()[1].end()


def _forget() -> None:
    """Begin anew in a forked process: no thread and no lease of the parent's is here."""
    global _lock  # noqa: PLW0603 - it may be held by a thread that was not forked
    _lock = threading.Lock()
    _stations.clear()


at_fork(after_in_child=_forget)


def _on_shutdown(**kwargs: object) -> None:
    for station in list(_stations.values()):
        station.close()


signals.worker_process_shutdown.connect(_on_shutdown, weak=False)
signals.worker_shutdown.connect(_on_shutdown, weak=False)
