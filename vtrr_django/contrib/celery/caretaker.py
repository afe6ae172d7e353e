"""The threads of a station: one for the leases it holds, one for everything else.

Leases are renewed by a thread that talks to nobody but their store: a broker that hangs, or the
database of a history, must not make them run out.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from vtrr_django.worker.heartbeat import Beat
from vtrr_django.worker.logs import call_hook, logger
from vtrr_django.worker.upkeep import (
    ARCHIVE_INTERVAL,
    FIRST_PRUNE,
    MEASURE_INTERVAL,
    PRUNE_INTERVAL,
    Chore,
)

if TYPE_CHECKING:
    from vtrr_django.contrib.celery.station import Station

AGAIN_SECONDS: Final = 1.0
"""Between two tries to hand in what the store, or to send what the broker, did not take."""

LONGEST_PAUSE: Final = 3600.0


class _Minder(threading.Thread, ABC):
    """Looks after a station until :meth:`end`, mostly that of the process."""

    def __init__(self, what: str, station: Station) -> None:
        super().__init__(name=f"vtrr-{what}-{station.queue.name}", daemon=True)
        self._station = station
        self._kicked = threading.Event()
        self._ended = threading.Event()
        self._again_at = 0.0

    def end(self) -> None:
        """Let the thread end."""
        self._ended.set()
        self._kicked.set()

    def kick(self) -> None:
        """Have the thread look at what is left to do."""
        self._kicked.set()

    def run(self) -> None:
        """Do what is due, again and again."""
        try:
            while not self._ended.is_set():
                try:
                    due = self._round()
                except BaseException:  # noqa: BLE001 - without these threads every lease runs out
                    logger.exception("%s failed", self.name)
                    due = time.monotonic() + AGAIN_SECONDS
                # It rests now: a connection of a pool is for those who work.
                call_hook(self._station.hooks.before_job, self._station.worker_id)
                self._kicked.wait(min(LONGEST_PAUSE, max(0.01, due - time.monotonic())))
                self._kicked.clear()
        finally:
            call_hook(self._station.hooks.thread_exit, self._station.worker_id)

    @abstractmethod
    def _round(self) -> float:
        """Do what is due; return the ``time.monotonic()`` of the next time."""

    def _is_time_again(self) -> bool:
        """Return whether to try once more what did not work."""
        if self._again_at > time.monotonic():
            return False
        self._again_at = time.monotonic() + AGAIN_SECONDS
        return True


class Caretaker(_Minder):
    """Renews the leases of one station, and hands in the ends that the store did not take.

    Attributes:
        renewing: held while leases are renewed.
    """

    def __init__(self, station: Station) -> None:
        super().__init__("caretaker", station)
        self._beat = Beat(station.lane, station.hooks, time.monotonic())
        self.renewing = threading.Lock()

    def _round(self) -> float:
        lane = self._station.lane
        if self._beat.due <= time.monotonic():
            with self.renewing:
                self._beat.renew(time.monotonic())
        if lane.kept and self._is_time_again():
            self._hand_in()
        return min(self._beat.due, self._again_at) if lane.kept else self._beat.due

    def _hand_in(self) -> None:
        station = self._station
        try:
            station.lane.exchange([], 0, stale=True)
        except Exception as error:  # noqa: BLE001 - the lane keeps them; said once
            station.leasing.failed(error)
        else:
            station.leasing.recovered()


class Upkeep(_Minder):
    """Reclaims, sends triggers, writes history and figures, trims.

    Also because a queue may have no beat. Triggers are sent however busy this process is: others,
    and other threads of it, may have nothing to do, and what fell due or came back has none. As
    for whoever sends them, no more than ``MAX_CONCURRENCY`` wait in the broker.

    Attributes:
        owed: triggers that the broker did not take.
        measure: writes figures down.
    """

    def __init__(self, station: Station) -> None:
        super().__init__("upkeep", station)
        queue, config = station.queue, station.lane.config
        self.owed = 0
        self.measure = self._chore(
            "writing down figures", station.measure, MEASURE_INTERVAL, MEASURE_INTERVAL
        )
        reclaim, often = queue.reclaim_and_dispatch, config.reclaim_interval
        self._chores = [
            self._chore("reclaiming leases", reclaim, often, often),
            self._chore("writing the history", queue.archive, ARCHIVE_INTERVAL, ARCHIVE_INTERVAL),
            self._chore("pruning the history", queue.prune, FIRST_PRUNE, PRUNE_INTERVAL),
            self.measure,
        ]

    def _chore(self, what: str, do: Callable[[], object], first: float, interval: float) -> Chore:
        lane = self._station.lane
        return Chore(
            f"{what} of queue {lane.name}",
            lane,
            do,
            self._station.hooks,
            interval=interval,
            due=time.monotonic() + first,
        )

    def _round(self) -> float:
        if self.owed and self._is_time_again():
            self._send_owed()
        for chore in self._chores:
            if chore.due <= time.monotonic() and not self._ended.is_set():
                chore.run()
        due = min(chore.due for chore in self._chores)
        return min(due, self._again_at) if self.owed else due

    def _send_owed(self) -> None:
        while self.owed and self._station.dispatcher.replace():
            self.owed -= 1
