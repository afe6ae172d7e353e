"""Which queues, tasks and errors a history table tells of, without reading all of it.

Counting the different values of a column reads every row, of which there may be millions.
Queues begin each index, so the next one is found from the last in one step; tasks and error
classes have no index, and the newest rows stand for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connections
from django.db.models import Max, Min

from vtrr_django.models import CompletedJob, FailedJob
from vtrr_django.registry import known_queues

History = type[CompletedJob] | type[FailedJob]

MOST_QUEUES: Final = 200
"""Queues looked for; who has more of them finds the rest through their settings."""

RECENT: Final = 1000
"""Newest rows whose tasks and error classes a page offers as filters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """The time a queue's rows in one table cover."""

    queue: str
    first: datetime
    last: datetime


def moment_of(model: History) -> str:
    """Return the column that says when a job ended."""
    return "failed_at" if model is FailedJob else "completed_at"


def rows_in(model: History, alias: str) -> Any:
    """Return all rows of a table in one database, in no order."""
    return model._default_manager.using(alias).order_by()


def spans(model: History, alias: str) -> list[Span]:
    """Return the queues that have rows, by name, and which time those cover."""
    moment = moment_of(model)
    if connections[alias].vendor == "mysql":
        # It goes from queue to queue by itself, and would not inside the statement below.
        ends = {"first": Min(moment), "last": Max(moment)}
        found = rows_in(model, alias).values("queue").annotate(**ends)[:MOST_QUEUES]
        return sorted((Span(**one) for one in found), key=lambda span: span.queue)
    return _spans_step_by_step(model, alias, moment)


def _spans_step_by_step(model: History, alias: str, moment: str) -> list[Span]:
    table = connections[alias].ops.quote_name(model._meta.db_table)
    # Two rows for each queue: what is named like a column of the model is read as that one.
    ends = " UNION ALL ".join(
        f"SELECT n AS seq, name AS queue, "  # noqa: S608 - names of ours, and a number
        f"(SELECT {end}({moment}) FROM {table} WHERE queue = name) AS {moment} "
        "FROM seen WHERE name IS NOT NULL"
        for end in ("MIN", "MAX")
    )
    found = model._default_manager.using(alias).raw(
        f"WITH RECURSIVE seen (n, name) AS (SELECT 1, (SELECT MIN(queue) FROM {table}) "  # noqa: S608
        f"UNION ALL SELECT n + 1, (SELECT MIN(queue) FROM {table} WHERE queue > name) "
        f"FROM seen WHERE name IS NOT NULL AND n < {MOST_QUEUES}) {ends}"
    )
    moments: dict[str, list[datetime]] = {}
    for row in found:
        at = getattr(row, moment)
        if at is not None:  # None: pruned between two steps of the statement
            moments.setdefault(row.queue, []).append(at)
    return [
        Span(queue=name, first=min(both), last=max(both)) for name, both in sorted(moments.items())
    ]


def queue_names(model: History, alias: str) -> list[str]:
    """Return the queues that have rows."""
    return [span.queue for span in spans(model, alias)]


@dataclass(frozen=True, slots=True)
class Recent:
    """What the newest rows name."""

    tasks: frozenset[str] = frozenset()
    error_classes: frozenset[str] = frozenset()


def recent(model: History, alias: str, queue: str | None) -> Recent:
    """Return the tasks and error classes of the newest rows, of one queue or of all."""
    rows, columns = rows_in(model, alias), ["task_name"]
    if model is FailedJob:
        columns.append("error_class")
    if queue is None:
        rows = rows.order_by("-seq")
    else:
        rows = rows.filter(queue=queue).order_by(f"-{moment_of(model)}")
    found = set(rows.values_list(*columns)[:RECENT])
    return Recent(
        tasks=frozenset(row[0] for row in found),
        error_classes=frozenset(row[1] for row in found if len(row) > 1),
    )


def known_tasks(queue: str | None) -> set[str]:
    """Return the tasks that this process could run, of one queue or of all."""
    return {task for one in known_queues() if queue in (None, one.name) for task in one.runnables}
