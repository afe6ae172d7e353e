"""Upkeep: reclaiming leases, writing history and figures, trimming, in threads of its own.

Not in the thread that supervises, so that a hung store keeps no signal waiting; and one for
each store, so that it keeps no other queue waiting.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from vtrr_django.worker.lanes import Lane
from vtrr_django.worker.logs import Outage, call_hook, logger
from vtrr_django.worker.rota import Rota
from vtrr_django.worker.source import WorkerHooks

ARCHIVE_INTERVAL = 1.0
FIRST_PRUNE = 5.0
PRUNE_INTERVAL = 60.0
FIRST_MEASURE = 1.0
MEASURE_INTERVAL = 10.0


class Chore:
    """Something to do for one lane, again and again.

    Args:
        what: for the log, e.g. ``"pruning queue uploads"``.
        do: does it.
        interval: seconds between two times.
        due: ``time.monotonic()`` of the first time.
    """

    def __init__(
        self,
        what: str,
        lane: Lane,
        do: Callable[[], object],
        hooks: WorkerHooks,
        *,
        interval: float,
        due: float,
    ) -> None:
        self._do = do
        self._hooks = hooks
        self._interval = interval
        self.due = due
        self._outage = Outage(
            what, {"queue": lane.name, "worker_id": lane.worker_id}, logging.WARNING
        )

    def run(self) -> None:
        """Do it now, and be due again."""
        self.due = time.monotonic() + self._interval
        try:
            self._hooks.before_store()
            self._do()
        except BaseException as exc:  # noqa: BLE001 - logged once; the thread must live
            self._outage.failed(exc)
        else:
            self._outage.recovered()


class Upkeep(threading.Thread):
    """The thread that does the chores of the lanes of one store.

    Args:
        lanes: those of the store.
        rota: told of jobs that came back.
        hooks: of the worker.
        worker_id: of the worker.
        prune_last: whether to prune once more at the end, for bursts that end before the
            first time. History and figures are written at the end in any case.
        name: of the thread.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        rota: Rota,
        hooks: WorkerHooks,
        worker_id: str,
        *,
        prune_last: bool,
        name: str = "vtrr-upkeep",
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._rota = rota
        self._hooks = hooks
        self._worker_id = worker_id
        self._prune_last = prune_last
        self._ended = threading.Event()
        self.calling_since = math.inf
        """``time.monotonic()`` when the chore at hand began; infinite: it rests."""
        now = time.monotonic()

        def chore(
            what: str, lane: Lane, do: Callable[[], object], interval: float, first: float
        ) -> Chore:
            what = f"{what} of queue {lane.name}"
            return Chore(what, lane, do, hooks, interval=interval, due=now + first)

        self._reclaims = [
            chore("reclaiming leases", one, self._reclaim_of(one), one.config.reclaim_interval, 0.0)
            for one in lanes
        ]
        self._archives = [
            chore(
                "writing the history", one, one.source.archive, ARCHIVE_INTERVAL, ARCHIVE_INTERVAL
            )
            for one in lanes
        ]
        self._prunes = [
            chore("pruning the history", one, one.source.prune, PRUNE_INTERVAL, FIRST_PRUNE)
            for one in lanes
        ]
        self._measures = [
            chore(
                "writing down figures",
                one,
                partial(one.source.measure, worker_id),
                MEASURE_INTERVAL,
                FIRST_MEASURE,
            )
            for one in lanes
        ]

    def end(self) -> None:
        """Let the thread end."""
        self._ended.set()

    def run(self) -> None:
        """Do chores until :meth:`end`."""
        chores = self._reclaims + self._archives + self._prunes + self._measures
        try:
            while not self._ended.is_set():
                for chore in chores:
                    if chore.due <= time.monotonic() and not self._ended.is_set():
                        self._do(chore)
                due = min(chore.due for chore in chores)
                self._ended.wait(max(0.0, due - time.monotonic()))
            last = self._archives + (self._prunes if self._prune_last else [])
            for chore in last + self._measures:
                self._do(chore)
        finally:
            call_hook(self._hooks.thread_exit, self._worker_id)

    def _do(self, chore: Chore) -> None:
        self.calling_since = time.monotonic()
        chore.run()
        self.calling_since = math.inf

    def _reclaim_of(self, lane: Lane) -> Callable[[], object]:
        def reclaim() -> None:
            count = lane.source.reclaim()
            if count:
                logger.info(
                    "%d leases of queue %s had run out and were reclaimed",
                    count,
                    lane.name,
                    extra={"queue": lane.name, "worker_id": self._worker_id},
                )
                self._rota.stir(lane)

        return reclaim
