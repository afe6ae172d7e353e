"""Finding out which jobs a caller's ids and msg_ids belong to already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vtrr_django.domain.job import NewJob, check_same_job
from vtrr_django.domain.parts import parts
from vtrr_django.engines.sql.store import Cursor, marks

MOST_KEYS = 400
"""Values in one ``IN``."""


class Known:
    """Jobs that exist already, by id and by msg_id; of two with one of these, the first added."""

    def __init__(self) -> None:
        self._by_id: dict[str, tuple[str, str, str]] = {}
        self._by_msg_id: dict[str, str] = {}

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        for job_id, msg_id, partition_key, task_name, payload in rows:
            self._by_id.setdefault(job_id, (partition_key, task_name, payload))
            if msg_id is not None:
                self._by_msg_id.setdefault(msg_id, job_id)

    def __bool__(self) -> bool:
        return bool(self._by_id)

    def match(self, job: NewJob) -> str | None:
        """Return the id of the job that ``job`` is, if it exists.

        Raises:
            DuplicateJobError: its id belongs to a different job.
        """
        found = self._by_id.get(job.id)
        if found is not None:
            check_same_job(job, *found)
            return job.id
        return None if job.msg_id is None else self._by_msg_id.get(job.msg_id)


def find_known(cursor: Cursor, queue: str, jobs: Sequence[NewJob], tables: Sequence[str]) -> Known:
    """Look in ``tables`` for jobs with the given ids and the msg_ids of ``jobs``.

    Where several have one, as jobs that were taken over may, that of the first table counts.
    """
    known = Known()
    ids = sorted({job.id for job in jobs if job.given_id})
    msg_ids = sorted({job.msg_id for job in jobs if job.msg_id is not None})
    for table in tables:
        for column, values in (("id", ids), ("msg_id", msg_ids)):
            for chunk in parts(values, MOST_KEYS):
                known.add(
                    cursor.rows(
                        "SELECT id, msg_id, partition_key, task_name, payload "
                        f"FROM {table} WHERE queue = %s AND {column} IN {marks(chunk)}",
                        [queue, *chunk],
                    )
                )
    return known
