"""Real processes for tests: started in milliseconds, killed and stopped at will.

They are forked from a process that has Django loaded and no connection open
(multiprocessing's "forkserver"), and find the databases of this run through
``VTRR_TEST_DATABASES``. They share nothing with the test but files, so a SIGKILL at any
moment hurts nobody else.
"""

from __future__ import annotations

import itertools
import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from tests.races import child
from tests.races.child import Plan
from tests.races.journal import Journal
from tests.races.standing import go_on, stand_still
from tests.races.waiting import PATIENCE, until

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.races.child"])


class Crew:
    """The processes of one test, their journal, and the flags that guide them.

    Args:
        folder: an empty one.
        vtrr: ``settings.VTRR`` for the processes.
        queue: the queue they work on.
    """

    def __init__(self, folder: Path, vtrr: dict[str, Any], queue: str) -> None:
        self._folder = folder
        self._vtrr = vtrr
        self._queue = queue
        self._numbers = itertools.count(1)
        self._processes: list[ForkServerProcess] = []
        self.journal = Journal(folder / "journal")

    def start(self, role: str, **options: Any) -> ForkServerProcess:
        """Start a process that plays a role of ``tests.races.roles``, or ``module:function``."""
        plan = Plan(
            role=role,
            options=options,
            folder=self._folder,
            vtrr=self._vtrr,
            queue=self._queue,
            number=next(self._numbers),
        )
        process = _context.Process(target=child.perform, args=(plan,), daemon=True)
        process.start()
        self._processes.append(process)
        return process

    # -- guiding them --------------------------------------------------------------

    def flag(self, name: str) -> None:
        """Raise a flag that the processes look at."""
        (self._folder / f"flag-{name}").touch()

    @staticmethod
    def kill(process: ForkServerProcess) -> None:
        """SIGKILL it, and wait until it is gone."""
        process.kill()
        process.join(PATIENCE)
        assert process.exitcode == -signal.SIGKILL

    @staticmethod
    def stop(process: ForkServerProcess) -> None:
        """SIGSTOP it, and wait until it stands still."""
        assert process.pid is not None
        stand_still(process.pid)

    @staticmethod
    def resume(process: ForkServerProcess) -> None:
        """SIGCONT it."""
        assert process.pid is not None
        go_on(process.pid)

    # -- listening -----------------------------------------------------------------

    def heard(self, what: str, count: int = 1) -> list[tuple[Any, ...]]:
        """Wait until something was said ``count`` times; return the words."""

        def look() -> list[tuple[Any, ...]]:
            self.check()
            said = self.journal.said(what)
            return said if len(said) >= count else []

        return until(look, f"{what!r} to be said {count} times")

    def check(self) -> None:
        """Fail if something went wrong in a process."""
        for what in ("error", "logged"):
            for number, text in self.journal.said(what):
                raise AssertionError(f"process {number}: {text}")

    def join(self, *processes: ForkServerProcess, seconds: float = PATIENCE) -> None:
        """Wait until processes (all, if none is named) have ended well."""
        for process in processes or self._processes:
            until(lambda process=process: self._ended(process), "a process to end", seconds)
        self.check()

    def _ended(self, process: ForkServerProcess) -> bool:
        self.check()
        return process.exitcode is not None

    def close(self) -> None:
        """Kill what still runs."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
            process.close()
        self.journal.close()


StartsCrew = Callable[[], Crew]
