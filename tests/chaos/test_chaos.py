"""Processes do anything to a queue at random, are killed and stopped; then all must add up."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.chaos.audit import Audit
from tests.chaos.telling import Telling
from tests.contract.stores import Store
from tests.races.conftest import MakeQueue
from tests.races.processes import Crew
from tests.races.threads import Background
from tests.races.waiting import until
from vtrr_django.domain.job import OutcomeKind, PartitionStats
from vtrr_django.queue import Queue

OPEN = ["", "a", "b", "one", "two"]
LIMITS = {"one": 1, "two": 2}
STEERED = ["s", "t"]
CONFIGS: list[dict[str, Any]] = [
    {},
    {"COST": "runtime"},
    {"MAX_CONCURRENCY": 5, "RESERVE": 2},
    {"PARTITION_LIMIT": 4, "SHARES": {"a": 5}},
]
LEASE = 1.0


class Conductor:
    """Starts processes, and ends and stops them without a warning."""

    def __init__(self, crew: Crew, seed: str, *, kills: bool) -> None:
        self.crew = crew
        self.kills = kills
        self.seed = seed
        self.rng = random.Random(seed)
        self._numbers = itertools.count()
        self._staff: dict[Any, str] = {}
        self._asleep: dict[Any, float] = {}

    def hire(self, role: str) -> None:
        seed = f"{self.seed}-{next(self._numbers)}"
        options: dict[str, Any] = {"seed": seed}
        if role == "wander":
            options |= {"open_keys": OPEN, "steered": STEERED}
        self._staff[self.crew.start(f"tests.chaos.roles:{role}", **options)] = role

    def reign(self, seconds: float) -> None:
        """Let chaos reign for a while."""
        end = time.monotonic() + seconds
        pause = threading.Event()
        while time.monotonic() < end:
            pause.wait(self.rng.uniform(0, 0.3))
            self._wake()
            self.crew.check()
            victim = self.rng.choice([*self._staff])
            if self.kills and self.rng.random() < 0.3:
                self._replace(victim)
            elif victim not in self._asleep:
                self.crew.stop(victim)
                longest = self.rng.choice([0.1, 0.1, 0.1, 1.5 * LEASE])
                self._asleep[victim] = time.monotonic() + self.rng.uniform(0, longest)

    def _wake(self, *, all: bool = False) -> None:
        for process, when in [*self._asleep.items()]:
            if all or when <= time.monotonic():
                self.crew.resume(process)
                del self._asleep[process]

    def _replace(self, victim: Any) -> None:
        self.crew.kill(victim)
        self.crew.journal.say("killed", victim.pid)
        self._asleep.pop(victim, None)
        self.hire(self._staff.pop(victim))

    def dismiss(self) -> None:
        """Have all come to an end by themselves."""
        self._wake(all=True)
        self.crew.flag("enough")
        for process, role in self._staff.items():
            if role == "work":
                until(lambda process=process: self._has_begun(process), "a worker to begin")
                process.terminate()
        self.crew.join(*self._staff)
        assert {process.exitcode for process in self._staff} == {0}

    def _has_begun(self, process: Any) -> bool:
        """Return whether it takes signals as a wish."""
        return any(
            entry.what == "begun" and entry.pid == process.pid
            for entry in self.crew.journal.entries()
        )


def _fixed_limits(queue: Queue) -> dict[str, int]:
    """Return the limits that are in force all the time."""
    config = queue.config
    limits = {key: config.effective_limit(LIMITS.get(key)) for key in OPEN}
    if config.reserve:
        limits |= dict.fromkeys(STEERED, config.default_limit)
    return {key: limit for key, limit in limits.items() if limit is not None}


@contextmanager
def _limits_watched(queue: Queue) -> Iterator[list[PartitionStats]]:
    """Look at the store again and again; the yielded list gets what is over its limit."""
    over, wrong, limits = threading.Event(), [], _fixed_limits(queue)

    def look() -> None:
        while not over.wait(0.02):
            wrong.extend(
                partition
                for partition in queue.partitions()
                if partition.leased > limits.get(partition.partition_key, partition.leased)
            )

    watcher = Background(look)
    try:
        yield wrong
    finally:
        over.set()
        watcher.result()


def _is_stranded(partition: PartitionStats) -> bool:
    full = partition.limit is not None and partition.leased >= partition.limit
    return bool(partition.ready) and not (partition.paused or full or partition.candidate)


def _drain(store: Store, queue: Queue, telling: Telling) -> None:
    """Have everything run that is left, with no other help than calls of ``lease``."""
    queue.resume()
    for key in STEERED:
        queue.resume(key)
    for _ in range(10):
        store.advance(queue.name, LEASE + 1)
        while jobs := telling.lease(7):
            for job in jobs:
                telling.end(OutcomeKind.ACK, job)


def test_everything_adds_up(
    store: Store,
    make_queue: MakeQueue,
    make_crew: Callable[[Queue], Crew],
    seed: str,
    seconds: float,
) -> None:
    rng = random.Random(seed)
    config, kills = rng.choice(CONFIGS), rng.random() < 0.7
    queue = make_queue(LEASE_SECONDS=LEASE, MAX_TIMEOUTS=3, COMPLETED_RETENTION=None, **config)
    for key, limit in LIMITS.items():
        queue.set_partition(key, limit=limit)
    crew = make_crew(queue)
    conductor = Conductor(crew, seed, kills=kills)
    with _limits_watched(queue) as over_limit:
        for role in ("wander", "wander", "wander", "work"):
            conductor.hire(role)
        until(
            lambda: any(rows for _, rows in crew.journal.said("leased")), "something to be leased"
        )
        conductor.reign(seconds)
        conductor.dismiss()
    assert over_limit == []

    if kills:
        queue.reclaim()  # makes good what they have left half done
    assert [p for p in queue.partitions() if _is_stranded(p)] == []
    _drain(store, queue, Telling(queue, crew.journal.say, "drain"))
    audit = Audit(crew.journal.entries())
    left = store.history(queue.name), store.live(queue.name), queue.stats()
    assert audit.problems(*left, _fixed_limits(queue)) == []
    assert audit.jobs, "nothing was leased"
