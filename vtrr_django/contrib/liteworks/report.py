"""What looking at a file found, or taking it over did."""

from __future__ import annotations

import enum
from collections import Counter
from typing import Final, NamedTuple

from vtrr_django.contrib.liteworks.source import COMPLETED, FAILED, JOBS

MOST_PROBLEMS: Final = 20
"""Rows that are named one by one."""

NOT_UNDERSTOOD: Final = "(not understood)"
LIVES_AGAIN: Final = "(lives again)"
"""What stands for the task of rows whose task is not asked for."""


class Fate(enum.Enum):
    """What becomes of a row."""

    NEW = "new"
    """It is taken over."""
    HERE = "here"
    """It was, before, or is here for another reason."""
    REPEAT = "repeat"
    """Another job that is here has its msg_id."""
    LIVE_AGAIN = "live again"
    """A dead letter whose job waits, or has ended, since."""
    REFUSED = "refused"
    """It cannot be taken over."""


class Line(NamedTuple):
    """Rows of one table and task: how many there are, and what becomes of them."""

    table: str
    task_name: str
    rows: int
    new: int
    here: int
    left_out: int


_LEFT_OUT: Final = {
    Fate.REPEAT: "have the msg_id of a job that is here: they repeat it, and are left out.",
    Fate.LIVE_AGAIN: "in failed_jobs are of jobs that wait, or completed, since: left out.",
}
_NOUNS: Final = {JOBS: "waiting job", FAILED: "dead letter", COMPLETED: "completed job"}


class Report:
    """Counts rows by table, task and fate, and keeps what is wrong with some of them."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, Fate]] = Counter()
        self.problems: list[str] = []

    def count(self, table: str, task_name: str, fate: Fate) -> None:
        """Count one row."""
        self._counts[table, task_name, fate] += 1

    def refuse(self, table: str, problem: str, task_name: str = NOT_UNDERSTOOD) -> None:
        """Count one row that cannot be taken over."""
        self.count(table, task_name, Fate.REFUSED)
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)

    def total(self, fate: Fate, table: str | None = None) -> int:
        """Return how many rows, of one table or (None) of all, have a fate."""
        return sum(
            count
            for (where, _, what), count in self._counts.items()
            if what is fate and table in (where, None)
        )

    def lines(self) -> list[Line]:
        """Return a line for each table and task."""
        kinds = dict.fromkeys((table, task_name) for table, task_name, _ in self._counts)
        return [self._line(table, task_name) for table, task_name in kinds]

    def _line(self, table: str, task_name: str) -> Line:
        of = {fate: self._counts[table, task_name, fate] for fate in Fate}
        new, here, rows = of[Fate.NEW], of[Fate.HERE], sum(of.values())
        return Line(table, task_name, rows, new, here, rows - new - here)

    def left_out(self) -> list[str]:
        """Return why rows are left out that could have been taken over."""
        return [
            f"{count:,} {'row' if count == 1 else 'rows'} {why}"
            for fate, why in _LEFT_OUT.items()
            if (count := self.total(fate))
        ]

    def task_names(self) -> list[str]:
        """Return the names of all tasks."""
        names = dict.fromkeys(task_name for _, task_name, _ in self._counts)
        return [name for name in names if name not in {NOT_UNDERSTOOD, LIVES_AGAIN}]

    def summary(self) -> str:
        """Return ``1 waiting job, 4 dead letters, ...``: what is, or will be, taken over."""
        counts = {noun: self.total(Fate.NEW, table) for table, noun in _NOUNS.items()}
        return ", ".join(f"{n:,} {noun}{'' if n == 1 else 's'}" for noun, n in counts.items())
