"""A slot: one thread that leases jobs and runs them, one after the other."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable

from vtrr_django.worker.lanes import Lane, Lease, count_released
from vtrr_django.worker.logs import call_hook, job_extra, logger
from vtrr_django.worker.rota import Rota, Seat, Turn
from vtrr_django.worker.run import Runner
from vtrr_django.worker.source import WorkerHooks

BATCH_SECONDS = 0.05
"""How long jobs leased together may run together; see :class:`Slot`."""


class Slot(threading.Thread):
    """Takes turns until there are none.

    One call ends the last batch and leases the next. A batch is one job at first; it grows,
    up to ``prefetch``, while batches take less than half of ``BATCH_SECONDS``. When one
    takes longer than that after all, the outcomes so far are handed in and the jobs that
    have not started are released (they keep their place), by this thread between two jobs,
    or by the keeper while one runs; then batches start at one job again. So a job that turns
    out to be long holds up no other for more than about ``BATCH_SECONDS``.

    ``waiting`` and ``done`` need no lock: a deque gives each item to one taker.

    Args:
        rota: gives turns.
        runner: runs jobs.
        hooks: of the worker.
        watch: called with the lane when a batch of several of its jobs begins.
        on_exit: called last, with the exception that ended the thread or None.
    """

    def __init__(
        self,
        number: int,
        *,
        rota: Rota,
        runner: Runner,
        hooks: WorkerHooks,
        watch: Callable[[Lane], None],
        on_exit: Callable[[Slot, BaseException | None], None],
        worker_id: str,
    ) -> None:
        super().__init__(name=f"vtrr-slot-{number}", daemon=True)
        self._rota = rota
        self._runner = runner
        self._hooks = hooks
        self._watch = watch
        self._on_exit = on_exit
        self._worker_id = worker_id
        self._seat = Seat()
        self._stale = True
        self.lane: Lane | None = None
        """Where the last batch came from: a slot hands it in before it turns to another."""
        self.waiting: deque[Lease] = deque()
        self.done: deque[Lease] = deque()
        self.deadline = math.inf
        """``time.monotonic()`` from which the keeper breaks up the batch of several jobs."""
        self.running: Lease | None = None
        self.calling_since = math.inf
        """``time.monotonic()`` when it began to talk to the store; infinite: it does not."""

    def run(self) -> None:
        """Take turns until there are none; see the class."""
        failure: BaseException | None = None
        try:
            while (turn := self._rota.next_turn(self._seat)) is not None:
                self._take(turn)
        except BaseException as exc:  # noqa: BLE001 - the worker logs it and stops
            failure = exc
        finally:
            call_hook(self._hooks.thread_exit, self._worker_id)
            self._on_exit(self, failure)

    def _take(self, turn: Turn) -> None:
        ended = self.take_done()
        if not ended and not turn.n:  # the keeper handed it in
            self._seat.holding = False
            return
        self.calling_since = time.monotonic()
        try:
            leases = turn.flow.lane.exchange(ended, turn.n, stale=turn.stale or self._stale)
            self.calling_since = math.inf
        except BaseException as exc:  # noqa: BLE001 - the rota says it once, and when it is over
            self.calling_since = math.inf
            self._stale = True
            self._rota.failed(turn, exc)
        else:
            self._stale = False
            self._rota.answered(turn, len(leases), unused=count_released(ended))
            if leases:
                self._run_batch(leases, turn)
        self._seat.holding = bool(self.done)

    def _run_batch(self, leases: list[Lease], turn: Turn) -> None:
        self._seat.ran = True
        self.lane = turn.flow.lane
        self.waiting.extend(leases)
        began = now = time.monotonic()
        deadline = math.inf
        if len(leases) > 1:
            self.deadline = deadline = now + BATCH_SECONDS
            self._watch(self.lane)
        waiting, done, rota = self.waiting, self.done, self._rota
        debug = logger.isEnabledFor(logging.DEBUG)
        while waiting and now < deadline and not rota.stopping:
            try:
                self.running = lease = waiting.popleft()
            except IndexError:  # the keeper took it in this moment
                break
            self._run_one(lease, debug)
            now = time.monotonic()
            if lease.outcome is not None:
                done.append(lease)
        self.running = None
        self.deadline = math.inf
        self._release_rest()
        self._stale = now - began > BATCH_SECONDS
        self._resize(len(leases), now - began, turn)

    def _run_one(self, lease: Lease, debug: bool) -> None:
        try:
            outcome = self._runner.run(lease)
        except BaseException:  # noqa: BLE001 - not even MemoryError may end the slot
            logger.critical(
                "running job %s failed in the worker itself: its lease runs out",
                lease.job.id,
                exc_info=True,
                extra=job_extra(lease.job, self._worker_id),
            )
            outcome = None
        if outcome is None:
            lease.lane.drop(lease, "died")
        else:
            lease.outcome = outcome
        if debug:
            self._runner.debug_ended(lease, outcome)

    def _resize(self, got: int, seconds: float, turn: Turn) -> None:
        lane, sizes = turn.flow.lane, self._seat.sizes
        if seconds > BATCH_SECONDS:
            sizes[lane] = 1
        elif got == turn.n and seconds * 2 <= BATCH_SECONDS:
            sizes[lane] = min(lane.config.prefetch, got * 2)

    def _release_rest(self) -> None:
        while self.waiting:
            try:
                lease = self.waiting.popleft()
            except IndexError:
                return
            lease.outcome = lease.released()
            self.done.append(lease)

    @property
    def is_stuck(self) -> bool:
        """Whether the running job passed its hard time limit."""
        running = self.running
        return running is not None and running.overdue

    def take_done(self) -> list[Lease]:
        """Take what ended; whoever takes it hands it in."""
        taken = []
        while self.done:
            try:
                taken.append(self.done.popleft())
            except IndexError:
                break
        return taken

    def take_back(self) -> list[Lease]:
        """Take what ended and what has not started, from another thread, to hand it in."""
        self._release_rest()
        return self.take_done()
