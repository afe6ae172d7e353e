"""The table of moves between states, held against every store: what it lacks is refused whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.contract.jobs import end, put, take
from tests.contract.stores import Store
from vtrr_django.domain.job import LeasedJob, OutcomeKind
from vtrr_django.domain.states import TRANSITIONS, State
from vtrr_django.engines.base import Engine

Verb = Callable[[Store, Engine, LeasedJob], bool]


def make_ready(store: Store, engine: Engine, job: LeasedJob) -> bool:
    """Try all that makes jobs ready."""
    if end(engine, job, OutcomeKind.RELEASE) or engine.requeue([job.id]):
        return True
    before = engine.stats().ready
    store.advance(engine.name, 61)
    engine.reclaim()
    return engine.stats().ready > before


VERBS: dict[State, Verb] = {
    State.SCHEDULED: lambda _, engine, job: end(engine, job, OutcomeKind.SNOOZE, delay=60.0),
    State.READY: make_ready,
    State.LEASED: lambda _, engine, job: job.id in {one.id for one in take(engine, 5)},
    State.COMPLETED: lambda _, engine, job: end(engine, job),
    State.FAILED: lambda _, engine, job: end(engine, job, OutcomeKind.FAIL),
    State.CANCELLED: lambda _, engine, job: engine.cancel([job.id]) == [job.id],
}
"""What moves a job to each state, with the proof of a lease that it once had; whether it did."""


def bring_to(state: State, store: Store, engine: Engine) -> LeasedJob:
    """Return a job in a state, which was leased once."""
    put(engine, "a")
    [job] = take(engine)
    if state in (State.READY, State.CANCELLED):
        assert end(engine, job, OutcomeKind.RELEASE)
    if state not in (State.LEASED, State.READY):
        assert VERBS[state](store, engine, job)
    assert state_of(store, engine, job) is state
    return job


def state_of(store: Store, engine: Engine, job: LeasedJob) -> State:
    """Return where a job is; one that is nowhere was cancelled."""
    places = {job_id: row["state"] for job_id, row in store.live(engine.name).items()}
    history = store.history(engine.name)
    rows = [(row["id"], name) for name in ("completed", "failed") for row in history[name]]
    assert not places.keys() & dict(rows).keys()
    assert len(dict(rows)) == len(rows)
    name = (places | dict(rows)).get(job.id, "cancelled")
    return State[name.upper()]


@pytest.mark.parametrize("source", State)
def test_a_job_moves_as_the_table_says_and_not_otherwise(store: Store, source: State) -> None:
    for target, move in VERBS.items():
        engine = store.engine()
        job = bring_to(source, store, engine)
        legal = target in TRANSITIONS[source]
        assert move(store, engine, job) is legal, (source, target)
        assert state_of(store, engine, job) is (target if legal else source)


@pytest.mark.parametrize("delay", [None, 60.0])
def test_a_new_job_is_scheduled_or_ready(store: Store, delay: float | None) -> None:
    engine = store.engine()
    [job_id] = put(engine, "a", delay=delay)
    [row] = store.live(engine.name).values()
    assert (row["id"], row["state"]) == (job_id, "ready" if delay is None else "scheduled")


def test_the_table_knows_every_state() -> None:
    assert TRANSITIONS.keys() == set(State) == VERBS.keys()
    reached = set().union(*TRANSITIONS.values())
    assert reached == set(State)
