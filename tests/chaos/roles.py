"""What the processes do: anything, at random, until the flag "enough" is up."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from typing import Any

from tests.chaos.telling import Errand, Telling
from tests.races.child import Part
from vtrr_django import Discard, RetryPolicy, Snooze
from vtrr_django.domain.job import LeasedJob, Outcome, OutcomeKind, Renewal

MOST_HELD = 8
MSG_IDS = 30

KINDS = {
    OutcomeKind.ACK: 8,
    OutcomeKind.FAIL: 1,
    OutcomeKind.RETRY: 2,
    OutcomeKind.SNOOZE: 1,
    OutcomeKind.RELEASE: 1,
}


class Wanderer:
    """Uses every verb there is, and forgets some of the jobs it has leased."""

    def __init__(self, part: Part, rng: random.Random, open_keys: list[str], steered: list[str]):
        self.name = f"wanderer-{part.number}"
        self.telling = Telling(part.queue, part.say, self.name)
        self.queue = part.queue
        self.rng = rng
        self.keys = open_keys + steered
        self.steered = steered
        self.held: list[LeasedJob] = []
        self.own: list[str] = []
        self._markers = (f"{self.name}-{number}" for number in itertools.count())
        self._odds: dict[Callable[[], object], float] = {
            self.publish: 6,
            self.lease: 8,
            self.end_one: 8,
            self.trip: 5,
            self.renew: 3,
            self.cancel: 1,
            lambda: self.telling.requeue(rng.randint(1, 5)): 0.5,
            self.queue.reclaim: 0.7,
            self.queue.prune: 0.5,
            self.steer: 1,
            self.queue.partitions: 0.3,
            self.queue.stats: 0.2,
            lambda: time.sleep(rng.uniform(0, 0.02)): 2,
            lambda: time.sleep(rng.uniform(1, 1.5)): 0.05,
        }

    def act(self) -> None:
        self.rng.choices([*self._odds], [*self._odds.values()])[0]()

    def leave(self) -> None:
        """Give back what is held, or just go."""
        if self.rng.random() < 0.5:
            for job in self.held:
                self.telling.end(OutcomeKind.RELEASE, job)

    def publish(self) -> None:
        rng = self.rng
        if rng.random() < 0.3:
            options = {
                "partition_key": rng.choice(self.keys),
                "msg_id": f"m{rng.randrange(MSG_IDS)}",
            }
            self.telling.publish({next(self._markers): options}, undo=rng.random() < 0.1)
            return
        items = {
            next(self._markers): {
                "partition_key": rng.choice(self.keys),
                "weight": rng.choice([1, 1, 1, 5]),
                "priority": rng.choice([0, 0, 0, 1, -1]),
                "delay": rng.choice([None, None, 0.01, 0.3]),
            }
            for _ in range(rng.choice([1, 1, 2, 5]))
        }
        self.own += self.telling.publish(items, undo=rng.random() < 0.2)

    def lease(self) -> None:
        if len(self.held) < MOST_HELD:
            self.held += self.telling.lease(self.rng.randint(1, 4))

    def _kind(self) -> OutcomeKind:
        return self.rng.choices([*KINDS], [*KINDS.values()])[0]

    def end_one(self) -> None:
        if not self.held:
            return
        rng = self.rng
        job = self.held.pop(rng.randrange(len(self.held)))
        for _ in range(rng.choice([1, 1, 1, 2])):  # the second is refused
            kind, more = self._kind(), []
            if kind in {OutcomeKind.RETRY, OutcomeKind.SNOOZE}:
                more = [rng.choice([0, 0.01, 0.2])]
            elif kind is OutcomeKind.FAIL:
                more = ["by chance"]
            self.telling.end(kind, job, *more)

    def trip(self) -> None:
        """End all and lease more in one transaction, as workers do."""
        outcomes = [
            Outcome(kind=self._kind(), job_id=job.id, token=job.token, reason="by chance")
            for job in self.held
        ]
        n = self.rng.randint(0, 4)
        _, self.held = self.telling.exchange(outcomes, n, worker_id=self.name)

    def renew(self) -> None:
        self.telling.renew_many(
            [
                Renewal(job_id=job.id, token=job.token)
                for job in self.held
                if self.rng.random() < 0.7
            ]
        )

    def cancel(self) -> None:
        if self.own:
            self.telling.cancel(self.rng.sample(self.own, min(3, len(self.own))))

    def steer(self) -> None:
        queue, rng, key = self.queue, self.rng, self.rng.choice(self.steered)
        moves: list[Callable[[], Any]] = [
            lambda: queue.pause(key),
            lambda: queue.resume(key),
            lambda: queue.set_partition(key, share=rng.choice([0.1, 1, 7, None])),
            lambda: queue.set_partition(key, limit=rng.choice([1, 2, 5, None])),
            queue.pause,
            *[queue.resume] * 4,
        ]
        rng.choice(moves)()


def wander(part: Part, *, seed: str, open_keys: list[str], steered: list[str]) -> None:
    """Do anything at random."""
    wanderer = Wanderer(part, random.Random(seed), open_keys, steered)
    while not part.sees("enough"):
        wanderer.act()
    wanderer.leave()


def work(part: Part, *, seed: str) -> None:
    """Run a worker whose jobs end in all the ways a job can."""
    telling = Telling(part.queue, part.say, f"worker-{part.number}")
    queue: Any = part.queue
    queue.finish_and_lease, queue.renew_many = telling.exchange, telling.renew_many
    rng = random.Random(seed)
    policy = RetryPolicy(max_retries=2, base_delay=0.05, max_delay=0.2)

    @queue.handler(policy=policy)
    def errand(message: Errand) -> None:
        time.sleep(rng.choice([0, 0, 0, 0.01, 0.05]))
        chance = rng.random()
        if chance < 0.1:
            raise ValueError("by chance")
        if chance < 0.15:
            raise Snooze(rng.choice([0, 0.1]))
        if chance < 0.2:
            raise Discard("by chance")
        if chance < 0.21:
            time.sleep(1.5)

    worker = part.queue.worker(
        concurrency=2, poll_interval=0.02, backoff_interval=0.02, worker_id=telling.worker_id
    )
    worker.install_signal_handlers()
    part.say("begun")
    worker.run()
