"""Looking after queues in a process that only serves requests.

Workers look after their queue, but those that come over HTTP cannot, and there may be no
others. So requests do it once they are answered, or while they wait for jobs anyway, each chore at
most as often as a worker would. None waits for a database that others have locked.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from django.http.response import HttpResponseBase

from vtrr_django.engines.sql.patience import BRIEF, patience
from vtrr_django.queue import Queue
from vtrr_django.worker.logs import Outage
from vtrr_django.worker.upkeep import (
    ARCHIVE_INTERVAL,
    FIRST_MEASURE,
    FIRST_PRUNE,
    MEASURE_INTERVAL,
    PRUNE_INTERVAL,
)

LAST_PATIENCE: Final = 3.0
"""Seconds that a server which stops waits for a locked database, to write down its figures."""


class Chore:
    """Something to do for a queue, again and again.

    Args:
        what: for the log.
        queue: for which.
        do: does it.
        interval: returns the seconds between two times.
        first: seconds until the first time.
    """

    def __init__(
        self,
        what: str,
        queue: Queue,
        do: Callable[[], object],
        interval: Callable[[], float],
        *,
        first: float = 0.0,
    ) -> None:
        self._do = do
        self._interval = interval
        self._due = time.monotonic() + first
        self._outage = Outage(
            f"{what} of queue {queue.name}", {"queue": queue.name}, logging.WARNING
        )

    def run_if_due(self) -> float:
        """Do it if it is time to. Returns the seconds to wait because it failed, or 0."""
        if time.monotonic() < self._due:
            return 0.0
        return self.run()

    def run(self) -> float:
        """Do it; see :meth:`run_if_due`."""
        began = time.monotonic()
        try:
            self._do()
            self._due = began + self._interval()
        except Exception as error:  # noqa: BLE001 - said once; the request is about something else
            return self._outage.failed(error)
        self._outage.recovered()
        return 0.0


class Upkeep:
    """The chores of one queue in this process."""

    def __init__(self, queue: Queue) -> None:
        self._lock = threading.Lock()
        self._rests_until = 0.0
        # Of all workers that leased, or were seen, since the last time: they have no other.
        self._measure = Chore(
            "writing down figures",
            queue,
            queue.measure,
            lambda: MEASURE_INTERVAL,
            first=FIRST_MEASURE,
        )
        self._chores = [
            Chore("writing the history", queue, queue.archive, lambda: ARCHIVE_INTERVAL),
            Chore(
                "reclaiming leases",
                queue,
                queue.reclaim_and_dispatch,
                lambda: queue.config.reclaim_interval,
            ),
            self._measure,
            Chore(
                "pruning the history",
                queue,
                queue.prune,
                lambda: PRUNE_INTERVAL,
                first=FIRST_PRUNE,
            ),
        ]

    def tend(self) -> None:
        """Do what is due, unless another thread is at it. It raises nothing.

        After a failure all chores rest for a while: of those that wait for a store that hangs
        one is enough.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            if time.monotonic() < self._rests_until:
                return
            with patience(BRIEF):
                self._run_chores()
        finally:
            self._lock.release()

    def _run_chores(self) -> None:
        for chore in self._chores:
            if pause := chore.run_if_due():
                self._rests_until = time.monotonic() + pause
                return

    def close(self) -> None:
        """Write down what was counted and is not told yet. It raises nothing."""
        with self._lock, patience(LAST_PATIENCE):
            self._measure.run()


_known: dict[str, Upkeep] = {}
_lock: Final = threading.Lock()


def tend_after(response: HttpResponseBase, queue: Queue) -> None:
    """Look after a queue once the server has sent a response about it, and closes that."""
    close = response.close

    def close_and_tend() -> None:
        try:
            tend(queue)
        finally:
            close()

    response.close = close_and_tend  # type: ignore[method-assign]


def tend(queue: Queue) -> None:
    """Look after a queue as far as that is due."""
    found = _known.get(queue.name)
    if found is None:
        with _lock:
            found = _known.setdefault(queue.name, Upkeep(queue))
    found.tend()


def close() -> None:
    """Write down what this process has counted: a server that stops calls it last."""
    for upkeep in list(_known.values()):
        upkeep.close()
