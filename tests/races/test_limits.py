"""In-flight limits under many workers, some of them killed: never one job too many."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.contract.stores import Store
from tests.races.conftest import MakeQueue
from tests.races.journal import Journal
from tests.races.processes import Crew
from tests.races.roles import Note
from tests.races.threads import Background
from vtrr_django.domain.job import LeasedJob
from vtrr_django.queue import Queue

LIMIT = 3
LEASERS = 10
PARTITIONS = ["big", "small"]
LONG = 600.0


@contextmanager
def _watched(queue: Queue) -> Iterator[Counter[str]]:
    """Look at the store again and again; the yielded counter has the most it ever showed."""
    most: Counter[str] = Counter()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.01):
            for partition in queue.partitions():
                key = partition.partition_key
                most[key] = max(most[key], partition.leased)

    watcher = Background(look)
    try:
        yield most
    finally:
        over.set()
        watcher.result()


def _most_at_once(journal: Journal) -> Counter[str]:
    """Return the most jobs of each partition that processes said they held at one moment.

    They say so while they hold them: after the lease, until before its end. A killed one
    holds what it held until the test says that it is dead, which is before its leases run out.
    """
    most: Counter[str] = Counter()
    held: dict[str, tuple[str, int]] = {}
    for entry in journal.entries():
        if entry.what == "start":
            _, key, token = entry.words
            held[token] = (key, entry.pid)
            now = Counter(key for key, _ in held.values())
            most |= now
        elif entry.what == "stop":
            del held[entry.words[2]]
        elif entry.what == "killed":
            (dead,) = entry.words
            held = {token: one for token, one in held.items() if one[1] != dead}
    return most


@pytest.mark.parametrize(
    "config",
    [{"PARTITION_LIMIT": LIMIT}, {"MAX_CONCURRENCY": LIMIT + 2, "RESERVE": 2}],
    ids=["limit", "reserve"],
)
def test_no_partition_ever_holds_more_than_its_limit(
    store: Store,
    make_queue: MakeQueue,
    make_crew: Callable[[Queue], Crew],
    size: Callable[[int, int], int],
    config: dict[str, Any],
) -> None:
    queue = make_queue(LEASE_SECONDS=LONG, COMPLETED_RETENTION=None, **config)
    crew = make_crew(queue)
    rng = random.Random(1)
    ids = [
        queue.publish(Note(), partition_key=rng.choices(PARTITIONS, [4, 1])[0])
        for _ in range(size(60, 5000))
    ]
    hired = iter(range(10_000))

    def hire() -> tuple[str, Any]:
        worker_id = f"w{next(hired)}"
        return worker_id, crew.start(
            "hold_and_hang", worker_id=worker_id, n=LIMIT + 2, seconds=0.01
        )

    with _watched(queue) as most:
        staff = [hire() for _ in range(LEASERS)]
        for turn in range(1, size(2, 20) + 1):
            crew.heard("start", turn * len(ids) // size(4, 30))
            worker_id, victim = staff.pop(0)
            crew.kill(victim)
            crew.journal.say("killed", victim.pid)
            store.lapse(queue.name, worker_id)
            staff.append(hire())
            queue.set_partition("big", share=rng.uniform(0.5, 2), limit=rng.choice([1, 2, LIMIT]))
        queue.set_partition("big", limit=None)
        crew.flag("drain")
        crew.join(*[process for _, process in staff], seconds=250)

    said = _most_at_once(crew.journal)
    assert max(most.values()) <= LIMIT
    assert max(said.values()) == LIMIT
    assert all(partition.leased == 0 for partition in queue.partitions())
    assert store.live(queue.name) == {}
    assert sorted(row["id"] for row in store.history(queue.name)["completed"]) == sorted(ids)
    starts = Counter(crew.journal.first_words("start"))
    acks = Counter(crew.journal.first_words("acked"))
    assert max(acks.values()) == 1
    again = starts - Counter(ids)
    assert again <= starts - acks  # only what a killed process had begun


def _lapse(queue: Queue, store: Store, job: LeasedJob) -> bool:
    store.advance(queue.name, LONG + 1)
    return True


ENDS: dict[str, Callable[[Queue, Store, LeasedJob], bool]] = {
    "ack": lambda queue, store, job: queue.ack(job),
    "fail": lambda queue, store, job: queue.fail(job, "why"),
    "retry": lambda queue, store, job: queue.retry(job, LONG),
    "snooze": lambda queue, store, job: queue.snooze(job, LONG),
    "release": lambda queue, store, job: queue.release(job),
    "lapse": _lapse,
}


@pytest.mark.parametrize("how", ENDS)
def test_a_place_that_becomes_free_is_used_while_others_keep_the_workers_busy(
    store: Store, make_queue: MakeQueue, how: str
) -> None:
    queue = make_queue(LEASE_SECONDS=LONG)
    queue.set_partition("full", limit=1)
    ids = [queue.publish(Note(), partition_key="full") for _ in range(2)]
    (job,) = queue.lease()
    for _ in range(8):
        queue.publish(Note(), partition_key="neighbour")
    assert [one.partition_key for one in queue.lease(2)] == ["neighbour"] * 2
    assert ENDS[how](queue, store, job)
    assert {one.id for one in queue.lease(2)} & set(ids)
