"""Letting time pass for what has ended."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import F

from vtrr_django.engines.sql.history import SPARED
from vtrr_django.engines.sql.models import CompletedJob, FailedJob


def age_history(queue: str, database: str = "default", seconds: float = SPARED + 1) -> None:
    """Have all that is in the history of a queue ended so much earlier."""
    earlier = timedelta(seconds=seconds)
    for rows, column in (
        (CompletedJob.objects.using(database).filter(queue=queue), "completed_at"),
        (FailedJob.objects.using(database).filter(queue=queue), "failed_at"),
    ):
        rows.update(**{column: F(column) - earlier})
