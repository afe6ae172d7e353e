"""What went wrong with a job before, for the pages about it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from vtrr_django.admin.markup import name, when
from vtrr_django.engines.sql.store import Store
from vtrr_django.figures.reading import Reader


def earlier_attempts(
    queue: str, store: Store, job_id: str, *, may_see: bool, now: datetime | None = None
) -> list[dict[str, Any]]:
    """Return the attempts of a job that went wrong and were not its last, the newest first.

    Args:
        queue: which the job is or was in; settings need not declare it any more.
        store: the database of its history.
        job_id: the job.
        may_see: whether the reader may see error texts.
        now: the database's time; None: how long ago it was is not told.

    Raises:
        StoreUnavailable: the database cannot be reached, or lacks the tables.
    """
    return [
        {
            "at": when(one.at, now),
            "worker": name(one.worker_id),
            "error": name(one.error_class),
            "reason": one.reason if may_see else "",
        }
        for one in Reader(queue, store).attempts(job_id)
    ]
