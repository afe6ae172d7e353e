"""Ports for servers that have to know theirs before they listen, or keep it when they restart.

A port that was free a moment ago need not be free now: the system gives ports of its range to any
connection that goes out, of a test in the next process too, and a client that tries to reach a
server that is away can even be given that server's own port and be connected to itself. So these
ports are from below that range, and who has one holds a lock on it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

COUNT = 10_000

# RFC 6335, section 6, for systems that do not tell: they begin where Linux does, or above it.
_SYSTEM_BEGINS_AT = 32_768

_held: dict[int, int] = {}


def claim_port() -> int:
    """Return a port of 127.0.0.1 that is this process's until it ends, or gives it back."""
    folder = Path(tempfile.gettempdir()) / f"vtrr-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    last = _system_begins_at()
    # At random: somebody who still looks for a server that has ended should not find the next one.
    for port in random.SystemRandom().sample(range(last - COUNT, last), COUNT):
        lock = os.open(folder / str(port), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.create_server(("127.0.0.1", port)):
                pass
        except OSError:
            os.close(lock)
            continue
        _held[port] = lock
        return port
    raise AssertionError(f"expected a free port from {last - COUNT} to {last - 1}, got none")


def give_back(port: int) -> None:
    """Let others have it."""
    os.close(_held.pop(port))


def _system_begins_at() -> int:
    with contextlib.suppress(OSError):
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    return _SYSTEM_BEGINS_AT
