"""Tasks for tests that start real workers; they tell what they do by files."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from vtrr_django import Discard, get_queue

LONGEST = 60.0

default = get_queue("default")
# tests.settings declare no queue of this name.
undeclared = get_queue("defautl")


@default.task
def write(self: Any, path: str, text: str = "done") -> None:
    """Create a file."""
    Path(path).write_text(text)


@default.task
def wait(self: Any, began: str, go: str) -> None:
    """Create one file, then wait until there is another one."""
    Path(began).write_text(f"{os.getpid()}")
    deadline = time.monotonic() + LONGEST
    while not Path(go).exists() and time.monotonic() < deadline:
        threading.Event().wait(0.01)


@default.task(time_limit=0.2)
def get_stuck(self: Any, began: str) -> None:
    """Never end the first time, whatever is raised in it."""
    if Path(began).exists():
        return
    Path(began).write_text(f"{os.getpid()}")
    while True:
        try:
            threading.Event().wait(LONGEST)
        except BaseException:  # noqa: BLE001, S112 - it is stuck
            continue


@default.task
def give_up(self: Any) -> None:
    """Become a dead letter at once."""
    raise Discard("as told")


@undeclared.task
def misspelt(self: Any) -> None:
    """Belong to a queue that is not there."""


def tenants() -> list[str]:
    """What a periodic task asks for."""
    return ["ann", "bob"]
