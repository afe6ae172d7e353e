"""The process around a worker: its name, its signals, and its replacement."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from vtrr_django.domain.job import MAX_WORKER_ID_LENGTH
from vtrr_django.exceptions import VTRRError

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class WorkerError(VTRRError):
    """The worker was used in a way that cannot work, or failed in itself."""


def default_worker_id() -> str:
    """Return ``host:pid:random``, new for every call."""
    tail = f":{os.getpid()}:{secrets.token_hex(4)}"
    host = "".join(char if char.isprintable() else "?" for char in socket.gethostname())
    return host[: MAX_WORKER_ID_LENGTH - len(tail)] + tail


_own = (0, "")


def own_worker_id() -> str:
    """Return who this process is where it leases by hand: the same name for every call.

    A forked process has a name of its own.
    """
    global _own  # noqa: PLW0603 - there is one process
    pid, name = _own
    if pid != os.getpid():
        _own = pid, name = os.getpid(), default_worker_id()
    return name


def replace_process() -> NoReturn:
    """Start this process anew, with the same command line, pid and environment.

    For ``Worker(replace=...)``. Threads that cannot be ended end with the old image;
    files and sockets that Python opened are closed (they are not inheritable).

    Raises:
        WorkerError: Python does not know how it was started.
        OSError: the system refused.
    """
    if not sys.executable or not sys.orig_argv:
        raise WorkerError(
            "expected Python to know its own command line, got none (is it embedded?): "
            "pass another callable as replace="
        )
    flush_output()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - our own argv


def exit_hard(status: int) -> None:
    """End the process at once, whatever its threads do."""
    try:
        flush_output()
    finally:
        os._exit(status)


def flush_output() -> None:
    """Flush what a process that ends without Python's shutdown would lose."""
    for handler in logging.getLogger().handlers:
        handler.flush()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def handle_signals(on_signal: Callable[[int], None]) -> Callable[[], None]:
    """Have SIGTERM and SIGINT call ``on_signal``; return what restores the old handlers.

    Raises:
        WorkerError: in another thread than the main one.
    """
    if threading.current_thread() is not threading.main_thread():
        raise WorkerError(
            "expected install_signal_handlers() in the main thread, got "
            f"{threading.current_thread().name!r}: Python delivers signals there only; "
            "a worker in another thread is ended with stop()"
        )

    def handler(number: int, frame: FrameType | None) -> None:
        on_signal(number)

    before = {number: signal.signal(number, handler) for number in SIGNALS}

    def restore() -> None:
        for number, previous in before.items():
            signal.signal(number, previous)

    return restore
