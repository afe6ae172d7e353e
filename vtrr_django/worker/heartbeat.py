"""The keepers: renew the leases this process holds and give back what it holds up."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator, Sequence

from vtrr_django.domain.job import Renewal
from vtrr_django.domain.parts import parts
from vtrr_django.worker.lanes import Lane, Lease, count_released
from vtrr_django.worker.logs import Outage, call_hook, job_extra, logger
from vtrr_django.worker.rota import Rota
from vtrr_django.worker.slot import Slot
from vtrr_django.worker.source import WorkerHooks

RENEWALS_PER_CALL = 500
SHORTEST_PAUSE, PAUSE_AFTER_FAILURE = 0.01, 1.0
LONGEST_WAIT = 3600.0


class Beat:
    """Renews the leases of one lane every third of the lease.

    A lease younger than half of that is left for the next time, so that short jobs are
    never renewed; the oldest a lease gets is half of its life.
    """

    def __init__(self, lane: Lane, hooks: WorkerHooks, now: float) -> None:
        self._lane = lane
        self._hooks = hooks
        self._period = lane.config.lease_seconds / 3
        self.due = now + self._period if lane.config.heartbeat else math.inf
        self._outage = Outage(
            f"renewing the leases of queue {lane.name}",
            {"queue": lane.name, "worker_id": lane.worker_id},
            logging.WARNING,
        )

    def renew(self, now: float) -> None:
        """Renew what is old enough; after a failure be due again sooner."""
        self.due = now + self._period
        old = [
            lease
            for lease in self._lane.held()
            if not lease.overdue and now - lease.renewed_at >= self._period / 2
        ]
        try:
            for leases in parts(old, RENEWALS_PER_CALL):
                self._renew(leases, now)
        except BaseException as exc:  # noqa: BLE001 - logged once; the thread must live
            pause = self._outage.failed(exc)
            self.due = time.monotonic() + min(pause, self._period / 3)
        else:
            if old:
                self._outage.recovered()

    def _renew(self, leases: Sequence[Lease], now: float) -> None:
        self._hooks.before_store()
        renewals = [
            Renewal(job_id=lease.job.id, token=lease.job.token, runtime=_runtime(lease, now))
            for lease in leases
        ]
        answers = self._lane.source.renew_many(renewals)
        for lease, renewed in zip(leases, answers, strict=False):
            if renewed:
                lease.renewed_at = now
            elif self._lane.lose(lease):
                logger.warning(
                    "the lease of job %s is not ours any more: it ran out and was reclaimed, or "
                    "the job was ended elsewhere; it may run a second time now",
                    lease.job.id,
                    extra=job_extra(lease.job, self._lane.worker_id),
                )


def _runtime(lease: Lease, now: float) -> float:
    if lease.started is None:
        return 0.0
    return lease.ran if lease.ran is not None else max(0.0, now - lease.started)


class Keeper(threading.Thread):
    """The thread that looks after the leases of one store while slots run jobs.

    Args:
        lanes: those of the store, whose leases to renew.
        rota: told of jobs given back; when it stops, all jobs that wait are given back.
        hooks: of the worker.
        worker_id: of the worker.
        name: of the thread.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        rota: Rota,
        hooks: WorkerHooks,
        worker_id: str,
        name: str = "vtrr-keeper",
    ) -> None:
        super().__init__(name=name, daemon=True)
        now = time.monotonic()
        self._lanes = frozenset(lanes)
        self._beats = [Beat(lane, hooks, now) for lane in lanes]
        self._rota = rota
        self._hooks = hooks
        self._worker_id = worker_id
        self._extra = {"worker_id": worker_id}
        self._kicked = threading.Event()
        self._watching = False
        self._ended = False
        self.slots: Sequence[Slot] = ()
        self.calling_since = math.inf
        """``time.monotonic()`` when its round began; infinite: it rests."""

    def watch(self) -> None:
        """Have batches watched from now on. Called for every batch, so it is cheap."""
        if not self._watching:
            self._kicked.set()

    def kick(self) -> None:
        """Have the thread look at everything at once."""
        self._kicked.set()

    def end(self) -> None:
        """Let the thread end."""
        self._ended = True
        self._kicked.set()

    def run(self) -> None:
        """Renew and give back until :meth:`end`."""
        try:
            while not self._ended:
                self.calling_since = time.monotonic()
                try:
                    pause = self._round()
                except BaseException:  # noqa: BLE001 - without this thread every lease runs out
                    logger.exception("looking after leases failed", extra=self._extra)
                    pause = PAUSE_AFTER_FAILURE
                self.calling_since = math.inf
                self._kicked.wait(pause)
                self._kicked.clear()
        finally:
            call_hook(self._hooks.thread_exit, self._worker_id)

    def _round(self) -> float:
        """Do what is due; return the seconds until the next round."""
        for slot in self._own_slots():
            if slot.deadline <= time.monotonic() or self._rota.stopping:
                self._give_back(slot)
        for beat in self._beats:
            if beat.due <= time.monotonic():
                beat.renew(time.monotonic())
        # Slots set their deadline before they read _watching, so none is overlooked.
        self._watching = False
        breakups = [slot.deadline for slot in self._own_slots() if slot.waiting or slot.done]
        due = min(breakups, default=math.inf)
        self._watching = due < math.inf
        now = time.monotonic()
        beats = min(beat.due for beat in self._beats) - now
        return max(SHORTEST_PAUSE, min(due - now, beats, LONGEST_WAIT))

    def _own_slots(self) -> Iterator[Slot]:
        """Return the slots whose jobs are from this store."""
        return (slot for slot in self.slots if slot.lane in self._lanes)

    def _give_back(self, slot: Slot) -> None:
        leases = slot.take_back()
        if not leases:
            return
        lane = leases[0].lane  # a slot hands everything in before it leaves a lane
        try:
            lane.exchange(leases, 0, stale=True)
        except BaseException:  # noqa: BLE001 - the lane keeps them; the slots say what is wrong
            return
        self._rota.stir(lane, unused=count_released(leases))
