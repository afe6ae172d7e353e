"""What a process of a Celery pool keeps for one queue: its leases, and a thread for them."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, cast

from celery import signals

from vtrr_django.connections import DjangoHooks
from vtrr_django.contrib.celery.pool import SoftLimit, SoftTimeLimitExceeded, is_prefork
from vtrr_django.contrib.celery.runner import CeleryRunner
from vtrr_django.domain.job import LeasedJob, Outcome, OutcomeKind, Renewal
from vtrr_django.worker.heartbeat import Beat
from vtrr_django.worker.lanes import Lane, Lease
from vtrr_django.worker.limits import Watchdog
from vtrr_django.worker.logs import Outage, job_extra, logger
from vtrr_django.worker.process import default_worker_id
from vtrr_django.worker.upkeep import (
    ARCHIVE_INTERVAL,
    FIRST_PRUNE,
    MEASURE_INTERVAL,
    PRUNE_INTERVAL,
    Chore,
)

if TYPE_CHECKING:
    from vtrr_django.contrib.celery.dispatch import CeleryDispatcher
    from vtrr_django.queue import Queue

AGAIN_SECONDS = 1.0
"""Between two tries to hand in what the store, or to send what the broker, did not take."""


class Station:
    """One queue in one process of a pool.

    Attributes:
        lane: the leases the process holds, and the outcomes the store has not taken.
        runner: runs their jobs.
        soft_limit: Celery's soft limit, in a prefork process.
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
        self._watchdog = Watchdog(
            self._on_overdue, self.hooks, self.worker_id, SoftTimeLimitExceeded
        )
        self.soft_limit = SoftLimit()
        self.runner = CeleryRunner(
            self.worker_id, self._watchdog, self.hooks, self.soft_limit, self.watch_limits
        )
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
        """Start the caretaker, once."""
        with self._lock:
            if self._caretaker.ident is None:
                self._caretaker.start()

    def owe_trigger(self) -> None:
        """Have a trigger sent as soon as the broker takes one."""
        self._caretaker.owed += 1
        self._caretaker.kick()

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

    def extend(self, lease: Lease, seconds: float) -> bool:
        """Give up holding a lease, and let it run for ``seconds`` from now.

        False: it was not ours any more.

        Raises:
            StoreUnavailable: nobody knows; it runs out when it would have.
        """
        self.lane.drop(lease, "retried")
        job = lease.job
        with self._caretaker.renewing:  # a renewal under way would cut it short
            renewal = Renewal(job_id=job.id, token=job.token)
            ours = self.queue.renew_many([renewal], seconds)[0]
        retried = Outcome(kind=OutcomeKind.RETRY, job_id=job.id, token=job.token)
        self.queue.recorder.finished([retried], [ours])
        return ours

    def resume(self, job: LeasedJob) -> Lease | None:
        """Hold a lease that waited for its job's retry; None: it is not ours any more.

        Raises:
            StoreUnavailable: nobody knows.
        """
        self.hooks.before_store()
        if not self.queue.renew_many([Renewal(job_id=job.id, token=job.token)])[0]:
            return None
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
        self._caretaker.measure.run()

    def end(self) -> None:
        """Close, and let the caretaker go."""
        self.close()
        self._caretaker.end()

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


class Caretaker(threading.Thread):
    """Renews the leases of one station, hands in and sends what could not be, reclaims.

    It reclaims because a queue may have no beat; while triggers come in, each of them does.
    """

    def __init__(self, station: Station) -> None:
        super().__init__(name=f"vtrr-caretaker-{station.queue.name}", daemon=True)
        now = time.monotonic()
        lane, hooks = station.lane, station.hooks
        self._station = station
        self._beat = Beat(lane, hooks, now)
        self._kicked = threading.Event()
        self._ended = threading.Event()
        self._again_at = 0.0
        self._idle_since = -1
        self.renewing = threading.Lock()
        self.owed = 0
        self.measure = Chore(
            f"writing down figures of queue {lane.name}",
            lane,
            station.measure,
            hooks,
            interval=MEASURE_INTERVAL,
            due=now + MEASURE_INTERVAL,
        )
        self._chores = [
            Chore(
                f"reclaiming leases of queue {lane.name}",
                lane,
                self._reclaim,
                hooks,
                interval=lane.config.reclaim_interval,
                due=now + lane.config.reclaim_interval,
            ),
            Chore(
                f"writing the history of queue {lane.name}",
                lane,
                station.queue.archive,
                hooks,
                interval=ARCHIVE_INTERVAL,
                due=now + ARCHIVE_INTERVAL,
            ),
            Chore(
                f"pruning the history of queue {lane.name}",
                lane,
                station.queue.prune,
                hooks,
                interval=PRUNE_INTERVAL,
                due=now + FIRST_PRUNE,
            ),
            self.measure,
        ]

    def end(self) -> None:
        """Let the thread end."""
        self._ended.set()
        self._kicked.set()

    def kick(self) -> None:
        """Have the thread look after what is kept and owed."""
        self._kicked.set()

    def run(self) -> None:
        """Look after everything until :meth:`end`, mostly that of the process."""
        while not self._ended.is_set():
            try:
                pause = self._round()
            except BaseException:  # noqa: BLE001 - without this thread every lease runs out
                logger.exception("looking after leases failed")
                pause = AGAIN_SECONDS
            self._kicked.wait(pause)
            self._kicked.clear()

    def _round(self) -> float:
        station = self._station
        if self._beat.due <= time.monotonic():
            with self.renewing:
                self._beat.renew(time.monotonic())
        if self._again_at <= time.monotonic() and (station.lane.kept or self.owed):
            self._again_at = time.monotonic() + AGAIN_SECONDS
            self._hand_in()
            self._send_owed()
        for chore in self._chores:
            if chore.due <= time.monotonic():
                chore.run()
        due = min(self._beat.due, *(chore.due for chore in self._chores))
        if station.lane.kept or self.owed:
            due = min(due, self._again_at)
        return max(0.01, due - time.monotonic())

    def _hand_in(self) -> None:
        station = self._station
        if not station.lane.kept:
            return
        try:
            station.lane.exchange([], 0, stale=True)
        except Exception as error:  # noqa: BLE001 - the lane keeps them; said once
            station.leasing.failed(error)
        else:
            station.leasing.recovered()

    def _send_owed(self) -> None:
        while self.owed and self._station.dispatcher.replace():
            self.owed -= 1

    def _reclaim(self) -> None:
        queue, tally = self._station.queue, self._station.lane.tally
        if tally.jobs == self._idle_since and not self._station.lane.held():
            queue.reclaim_and_dispatch()
        else:
            self._idle_since = tally.jobs
            queue.reclaim()


_stations: dict[Queue, Station] = {}
_lock = threading.Lock()


def station_of(queue: Queue) -> Station:
    """Return this process's station of a queue, its thread running."""
    station = _stations.get(queue)
    if station is None or station.lane.config is not queue.config:
        with _lock:
            if station is not None:
                station.end()  # the settings have changed
            station = _stations[queue] = Station(queue)
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


os.register_at_fork(after_in_child=_forget)


def _on_shutdown(**kwargs: object) -> None:
    for station in list(_stations.values()):
        station.close()


signals.worker_process_shutdown.connect(_on_shutdown, weak=False)
signals.worker_shutdown.connect(_on_shutdown, weak=False)
