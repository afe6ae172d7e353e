"""Every engine and the oracle, driven by the same operations, give the same job each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.contract.jobs import LEASE_SECONDS, all_pages, job, outcome
from tests.contract.stores import Store
from vtrr_django.domain.fairness import FairQueue
from vtrr_django.domain.job import LeasedJob, NewJob, OutcomeKind, Renewal
from vtrr_django.domain.states import TRANSITIONS, State

PARTITIONS = st.sampled_from(["", "a", "b", "A", "b "])
WEIGHTS = st.sampled_from([1, 1, 1, 2, 7, 1000])
PRIORITIES = st.sampled_from([0, 0, 0, 10, -5])
SHARES = st.sampled_from([1.0, 2.0, 0.5, 3.0, 1 / 3])
RUNTIMES = st.sampled_from([0.0, 0.25, 1.0, 3.5, 100.0])
MAX_TIMEOUTS = 3
TICK = 20.0  # three ticks outlast a lease; one is less than a delay


@dataclass
class Live:
    new: NewJob
    order: int
    due: float = 0.0
    turn: int = 0
    timeouts: int = 0
    leased: LeasedJob | None = None


class Machine(RuleBasedStateMachine):
    """One queue in an engine, the same in the oracle, and a clock that only ticks."""

    store: Store
    config: dict[str, Any]

    def __init__(self) -> None:
        super().__init__()
        measured = self.config.get("cost") == "runtime"
        self.measured = measured
        self.engine = self.store.engine(max_timeouts=MAX_TIMEOUTS, **self.config)
        self.oracle = FairQueue(default_limit=self.config.get("partition_limit"), measured=measured)
        self.clock = 0.0
        self.turn = 0
        self.jobs: dict[str, Live] = {}
        self.dead: list[NewJob] = []
        self.states: dict[str, State] = {}

    def _move(self, job_id: str, target: State) -> None:
        """Note where a job goes; no store may do what the table does not know."""
        assert target in TRANSITIONS[self.states[job_id]], (self.states[job_id], target)
        self.states[job_id] = target

    # -- what time does ------------------------------------------------------------

    def _return_jobs(self) -> None:
        due = [x for x in self.jobs if x in self.oracle.scheduled()]
        due = [x for x in due if self.jobs[x].due <= self.clock]
        due.sort(key=lambda x: (self.jobs[x].due, self.jobs[x].turn, self.jobs[x].order))
        self.oracle.promote(due)
        for job_id in due:
            self._move(job_id, State.READY)
        late = [x for x in self.oracle.leased() if self.jobs[x].due <= self.clock]
        late.sort(key=lambda x: (self.jobs[x].due, self.jobs[x].turn, self.jobs[x].order))
        back, dead = [], []
        for job_id in late:
            live = self.jobs[job_id]
            live.timeouts += 1
            died = live.timeouts >= MAX_TIMEOUTS
            (dead if died else back).append(job_id)
            self._move(job_id, State.FAILED if died else State.READY)
            live.leased = None
        self.oracle.reclaim(back)
        for job_id in dead:
            self.oracle.bury(job_id)
            self.dead.append(self.jobs.pop(job_id).new)

    def _leased(self) -> list[Live]:
        return [self.jobs[x] for x in sorted(self.oracle.leased())]

    # -- operations ----------------------------------------------------------------

    @rule(
        key=PARTITIONS,
        weight=WEIGHTS,
        priority=PRIORITIES,
        count=st.sampled_from([1, 1, 1, 1, 3, 20]),
        delay=st.sampled_from([None, None, None, 25.0, 0.0, -25.0]),
    )
    def enqueue(
        self, key: str, weight: int, priority: int, count: int, delay: float | None
    ) -> None:
        when: dict[str, Any] = {"delay": delay}
        if delay is not None and delay < 0:  # it was due some time ago
            when = {"due_at": datetime.now(UTC) + timedelta(seconds=delay)}
        new = [job(key, weight=weight, priority=priority, **when) for _ in range(count)]
        assert self.engine.enqueue(new, {}) == [one.id for one in new]
        self.turn += 1
        for one in new:
            self._added(one, scheduled=(delay or 0.0) > 0, due=self.clock + (delay or 0.0))

    def _added(self, one: NewJob, *, scheduled: bool, due: float) -> None:
        state = State.SCHEDULED if scheduled else State.READY
        if one.id in self.states:
            self._move(one.id, state)
        self.states[one.id] = state
        self.jobs[one.id] = Live(one, len(self.jobs) + self.turn * 1000, due=due, turn=self.turn)
        self.oracle.enqueue(
            one.id,
            one.partition_key,
            weight=one.weight,
            priority=one.priority,
            task=one.task_name,
            scheduled=scheduled,
        )

    @rule(n=st.sampled_from([1, 1, 1, 2, 5]))
    def lease(self, n: int) -> None:
        leased = self.engine.lease(n, worker_id="w", lease_seconds=LEASE_SECONDS)
        self._return_jobs()
        expected = [x for x in (self.oracle.lease() for _ in range(n)) if x is not None]
        assert [one.id for one in leased] == expected
        self._mark(leased)

    def _mark(self, leased: list[LeasedJob]) -> None:
        self.turn += 1
        for one in leased:
            live = self.jobs[one.id]
            self._move(one.id, State.LEASED)
            live.leased, live.due, live.turn = one, self.clock + LEASE_SECONDS, self.turn
            assert one.timeouts == live.timeouts
            assert (one.partition_key, one.weight) == (live.new.partition_key, live.new.weight)

    @precondition(lambda self: self.oracle.leased())
    @rule(
        data=st.data(),
        kind=st.sampled_from([*OutcomeKind, OutcomeKind.ACK]),
        runtime=RUNTIMES,
        delay=st.sampled_from([0.0, 25.0]),
    )
    def finish(self, data: Any, kind: OutcomeKind, runtime: float, delay: float) -> None:
        live = data.draw(st.sampled_from(self._leased()))
        assert self._finish(live, kind, runtime, delay) is True

    def _finish(self, live: Live, kind: OutcomeKind, runtime: float, delay: float) -> bool:
        assert live.leased is not None
        done = self.engine.finish([outcome(kind, live.leased, delay=delay, runtime=runtime)])
        self.turn += 1
        job_id = live.new.id
        if kind in (OutcomeKind.ACK, OutcomeKind.FAIL):
            self.oracle.finish(job_id, runtime)
            self._move(job_id, State.COMPLETED if kind is OutcomeKind.ACK else State.FAILED)
            del self.jobs[job_id]
            if kind is OutcomeKind.FAIL:
                self.dead.append(live.new)
        elif kind is OutcomeKind.RELEASE:
            self.oracle.release(job_id, runtime)
            self._move(job_id, State.READY)
        else:
            self._move(job_id, State.SCHEDULED if delay else State.READY)
            self.oracle.put_off(job_id, runtime, delayed=delay > 0)
            live.due, live.turn = self.clock + delay, self.turn
        live.leased = None
        return done[0]

    @precondition(lambda self: self.oracle.leased())
    @rule(data=st.data(), runtime=RUNTIMES)
    def ack_and_lease_next(self, data: Any, runtime: float) -> None:
        live = data.draw(st.sampled_from(self._leased()))
        assert live.leased is not None
        done, leased = self.engine.finish_and_lease(
            [outcome(OutcomeKind.ACK, live.leased, runtime=runtime)],
            1,
            worker_id="w",
            lease_seconds=LEASE_SECONDS,
        )
        if live.due <= self.clock and done == [False]:
            # An engine may take late leases back before it ends this one, or after.
            self._return_jobs()
        else:
            assert done == [True]
            self._ack_in_oracle(live, runtime)
            self._return_jobs()
        expected = self.oracle.lease()
        assert [one.id for one in leased] == ([] if expected is None else [expected])
        self._mark(leased)

    def _ack_in_oracle(self, live: Live, runtime: float) -> None:
        self.oracle.finish(live.new.id, runtime)
        self._move(live.new.id, State.COMPLETED)
        del self.jobs[live.new.id]

    @precondition(lambda self: self.oracle.leased())
    @rule(data=st.data(), runtime=RUNTIMES, taken_over=st.booleans())
    def renew(self, data: Any, runtime: float, taken_over: bool) -> None:
        live = data.draw(st.sampled_from(self._leased()))
        assert live.leased is not None
        self.turn += 1
        renewal = Renewal(
            job_id=live.new.id,
            token=live.leased.token,
            runtime=runtime,
            new_token=f"token-{self.turn}" if taken_over else None,
        )
        assert self.engine.renew([renewal], lease_seconds=LEASE_SECONDS) == [True]
        if renewal.new_token is not None:
            live.leased = replace(live.leased, token=renewal.new_token)
        live.due, live.turn = self.clock + LEASE_SECONDS, self.turn
        self.oracle.renew(live.new.id, runtime)

    @rule()
    def tick(self) -> None:
        self.store.advance(self.engine.name, TICK)
        self.clock += TICK

    @rule()
    def reclaim(self) -> None:
        late = {x for x in self.oracle.leased() if self.jobs[x].due <= self.clock}
        assert {one.job_id for one in self.engine.reclaim()} == late
        self._return_jobs()

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.jobs)))
        expected = self.oracle.cancel(job_id)
        assert self.engine.cancel([job_id]) == ([job_id] if expected else [])
        if expected:
            self._cancelled(job_id)

    def _cancelled(self, job_id: str) -> None:
        self._move(job_id, State.CANCELLED)
        del self.jobs[job_id]

    @rule(key=PARTITIONS)
    def purge(self, key: str) -> None:
        waiting = [
            x
            for x, live in self.jobs.items()
            if live.new.partition_key == key and x not in self.oracle.leased()
        ]
        assert self.engine.purge(key) == len(waiting)
        for job_id in waiting:
            self.oracle.cancel(job_id)
            self._cancelled(job_id)

    @precondition(lambda self: self.dead)
    @rule(data=st.data())
    def requeue(self, data: Any) -> None:
        dead = data.draw(st.sampled_from(self.dead))
        assert self.engine.requeue([dead.id]) == [dead.id]
        self.dead.remove(dead)
        self.turn += 1
        self._added(dead, scheduled=False, due=0.0)

    @rule(key=PARTITIONS, share=SHARES)
    def set_share(self, key: str, share: float) -> None:
        self.engine.set_partition(key, share=share)
        self.oracle.set_share(key, share)

    @rule(key=PARTITIONS, limit=st.sampled_from([None, 1, 2]))
    def set_limit(self, key: str, limit: int | None) -> None:
        self.engine.set_partition(key, limit=limit)
        self.oracle.set_limit(key, limit)

    @rule(key=PARTITIONS, paused=st.booleans())
    def pause_partition(self, key: str, paused: bool) -> None:
        (self.engine.pause if paused else self.engine.resume)(key)
        self.oracle.pause_partition(key, paused)

    @rule(paused=st.sampled_from([True, False, False]))
    def pause(self, paused: bool) -> None:
        (self.engine.pause if paused else self.engine.resume)()
        self.oracle.paused = paused

    @rule(limit=st.sampled_from([1, 7, 100]))
    def browse(self, limit: int) -> None:
        keys = sorted({live.new.partition_key for live in self.jobs.values()}, key=str.encode)
        ready = all_pages(self.engine, State.READY, limit=limit)
        assert [one.id for one in ready] == [x for key in keys for x in self.oracle.line(key)]
        for state, ids in (
            (State.SCHEDULED, self.oracle.scheduled()),
            (State.LEASED, self.oracle.leased()),
        ):
            found = all_pages(self.engine, state, limit=limit)
            due = [self.jobs[one.id].due for one in found]
            assert (sorted(one.id for one in found), due) == (sorted(ids), sorted(due))

    # -- always --------------------------------------------------------------------

    @invariant()
    def counts_agree(self) -> None:
        stats = self.engine.stats()
        assert (stats.ready, stats.scheduled, stats.leased, stats.failed) == (
            len(self.oracle.ready()),
            len(self.oracle.scheduled()),
            len(self.oracle.leased()),
            len(self.dead),
        )

    @invariant()
    def states_agree(self) -> None:
        found = {x: row["state"] for x, row in self.store.live(self.engine.name).items()}
        assert found == {x: self.states[x].name.lower() for x in self.jobs}

    def teardown(self) -> None:
        history = self.store.history(self.engine.name)
        for state in (State.COMPLETED, State.FAILED):
            found = sorted(row["id"] for row in history[state.name.lower()])
            assert found == sorted(x for x, its in self.states.items() if its is state)


CONFIGS: dict[str, Callable[[], dict[str, Any]]] = {
    "weights": dict,
    "limited": lambda: {"partition_limit": 2},
    "measured": lambda: {"cost": "runtime"},
}


@pytest.mark.parametrize("config", CONFIGS)
def test_the_engine_and_the_oracle_lease_the_same_jobs(store: Store, config: str) -> None:
    machine = type("Machine", (Machine,), {"store": store, "config": CONFIGS[config]()})
    run_state_machine_as_test(
        machine,
        settings=settings(
            # With 50 steps each, over 2,000 steps a store in CI's first run.
            max_examples=max(6, min(24, settings().max_examples // 2)),
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
