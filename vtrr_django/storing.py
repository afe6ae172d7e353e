"""From validated jobs to the store: at once, or after the commit of the caller's transaction.

And back to it from the dead letters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from django.db import DEFAULT_DB_ALIAS, connections, transaction

from vtrr_django import events
from vtrr_django.dispatching import call_for
from vtrr_django.domain.job import NewJob
from vtrr_django.engines.base import Engine
from vtrr_django.exceptions import so_far
from vtrr_django.intake import Waiting, declared_shares

if TYPE_CHECKING:
    from vtrr_django.queue import Queue

_CHUNK: Final = 1000
"""Dead letters whose shares are asked for before they are brought back."""


def store(queue: Queue, jobs: Sequence[NewJob], on_commit: bool | None) -> list[str]:
    """Store jobs, all or none, and have them run; return their ids, or whose place they take.

    Args:
        queue: theirs.
        jobs: validated.
        on_commit: whether a store outside the database waits for the open transaction; None:
            as ``ENQUEUE_ON_COMMIT`` says.

    Raises:
        DuplicateJobError: an id belongs to a different job; none was stored.
        StoreUnavailable: the store did not answer.
    """
    config, engine = queue.config, queue.engine
    _ = queue.dispatcher  # what it may lack is said before the first write
    shares = declared_shares(config.shares, {job.partition_key for job in jobs})
    if _must_wait(engine, config.enqueue_on_commit if on_commit is None else on_commit):
        return _store_later(queue, engine, jobs, shares)
    return _store_now(queue, engine, jobs, shares)


def bring_back(queue: Queue, ids: Sequence[str] | None, limit: int) -> list[str]:
    """Requeue dead letters as :meth:`Queue.requeue` does; partitions get what ``SHARES`` says.

    Raises:
        ConfigurationError, ValidationError: what ``SHARES`` says is no share. Nothing is lost:
            some letters may be live jobs again, the others are letters still.
        StoreUnavailable: the store did not answer.
    """
    engine, shares = queue.engine, queue.config.shares
    _ = queue.dispatcher  # as in store()
    if shares is None:
        return engine.requeue(ids, limit=limit)
    back: list[str] = []
    with so_far(lambda: len(back)):
        some = _oldest(engine, limit, back) if ids is None else _named(engine, ids)
        for letters in some:
            declared = declared_shares(shares, {one.partition_key for one in letters})
            back += engine.requeue([one.id for one in letters], shares=declared)
    return back


def _named(engine: Engine, ids: Sequence[str]) -> Iterator[list[NewJob]]:
    for start in range(0, len(ids), _CHUNK):
        if letters := engine.dead_letters(ids[start : start + _CHUNK]):
            yield letters


def _oldest(engine: Engine, limit: int, back: Sequence[str]) -> Iterator[list[NewJob]]:
    """Yield the oldest dead letters some at a time, until ``limit`` are ``back`` or all were seen.

    Those that are letters still when their turn was are others' just then, and passed over.
    """
    held: set[str] = set()
    while len(back) < limit:
        most = min(_CHUNK, limit - len(back))
        found = engine.dead_letters(limit=most + len(held))
        letters = [one for one in found if one.id not in held][:most]
        before = len(back)
        if letters:
            yield letters
        if len(found) < most + len(held):
            return
        if len(back) - before < len(letters):
            left = {one.id for one in letters}.difference(back[before:])
            held.update(one.id for one in engine.dead_letters(sorted(left)))


def _must_wait(engine: Engine, on_commit: bool) -> bool:
    alias = engine.transaction_alias
    joins = alias is not None and connections[alias].in_atomic_block
    return on_commit and not joins and connections[DEFAULT_DB_ALIAS].in_atomic_block


def _store_later(
    queue: Queue, engine: Engine, jobs: Sequence[NewJob], shares: Mapping[str, float]
) -> list[str]:
    """Store after the commit of the default database's transaction; return the ids now."""
    waiting = Waiting(queue.name, jobs, lambda: _store_now(queue, engine, jobs, shares))
    ids = waiting.ids(engine.known(jobs))
    # Not robust: should the store refuse, the caller has to hear of it.
    transaction.on_commit(waiting)
    return ids


def _store_now(
    queue: Queue, engine: Engine, jobs: Sequence[NewJob], shares: Mapping[str, float]
) -> list[str]:
    ids = engine.enqueue(jobs, shares)
    events.enqueued(queue, jobs, ids, engine.transaction_alias)
    if (dispatcher := queue.dispatcher) is not None:
        call_for(dispatcher, jobs, engine.transaction_alias)
    return ids
