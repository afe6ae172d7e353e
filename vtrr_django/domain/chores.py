"""What the Celery tasks are called that look after queues: beat's rows name them, health looks."""

from __future__ import annotations

from typing import Final

UPKEEP: Final = "vtrr_queue.upkeep"
"""The task for all queues that Celery does not run."""

RECLAIMS: Final = "vtrr_queue.reclaim."
"""What the names of the others begin with."""


def reclaim_task(queue: str) -> str:
    """Return the task that looks after one queue that Celery runs."""
    return RECLAIMS + queue
