"""Making django-celery-beat's rows what settings ask for, and no more than that.

A row is ours when its description has our line (see ``marker``) for the task that it calls.
The line tells what we wrote into it last: a field that still has that value follows settings,
one that has another was set by an operator and stays. Fields that we never write, such as
``enabled`` and ``name``, are the operator's from the start. All other rows are left alone.

Rows are saved one by one, each only where it changes: a beat that runs looks at the time of
the last change, which is written by ``save()`` and ``delete()`` alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db import IntegrityError, connections, router, transaction
from django.db.models import Q
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from vtrr_django.contrib.beat import marker
from vtrr_django.contrib.beat.plan import Wanted

CREATED: Final = "created"
UPDATED: Final = "updated"
UNCHANGED: Final = "unchanged"
REMOVED: Final = "removed"
LEFT_ALONE: Final = "left alone"
CHANGED: Final = frozenset((CREATED, UPDATED, REMOVED))

_DESCRIPTION = (
    "{purpose}\n"
    "Made by vtrr_django. What you change here stays as you set it; the rest follows settings. "
    "To stop it, disable it: once deleted, it is made again. The next line is how it is known.\n"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What was done about one row, or would be.

    Attributes:
        what: ``CREATED``, ``UPDATED``, ``UNCHANGED``, ``REMOVED`` or ``LEFT_ALONE``.
        name: of the row.
        values: what was written into it, by field.
        kept: fields that an operator set, and so do not follow settings.
        enabled: whether beat runs it.
    """

    what: str
    name: str
    values: Mapping[str, Any]
    kept: tuple[str, ...] = ()
    enabled: bool = True


def database() -> str:
    """Return the alias of the database in which beat's rows are."""
    return str(router.db_for_write(PeriodicTask))


def has_table(alias: str) -> bool:
    """Return whether a database was migrated for the rows; it connects."""
    table = PeriodicTask._meta.db_table
    return table in connections[alias].introspection.table_names()


def sync(wanted: Sequence[Wanted], *, dry_run: bool = False) -> list[Change]:
    """Make our rows those that are wanted; return what was done about each.

    Once more does nothing. Of no rows wanted, it removes all that are ours.

    Args:
        wanted: the rows there are to be.
        dry_run: do nothing; return what would be done.

    Raises:
        DatabaseError: the database refused it; rows before that one are done.
    """
    alias = database()
    steps = list(_steps(alias, wanted))
    if not dry_run:
        for _, act in steps:
            if act is not None:
                act()
    return [change for change, _ in steps]


_Step = tuple[Change, "partial[Any] | None"]


def _steps(alias: str, wanted: Sequence[Wanted]) -> Iterator[_Step]:
    rows = list(
        PeriodicTask.objects.using(alias)
        .filter(Q(description__contains=marker.BEGIN) | Q(name__in=[one.task for one in wanted]))
        .select_related("interval")
        .order_by("pk")
    )
    marked = [(row, written) for row in rows if (written := _written(row)) is not None]
    names = {row.name for row in rows}
    for one in wanted:
        known = _the_row(marked, one.task)
        if known is not None:
            yield _update(alias, *known, one)
        elif one.task in names:
            yield Change(what=LEFT_ALONE, name=one.task, values={}), None
        else:
            yield _create(alias, one)
    tasks = {one.task for one in wanted}
    for row, _ in marked:
        if row.task not in tasks:
            yield Change(what=REMOVED, name=row.name, values={}), partial(row.delete, using=alias)


def _written(row: PeriodicTask) -> dict[str, Any] | None:
    """Return what we wrote into a row; None: it is not ours."""
    written = marker.read(row.description)
    return written if written is not None and written["task"] == row.task else None


def _the_row(
    marked: Sequence[tuple[PeriodicTask, dict[str, Any]]], task: str
) -> tuple[PeriodicTask, dict[str, Any]] | None:
    """Return our row of a task; of several, made by copying it, the one that kept its name."""
    found = [one for one in marked if one[0].task == task]
    named = [one for one in found if one[0].name == task]
    return next(iter([*named, *found]), None)


def _create(alias: str, one: Wanted) -> _Step:
    def create() -> None:
        text = _DESCRIPTION.format(purpose=one.purpose) + marker.line(one.task, one.values)
        row = PeriodicTask(
            name=one.task,
            task=one.task,
            interval=_interval(alias, one),
            queue=one.queue,
            priority=one.priority,
            expire_seconds=one.values["expire_seconds"],
            description=text,
        )
        try:
            with transaction.atomic(using=alias):
                row.save(using=alias, force_insert=True)
        except (IntegrityError, ValidationError):
            # Two processes migrate at once: the other one has made it.
            if not PeriodicTask.objects.using(alias).filter(name=one.task).exists():
                raise

    return Change(what=CREATED, name=one.task, values=one.values), partial(create)


def _update(alias: str, row: PeriodicTask, written: dict[str, Any], one: Wanted) -> _Step:
    present, wanted = _values_of(row), one.values
    edited = [field for field in wanted if present[field] != written.get(field)]
    changes = {
        field: value
        for field, value in wanted.items()
        if field not in edited and present[field] != value
    }
    change = Change(
        what=UPDATED if changes else UNCHANGED,
        name=row.name,
        values=changes,
        kept=tuple(field for field in edited if present[field] != wanted[field]),
        enabled=row.enabled,
    )
    return change, partial(_write, alias, row, written, changes, one) if changes else None


def _write(
    alias: str,
    row: PeriodicTask,
    written: dict[str, Any],
    changes: dict[str, Any],
    one: Wanted,
) -> None:
    fields = {name: value for name, value in changes.items() if name != "schedule"}
    if "schedule" in changes:
        fields["interval"] = _interval(alias, one)
    values = {name: value for name, value in written.items() if name != "task"} | changes
    fields["description"] = marker.replace(row.description, one.task, values)
    for name, value in fields.items():
        setattr(row, name, value)
    # Nothing else: an operator, or beat, may be writing the rest at this moment.
    row.save(using=alias, update_fields=[*fields, "date_changed"])


def _values_of(row: PeriodicTask) -> dict[str, Any]:
    """Return what a row has in the fields that we write."""
    return {
        "schedule": _schedule_of(row),
        "queue": row.queue or None,
        "priority": row.priority,
        "expire_seconds": row.expire_seconds,
    }


def _schedule_of(row: PeriodicTask) -> str:
    """Return a text that is equal to what we wrote only if nobody has changed the schedule."""
    interval = row.interval
    return str(row) if interval is None else f"{interval.every} {interval.period}"


def _interval(alias: str, one: Wanted) -> IntervalSchedule:
    """Return the interval of a row; one that is there already, if there is."""
    number, period = one.every
    intervals = IntervalSchedule.objects.using(alias)
    found = intervals.filter(every=number, period=period).order_by("pk").first()
    return found or intervals.create(every=number, period=period)
