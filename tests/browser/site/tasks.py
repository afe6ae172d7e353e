"""What the workers of the site run."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from vtrr_django import Discard, get_queue

LONGEST = 60.0


def ship(self: Any, *, folder: str) -> None:
    """Wait until there is a file ``go`` in a folder; fail if there is one ``broken``."""
    deadline = time.monotonic() + LONGEST
    while not Path(folder, "go").exists() and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    if Path(folder, "broken").exists():
        raise Discard("out of stock")


for _name in ("orders", "uploads"):
    get_queue(_name).task(ship)

SHIP = f"{ship.__module__}.{ship.__qualname__}"
"""The name of the task."""
