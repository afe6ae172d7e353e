"""The rows that settings ask for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from vtrr_django.contrib.celery import reclaim
from vtrr_django.contrib.celery.broker import RECLAIM_PRIORITY
from vtrr_django.domain.chores import UPKEEP
from vtrr_django.queue import Queue
from vtrr_django.registry import all_queues

UPKEEP_INTERVAL: Final = 60.0

_MOST_MICROSECONDS = 2_147_483_647
"""What the column of an interval can hold: over half an hour, fractions are not kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """A row.

    Attributes:
        task: the Celery task, which names the row too.
        purpose: a sentence for the people who find the row.
        interval: seconds.
        queue: the Celery queue; None: wherever the app sends the task.
        priority: of the message; None: the app's.
    """

    task: str
    purpose: str
    interval: float
    queue: str | None = None
    priority: int | None = None

    @property
    def every(self) -> tuple[int, str]:
        """The interval as a row of intervals has it: a number and a period."""
        microseconds = round(self.interval * 1_000_000)
        if microseconds % 1_000_000 == 0 or microseconds > _MOST_MICROSECONDS:
            return round(self.interval), "seconds"
        return microseconds, "microseconds"

    @property
    def values(self) -> dict[str, Any]:
        """What we write into the row, by field."""
        number, period = self.every
        return {
            "schedule": f"{number} {period}",
            "queue": self.queue,
            "priority": self.priority,
            # As in the entry of beat_schedule: the next message does what this one would.
            "expire_seconds": max(1, math.ceil(self.interval)),
        }


def wanted_rows() -> list[Wanted]:
    """Return the rows that ``settings.VTRR`` asks for.

    Raises:
        ConfigurationError: it is wrong.
    """
    queues = all_queues()
    rows = [_reclaim_of(queue) for queue in queues if queue.config.celery_queue is not None]
    others = [queue.name for queue in queues if queue.config.celery_queue is None]
    if others:
        rows.append(
            Wanted(
                task=UPKEEP,
                purpose=(
                    "Reclaims leases, writes history and figures and trims them, for the queues "
                    "that vtrr_worker runs, also while no worker is up."
                ),
                interval=UPKEEP_INTERVAL,
            )
        )
    return rows


def _reclaim_of(queue: Queue) -> Wanted:
    config = queue.config
    return Wanted(
        task=reclaim.task_name(queue),
        purpose=(
            f"Brings back jobs of queue {queue.name} whose lease ran out, sends its triggers, "
            "writes its history and figures and trims them."
        ),
        interval=config.reclaim_interval,
        queue=config.reclaim_queue or config.celery_queue,
        priority=RECLAIM_PRIORITY,
    )
