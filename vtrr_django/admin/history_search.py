"""Which ended jobs a page shows and an action takes: filters, search, dates.

Only what is named here can be asked for. Anything a model has may be a filter in Django's
admin: asked often enough, ``?payload__contains=`` would give away what people may not see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any, Final

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import SEARCH_VAR
from django.core.exceptions import ValidationError
from django.db import models, router
from django.db.models import Q
from django.db.models.functions import Coalesce

from vtrr_django.admin import dates
from vtrr_django.admin.history_names import MOST_QUEUES, History, moment_of, queue_names, rows_in
from vtrr_django.conf import get_settings
from vtrr_django.models import FailedJob

FILTERS: Final[Mapping[str, str]] = {
    "queue": "queue",
    "task": "task_name",
    "error_class": "error_class",
    "partition": "partition_key",
    "parent": "parent_id",
}
"""Parameters of an address, and the columns they are about."""

MOST_FOUND: Final = 1000
"""Rows of one id or msg_id that a search takes."""

_LONGEST: Final = 255


def lookups(model: History) -> set[str]:
    """Return the parameters of an address that choose rows."""
    moment = moment_of(model)
    parts = ("gte", "lt", *dates.PARTS)
    return {*FILTERS, *(f"{moment}__{part}" for part in parts)}


def database_of(queue: str | None) -> str:
    """Return the database in which to look for a queue's history; None: for that of all.

    The router's choice, unless no queue is there.
    """
    queues = get_settings().queues
    if queue is not None and queue in queues:
        return queues[queue].database
    used = [config.database for config in queues.values()]
    chosen: str = router.db_for_read(FailedJob)
    return chosen if chosen in used else used[0]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Rows of a history table; None is everything.

    Attributes:
        term: what is searched for: an id, msg_id or partition, or a part of a task's name.
        tasks: the tasks whose names have ``term`` in them.
        seqs: rows chosen one by one.
    """

    queue: str | None = None
    task: str | None = None
    error_class: str | None = None
    partition: str | None = None
    parent: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    term: str = ""
    tasks: tuple[str, ...] = ()
    seqs: tuple[int, ...] | None = None

    @classmethod
    def of(cls, model: History, params: Mapping[str, str]) -> Selection:
        """Return what the parameters of an address choose.

        Raises:
            IncorrectLookupParameters: they make no sense.
        """
        chosen: dict[str, Any] = {name: params[name] for name in FILTERS if name in params}
        if model is not FailedJob:
            chosen.pop("error_class", None)
        if any("\0" in value for value in chosen.values()):
            raise IncorrectLookupParameters("expected names without NUL")
        since, until = _period(moment_of(model), params)
        term = params.get(SEARCH_VAR, "")
        if "\0" in term:
            term = ""  # Django's form says so above the list
        return cls(**chosen, since=since, until=until, term=term)

    def knowing(self, tasks: Iterable[str]) -> Selection:
        """Return this selection with the tasks that its search finds among ``tasks``."""
        wanted = self.term.strip().lower()
        if not wanted:
            return self
        return replace(self, tasks=tuple(sorted(name for name in tasks if wanted in name.lower())))

    @property
    def narrow(self) -> bool:
        """Whether an index leads to the rows of one tenant, of one parent, or to given ones."""
        return any(one is not None for one in (self.partition, self.parent, self.seqs))

    @property
    def looked_up(self) -> bool:
        """Whether an index finds the rows, which then may lie anywhere in the table."""
        return self.narrow or (bool(self.term) and not self.tasks)

    @property
    def sorted_by_time(self) -> bool:
        """Whether an index has the rows by their time: that of their queue."""
        timed = any(one is not None for one in (self.queue, self.since, self.until))
        return timed and not self.looked_up

    @property
    def reads(self) -> bool:
        """Whether rows have to be read to know which are chosen."""
        return self != self.indexed()

    def indexed(self) -> Selection:
        """Return what is left of it without the conditions that no index knows."""
        if not self.looked_up:
            return replace(self, task=None, error_class=None, term="", tasks=())
        known = replace(self, task=None, error_class=None, since=None, until=None)
        return replace(known, term="", tasks=()) if self.narrow else known

    def rows(self, model: History, queues: Sequence[str] | None = None) -> Any:
        """Return the rows, in no order.

        Args:
            model: the table.
            queues: those that have rows there, if that is known already.
        """
        alias = database_of(self.queue)
        rows = rows_in(model, alias)
        for name, column in FILTERS.items():
            value = getattr(self, name)
            if value is not None:
                rows = rows.filter(**{column: value})
        rows = self._in_period(rows, moment_of(model))
        if self.seqs is not None:
            return rows.filter(seq__in=self.seqs)
        if self.queue is None and (self.narrow or self.sorted_by_time or self.term):
            some = _some_queue(queue_names(model, alias) if queues is None else queues)
        else:
            some = Q(queue=self.queue) if self.queue is not None else Q()
        return rows.filter(self._found(model, alias, some) if self.term else some)

    def _in_period(self, rows: Any, moment: str) -> Any:
        if not self.sorted_by_time and (self.since or self.until):
            # Few rows are left already. A plain condition would make SQLite go through all
            # rows of that time; no index has this one.
            rows, moment = rows.alias(ended=Coalesce(moment, "created_at")), "ended"
        if self.since is not None:
            rows = rows.filter(**{f"{moment}__gte": self.since})
        if self.until is not None:
            rows = rows.filter(**{f"{moment}__lt": self.until})
        return rows

    def _found(self, model: History, alias: str, some: Q) -> Q:
        """Return the condition for what is searched for; ``some`` is one about the queue.

        Few rows have an id: they are looked up first, as no database uses one index for each
        side of an OR dependably.
        """
        terms = [one for one in {self.term, self.term.strip()} if len(one) <= _LONGEST]
        indexed = rows_in(model, alias).filter(some)
        seqs: set[int] = set()
        for column in ("id", "msg_id"):
            named = indexed.filter(**{f"{column}__in": terms})
            seqs.update(named.values_list("seq", flat=True)[:MOST_FOUND])
        found = Q(seq__in=seqs)
        if indexed.filter(partition_key__in=terms).exists():
            found |= some & Q(partition_key__in=terms)
        if self.tasks:
            found |= Q(task_name__in=self.tasks)
        return found

    def in_words(self) -> str:
        """Return the selection as people say it; "" for everything."""
        told = [
            (name.replace("_", " "), getattr(self, name))
            for name in FILTERS
            if getattr(self, name) is not None
        ]
        words = [f"{name} {value or repr('')}" for name, value in told]
        words += [f"from {self.since:%Y-%m-%d %H:%M}"] if self.since else []
        words += [f"before {self.until:%Y-%m-%d %H:%M}"] if self.until else []
        words += [f"search “{self.term}”"] if self.term else []
        return ", ".join(words)

    def to_json(self) -> dict[str, Any]:
        """Return it as values that JSON can carry."""
        return {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in asdict(self).items()
            if value is not None  # "" is a name, and () is no row: both choose something
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Selection:
        """Undo :meth:`to_json`."""
        read = {one.name: values[one.name] for one in fields(cls) if one.name in values}
        for name in ("since", "until"):
            if name in read:
                read[name] = datetime.fromisoformat(read[name])
        for name in ("tasks", "seqs"):
            if name in read:
                read[name] = tuple(read[name])
        return cls(**read)


def _some_queue(queues: Sequence[str]) -> Q:
    """Return a condition that every row meets, for the sake of indexes that begin with it."""
    return Q(queue__in=queues) if len(queues) < MOST_QUEUES else Q()


def _period(moment: str, params: Mapping[str, str]) -> tuple[datetime | None, datetime | None]:
    """Return from when (inclusive) to when (exclusive) rows are chosen."""
    given = {part: params.get(f"{moment}__{part}") for part in ("gte", "lt")}
    starts = [] if given["gte"] is None else [_moment(given["gte"])]
    ends = [] if given["lt"] is None else [_moment(given["lt"])]
    day = {part: params[name] for part in dates.PARTS if (name := f"{moment}__{part}") in params}
    if day:
        try:
            first, last = dates.period(day)
        except (KeyError, ValueError, OverflowError) as error:
            raise IncorrectLookupParameters(str(error)) from error
        starts.append(first)
        ends.append(last)
    return (max(starts) if starts else None), (min(ends) if ends else None)


def _moment(text: str) -> datetime:
    try:
        if not text:  # Django reads it as None
            raise ValueError("expected a time")
        value: datetime = models.DateTimeField().to_python(text)
        dates.check_year(value.year)
        return dates.as_stored(value)
    except (ValueError, OverflowError, ValidationError) as error:
        raise IncorrectLookupParameters(str(error)) from error
