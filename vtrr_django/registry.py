"""Queues by name: one object per name and process."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable

from vtrr_django.conf import DEFAULT_QUEUE, get_settings
from vtrr_django.domain.job import QueueStats
from vtrr_django.domain.values import check_queue_name
from vtrr_django.engines.base import Engine
from vtrr_django.exceptions import ConfigurationError, StoreUnavailable, VTRRError
from vtrr_django.queue import Queue

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
    found: dict[str, QueueStats | VTRRError] = {}
    groups: dict[Hashable, list[Engine]] = {}
    for queue in queues:
        try:
            engine = queue.engine
        except ConfigurationError as error:
            found[queue.name] = error
            continue
        alone = None if engine.counts_together else queue.name
        groups.setdefault((type(engine), engine.config.place, alone), []).append(engine)
    away: dict[Hashable, StoreUnavailable] = {}
    for engines in groups.values():
        place, names = engines[0].config.place, [engine.name for engine in engines]
        if place in away:
            found |= dict.fromkeys(names, away[place])
            continue
        try:
            found |= zip(names, type(engines[0]).depths(engines), strict=True)
        except StoreUnavailable as error:
            away[place] = error
            found |= dict.fromkeys(names, error)
        except ConfigurationError as error:
            found |= dict.fromkeys(names, error)
    return found


def known_queues() -> list[Queue]:
    """Return every queue this process has asked for, declared or not."""
    with _lock:
        return list(_queues.values())
