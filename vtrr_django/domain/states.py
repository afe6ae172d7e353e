"""The states of a job and the one table of moves between them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class State(enum.IntEnum):
    """Where a job is. The first three are live: they are rows of the ``Job`` table."""

    SCHEDULED = 0
    READY = 1
    LEASED = 2
    COMPLETED = 3
    FAILED = 4
    CANCELLED = 5


TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.SCHEDULED: frozenset({State.READY, State.CANCELLED}),
    State.READY: frozenset({State.LEASED, State.CANCELLED}),
    State.LEASED: frozenset({State.COMPLETED, State.FAILED, State.SCHEDULED, State.READY}),
    State.FAILED: frozenset({State.READY}),
    State.COMPLETED: frozenset(),
    State.CANCELLED: frozenset(),
}
"""The states that a job may move to from each.

Every store obeys it by the conditions of its statements and scripts, for only there a state can
be looked at and left in one step; the contract's tests hold each store against this table. What
would be another move is refused: the verb says that it found nothing to do.
"""
