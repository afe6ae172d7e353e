"""What the rows of django-celery-beat say of how often beat is to come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.apps import apps
from django.db import router
from django.db.models import Q

from vtrr_django.domain.chores import RECLAIMS, UPKEEP
from vtrr_django.engines.sql.store import Store

BEAT: Final[str] = "django_celery_beat"

_A_DAY: Final = 86_400.0
"""Seconds between two times of what goes by the calendar, as far as anybody knows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entries:
    """The rows for tasks of ours.

    Attributes:
        intervals: seconds between two times by task; 0: its rows are disabled.
        problem: why they could not be read, for people; empty where they could.
    """

    intervals: dict[str, float] = field(default_factory=dict)
    problem: str = ""

    @classmethod
    def of(cls, rows: Sequence[Any], problem: str = "") -> Entries:
        """Return what rows of ``PeriodicTask`` say, or why there are none."""
        intervals: dict[str, float] = {}
        for row in rows:
            every = 0.0
            if row.enabled:
                every = _A_DAY if row.interval is None else _seconds(row.interval)
            known = intervals.get(row.task, 0.0)
            intervals[row.task] = min(known, every) if known and every else known or every
        return cls(intervals=intervals, problem=problem)

    def interval_of(self, task: str) -> float | None:
        """Return how often a task is to run, in seconds; 0: never; None: no row says so."""
        return self.intervals.get(task)


def database() -> str | None:
    """Return the alias of the database with the rows; None: there are none in this project."""
    if not apps.is_installed(BEAT):
        return None
    return str(router.db_for_read(apps.get_model(BEAT, "PeriodicTask")))


def read(alias: str) -> list[Any]:
    """Return the rows for tasks of ours.

    Raises:
        StoreUnavailable: the database cannot be reached, or was not migrated.
    """
    rows = apps.get_model(BEAT, "PeriodicTask")._default_manager.using(alias)
    ours = Q(task=UPKEEP) | Q(task__startswith=RECLAIMS)
    return Store(alias).persist(lambda: list(rows.filter(ours).select_related("interval")))


def _seconds(interval: Any) -> float:
    return float(interval.schedule.run_every.total_seconds())
