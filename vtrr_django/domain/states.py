"""The states of a job and the one table of moves between them."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from vtrr_django.exceptions import IllegalTransition


class State(enum.IntEnum):
    """Where a job is. The first three are live: they are rows of the ``Job`` table."""

    SCHEDULED = 0
    READY = 1
    LEASED = 2
    COMPLETED = 3
    FAILED = 4
    CANCELLED = 5


TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.SCHEDULED: frozenset({State.READY, State.CANCELLED}),
    State.READY: frozenset({State.LEASED, State.CANCELLED}),
    State.LEASED: frozenset({State.COMPLETED, State.FAILED, State.SCHEDULED, State.READY}),
    State.FAILED: frozenset({State.READY}),
    State.COMPLETED: frozenset(),
    State.CANCELLED: frozenset(),
}


def sources_of(target: State) -> frozenset[State]:
    """Return every state from which a job may move to ``target``."""
    return frozenset(source for source, targets in TRANSITIONS.items() if target in targets)


def check_transition(source: State, target: State) -> None:
    """Raise :class:`IllegalTransition` unless a job may move from ``source`` to ``target``."""
    if target not in TRANSITIONS[source]:
        allowed = ", ".join(sorted(s.name.lower() for s in TRANSITIONS[source])) or "nothing"
        raise IllegalTransition(
            f"expected a move from {source.name.lower()} to {allowed}, got {target.name.lower()}"
        )
