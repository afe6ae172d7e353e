"""Queues by name: one object per name and process."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

from django.conf import settings

from vtrr_django.conf import DEFAULT_QUEUE, get_settings
from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.job import Due, JobInfo, QueueStats
from vtrr_django.domain.places import Place, server_of
from vtrr_django.domain.values import check_job_id, check_queue_name
from vtrr_django.engines.base import Engine
from vtrr_django.exceptions import ConfigurationError, StoreUnavailable, VTRRError
from vtrr_django.queue import Queue

T = TypeVar("T")

_queues: dict[str, Queue] = {}
_lock = threading.Lock()


def get_queue(name: str = DEFAULT_QUEUE) -> Queue:
    """Return the queue of that name; always the same object.

    Reads no settings, so it is safe at import time; a name that settings do not declare
    is refused at the queue's first use.

    Raises:
        ValidationError: the name is not 1 to 64 of ``A-Z a-z 0-9 _ -``.
    """
    with _lock:
        try:
            return _queues[name]
        except (KeyError, TypeError):
            queue = _queues[name] = Queue(check_queue_name(name, "queue"))
            return queue


def all_queues() -> list[Queue]:
    """Return every queue that settings declare, in their order."""
    return [get_queue(name) for name in get_settings().queues]


def depths(queues: Iterable[Queue]) -> dict[str, QueueStats | VTRRError]:
    """Return how many live jobs each queue has, or why that could not be found out, by name.

    Those in one database are counted together; a store that does not answer is not waited
    for again.
    """
    return _ask_each(queues, lambda engines: type(engines[0]).depths(engines))


def dues(
    queues: Iterable[Queue], depths: Mapping[str, QueueStats | VTRRError]
) -> dict[str, Due | VTRRError]:
    """Return what keeps the jobs of queues waiting, as :func:`depths` does what it returns.

    Args:
        queues: those not asked about in vain: it is known how they stand.
        depths: how.
    """

    def ask(engines: list[Engine]) -> list[Due]:
        stand = [one for engine in engines if isinstance(one := depths[engine.name], QueueStats)]
        return type(engines[0]).dues(engines, stand)

    return _ask_each(queues, ask)


def _ask_each(
    queues: Iterable[Queue], ask: Callable[[list[Engine]], list[T]]
) -> dict[str, T | VTRRError]:
    """Return what is said of each queue, or why nothing is, by name."""
    groups, errors = _by_place(queues)
    found: dict[str, T | VTRRError] = dict(errors)
    away: dict[Hashable, StoreUnavailable] = {}
    for engines in groups:
        place, names = place_of(engines[0].config), [engine.name for engine in engines]
        known = place.known(away)
        if known is not None:
            found |= dict.fromkeys(names, known)
            continue
        try:
            found |= zip(names, ask(engines), strict=True)
        except StoreUnavailable as error:
            away[place.lost(error)] = error
            found |= dict.fromkeys(names, error)
        except ConfigurationError as error:
            found |= dict.fromkeys(names, error)
    return found


def place_of(config: QueueConfig) -> Place:
    """Return where the live jobs of a queue are kept."""
    server = _server_of(config)
    return Place(store=config.place, server=config.place if server is None else server)


def _server_of(config: QueueConfig) -> Hashable | None:
    url, alias = config.options.get("URL"), config.options.get("CACHE")
    where = url if alias is None else settings.CACHES.get(alias, {}).get("LOCATION")
    if isinstance(where, str):
        where = [where] if alias is None else re.split("[;,]", where)
    if not isinstance(where, list | tuple):
        return None
    server = server_of(map(str, where))
    return None if server is None else (config.engine, server)


def live_jobs(queues: Iterable[Queue], job_id: str) -> list[JobInfo]:
    """Return the live jobs of that id; in stores that do not answer there are none.

    Raises:
        ValidationError: it is no id.
    """
    check_job_id(job_id, "job_id")
    found: list[JobInfo | None] = []
    away: dict[Hashable, StoreUnavailable] = {}
    for engines in _by_place(queues)[0]:
        place = place_of(engines[0].config)
        if place.known(away) is not None:
            continue
        try:
            found += type(engines[0]).each_job(engines, job_id)
        except StoreUnavailable as error:
            away[place.lost(error)] = error
        except ConfigurationError:
            continue
    return [one for one in found if one is not None]


def _by_place(
    queues: Iterable[Queue],
) -> tuple[list[list[Engine]], dict[str, VTRRError]]:
    """Return the engines of queues, those together that are asked together; why some have none."""
    groups: dict[Hashable, list[Engine]] = {}
    errors: dict[str, VTRRError] = {}
    for queue in queues:
        try:
            engine = queue.engine
        except ConfigurationError as error:
            errors[queue.name] = error
            continue
        alone = None if engine.counts_together else queue.name
        groups.setdefault((type(engine), engine.config.place, alone), []).append(engine)
    return list(groups.values()), errors


def known_queues() -> list[Queue]:
    """Return every queue this process has asked for, declared or not."""
    with _lock:
        return list(_queues.values())
