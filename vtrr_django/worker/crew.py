"""One run of a worker: its threads, and the thread that supervises them."""

from __future__ import annotations

import enum
import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from vtrr_django.worker.heartbeat import Keeper
from vtrr_django.worker.heartbeat_file import HeartbeatFile, Watched
from vtrr_django.worker.lanes import Lane, Lease, Tally
from vtrr_django.worker.limits import Watchdog
from vtrr_django.worker.logs import FIRST_PAUSE, LONGEST_PAUSE, call_hook, job_extra, logger
from vtrr_django.worker.process import WorkerError
from vtrr_django.worker.rota import Rota
from vtrr_django.worker.run import Runner
from vtrr_django.worker.slot import Slot
from vtrr_django.worker.source import JobSource, WorkerHooks
from vtrr_django.worker.upkeep import Upkeep

PROGRESS_INTERVAL = 10.0
ABORT_SECONDS = 10.0
"""How long the second signal waits for the store to take the releases."""
START_SECONDS = 1.0
"""How long a thread may take to begin, after which it is thought not to have been started."""
JOIN_SECONDS, JOIN_ABORTED_SECONDS = 5.0, 0.5


class Order(enum.Enum):
    """What the supervising thread is told."""

    STOP = "stop"
    ABORT = "abort"
    STUCK = "stuck"
    EXITED = "exited"


Mailbox = queue.SimpleQueue[Order]
"""``put`` is reentrant: a signal handler may call it, which no lock or Event allows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CrewPlan:
    """The settings of one run; see :class:`vtrr_django.worker.worker.Worker`."""

    worker_id: str
    concurrency: int
    poll_interval: float
    backoff_interval: float
    max_empty: int
    burst: bool
    max_jobs: int | None
    replace_grace: float
    hooks: WorkerHooks
    heartbeat: HeartbeatFile | None = None


class Crew:
    """Runs the threads of one run and brings them to an end.

    Attributes:
        mailbox: takes orders, from any thread and from signal handlers.
        aborted: the run ended with jobs that had not: their leases were released.
        wants_replacing: a job passed its hard limit and nobody asked to stop.
    """

    def __init__(self, sources: Sequence[JobSource], plan: CrewPlan) -> None:
        self._plan = plan
        self._extra = {"worker_id": plan.worker_id}
        self.mailbox: Mailbox = queue.SimpleQueue()
        self.lanes = [Lane(source, plan.worker_id, plan.hooks) for source in sources]
        self.rota = Rota(
            self.lanes,
            poll_interval=plan.poll_interval,
            backoff_interval=plan.backoff_interval,
            max_empty=plan.max_empty,
            burst=plan.burst,
            max_jobs=plan.max_jobs,
            extra=self._extra,
        )
        self._watchdog = Watchdog(self._on_overdue, plan.hooks, plan.worker_id)
        self._keeper = Keeper(self.lanes, self.rota, plan.hooks, plan.worker_id)
        self._upkeep = Upkeep(
            self.lanes, self.rota, plan.hooks, plan.worker_id, prune_last=plan.burst
        )
        runner = Runner(plan.worker_id, self._watchdog, plan.hooks)
        self._slots = [
            Slot(
                number,
                rota=self.rota,
                runner=runner,
                hooks=plan.hooks,
                watch=self._keeper.watch,
                on_exit=self._on_exit,
                worker_id=plan.worker_id,
            )
            for number in range(plan.concurrency)
        ]
        self._keeper.slots = self._slots
        self._exited: set[Slot] = set()
        self._failure: BaseException | None = None
        self._stop_asked = False
        self._starting: threading.Thread | None = None
        self._deadline: float | None = None
        self._reported = (0, time.monotonic())
        self.aborted = False
        self.wants_replacing = False

    @property
    def tally(self) -> Tally:
        """How the leases ended so far."""
        return sum((lane.tally for lane in self.lanes), Tally())

    def run(self) -> None:
        """Run until stopped, or until there is no more to do.

        Raises:
            KeyboardInterrupt: Ctrl-C without signal handlers, after ending like ``stop()``.
            WorkerError: a thread of the worker failed in itself.
        """
        interrupted = False
        try:
            while True:
                try:
                    self._start_threads()
                    self._supervise()
                    self._hand_in_rest()
                    break
                except KeyboardInterrupt:  # Ctrl-C, and no handler installed
                    self.rota.stopping = True
                    self.mailbox.put(Order.ABORT if interrupted else Order.STOP)
                    interrupted = True
        finally:
            self._end_threads()
        if interrupted:
            raise KeyboardInterrupt
        if self._failure is not None:
            raise WorkerError("a thread of the worker failed in itself") from self._failure

    # -- told by other threads -----------------------------------------------------

    def _on_exit(self, slot: Slot, failure: BaseException | None) -> None:
        if failure is not None:
            self._failure = failure
            logger.critical(
                "slot %s failed in itself: the worker stops",
                slot.name,
                exc_info=failure,
                extra=self._extra,
            )
        self._exited.add(slot)
        self.mailbox.put(Order.EXITED)

    def _on_overdue(self, lease: Lease) -> None:
        lease.lane.drop(lease, "stuck")
        logger.error(
            "job %s passed its hard time limit and its thread cannot be ended: its lease runs "
            "out, then it runs again; this worker takes no more jobs and asks to be replaced",
            lease.job.id,
            extra=job_extra(lease.job, self._plan.worker_id),
        )
        self.mailbox.put(Order.STUCK)

    # -- the supervising thread ----------------------------------------------------

    def _start_threads(self) -> None:
        for thread in (self._watchdog, self._keeper, self._upkeep, *self._slots):
            if thread is self._starting:
                # Ctrl-C came in the midst of start(): the thread is on its way, most likely.
                deadline = time.monotonic() + START_SECONDS
                while thread.ident is None and time.monotonic() < deadline:
                    time.sleep(0.01)
            if thread.ident is None:
                self._starting = thread
                thread.start()

    def _supervise(self) -> None:
        """Wait for orders until every slot has ended that can."""
        while not self._is_drained() and not self.aborted:
            self._obey(self._next_order(self._patience()))
            self._report()

    def _next_order(self, seconds: float) -> Order | None:
        """Wait for an order, for so many seconds; meanwhile tell whoever looks that we live."""
        deadline = time.monotonic() + seconds
        heartbeat = self._plan.heartbeat
        while True:
            wait = deadline - time.monotonic()
            if heartbeat is not None:
                if not heartbeat.due_in:
                    heartbeat.beat(self._watched())
                wait = min(wait, heartbeat.due_in)
            try:
                return self.mailbox.get(timeout=max(0.0, wait))
            except queue.Empty:
                if time.monotonic() >= deadline:
                    return None

    def _watched(self) -> list[Watched]:
        """Return the threads that have to make progress."""
        # One that has ended is missed only if it failed.
        slots = [slot for slot in self._slots if slot not in self._exited or self._failure]
        return [self._keeper, self._upkeep, self._watchdog, *slots]

    def _patience(self) -> float:
        if self._deadline is None:
            return PROGRESS_INTERVAL
        return min(PROGRESS_INTERVAL, self._deadline - time.monotonic())

    def _obey(self, order: Order | None) -> None:
        if order is Order.STOP and not self._stop_asked:
            self._stop_asked = True
            self.wants_replacing, self._deadline = False, None
            self._stop_leasing()
            logger.info(
                "worker %s stops: %d slots finish their jobs; a second signal releases them",
                self._plan.worker_id,
                self._running(),
                extra=self._extra,
            )
        elif order is Order.ABORT:
            self._abort()
        elif order is Order.STUCK:
            if not self.wants_replacing and not self._stop_asked:
                self.wants_replacing = True
                self._deadline = time.monotonic() + self._plan.replace_grace
            self._stop_leasing()
        elif order is Order.EXITED and self._failure is not None:
            self._stop_leasing()
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._abort()

    def _stop_leasing(self) -> None:
        self.rota.stop()
        self._keeper.kick()

    def _is_drained(self) -> bool:
        """Whether every slot has ended, except those whose job cannot be ended."""
        return all(slot in self._exited or slot.is_stuck for slot in self._slots)

    def _running(self) -> int:
        return sum(slot.running is not None for slot in self._slots)

    def _report(self) -> None:
        done, at = self._reported
        now = time.monotonic()
        if now - at < PROGRESS_INTERVAL:
            return
        total, running = self.tally.jobs, self._running()
        if total > done or running:
            logger.info(
                "worker %s: %d jobs done, %d running, %.1f jobs/s",
                self._plan.worker_id,
                total,
                running,
                (total - done) / (now - at),
                extra=self._extra,
            )
        self._reported = (total, now)

    # -- the end -------------------------------------------------------------------

    def _hand_in_rest(self) -> None:
        """Try until the store has taken every outcome, or until their leases have run out."""
        if self.aborted:
            return
        for slot in self._slots:  # one that is stuck does not hand in by itself
            left_behind = slot.take_back()
            if left_behind:
                self._hand_in(left_behind[0].lane, left_behind)
        pause = FIRST_PAUSE
        longest = max(lane.config.lease_seconds for lane in self.lanes)
        deadline = time.monotonic() + longest
        while not self.aborted and not self._hand_in_kept():
            left = deadline - time.monotonic()
            if left <= 0:
                logger.error(
                    "the store did not take %d outcomes before their leases ran out: these jobs "
                    "run again",
                    sum(lane.kept for lane in self.lanes),
                    extra=self._extra,
                )
                return
            if self._next_order(min(pause, left)) is Order.ABORT:
                self.aborted = True
            pause = min(LONGEST_PAUSE, pause * 2)

    def _hand_in_kept(self) -> bool:
        """Hand in what the lanes keep; tell whether nothing is left."""
        for lane in self.lanes:
            if lane.kept:
                self._hand_in(lane, [])
        return not any(lane.kept for lane in self.lanes)

    def _hand_in(self, lane: Lane, ended: list[Lease]) -> None:
        try:
            lane.exchange(ended, 0, stale=True)
        except Exception:  # noqa: BLE001 - the lane keeps them
            logger.debug("handing in failed", exc_info=True, extra=self._extra)

    def _abort(self) -> None:
        """Release every lease that is still held, within ``ABORT_SECONDS``."""
        self.aborted = True
        self._stop_leasing()
        helper = threading.Thread(target=self._release_held, name="vtrr-abort", daemon=True)
        helper.start()
        helper.join(ABORT_SECONDS)

    def _release_held(self) -> None:
        for lane in self.lanes:
            extra = {**self._extra, "queue": lane.name}
            try:
                released = lane.release_held()
            except BaseException:  # noqa: BLE001 - the other lanes still have their turn
                logger.exception("could not release: the leases run out by themselves", extra=extra)
                continue
            if released:
                logger.warning(
                    "released %d leases of queue %s whose jobs had not ended: they run again now",
                    released,
                    lane.name,
                    extra=extra,
                )
        call_hook(self._plan.hooks.thread_exit, self._plan.worker_id)

    def _end_threads(self) -> None:
        """Let all threads end; those that hang in the store or in a job are left behind."""
        self.rota.stop()
        helpers = (self._keeper, self._upkeep, self._watchdog)
        for helper in helpers:
            helper.end()
        deadline = time.monotonic() + (JOIN_SECONDS if not self.aborted else JOIN_ABORTED_SECONDS)
        exited = [slot for slot in self._slots if slot in self._exited]
        for thread in (*exited, *helpers):
            if thread.ident is not None:  # it was started
                thread.join(max(0.0, deadline - time.monotonic()))
