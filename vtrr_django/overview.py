"""All queues at a glance, in few queries, however many there are.

Live jobs are asked of their queue, history and figures of the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db.models import Count, Max, Q

from vtrr_django.domain.job import Due, QueueStats
from vtrr_django.engines.sql.fields import from_microseconds
from vtrr_django.engines.sql.store import Store
from vtrr_django.engines.sql.tables import COMPLETED, FAILED
from vtrr_django.exceptions import ConfigurationError, StoreUnavailable, VTRRError
from vtrr_django.figures.keeping import MINUTE, floor
from vtrr_django.figures.reading import ALIVE, HOUR, Minute
from vtrr_django.figures.statements import TOTALS
from vtrr_django.models import QueueSample, WorkerSighting
from vtrr_django.queue import Queue
from vtrr_django.registry import depths, dues

COUNTED: Final = 100_000
"""Rows of the history that are counted; "100,000+" tells as much as the number would."""

TROUBLE: Final = (StoreUnavailable, ConfigurationError)
"""What keeps one queue from being shown; the others are, all the same."""


class Still(Store):
    """A database whose clock is read once: who asks several things means one moment."""

    _read: int | None = None

    def set_now(self, microseconds: int) -> None:
        """Take a time that was read from the same database a moment ago."""
        self._read = microseconds

    def now(self) -> int:
        """Return the database's time of the first call, in microseconds since the epoch."""
        if self._read is None:
            self._read = super().now()
        return self._read


@dataclass(kw_only=True, slots=True)
class Kept:
    """What the database keeps about one queue.

    Attributes:
        now: the database's time.
        completed: completed jobs in the history.
        failed: dead letters.
        minutes: the last hour, oldest first.
        alive: workers seen just now.
        seen_at: when a worker was seen last, within a day.
        unknown_at: when a worker was last given a job whose task it does not have.
    """

    now: datetime
    completed: int = 0
    failed: int = 0
    minutes: list[Minute] = field(default_factory=list)
    alive: int = 0
    seen_at: datetime | None = None
    unknown_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """One queue among others; None is what could not be found out.

    Attributes:
        queue: which.
        stats: its live jobs.
        kept: its history and figures.
        trouble: why there are no ``stats``; "": there are.
        history_trouble: why nothing is known of what was ``kept``; "": it is.
        due: what keeps its jobs waiting, if that was asked for.
    """

    queue: Queue
    stats: QueueStats | None
    kept: Kept | None
    trouble: str = ""
    history_trouble: str = ""
    due: Due = field(default_factory=Due)


def overviews(queues: Iterable[Queue], *, due: bool = False) -> list[Overview]:
    """Return every queue as it stands; one that does not answer says why.

    Args:
        queues: which.
        due: find out what keeps their jobs waiting, too.
    """
    queues = list(queues)
    kept: dict[str, Kept] = {}
    troubles: dict[str, str] = {}
    for alias in dict.fromkeys(queue.config.database for queue in queues):
        names = [queue.name for queue in queues if queue.config.database == alias]
        try:
            kept |= _kept(Still(alias), names)
        except TROUBLE as error:
            troubles |= dict.fromkeys(names, str(error))
    looks = depths(queues)
    waits = whats_due(queues, looks) if due else {}
    return [
        _overview(
            queue,
            looks[queue.name],
            waits.get(queue.name, Due()),
            kept.get(queue.name),
            troubles.get(queue.name, ""),
        )
        for queue in queues
    ]


def whats_due(
    queues: Iterable[Queue], looks: Mapping[str, QueueStats | VTRRError]
) -> dict[str, Due | VTRRError]:
    """Return what keeps jobs waiting, of those queues where some do and are meant to run."""

    def waits(look: QueueStats | VTRRError) -> bool:
        return isinstance(look, QueueStats) and not look.paused and look.ready + look.scheduled > 0

    return dues([queue for queue in queues if waits(looks[queue.name])], looks)


def _overview(
    queue: Queue,
    look: QueueStats | VTRRError,
    due: Due | VTRRError,
    kept: Kept | None,
    trouble: str,
) -> Overview:
    if isinstance(look, VTRRError) or isinstance(due, VTRRError):
        problem = str(look if isinstance(look, VTRRError) else due)
        return Overview(
            queue=queue, stats=None, kept=kept, trouble=problem, history_trouble=trouble
        )
    return Overview(queue=queue, stats=look, kept=kept, history_trouble=trouble, due=due)


def _kept(store: Still, names: Sequence[str]) -> dict[str, Kept]:
    now = from_microseconds(store.now())
    found = {name: Kept(now=now) for name in names}
    for name, of in at_a_glance(store, names).items():
        kept = found[name]
        kept.completed, kept.failed, kept.unknown_at = of.completed, of.failed, of.unknown_at
    last = floor(now, MINUTE)
    steps = [last - HOUR + n * MINUTE for n in range(int(HOUR / MINUTE) + 1)]
    samples = {(one[0], one[1]): one[2:] for one in _samples(store, names, steps[0])}
    for name, kept in found.items():
        for at in steps:
            completed, failed = samples.get((name, at), (0, 0))
            kept.minutes.append(Minute(at=at, completed=completed, failed=failed))
    for name, alive, seen_at in _sightings(store, names, now - ALIVE):
        found[name].alive, found[name].seen_at = alive, seen_at
    return found


class Glance(NamedTuple):
    """What one query tells of a queue; see :class:`Kept`."""

    completed: int
    failed: int
    unknown_at: datetime | None


def at_a_glance(store: Store, names: Sequence[str]) -> dict[str, Glance]:
    """Return how many completed jobs and dead letters are kept of each queue, and more.

    Counted up to one more than ``COUNTED``: a million rows take a database half a second.
    """
    of_one = [
        *(
            f"(SELECT COUNT(*) FROM (SELECT 1 FROM {table} WHERE queue = %s LIMIT {COUNTED + 1}) t)"  # noqa: S608 - names of ours
            for table in (COMPLETED, FAILED)
        ),
        f"(SELECT unknown_at FROM {TOTALS} WHERE queue = %s)",  # noqa: S608 - names of ours
    ]
    columns = ", ".join(of_one * len(names))
    [found] = store.read(f"SELECT {columns}", [n for name in names for n in (name,) * 3])
    rows = zip(*[iter(found)] * 3, strict=True)
    return {
        name: Glance(int(completed), int(failed), unknown and from_microseconds(unknown))
        for name, (completed, failed, unknown) in zip(names, rows, strict=True)
    }


def _samples(store: Store, names: Sequence[str], since: datetime) -> list[Any]:
    rows = _rows(QueueSample, store, names).filter(at__gte=since)
    return store.persist(lambda: list(rows.values_list("queue", "at", "completed", "failed")))


def _sightings(store: Store, names: Sequence[str], since: datetime) -> list[Any]:
    seen = _rows(WorkerSighting, store, names).values_list("queue")
    alive = Count("pk", filter=Q(seen_at__gte=since))
    return store.persist(lambda: list(seen.annotate(alive=alive, last=Max("seen_at"))))


def _rows(model: Any, store: Store, names: Sequence[str]) -> Any:
    return model._default_manager.using(store.alias).filter(queue__in=names).order_by()
