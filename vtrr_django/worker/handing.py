"""Handing in, at the end of a run, what the stores have not taken yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from vtrr_django.worker.lanes import Lane
from vtrr_django.worker.logs import FIRST_PAUSE, LONGEST_PAUSE, call_hook, logger
from vtrr_django.worker.source import WorkerHooks


class HandIn(threading.Thread):
    """The thread that hands in the outcomes which the lanes of one store keep.

    Not the thread that supervises, so that a hung store keeps no signal waiting, nor the
    outcomes of other stores.

    Attributes:
        done: whether it has ended; set before ``on_done`` is called.

    Args:
        lanes: those of the store.
        hooks: of the worker.
        worker_id: of the worker.
        on_done: called last.
        name: of the thread.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        hooks: WorkerHooks,
        worker_id: str,
        on_done: Callable[[], object],
        name: str,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._lanes = lanes
        self._hooks = hooks
        self._worker_id = worker_id
        self._on_done = on_done
        self._given_up = threading.Event()
        self.done = False

    def give_up(self) -> None:
        """Let the thread end; it may hang in the store all the same."""
        self._given_up.set()

    def run(self) -> None:
        """Try, with pauses, until the store has taken everything or :meth:`give_up`."""
        pause = FIRST_PAUSE
        try:
            while not self._hand_in() and not self._given_up.wait(pause):
                pause = min(LONGEST_PAUSE, pause * 2)
        finally:
            call_hook(self._hooks.thread_exit, self._worker_id)
            self.done = True
            self._on_done()

    def _hand_in(self) -> bool:
        """Hand in what the lanes keep; return whether nothing is left."""
        for lane in self._lanes:
            if not lane.kept:
                continue
            try:
                lane.exchange([], 0, stale=True)
            except BaseException:  # noqa: BLE001 - the lane keeps them
                extra = {"queue": lane.name, "worker_id": self._worker_id}
                logger.debug("handing in failed", exc_info=True, extra=extra)
        return not any(lane.kept for lane in self._lanes)
