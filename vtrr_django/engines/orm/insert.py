"""Enqueueing: plain INSERTs in the caller's transaction, locking nothing of anybody's."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from django.db import DatabaseError, IntegrityError

from vtrr_django.domain.job import NewJob
from vtrr_django.engines.sql.fields import to_microseconds
from vtrr_django.engines.sql.history import DeadLetter
from vtrr_django.engines.sql.known import MOST_KEYS, Known, find_known
from vtrr_django.engines.sql.packets import packets
from vtrr_django.engines.sql.store import Conflict, Cursor, Store, marks
from vtrr_django.engines.sql.tables import COMPLETED, FAILED, JOB, READY, SCHEDULED

_COLUMNS = (
    "id, queue, partition_key, task_name, payload, weight, precedence, msg_id, parent_id, "
    "delivery_count, state, scheduled_at, created_at, timeouts, charged"
)

_CLOCKS_APART = 60_000_000
"""Microseconds that a database's clock may be ahead of ours."""

_MOST_LOCKS, _LOCK_SECONDS = 20, 10


class Inserter:
    """The incoming side of one queue."""

    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self.store = store

    def insert(self, jobs: Sequence[NewJob]) -> tuple[list[str], list[NewJob]]:
        """Store ``jobs``; return one id per job, and those really stored."""
        if any(job.msg_id is not None or job.given_id for job in jobs):
            return self.store.transact(lambda cursor: self._insert_keyed(cursor, jobs))
        if len(jobs) == 1:
            self.store.persist(lambda: self._insert_one(jobs[0]))
        else:
            self.store.transact(lambda cursor: self._insert_all(cursor, jobs))
        return [job.id for job in jobs], list(jobs)

    # -- jobs nobody can have stored before ----------------------------------------

    def insert_and_look(self, job: NewJob, look: Callable[[Cursor], bool]) -> bool:
        """Store one job, then look with the same cursor; False also when looking failed."""

        def work(cursor: Cursor) -> bool:
            values, params = self._rows_now(cursor, [job])
            cursor.run(f"INSERT INTO {JOB} ({_COLUMNS}) VALUES {values}", params)
            try:
                return look(cursor)
            except DatabaseError:
                # The job is stored; to try again from the start would store it twice.
                return False

        return self.store.persist(lambda: self.store.in_cursor(work))

    def _insert_one(self, job: NewJob) -> None:
        with self.store.connection.cursor() as raw:
            cursor = Cursor(raw, self.store)
            values, params = self._rows_now(cursor, [job])
            cursor.run(f"INSERT INTO {JOB} ({_COLUMNS}) VALUES {values}", params)

    def _insert_all(self, cursor: Cursor, jobs: Sequence[NewJob], *, new_only: bool = False) -> int:
        """Insert ``jobs``, or (``new_only``) those that no row stands in the way of."""
        dialect = cursor.dialect
        begin = dialect.insert_new if new_only else "INSERT INTO"
        end = dialect.ignore_conflict if new_only else ""
        begin = f"{begin} {JOB} ({_COLUMNS}) VALUES "
        if dialect.clock_is_parameter:
            # SQLite prepares the statement once and steps it for each row: by far the fastest.
            row = marks([None] * 15)
            return cursor.run_each(begin + row + end, self._rows_at(jobs, cursor.now()))
        stored = 0
        for chunk in packets(jobs, lambda job: len(job.payload)):
            values, params = self._rows_now(cursor, chunk)
            stored += cursor.run(begin + values + end, params)
        return stored

    def _rows_at(self, jobs: Sequence[NewJob], now: int) -> list[tuple[Any, ...]]:
        rows = []
        for job in jobs:
            due = _due(job, now)
            state = SCHEDULED if due > now else READY
            rows.append((*self._values(job), state, max(due, now), now, 0, 0.0))
        return rows

    def _rows_now(self, cursor: Cursor, jobs: Sequence[NewJob]) -> tuple[str, list[Any]]:
        clock, clock_params = cursor.dialect.clock, cursor.dialect.clock_params()
        values: list[str] = []
        params: list[Any] = []
        for job in jobs:
            state, due, due_params = f"{READY}", clock, list(clock_params)
            if job.due_at is not None:
                # What is due already joins the line now, like any other.
                state = f"CASE WHEN %s > {clock} THEN {SCHEDULED} ELSE {READY} END"
                due = f"CASE WHEN %s > {clock} THEN %s ELSE {clock} END"
                at = to_microseconds(job.due_at)
                due_params = [at, *clock_params, at, *clock_params, at, *clock_params]
            elif after := _delay(job):
                state = f"{SCHEDULED}"
                due, due_params = f"{clock} + %s", [*clock_params, after]
            values.append(
                f"(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, {state}, {due}, {clock}, 0, 0.0)"
            )
            params += [*self._values(job), *due_params, *clock_params]
        return ", ".join(values), params

    def _values(self, job: NewJob) -> tuple[Any, ...]:
        """Return the values of the columns before ``state``."""
        return (
            *(job.id, self.name, job.partition_key, job.task_name, job.payload, job.weight),
            *(-job.priority, job.msg_id, job.parent_id, job.delivery_count),
        )

    def insert_again(self, cursor: Cursor, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        """Store dead letters as ready jobs, as if freshly enqueued in the order given.

        Return those that were not live. Letters that were taken over may have ids and msg_ids
        that others have, too.
        """
        letters = self._out_of_the_way(cursor, letters)
        try:
            self._revive(cursor, letters)
        except IntegrityError as error:
            # Of a transaction that committed meanwhile: the next look sees it.
            raise Conflict(f"jobs of the same msg_id or id came into queue {self.name}") from error
        return letters

    def _out_of_the_way(self, cursor: Cursor, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        """Leave out what is live, and let go of msg_ids that another job has now."""
        live = self._taken(cursor, "id", [one.id for one in letters])
        taken = self._taken(
            cursor, "msg_id", [one.msg_id for one in letters if one.msg_id is not None]
        )
        found = []
        for letter in letters:
            if letter.id in live:
                continue
            if letter.msg_id in taken:
                found.append(replace(letter, msg_id=None))
            else:
                found.append(letter)
                taken |= {letter.msg_id} - {None}
        return found

    def _taken(self, cursor: Cursor, column: str, values: Sequence[str]) -> set[str | None]:
        """Return which ids, or msg_ids, are those of live jobs."""
        return {
            row[0]
            for start in range(0, len(values), MOST_KEYS)
            for row in cursor.rows(
                f"SELECT {column} FROM {JOB} WHERE queue = %s "
                f"AND {column} IN {marks(values[start : start + MOST_KEYS])}",
                [self.name, *values[start : start + MOST_KEYS]],
            )
        }

    def _revive(self, cursor: Cursor, letters: Sequence[DeadLetter]) -> None:
        now = cursor.now()
        cursor.run_each(
            f"INSERT INTO {JOB} (id, queue, partition_key, task_name, payload, weight, "
            "precedence, msg_id, parent_id, created_at, state, scheduled_at, delivery_count, "
            "timeouts, charged) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 0, 0, 0.0)",
            [
                (
                    *(one.id, self.name, one.partition_key, one.task_name, one.payload),
                    *(one.weight, -one.priority, one.msg_id, one.parent_id),
                    *(now, READY, now + place),
                )
                for place, one in enumerate(letters)
            ],
        )

    # -- jobs with an id or msg_id of the caller's ---------------------------------

    def _insert_keyed(
        self, cursor: Cursor, jobs: Sequence[NewJob]
    ) -> tuple[list[str], list[NewJob]]:
        """Store what is not known yet; ids of known jobs stand in for the rest.

        Looks first, so that publishing a known job again locks nothing. What the look
        cannot see, jobs of transactions that commit meanwhile, the unique constraints tell:
        then everything starts again, and the look sees it. So it does when the first job
        was stored *and* ended between the look and our INSERT.
        """
        known = self._known(cursor, jobs, (JOB, COMPLETED, FAILED))
        fresh = _first_of_each([job for job in jobs if known.match(job) is None])
        if fresh:
            with self._queueing_up(cursor, fresh):
                self._insert_fresh(cursor, fresh)
            for job in fresh:
                known.add([(job.id, job.msg_id, job.partition_key, job.task_name, job.payload)])
        return [known.match(job) or job.id for job in jobs], fresh

    def _insert_fresh(self, cursor: Cursor, fresh: Sequence[NewJob]) -> None:
        seen = Known()
        if cursor.dialect.named_locks:
            # Waiting for the lock took time; who held it has probably stored the job.
            seen = self._known(cursor, fresh, (JOB, COMPLETED, FAILED))
        if not seen:
            stored = self._insert_all(cursor, fresh, new_only=True)
            seen = self._known(cursor, fresh, (COMPLETED, FAILED))
            if stored == len(fresh) and not seen:
                return
        raise Conflict(f"jobs of the same msg_id or id came into queue {self.name}")

    @contextlib.contextmanager
    def _queueing_up(self, cursor: Cursor, jobs: Sequence[NewJob]) -> Iterator[None]:
        """Let one connection at a time wait in the database for the keys of ``jobs``.

        Where that matters; and for a few keys: many at once are a bulk import, not a race.
        """
        names: list[str] = []
        if cursor.dialect.named_locks and len(jobs) <= _MOST_LOCKS:
            place = f"{self.store.connection.settings_dict['NAME']}/{self.name}"
            keys = {f"id/{job.id}" for job in jobs if job.given_id}
            keys |= {f"msg_id/{job.msg_id}" for job in jobs if job.msg_id is not None}
            names = sorted(
                "vtrr:" + hashlib.blake2s(f"{place}/{key}".encode()).hexdigest()[:40]
                for key in keys
            )
        try:
            for name in names:
                # Should it not come, we go on without: then InnoDB settles the matter.
                cursor.rows("SELECT GET_LOCK(%s, %s)", [name, _LOCK_SECONDS])
            yield
        finally:
            for name in names:
                cursor.rows("SELECT RELEASE_LOCK(%s)", [name])

    def _known(self, cursor: Cursor, jobs: Sequence[NewJob], tables: Sequence[str]) -> Known:
        """Look for jobs with the ids and msg_ids of ``jobs``; live ones first.

        A job moves from the first table to the others: looking in that order misses none.
        """
        return find_known(cursor, self.name, jobs, tables)

    def known(self, jobs: Sequence[NewJob]) -> list[str | None]:
        """Return the id of the job that each of ``jobs`` is already, live or in history."""
        if not any(job.msg_id is not None or job.given_id for job in jobs):
            return [None] * len(jobs)
        known = self.store.persist(
            lambda: self.store.in_cursor(
                lambda cursor: self._known(cursor, jobs, (JOB, COMPLETED, FAILED))
            )
        )
        return [known.match(job) for job in jobs]


def _first_of_each(jobs: Sequence[NewJob]) -> list[NewJob]:
    """Drop jobs whose id or msg_id an earlier one of the same call has."""
    ids: set[str] = set()
    msg_ids: set[str] = set()
    kept = []
    for job in jobs:
        if job.id in ids or (job.msg_id is not None and job.msg_id in msg_ids):
            continue
        ids.add(job.id)
        if job.msg_id is not None:
            msg_ids.add(job.msg_id)
        kept.append(job)
    return kept


def may_be_ready(job: NewJob) -> bool:
    """Return whether a new job may be ready at once: the database's clock decides, not ours."""
    if job.due_at is None:
        return not _delay(job)
    return to_microseconds(job.due_at) < time.time_ns() // 1000 + _CLOCKS_APART


def _delay(job: NewJob) -> int:
    return round((job.delay or 0.0) * 1_000_000)


def _due(job: NewJob, now: int) -> int:
    return now + _delay(job) if job.due_at is None else to_microseconds(job.due_at)
