"""Having processes stand still, as they do whose machine sleeps."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

from django.db import connections

from tests.races.waiting import until


def stand_still(*pids: int) -> None:
    """SIGSTOP processes, and wait until they stand still."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    until(lambda: all(_state(pid) == "T" for pid in pids), "processes to stand still")


def go_on(*pids: int) -> None:
    """SIGCONT processes."""
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def stand_still_at_rest(*pids: int, file: str | Path | None = None) -> None:
    """Have processes stand still while none of them is writing to a SQLite file.

    One that is would keep all others from it.

    Args:
        file: None: the default database.
    """
    database = file or connections["default"].settings_dict["NAME"]

    def at_rest() -> bool:
        stand_still(*pids)
        with closing(sqlite3.connect(database, timeout=0, isolation_level=None)) as probe:
            try:
                probe.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                go_on(*pids)
                return False
        return True

    until(at_rest, "processes to be at rest")


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
