"""Jobs that a rename left behind: they wait where settings look for no queue of their name."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from vtrr_django.conf import get_settings
from vtrr_django.domain.job import Stray
from vtrr_django.engines.base import Engine
from vtrr_django.engines.sql import strays as rows
from vtrr_django.engines.sql.store import Store
from vtrr_django.exceptions import ConfigurationError, StoreUnavailable
from vtrr_django.queue import Queue
from vtrr_django.registry import all_queues

MOST_NAMED: Final = 10
"""Of more queues that jobs were left in, only the number is told."""

_UNTOLD = (StoreUnavailable, ConfigurationError)
"""Why a place is passed over: whoever asks says elsewhere that it does not answer."""


def find(queues: Iterable[Queue]) -> list[Stray]:
    """Return what was left behind in the places of these queues, which should answer."""
    queues = list(queues)
    return [*in_databases(queue.config.database for queue in queues), *in_stores(queues)]


def in_databases(aliases: Iterable[str]) -> list[Stray]:
    """Return what was left behind in databases; one query each."""
    found: list[Stray] = []
    for alias in dict.fromkeys(aliases):
        try:
            found += rows.strays(Store(alias), [q.name for q in all_queues() if _is_in(q, alias)])
        except _UNTOLD:
            continue
    return found


def _is_in(queue: Queue, alias: str) -> bool:
    try:
        return queue.engine.transaction_alias == alias
    except ConfigurationError:  # nobody knows
        return queue.config.database == alias


def in_stores(queues: Iterable[Queue]) -> list[Stray]:
    """Return what was left behind in stores of these queues that are no database."""
    asked = {place for place, _ in _engines(queues)}
    groups: dict[Hashable, list[Engine]] = {}
    for place, engine in _engines(all_queues()):
        if place in asked:
            groups.setdefault(place, []).append(engine)
    found: list[Stray] = []
    for engines in groups.values():
        try:
            found += type(engines[0]).strays(engines)
        except _UNTOLD:
            continue
    return found


def _engines(queues: Iterable[Queue]) -> Iterable[tuple[Hashable, Engine]]:
    for queue in queues:
        try:
            engine = queue.engine
        except ConfigurationError:
            continue
        if engine.transaction_alias is None:
            yield (type(engine), engine.config.place), engine


def told(strays: Iterable[Stray]) -> list[str]:
    """Return a sentence about each, and what to do about it."""
    strays = list(strays)
    sentences = [_told(one) for one in strays[:MOST_NAMED]]
    more = len(strays) - MOST_NAMED
    if more > 0:
        sentences.append(f"Jobs were left in {more:,} more such queues.")
    return sentences


def _told(stray: Stray) -> str:
    counts = ((stray.ready, "ready"), (stray.scheduled, "scheduled"), (stray.leased, "leased"))
    jobs = ", ".join(f"{count:,} {state}" for count, state in counts if count)
    left = f"Left behind in queue {stray.queue}, in {stray.place}: {jobs}."
    if stray.queue in get_settings().queues:
        return (
            f"{left} Settings keep this queue elsewhere now, so no worker runs these. Have "
            f"VTRR['QUEUES'][{stray.queue!r}] lead back there until workers have run them."
        )
    return (
        f"{left} Settings declare no queue of that name, so no worker runs these. If it was "
        f"renamed or removed, put {stray.queue!r} back into VTRR['QUEUES'] until workers have run "
        f"them, or manage.py vtrr_purge --queue {stray.queue} has removed them."
    )
