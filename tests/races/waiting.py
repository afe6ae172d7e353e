"""Waiting for something to become true: with a deadline, never for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 120.0
"""Seconds after which a wait is a failure; no test depends on how long a wait took."""


def until(look: Callable[[], T], what: str | Callable[[], str], seconds: float = PATIENCE) -> T:
    """Return the first true answer of ``look``; ``what`` is waited for, or says so at the end.

    Raises:
        AssertionError: there was none in ``seconds``.
    """
    deadline, pause = time.monotonic() + seconds, 0.005
    while True:
        if found := look():
            return found
        if time.monotonic() >= deadline:
            told = what if isinstance(what, str) else what()
            raise AssertionError(f"waited {seconds:.0f} s in vain for {told}")
        time.sleep(pause)
        pause = min(0.1, 1.2 * pause)  # asking all the time would slow down what is waited for
