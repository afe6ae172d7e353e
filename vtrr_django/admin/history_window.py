"""Finding the newest rows that match, in a time that does not grow with the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.core.exceptions import EmptyResultSet
from django.db import connections

from vtrr_django.admin import dates, markup
from vtrr_django.admin.history_names import moment_of, rows_in
from vtrr_django.admin.history_search import Selection
from vtrr_django.models import CompletedJob, FailedJob

MOST_LISTED: Final = 10_000
"""Rows that are counted and paged at a time."""

MOST_READ: Final = {CompletedJob: 100_000, FailedJob: 20_000}
"""Rows read, as they lie in the table, for a task or an error class, which no index finds.

Dead letters are longer, by their tracebacks.
"""

MOST_LOOKED_UP: Final = 10_000
"""The same where an index leads to each row, which may lie anywhere."""

MOST_MERGED: Final = 20
"""Queues whose lines are merged; more are sorted, which takes longer."""

_DIGITS: Final = 18


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A place in a list: the row before which it begins.

    ``at`` is that row's time, in lists that are sorted by it.
    """

    seq: int
    at: datetime | None = None

    def __str__(self) -> str:
        return str(self.seq) if self.at is None else f"{self.seq}~{self.at.isoformat()}"

    @classmethod
    def of(cls, text: str) -> Place:
        """Undo ``str``.

        Raises:
            ValueError: ``text`` is no place.
        """
        seq, tilde, at = text.partition("~")
        if not (seq.isascii() and seq.isdecimal() and len(seq) <= _DIGITS):
            raise ValueError("expected the place of a row")
        if not tilde:
            return cls(seq=int(seq))
        moment = datetime.fromisoformat(at)
        dates.check_year(moment.year)
        return cls(seq=int(seq), at=dates.as_stored(moment))


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """The newest rows that match.

    Attributes:
        seqs: their numbers, the newest first.
        rest: where those begin that were not looked at or listed; None: these are all.
        read: how many rows were looked through, if not all could be; else None.
    """

    seqs: list[int]
    rest: Place | None = None
    read: int | None = None

    @property
    def read_shown(self) -> str:
        """``read`` for people."""
        return markup.number(self.read)


def newest(selection: Selection, rows: Any, before: Place | None, queues: Sequence[str]) -> Window:
    """Return the newest rows of a selection, or the newest of those before a place.

    Args:
        selection: which rows.
        rows: those rows, in no order.
        before: the place.
        queues: those that have rows in the table.

    Raises:
        ValueError: ``before`` is a place in a list sorted otherwise.
    """
    line = _Line(rows, before, queues, selection)
    edge, read = None, None
    if selection.reads:
        all_rows = _Line(selection.indexed().rows(rows.model, queues), before, queues, selection)
        if selection.looked_up:
            return _looked_up(rows, all_rows.seqs(0, MOST_LOOKED_UP + 1))
        read = MOST_LOOKED_UP if line.by_time else MOST_READ[rows.model]
        edge = all_rows.place(read)
        line.end_at(edge)
    seqs = line.seqs(0, MOST_LISTED + 1)
    if len(seqs) <= MOST_LISTED:
        return Window(seqs=seqs, rest=edge, read=None if edge is None else read)
    return Window(seqs=seqs[:MOST_LISTED], rest=line.place_of(seqs[MOST_LISTED - 1]))


def _looked_up(rows: Any, seqs: Sequence[int]) -> Window:
    """Return those of ``rows`` whose numbers are given, the newest first.

    One more than are looked up says that there are more. By their numbers, as databases would
    rather walk through the whole table than look up rows of an index in its order.
    """
    some = seqs[:MOST_LOOKED_UP]
    found = sorted(rows.filter(seq__in=some).values_list("seq", flat=True), reverse=True)
    if len(some) == len(seqs):
        return Window(seqs=found)
    return Window(seqs=found, rest=Place(seq=some[-1]), read=MOST_LOOKED_UP)


class _Line:
    """Rows in the order of their list: by time where an index has it, else by number.

    The two are almost the same. Indexes have the time within a queue, so the rows of several
    queues are lines of their own that are merged.
    """

    def __init__(
        self, rows: Any, before: Place | None, queues: Sequence[str], selection: Selection
    ) -> None:
        self.all_rows = rows_in(rows.model, rows.db)
        self.moment = moment_of(rows.model)
        self.by_time = selection.sorted_by_time
        self.parts = [rows]
        if self.by_time and selection.queue is None and len(queues) <= MOST_MERGED:
            self.parts = [rows.filter(queue=name) for name in queues]
        if before is not None:
            self.skip_to(before)

    def skip_to(self, before: Place) -> None:
        """Leave out the rows up to a place."""
        if not self.by_time:
            self.parts = [rows.filter(seq__lt=before.seq) for rows in self.parts]
            return
        if before.at is None:
            raise ValueError("expected a place in a list sorted by time")
        past = {f"{self.moment}__lte": before.at}
        same = {self.moment: before.at, "seq__gte": before.seq}
        self.parts = [rows.filter(**past).exclude(**same) for rows in self.parts]

    def end_at(self, edge: Place | None) -> None:
        """Leave out the rows after a place."""
        if edge is None:
            return
        if not self.by_time:
            self.parts = [rows.filter(seq__gte=edge.seq) for rows in self.parts]
            return
        near = {f"{self.moment}__gte": edge.at}
        same = {self.moment: edge.at, "seq__lt": edge.seq}
        self.parts = [rows.filter(**near).exclude(**same) for rows in self.parts]

    def place(self, n: int) -> Place | None:
        """Return the place of row number ``n``; None: no rows come after it."""
        seqs = self.seqs(n - 1, n + 1)
        return self.place_of(seqs[0]) if len(seqs) > 1 else None

    def place_of(self, seq: int) -> Place | None:
        """Return the place of a row; None: it is gone."""
        if not self.by_time:
            return Place(seq=seq)
        at = self.all_rows.filter(seq=seq).values_list(self.moment, flat=True).first()
        return None if at is None else Place(seq=seq, at=at)

    def seqs(self, start: int, stop: int) -> list[int]:
        """Return the numbers of the rows from ``start`` to ``stop``."""
        if self.by_time:
            parts = [rows.order_by(f"-{self.moment}", "-seq") for rows in self.parts]
        else:
            parts = [rows.order_by("-seq") for rows in self.parts]
        if len(parts) == 1:
            return list(parts[0].values_list("seq", flat=True)[start:stop])
        return self._merged([rows.values_list("seq", self.moment)[:stop] for rows in parts])[start:]

    def _merged(self, lines: Sequence[Any]) -> list[int]:
        """Return the numbers of all the rows, in order."""
        # Django does not write this: SQLite has no LIMIT inside a UNION, but in its subqueries.
        parts, params = [], []
        for rows in lines:
            try:
                sql, values = rows.query.get_compiler(self.all_rows.db).as_sql()
            except EmptyResultSet:
                continue
            parts.append(f"SELECT seq, {self.moment} AS moment FROM ({sql}) part")  # noqa: S608 - names
            params += values
        if not parts:
            return []
        both = " UNION ALL ".join(parts)
        sql = f"SELECT seq FROM ({both}) merged ORDER BY moment DESC, seq DESC"  # noqa: S608 - as above
        with connections[self.all_rows.db].cursor() as cursor:
            cursor.execute(sql, params)
            return [seq for (seq,) in cursor.fetchall()]
