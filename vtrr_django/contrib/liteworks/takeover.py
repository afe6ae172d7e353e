"""Storing what a liteworks file has and a queue has not.

**Once.** Each id that is taken over, or found here, is written down (:class:`ImportedJob`) and
never taken over again: the history, which knows the ids of ended jobs too, is trimmed. Where the
database holds the queue, that is written in the transaction that stores the jobs. In Redis the
jobs are stored first: should the process end between the two, the next run finds up to ``BATCH``
of them live or in the history; only one that has run and is gone from the history runs again.

**Nothing is lost.** The file is never written to, and all its rows are understood before the
first one is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, TypeVar

from django.conf import settings
from django.utils import timezone

from vtrr_django.contrib.liteworks.envelope import Envelope
from vtrr_django.contrib.liteworks.names import Names
from vtrr_django.contrib.liteworks.reading import Ended, Reader, Tenant
from vtrr_django.contrib.liteworks.report import LIVES_AGAIN, Fate, Report
from vtrr_django.contrib.liteworks.source import COMPLETED, FAILED, JOBS, LiteworksFile, Row
from vtrr_django.domain.job import NewJob
from vtrr_django.engines.sql.store import Cursor, Store
from vtrr_django.exceptions import DuplicateJobError, ValidationError
from vtrr_django.models import CompletedJob, FailedJob, ImportedJob
from vtrr_django.queue import Queue
from vtrr_django.storing import store

BATCH: Final = 100
"""Rows that are stored in one transaction. Redis takes as many in one script."""

T = TypeVar("T")

Fates = dict[str, Fate | str]
"""What becomes of jobs, by id; of one that cannot be stored, why."""

_MODELS: Final[dict[str, type[CompletedJob | FailedJob]]] = {
    FAILED: FailedJob,
    COMPLETED: CompletedJob,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Choices:
    """What whoever takes a file over may say.

    Attributes:
        task: the task or message that all jobs are of; None: as their payloads say.
        mapping: message types of the file, each with a task or message.
        envelope: how payloads are put.
        tenant: whose the jobs are.
        source: name of the liteworks queue; None: that of the file.
        again: take over also what was before, if it is not here any more.
    """

    task: str | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    envelope: Envelope = field(default_factory=Envelope)
    tenant: Tenant = field(default_factory=Tenant)
    source: str | None = None
    again: bool = False


class TakeOver:
    """One file on its way into one queue.

    Args:
        queue: where to.
        source: the file.
        choices: what was said about it.

    Raises:
        ValidationError: the queue has no such task or message.
    """

    def __init__(self, queue: Queue, source: LiteworksFile, choices: Choices) -> None:
        self._queue = queue
        self._source = source
        self._again = choices.again
        self._store = Store(queue.config.database)
        names = Names(queue.name, queue.runnables, task=choices.task, mapping=choices.mapping)
        self.reader = Reader(
            names,
            choices.envelope,
            choices.tenant,
            source=choices.source or source.path.stem,
            max_bytes=queue.config.max_payload_bytes,
            repeated_msg_ids=source.repeated_msg_ids(),
            now=datetime.now(UTC),
        )

    @property
    def tables(self) -> list[str]:
        """Those that are taken over: completed jobs only where the queue keeps any."""
        keeps = self._queue.config.completed_retention != 0
        return [table for table in self._source.tables if keeps or table != COMPLETED]

    def look(self) -> Report:
        """Understand every row and find out what is missing here; write nothing."""
        return self._go(self._fates_of_jobs, self._fates_of_ended)

    def apply(self) -> Report:
        """Store what is missing; rows that are not understood are passed over.

        Raises:
            StoreUnavailable: the store did not answer; to start again is safe.
        """
        return self._go(self._take_jobs, self._take_ended)

    def _go(
        self,
        jobs: Callable[[Sequence[NewJob]], Fates],
        ended: Callable[[str, Sequence[Ended]], Fates],
    ) -> Report:
        report = Report()
        self.reader.start()
        for table in self.tables:
            if table == JOBS:
                for some in _batches(self._read(table, self.reader.job, report)):
                    _count(report, table, some, jobs(some))
            else:
                for batch in _batches(self._read(table, self.reader.ended, report)):
                    _count(report, table, batch, ended(table, batch))
        return report

    def _read(self, table: str, read: Callable[[Row], T], report: Report) -> Iterator[T]:
        for row in self._source.rows(table):
            if row.live_again:
                report.count(table, LIVES_AGAIN, Fate.LIVE_AGAIN)
                continue
            try:
                understood = read(row)
            except ValidationError as error:
                report.refuse(table, f"{row}: {error}")
            else:
                yield understood

    # -- waiting jobs ------------------------------------------------------------------

    def _fates_of_jobs(self, jobs: Sequence[NewJob]) -> Fates:
        fates: Fates = dict.fromkeys(self._taken_before(jobs), Fate.HERE)
        rest = [job for job in jobs if job.id not in fates]
        for job, known in zip(rest, self._known(rest), strict=True):
            if isinstance(known, DuplicateJobError):
                fates[job.id] = str(known)
            elif known is None:
                fates[job.id] = Fate.NEW
            else:
                fates[job.id] = Fate.HERE if known == job.id else Fate.REPEAT
        return fates

    def _known(self, jobs: Sequence[NewJob]) -> Sequence[str | DuplicateJobError | None]:
        try:
            return self._queue.engine.known(jobs)
        except DuplicateJobError as error:
            if len(jobs) == 1:
                return [error]
            return [known for job in jobs for known in self._known([job])]

    def _take_jobs(self, jobs: Sequence[NewJob]) -> Fates:
        if self._queue.engine.transaction_alias is not None:
            return self._store.transact(lambda cursor: self._take_jobs_in(cursor, jobs))
        fates = self._fates_of_jobs(jobs)
        self._enqueue(jobs, fates)
        self._store.transact(lambda cursor: self._write_down(cursor, fates))
        return fates

    def _take_jobs_in(self, cursor: Cursor, jobs: Sequence[NewJob]) -> Fates:
        fates = self._fates_of_jobs(jobs)
        self._enqueue(jobs, fates)
        self._write_down(cursor, fates)
        return fates

    def _enqueue(self, jobs: Sequence[NewJob], fates: Fates) -> None:
        new = [job for job in jobs if fates[job.id] is Fate.NEW]
        if new:
            store(self._queue, new, on_commit=False)

    # -- ended jobs --------------------------------------------------------------------

    def _fates_of_ended(self, table: str, jobs: Sequence[Ended]) -> Fates:
        here = self._taken_before(jobs)
        here |= self._column(_MODELS[table], "id", jobs)
        return {job.id: Fate.HERE if job.id in here else Fate.NEW for job in jobs}

    def _take_ended(self, table: str, jobs: Sequence[Ended]) -> Fates:
        return self._store.transact(lambda cursor: self._take_ended_in(cursor, table, jobs))

    def _take_ended_in(self, cursor: Cursor, table: str, jobs: Sequence[Ended]) -> Fates:
        fates = self._fates_of_ended(table, jobs)
        model = _MODELS[table]
        rows = [
            model(queue=self._queue.name, **_stored(job.columns))
            for job in jobs
            if fates[job.id] is Fate.NEW
        ]
        self._rows(model).bulk_create(rows, ignore_conflicts=True)
        self._write_down(cursor, fates)
        return fates

    # -- what was taken over -----------------------------------------------------------

    def _taken_before(self, jobs: Sequence[NewJob | Ended]) -> set[str]:
        return set() if self._again else self._column(ImportedJob, "job_id", jobs)

    def _write_down(self, cursor: Cursor, fates: Fates) -> None:
        now = cursor.now()
        rows = [
            ImportedJob(queue=self._queue.name, job_id=job_id, imported_at=now)
            for job_id, fate in fates.items()
            if isinstance(fate, Fate)
        ]
        self._rows(ImportedJob).bulk_create(rows, ignore_conflicts=True)

    def _column(self, model: Any, column: str, jobs: Sequence[NewJob | Ended]) -> set[str]:
        """Return which of the jobs' ids are in a column of a table."""
        rows = self._rows(model).filter(
            **{"queue": self._queue.name, f"{column}__in": [job.id for job in jobs]}
        )
        return self._store.persist(lambda: set(rows.values_list(column, flat=True)))

    def _rows(self, model: Any) -> Any:
        return model._default_manager.using(self._store.alias)


def _batches(values: Iterator[T]) -> Iterator[list[T]]:
    while batch := list(islice(values, BATCH)):
        yield batch


def _count(
    report: Report,
    table: str,
    jobs: Sequence[NewJob] | Sequence[Ended],
    fates: Fates,
) -> None:
    for job in jobs:
        fate = fates[job.id]
        if isinstance(fate, Fate):
            report.count(table, job.task_name, fate)
        else:
            report.refuse(table, f"{table} (id {job.id!r}): {fate}", job.task_name)


def _stored(columns: dict[str, Any]) -> dict[str, Any]:
    """Return moments as this project's columns take them."""
    if settings.USE_TZ:
        return columns
    here = timezone.get_default_timezone()
    return {
        name: timezone.make_naive(value, here) if isinstance(value, datetime) else value
        for name, value in columns.items()
    }
