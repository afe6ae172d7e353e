"""Queues that nobody declares any more, found by the names of their keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import redis

from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.job import Stray
from vtrr_django.engines.redis.commands import Commands
from vtrr_django.engines.redis.figures import Figures
from vtrr_django.engines.redis.wire import text
from vtrr_django.exceptions import ConfigurationError

_PAGE, _PAGES = 1000, 10
"""Keys in one reply of SCAN, and how many of these are asked for: no list of queues is kept."""

_MOST: Final = 20
"""Queues that are looked at more closely."""

_META = re.compile(r"vtrr:(\{?)([A-Za-z0-9_-]{1,64})(\}?):meta")
"""The key that knows every live job; see ``keys.py``."""


def strays(declared: Sequence[Commands]) -> list[Stray]:
    """Return what waits in the Redis that these queues share, and in none of them.

    Only the first 10,000 keys of its database are looked through, and none of a cluster's.

    Raises:
        StoreUnavailable: Redis did not answer, or refused.
    """
    first = declared[0]
    if not isinstance(first.client, redis.Redis):
        return []
    known = {commands.keys["meta"] for commands in declared}
    found: list[Stray] = []
    for key in sorted(set(_meta_keys(first)) - known)[:_MOST]:
        stray = _look(first, key)
        if stray is not None:
            found.append(stray)
    return found


def _meta_keys(commands: Commands) -> Iterator[str]:
    cursor: Any = 0
    for _ in range(_PAGES):
        command = ("SCAN", cursor, "MATCH", "vtrr:*:meta", "COUNT", _PAGE)
        cursor, keys = commands.call(*command)
        yield from map(text, keys)
        if int(cursor) == 0:
            return


def _look(declared: Commands, key: str) -> Stray | None:
    """Return what is in the queue that has this key; None: nothing, or it is no queue."""
    parts = _META.fullmatch(key)
    if parts is None or bool(parts[1]) != bool(parts[3]):
        return None
    config = QueueConfig(options={"HASH_TAG": bool(parts[1])})
    try:
        depth = Figures(parts[2], config, Commands(parts[2], config, declared.client)).depth()
    except ConfigurationError:
        return None
    if not depth.ready + depth.scheduled + depth.leased:
        return None
    return Stray(
        queue=parts[2],
        place=f"the Redis database of queue {declared.queue!r}",
        ready=depth.ready,
        scheduled=depth.scheduled,
        leased=depth.leased,
    )
