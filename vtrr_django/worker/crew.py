"""One run of a worker: its threads, and the thread that supervises them."""

from __future__ import annotations

import enum
import queue
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from vtrr_django.worker.handing import HandIn
from vtrr_django.worker.heartbeat import Keeper
from vtrr_django.worker.heartbeat_file import HeartbeatFile, Watched
from vtrr_django.worker.lanes import Lane, Lease, Tally, by_store
from vtrr_django.worker.limits import Watchdog
from vtrr_django.worker.logs import call_hook, job_extra, logger
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
        self._stores = by_store(self.lanes)
        self._keepers = [
            Keeper(lanes, self.rota, plan.hooks, plan.worker_id, self._named("vtrr-keeper", lanes))
            for lanes in self._stores
        ]
        self._upkeeps = [
            Upkeep(
                lanes,
                self.rota,
                plan.hooks,
                plan.worker_id,
                prune_last=plan.burst,
                name=self._named("vtrr-upkeep", lanes),
            )
            for lanes in self._stores
        ]
        watches = {
            lane: keeper.watch
            for lanes, keeper in zip(self._stores, self._keepers, strict=True)
            for lane in lanes
        }
        runner = Runner(plan.worker_id, self._watchdog, plan.hooks)
        self._slots = [
            Slot(
                number,
                rota=self.rota,
                runner=runner,
                hooks=plan.hooks,
                watch=lambda lane: watches[lane](),
                on_exit=self._on_exit,
                worker_id=plan.worker_id,
            )
            for number in range(plan.concurrency)
        ]
        for keeper in self._keepers:
            keeper.slots = self._slots
        self._hand_ins: list[HandIn] | None = None
        self._exited: set[Slot] = set()
        self._failure: BaseException | None = None
        self._stop_asked = False
        self._starting: threading.Thread | None = None
        self._deadline: float | None = None
        self._reported = (0, 0, time.monotonic())
        self.aborted = False
        self.wants_replacing = False

    def _named(self, what: str, lanes: Sequence[Lane]) -> str:
        """Return the name of a store's thread: of the only one, or with the store's first queue."""
        return what if len(self._stores) == 1 else f"{what}-{lanes[0].name}"

    @property
    def _helpers(self) -> list[Keeper | Upkeep | Watchdog]:
        return [*self._keepers, *self._upkeeps, self._watchdog]

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
                    self._start([*self._helpers, *self._slots])
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

    def _start(self, threads: Iterable[threading.Thread]) -> None:
        for thread in threads:
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
        return [*self._helpers, *slots]

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
        for keeper in self._keepers:
            keeper.kick()

    def _is_drained(self) -> bool:
        """Whether every slot has ended, except those whose job cannot be ended."""
        return all(slot in self._exited or slot.is_stuck for slot in self._slots)

    def _running(self) -> int:
        return sum(slot.running is not None for slot in self._slots)

    def _report(self) -> None:
        done_before, put_off_before, at = self._reported
        now = time.monotonic()
        if now - at < PROGRESS_INTERVAL:
            return
        tally, running = self.tally, self._running()
        # Snoozed, or their task is not known here: whatever became of these, they are not done.
        put_off = tally.snoozed
        done = tally.jobs - put_off
        if done > done_before or put_off > put_off_before or running:
            logger.info(
                "worker %s: %d jobs done, %d running, %.1f jobs/s%s",
                self._plan.worker_id,
                done,
                running,
                (done - done_before) / (now - at),
                f"; put off {put_off} times" if put_off else "",
                extra=self._extra,
            )
        self._reported = (done, put_off, now)

    # -- the end -------------------------------------------------------------------

    def _hand_in_rest(self) -> None:
        """Wait until the stores have taken every outcome, or until their leases have run out."""
        if self.aborted:
            return
        for slot in self._slots:  # one that is stuck does not hand in by itself
            if left_behind := slot.take_back():
                left_behind[0].lane.keep(left_behind)
        if self._hand_ins is None:  # Ctrl-C may bring us here again
            self._hand_ins = [
                HandIn(
                    lanes,
                    self._plan.hooks,
                    self._plan.worker_id,
                    partial(self.mailbox.put, Order.EXITED),
                    self._named("vtrr-hand-in", lanes),
                )
                for lanes in self._stores
                if any(lane.kept for lane in lanes)
            ]
        self._start(self._hand_ins)
        deadline = time.monotonic() + max(lane.config.lease_seconds for lane in self.lanes)
        while not self.aborted and not all(one.done for one in self._hand_ins):
            left = deadline - time.monotonic()
            if left <= 0:
                logger.error(
                    "the store did not take %d outcomes before their leases ran out: these jobs "
                    "run again",
                    sum(lease.outcome is not None for lane in self.lanes for lease in lane.held()),
                    extra=self._extra,
                )
                break
            if self._next_order(left) is Order.ABORT:
                self.aborted = True
        for one in self._hand_ins:
            one.give_up()

    def _abort(self) -> None:
        """Release every lease that is still held, within ``ABORT_SECONDS``."""
        self.aborted = True
        self._stop_leasing()
        helpers = [
            threading.Thread(
                target=self._release_held,
                args=(lanes,),
                name=self._named("vtrr-abort", lanes),
                daemon=True,
            )
            for lanes in self._stores
        ]
        for helper in helpers:
            helper.start()
        deadline = time.monotonic() + ABORT_SECONDS
        for helper in helpers:
            helper.join(max(0.0, deadline - time.monotonic()))

    def _release_held(self, lanes: Sequence[Lane]) -> None:
        for lane in lanes:
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
        for helper in self._helpers:
            helper.end()
        deadline = time.monotonic() + (JOIN_SECONDS if not self.aborted else JOIN_ABORTED_SECONDS)
        exited = [slot for slot in self._slots if slot in self._exited]
        for thread in (*exited, *self._helpers):
            if thread.ident is not None:  # it was started
                thread.join(max(0.0, deadline - time.monotonic()))
