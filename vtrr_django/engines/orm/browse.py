"""Pages of live jobs, each read from where the last one ended, in the order of an index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from vtrr_django.domain.cursor import bad_cursor, read_cursor, write_cursor
from vtrr_django.domain.job import MAX_PRIORITY, MIN_PRIORITY, JobInfo, JobPage
from vtrr_django.domain.parts import parts
from vtrr_django.domain.states import State
from vtrr_django.engines.sql.fields import from_microseconds
from vtrr_django.engines.sql.store import Row, Store, marks
from vtrr_django.engines.sql.tables import JOB

_QUEUES = 100
"""Queues in one statement."""


class _Job(NamedTuple):
    """The columns of a live job that people are shown."""

    seq: int
    id: str
    state: int
    task_name: str
    payload: str
    partition_key: str
    weight: int
    precedence: int
    delivery_count: int
    timeouts: int
    msg_id: str | None
    parent_id: str | None
    created_at: int
    scheduled_at: int
    claimed_by: str | None
    claimed_at: int | None
    lease_expires_at: int | None


@dataclass(frozen=True, slots=True)
class _Listing:
    """Jobs in the order of an index.

    Attributes:
        state: of the jobs.
        index: which has them in this order, behind the queue and what else is the same.
        order: column -> its type.
        condition: what more has to hold.
    """

    state: State
    index: str
    order: Mapping[str, type[str | int]]
    condition: str = ""


_IN_LINE: Mapping[str, type[str | int]] = {"precedence": int, "scheduled_at": int, "seq": int}
_BY_DUE: Mapping[str, type[str | int]] = {"scheduled_at": int, "seq": int}

_LISTINGS = {
    State.READY: _Listing(State.READY, "vtrr_job_line", {"partition_key": str, **_IN_LINE}),
    State.SCHEDULED: _Listing(State.SCHEDULED, "vtrr_job_due", _BY_DUE),
    State.LEASED: _Listing(
        State.LEASED,
        "vtrr_job_lease",
        {"lease_expires_at": int, "seq": int},
        # Jobs that are not leased are in this index too.
        " AND lease_expires_at IS NOT NULL",
    ),
}
_LINE = _Listing(State.READY, "vtrr_job_line", _IN_LINE)
"""Those of one partition."""
_SCHEDULED = _Listing(State.SCHEDULED, "vtrr_job_line", _BY_DUE)
"""Those of one partition and priority."""

_ALL = ", ".join(_Job._fields)

_UNITED = 250
"""Statements in one: SQLite takes 500."""

_Found = tuple[Row, _Job | None]
"""A place in a listing, and the job that was found there, unless it has gone since."""


class Browser:
    """The jobs of one queue, as people look through them."""

    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self.store = store

    def page(
        self, state: State, partition_key: str | None, after: str | None, limit: int
    ) -> JobPage:
        """Return one page; see :meth:`Engine.jobs`."""
        order = _LISTINGS[state].order
        place = None if after is None else read_cursor(after, state.name, *order.values())
        if place and state is State.READY and partition_key not in (None, place[0]):
            raise bad_cursor(after)
        found = self._find(state, partition_key, place, limit + 1)
        page = found[:limit]
        more = len(found) > limit
        return JobPage(
            jobs=[self._info(job) for _, job in page if job is not None],
            next=write_cursor(state.name, *page[-1][0]) if more else None,
        )

    def find(self, job_id: str) -> JobInfo | None:
        """Return a live job by its id."""
        rows = self.store.read(
            f"SELECT {_ALL} FROM {JOB} WHERE queue = %s AND id = %s", [self.name, job_id]
        )
        return self._info(_Job(*rows[0])) if rows else None

    # -- reading -------------------------------------------------------------------

    def _find(
        self, state: State, key: str | None, place: Sequence[Any] | None, limit: int
    ) -> list[_Found]:
        if key is not None and state is State.SCHEDULED:
            return self._find_scheduled(key, place, limit)
        listing, fixed = _LISTINGS[state], {} if key is None else {"partition_key": key}
        if key is not None and state is State.READY:
            listing, place = _LINE, place and place[1:]
        place_of = attrgetter(*_LISTINGS[state].order)
        jobs = [_Job(*row) for row in self._slice(listing, _ALL, fixed, place, limit)]
        return [(place_of(job), job) for job in jobs]

    def _slice(
        self,
        listing: _Listing,
        columns: str,
        fixed: Mapping[str, Any],
        place: Sequence[Any] | None,
        limit: int,
    ) -> list[Row]:
        """Read on from a place, in order: rows of which the columns in ``fixed`` say so.

        Comparing whole rows, ``(a, b) > (x, y)``, would be one statement; but not every
        database answers that from an index. So first those with the same a, then the others.
        """
        found: list[Row] = []
        for sql, params in self._statements(listing, columns, fixed, place):
            found += self.store.read(sql, [*params, limit - len(found)])
            if len(found) == limit:
                break
        return found

    def _statements(
        self,
        listing: _Listing,
        columns: str,
        fixed: Mapping[str, Any],
        place: Sequence[Any] | None,
    ) -> Iterator[tuple[str, list[Any]]]:
        """Yield statements that read on from a place one after the other; each lacks its limit."""
        using = self.store.dialect.using(listing.index)
        for same, beyond in _steps(list(listing.order), place):
            equal = {**fixed, **same}
            where = "".join(f" AND {column} = %s" for column in equal)
            where += "".join(f" AND {column} > %s" for column in beyond)
            order = ", ".join(column for column in listing.order if column not in same)
            sql = (
                f"SELECT {columns} FROM {JOB}{using} WHERE queue = %s AND state = %s"
                f"{listing.condition}{where} ORDER BY {order} LIMIT %s"
            )
            yield sql, [self.name, listing.state, *equal.values(), *beyond.values()]

    def _find_scheduled(self, key: str, place: Sequence[Any] | None, limit: int) -> list[_Found]:
        """Find one partition's scheduled jobs: by priority, for so an index has them."""
        columns = ", ".join(_BY_DUE)
        statements = [
            (sql, [*params, limit])
            for precedence in self._precedences(key)
            for sql, params in self._statements(
                _SCHEDULED, columns, {"partition_key": key, "precedence": precedence}, place
            )
        ]
        chosen = sorted(self._united(statements))[:limit]
        if not chosen:
            return []
        rows = self.store.read(
            f"SELECT {_ALL} FROM {JOB} WHERE seq IN {marks(chosen)} AND state = %s",
            [*(seq for _, seq in chosen), State.SCHEDULED],
        )
        jobs = {job.seq: job for job in map(_Job._make, rows)}
        return [(one, jobs.get(one[1])) for one in chosen]

    def _precedences(self, key: str) -> list[int]:
        """Return the priorities, negated, of one partition's scheduled jobs: a probe for each.

        Not DISTINCT, which walks through all of them, nor one recursive statement: MariaDB
        answers each of its steps from the start.
        """
        probe = (
            f"SELECT precedence FROM {JOB}{self.store.dialect.using(_SCHEDULED.index)} "
            "WHERE queue = %s AND state = %s AND partition_key = %s AND precedence = %s LIMIT 1"
        )
        every = range(-MAX_PRIORITY, -MIN_PRIORITY + 1)
        rows = self._united([(probe, [self.name, State.SCHEDULED, key, one]) for one in every])
        return [precedence for (precedence,) in rows]

    def _united(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> list[Row]:
        """Return the rows of all of them, in one trip to the database, or a few."""
        found: list[Row] = []
        for some in parts(statements, _UNITED):
            selects = (f"SELECT * FROM ({sql}) part_{n}" for n, (sql, _) in enumerate(some))
            params = [value for _, values in some for value in values]
            found += self.store.read(" UNION ALL ".join(selects), params)
        return found

    # -- telling -------------------------------------------------------------------

    def _info(self, job: _Job) -> JobInfo:
        leased, expires = job.claimed_at, job.lease_expires_at
        return JobInfo(
            id=job.id,
            queue=self.name,
            state=State(job.state),
            task_name=job.task_name,
            payload=job.payload,
            partition_key=job.partition_key,
            weight=job.weight,
            priority=-job.precedence,
            delivery_count=job.delivery_count,
            timeouts=job.timeouts,
            msg_id=job.msg_id,
            parent_id=job.parent_id,
            enqueued_at=from_microseconds(job.created_at),
            ready_at=from_microseconds(job.scheduled_at),
            worker_id=job.claimed_by,
            leased_at=None if leased is None else from_microseconds(leased),
            lease_expires_at=None if expires is None else from_microseconds(expires),
        )


def _steps(
    order: Sequence[str], place: Sequence[Any] | None
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield what is equal and what is greater, of the rows behind a place, the nearest first."""
    if place is None:
        yield {}, {}
        return
    values = dict(zip(order, place, strict=True))
    for depth in reversed(range(len(order))):
        same, column = order[:depth], order[depth]
        yield {name: values[name] for name in same}, {column: values[column]}


def holders(store: Store, queues: Sequence[str], job_id: str) -> set[str]:
    """Return those of the queues that have a live job of that id."""
    found: set[str] = set()
    for some in parts(queues, _QUEUES):
        sql = f"SELECT queue FROM {JOB} WHERE queue IN {marks(some)} AND id = %s"
        found |= {queue for (queue,) in store.read(sql, [*some, job_id])}
    return found
