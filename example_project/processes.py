"""Processes that belong to this one: started, watched, and always ended with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Self

from example_project.environment import ROOT

STOP_SECONDS = 8.0


class ProcessEnded(Exception):
    """A process that should run has ended."""


class DeadlinePassed(Exception):
    """Something took longer than it may."""


@dataclass
class Processes:
    """A context manager; leaving it, for whatever reason, ends every process started.

    Each runs in a process group of its own: Ctrl-C reaches this process alone, which then
    stops them, and what they have started themselves and left. With ``log_dir`` their output
    goes to one file each, otherwise to the terminal.

    Attributes:
        running: by name, in the order of their start.
        servers: the names of those that the others need, and which are stopped after them.
    """

    environment: Mapping[str, str]
    log_dir: Path | None = None
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    servers: set[str] = field(default_factory=set)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        # An impatient second Ctrl-C must not leave a process behind; stop() is bounded.
        with _handling(signal.SIG_IGN, signal.SIGINT, *_ENDING_SIGNALS):
            self.stop()

    def start(self, name: str, *arguments: str) -> None:
        """Start ``python -m ARGUMENTS`` in the project's root."""
        self.run(name, sys.executable, "-m", *arguments)

    def start_server(self, name: str, *command: str, pass_fds: Sequence[int] = ()) -> int:
        """Start a program that the others need; return its process id."""
        self.servers.add(name)
        return self.run(name, *command, pass_fds=pass_fds)

    def run(self, name: str, *command: str, pass_fds: Sequence[int] = ()) -> int:
        """Start any command in the project's root; return its process id."""
        with contextlib.ExitStack() as stack:
            output = None
            if self.log_dir is not None:
                log = self.log_dir / f"{name.replace(' ', '-')}.log"
                output = stack.enter_context(log.open("ab"))
            process = subprocess.Popen(  # noqa: S603 - the command is our own
                command,
                cwd=ROOT,
                env={**os.environ, **self.environment, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if output else None,
                process_group=0,
                pass_fds=pass_fds,
            )
        self.running[name] = process
        return process.pid

    def check(self) -> None:
        """Raise :class:`ProcessEnded` unless all of them run."""
        for name, process in self.running.items():
            if _has_ended(process):
                raise ProcessEnded(f"the {name} ended with exit status {process.returncode}")

    def wait_for(self, path: Path) -> str:
        """Return what one of them writes to ``path``, as soon as it is there."""
        while not path.exists():
            self.check()
            time.sleep(0.02)
        return path.read_text("utf-8")

    def stop(self) -> None:
        """Ask each to end, servers when the others have; kill those that do not."""
        for servers in (False, True):
            _end([p for name, p in self.running.items() if (name in self.servers) is servers])
        self.running.clear()

    def tails(self, lines: int = 25) -> str:
        """Return the last lines of every log, for a person to read."""
        parts = []
        for path in sorted(self.log_dir.glob("*.log")) if self.log_dir else []:
            last = path.read_text("utf-8", "replace").splitlines()[-lines:]
            parts.append("\n".join([f"--- {path.name}", *(last or ["(empty)"])]))
        return "\n".join(parts)


def _end(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    left = [process for process in processes if not _has_ended(process)]
    for process in left:
        os.kill(process.pid, signal.SIGTERM)
    give_up = time.monotonic() + STOP_SECONDS
    while left := [process for process in left if not _has_ended(process)]:
        if time.monotonic() >= give_up:
            for process in left:
                _kill_group(process)
                process.wait()
            return
        time.sleep(0.02)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether it has ended; if so, nothing that it has started goes on either."""
    if process.returncode is None and process.poll() is not None:
        _kill_group(process)  # at once: later another process might have the number
    return process.returncode is not None


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def signals_end_this_process() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into ``KeyboardInterrupt``, so that everything is cleaned up.

    One that is ignored already, as SIGHUP is under ``nohup``, stays so.
    """
    wanted = [one for one in _ENDING_SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]
    with _handling(_interrupt, *wanted):
        yield


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`DeadlinePassed` inside the block after ``seconds``, whatever it does then."""

    def ring(signum: int, frame: FrameType | None) -> None:
        raise DeadlinePassed(f"not finished within {seconds:g} seconds")

    with _handling(ring, signal.SIGALRM):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def _handling(
    handler: Callable[[int, FrameType | None], None] | signal.Handlers, *signals: signal.Signals
) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
