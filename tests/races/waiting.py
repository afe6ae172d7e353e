"""Waiting for something to become true: with a deadline, never for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds after which a wait is a failure; no test depends on how long a wait took."""


def until(look: Callable[[], T], what: str, seconds: float = PATIENCE) -> T:
    """Return the first true answer of ``look``.

    Raises:
        AssertionError: there was none in ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while True:
        if found := look():
            return found
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain for {what}"
        time.sleep(0.005)
