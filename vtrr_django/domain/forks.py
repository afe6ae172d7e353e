"""Processes that are forked off: what is of their parent only."""

from __future__ import annotations

import os
from collections.abc import Callable


def at_fork(**calls: Callable[[], object]) -> None:
    """Have functions called at every fork, as :func:`os.register_at_fork` does.

    Where there is no such thing, as on Windows, nothing is forked either.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**calls)
