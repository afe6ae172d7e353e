"""The heartbeat file: written again and again while a worker makes progress.

For liveness probes that can look at files: a file whose time is old means that the process
is to be restarted.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from vtrr_django.exceptions import ConfigurationError
from vtrr_django.worker.logs import Outage, logger

WRITE_INTERVAL = 5.0

HUNG_SECONDS = 300.0
"""How long a thread may be in one call to the store.

A store that is lost is noticed sooner and called again, which is progress: clients give up
after their timeouts, and the system after two minutes, where they have none.
"""


class Watched(Protocol):
    """A thread that says since when it has been in a call that may hang.

    Attributes:
        name: of the thread.
        calling_since: ``time.monotonic()``; ``math.inf``: it is in none.
    """

    @property
    def name(self) -> str: ...
    @property
    def calling_since(self) -> float: ...
    def is_alive(self) -> bool: ...


class HeartbeatFile:
    """One file: ``UNIX-TIME WORKER-ID``, replaced as a whole each time.

    Args:
        path: where; nothing but a regular file may be there. A link is followed.
        worker_id: of the worker.
    """

    def __init__(self, path: str | os.PathLike[str], worker_id: str) -> None:
        self.path = Path(os.path.realpath(path))
        self._worker_id = worker_id
        self._due = 0.0
        extra = {"worker_id": worker_id}
        self._outage = Outage(f"writing the heartbeat file {self.path}", extra)
        self._hanging = ""

    def begin(self) -> None:
        """Write it for the first time.

        Raises:
            ConfigurationError: it cannot be written.
        """
        try:
            if self.path.exists() and not self.path.is_file():
                raise ConfigurationError(
                    f"heartbeat_file: expected the path of a file, got {str(self.path)!r}, which "
                    "is something else; choose another path"
                )
            self._write()
        except OSError as error:
            raise ConfigurationError(
                f"heartbeat_file: expected a path that can be written, got {str(self.path)!r}: "
                f"{error.strerror or error}; create its folder, or let this user write there"
            ) from error

    @property
    def due_in(self) -> float:
        """Seconds until it is to be written again."""
        return max(0.0, self._due - time.monotonic())

    def beat(self, threads: Iterable[Watched]) -> None:
        """Write it, if all of ``threads`` make progress."""
        now = time.monotonic()
        self._due = now + WRITE_INTERVAL
        problem = problem_of(threads, now)
        if problem != self._hanging:
            self._hanging = problem
            self._say(problem)
        if not problem:
            try:
                self._write()
            except OSError as error:
                self._outage.failed(error)
            else:
                self._outage.recovered()

    def _say(self, problem: str) -> None:
        extra = {"worker_id": self._worker_id}
        if problem:
            logger.error("%s: the heartbeat file is not written", problem, extra=extra)
        else:
            logger.info("all threads make progress again", extra=extra)

    def _write(self) -> None:
        fresh = f"{self.path}.new"
        # Not through a link that somebody has put there.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open(os.open(fresh, flags, 0o644), "w", encoding="utf-8") as file:
            file.write(f"{time.time():.0f} {self._worker_id}\n")
        os.replace(fresh, self.path)
        self._due = time.monotonic() + WRITE_INTERVAL

    def end(self) -> None:
        """Remove it."""
        with contextlib.suppress(OSError):
            self.path.unlink()


def problem_of(threads: Iterable[Watched], now: float) -> str:
    """Return which thread is dead or hangs, for people; empty: none does."""
    for thread in threads:
        if not thread.is_alive():
            return f"thread {thread.name} is dead"
        if now - thread.calling_since > HUNG_SECONDS:
            return f"thread {thread.name} is in one call for more than {HUNG_SECONDS:.0f} s"
    return ""
