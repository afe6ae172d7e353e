"""Storing what a liteworks file has and a queue has not.

**Once.** Each id that is taken over, or found here, is written down (:class:`ImportedJob`) and
never taken over again: the history, which knows the ids of ended jobs too, is trimmed. What tells
the job from another file's of that id is written down with it; that one is refused. Where the
database holds the queue, the transaction that writes this down stores the jobs too. In Redis they
are stored before it ends: should the process end between the two, the next run finds up to
``BATCH`` of them live or in the history; only one that has run and is gone from the history runs
again.

**By one run.** Who writes down an id takes it over, and no other run stores the job before that
transaction ends. Of two runs at once the second waits for the first at the constraint on these
rows, comes to know that what it has read is out of date, and reads it again. With
:attr:`Choices.again` the rows are there already: it waits for their locks before it looks, and
leaves alone what was taken over since it began.

**Nothing is lost.** The file is never written to, and all its rows are understood before the
first one is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar

from django.conf import settings
from django.db import IntegrityError
from django.utils import timezone

from vtrr_django.contrib.liteworks.envelope import Envelope
from vtrr_django.contrib.liteworks.names import Names
from vtrr_django.contrib.liteworks.reading import Ended, Reader, Tenant
from vtrr_django.contrib.liteworks.report import LIVES_AGAIN, Fate, Report
from vtrr_django.contrib.liteworks.source import COMPLETED, FAILED, JOBS, LiteworksFile, Row
from vtrr_django.domain.job import NewJob
from vtrr_django.engines.sql.packets import packets, text_length
from vtrr_django.engines.sql.store import Conflict, Cursor, Store
from vtrr_django.engines.sql.store import marks as in_list
from vtrr_django.exceptions import DuplicateJobError, ValidationError
from vtrr_django.models import CompletedJob, FailedJob, ImportedJob
from vtrr_django.queue import Queue
from vtrr_django.storing import store

BATCH: Final = 100
"""Rows that are stored in one transaction. Redis takes as many in one script."""

T = TypeVar("T", NewJob, Ended)


class Origin(NamedTuple):
    """The row that a job was.

    Attributes:
        mark: see :attr:`Row.mark`.
        row: what a message calls it: its table, number and id there.
    """

    mark: str
    row: str


class Taken(NamedTuple):
    """What is written down of a job that was taken over.

    Attributes:
        mark: see :attr:`Row.mark`; "": not known.
        at: when, in microseconds since the epoch by the database's clock.
    """

    mark: str
    at: int


Marks = Mapping[str, str]
"""What tells the jobs from others of the same ids, by id: see :attr:`Row.mark`."""

Written = Mapping[str, Taken]
"""What is written down, by id."""

Fates = dict[str, Fate | str]
"""What becomes of jobs, by id; of one that cannot be stored, why."""

_ANOTHER: Final = (
    "expected the job that was taken over as {id!r} before, got another one, as files of one name "
    "may have; tell the files apart with --source, and where ids are no mere numbers with "
    "--prefix-ids too"
)

_IMPORTED: Final = ImportedJob._meta.db_table

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
        prefix_ids: put it before all ids, not only those that are mere numbers.
        again: take over also what was before this began, if it is not here any more.
    """

    task: str | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    envelope: Envelope = field(default_factory=Envelope)
    tenant: Tenant = field(default_factory=Tenant)
    source: str | None = None
    prefix_ids: bool = False
    again: bool = False


class TakeOver:
    """One file on its way into one queue.

    Args:
        queue: where to.
        source: the file.
        choices: what was said about it.

    Raises:
        ValidationError: the queue has no such task or message.
        StoreUnavailable: the store did not answer.
    """

    def __init__(self, queue: Queue, source: LiteworksFile, choices: Choices) -> None:
        self._queue = queue
        self._source = source
        self._again = choices.again
        self._store = Store(queue.config.database)
        self._began = self._store.now() if choices.again else 0
        names = Names(queue.name, queue.runnables, task=choices.task, mapping=choices.mapping)
        name = choices.source or source.path.stem
        self.reader = Reader(
            names,
            choices.envelope,
            choices.tenant,
            source=name,
            prefix_ids=choices.prefix_ids,
            contested_ids=source.contested_ids(f"{name}-"),
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
        return self._go(
            lambda jobs, marks: self._fates_of_jobs(jobs, marks, self._written_down(marks)),
            lambda table, jobs, marks: self._fates_of_ended(
                table, jobs, marks, self._written_down(marks)
            ),
        )

    def apply(self) -> Report:
        """Store what is missing; rows that are not understood are passed over.

        Raises:
            StoreUnavailable: the store did not answer; to start again is safe.
        """
        return self._go(self._take_jobs, self._take_ended)

    def _go(
        self,
        jobs: Callable[[Sequence[NewJob], Marks], Fates],
        ended: Callable[[str, Sequence[Ended], Marks], Fates],
    ) -> Report:
        report = Report()
        self.reader.start()
        for table in self.tables:
            if table == JOBS:
                for some, origins in _batches(self._read(table, self.reader.job, report)):
                    fates = jobs(some, _marks(some, origins))
                    _count(report, table, some, origins, fates)
            else:
                for batch, origins in _batches(self._read(table, self.reader.ended, report)):
                    fates = ended(table, batch, _marks(batch, origins))
                    _count(report, table, batch, origins, fates)
        return report

    def _read(
        self, table: str, read: Callable[[Row], T], report: Report
    ) -> Iterator[tuple[T, Origin]]:
        for row in self._source.rows(table):
            if row.live_again:
                report.count(table, LIVES_AGAIN, Fate.LIVE_AGAIN)
                continue
            try:
                understood = read(row)
            except ValidationError as error:
                report.refuse(table, f"{row}: {error}")
            else:
                yield understood, Origin(row.mark, str(row))

    # -- waiting jobs ------------------------------------------------------------------

    def _fates_of_jobs(self, jobs: Sequence[NewJob], marks: Marks, written: Written) -> Fates:
        fates = self._taken_before(marks, written)
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

    def _take_jobs(self, jobs: Sequence[NewJob], marks: Marks) -> Fates:
        stored: set[str] = set()
        return self._store.transact(lambda cursor: self._take_jobs_in(cursor, jobs, marks, stored))

    def _take_jobs_in(
        self, cursor: Cursor, jobs: Sequence[NewJob], marks: Marks, stored: set[str]
    ) -> Fates:
        """Store those that are new.

        Args:
            cursor: of the transaction.
            jobs: the jobs.
            marks: theirs.
            stored: those that an earlier attempt of this transaction stored outside the
                database, which has undone the rest of it; this one adds its own.
        """
        written = self._written_down(marks, cursor)
        fates = self._fates_of_jobs(jobs, marks, written) | dict.fromkeys(stored, Fate.NEW)
        self._write_down(cursor, fates, marks, written)
        new = [job for job in jobs if fates[job.id] is Fate.NEW and job.id not in stored]
        self._enqueue(new)
        if self._queue.engine.transaction_alias is None:
            stored.update(job.id for job in new)
        self._write_down_again(cursor, fates, written)
        return fates

    def _enqueue(self, new: Sequence[NewJob]) -> None:
        if new:
            store(self._queue, new, on_commit=False)

    # -- ended jobs --------------------------------------------------------------------

    def _fates_of_ended(
        self, table: str, jobs: Sequence[Ended], marks: Marks, written: Written
    ) -> Fates:
        rows = self._rows(_MODELS[table]).filter(queue=self._queue.name, id__in=[*marks])
        here = self._store.persist(lambda: set(rows.values_list("id", flat=True)))
        fates: Fates = {job.id: Fate.HERE if job.id in here else Fate.NEW for job in jobs}
        return fates | self._taken_before(marks, written)

    def _take_ended(self, table: str, jobs: Sequence[Ended], marks: Marks) -> Fates:
        return self._store.transact(lambda cursor: self._take_ended_in(cursor, table, jobs, marks))

    def _take_ended_in(
        self, cursor: Cursor, table: str, jobs: Sequence[Ended], marks: Marks
    ) -> Fates:
        written = self._written_down(marks, cursor)
        fates = self._fates_of_ended(table, jobs, marks, written)
        self._write_down(cursor, fates, marks, written)
        self._write_down_again(cursor, fates, written)
        model = _MODELS[table]
        rows = [
            model(queue=self._queue.name, **_stored(job.columns))
            for job in jobs
            if fates[job.id] is Fate.NEW
        ]
        for packet in packets(rows, lambda row: text_length(vars(row).values())):
            self._rows(model).bulk_create(packet, ignore_conflicts=True)
        return fates

    # -- what was taken over -----------------------------------------------------------

    def _written_down(self, marks: Marks, cursor: Cursor | None = None) -> Written:
        """Return what is written down of those whose ids were taken over before.

        Args:
            marks: theirs.
            cursor: of the transaction that is to take them over. What it may take over again
                is locked until it ends, so that it looks for the jobs when no other run can
                be about to store them.
        """
        sql = (
            f"SELECT job_id, mark, imported_at FROM {_IMPORTED} "
            f"WHERE queue = %s AND job_id IN {in_list([*marks])} ORDER BY job_id"
        )
        params = [self._queue.name, *marks]
        if cursor is None:
            rows = self._store.read(sql, params)
        else:
            rows = cursor.rows(sql + (cursor.dialect.lock_wait if self._again else ""), params)
        return {job_id: Taken(mark, at) for job_id, mark, at in rows}

    def _taken_before(self, marks: Marks, written: Written) -> Fates:
        """Return what becomes of those whose ids were taken over before."""
        fates: Fates = {}
        for job_id, taken in written.items():
            if taken.mark not in ("", marks[job_id]):
                fates[job_id] = _ANOTHER.format(id=job_id)
            elif not self._again or taken.at >= self._began:
                fates[job_id] = Fate.HERE
        return fates

    def _write_down(self, cursor: Cursor, fates: Fates, marks: Marks, written: Written) -> None:
        """Write down what is not yet; wait for another run that just does so.

        Raises:
            Conflict: that one has done so.
        """
        now = cursor.now()
        rows = [
            ImportedJob(queue=self._queue.name, job_id=job_id, mark=marks[job_id], imported_at=now)
            for job_id, fate in sorted(fates.items(), key=itemgetter(0))  # in all runs alike
            if isinstance(fate, Fate) and job_id not in written
        ]
        try:
            self._rows(ImportedJob).bulk_create(rows)
        except IntegrityError as error:
            raise Conflict("another import takes the same jobs over") from error

    def _write_down_again(self, cursor: Cursor, fates: Fates, written: Written) -> None:
        """Write down that what was taken over once is so again, and when."""
        ids = [job_id for job_id in written if fates[job_id] is Fate.NEW]
        if ids:
            sql = f"UPDATE {_IMPORTED} SET imported_at = %s WHERE queue = %s AND job_id IN "
            cursor.run(sql + in_list(ids), [cursor.now(), self._queue.name, *ids])

    def _rows(self, model: Any) -> Any:
        return model._default_manager.using(self._store.alias)


def _batches(values: Iterator[tuple[T, Origin]]) -> Iterator[tuple[list[T], list[Origin]]]:
    while batch := list(islice(values, BATCH)):
        yield [job for job, _ in batch], [origin for _, origin in batch]


def _marks(jobs: Sequence[T], origins: Sequence[Origin]) -> Marks:
    return {job.id: origin.mark for job, origin in zip(jobs, origins, strict=True)}


def _count(
    report: Report,
    table: str,
    jobs: Sequence[T],
    origins: Sequence[Origin],
    fates: Fates,
) -> None:
    for job, origin in zip(jobs, origins, strict=True):
        fate = fates[job.id]
        if isinstance(fate, Fate):
            report.count(table, job.task_name, fate)
        else:
            report.refuse(table, f"{origin.row}: {fate}", job.task_name)


def _stored(columns: dict[str, Any]) -> dict[str, Any]:
    """Return moments as this project's columns take them."""
    if settings.USE_TZ:
        return columns
    here = timezone.get_default_timezone()
    return {
        name: timezone.make_naive(value, here) if isinstance(value, datetime) else value
        for name, value in columns.items()
    }
