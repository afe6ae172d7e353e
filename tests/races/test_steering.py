"""Steering a queue while it is leased from: nothing runs twice, nothing is lost or stranded."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from tests.contract.stores import Store
from tests.races.conftest import MakeQueue
from tests.races.processes import Crew
from tests.races.roles import Note
from tests.races.stores import crossing_rows
from tests.races.threads import Background, Halt, together
from tests.races.waiting import until
from vtrr_django.models import FailedJob
from vtrr_django.queue import Queue

PARTITIONS = ["", "a", "b", "c"]


def _drain(queue: Queue) -> list[str]:
    ids = []
    while jobs := queue.lease(10):
        ids += [job.id for job in jobs]
        assert all([queue.ack(job) for job in jobs])
    return ids


def _fill(queue: Queue, count: int, seed: float = 1) -> list[str]:
    rng = random.Random(seed)
    return [
        queue.publish(Note(), partition_key=rng.choice(PARTITIONS), delay=rng.choice([None, 0.05]))
        for _ in range(count)
    ]


def _wake(queue: Queue) -> None:
    queue.resume()
    for key in PARTITIONS:
        queue.resume(key)
        queue.set_partition(key, limit=None)


def _stranded(queue: Queue) -> list[str]:
    """Return the partitions that have jobs to run but are no candidates; nobody may be at work."""
    return [
        partition.partition_key
        for partition in queue.partitions()
        if partition.ready and not partition.paused and not partition.candidate
    ]


@pytest.fixture
def busy(
    make_queue: MakeQueue, make_crew: Callable[[Queue], Crew]
) -> Callable[..., tuple[Queue, Crew]]:
    """A queue that two processes lease from."""

    def make(**config: Any) -> tuple[Queue, Crew]:
        queue = make_queue(COMPLETED_RETENTION=None, **config)
        crew = make_crew(queue)
        crew.start("consume", n=2)
        crew.start("consume_in_one_trip", n=5)
        return queue, crew

    return make


def _audit(store: Store, queue: Queue, crew: Crew, ids: list[str], gone: list[str]) -> None:
    """Each job ran once or was removed, and never both."""
    crew.flag("drain")
    crew.join()
    store.advance(queue.name, 1)  # what was delayed is due
    rest = _drain(queue)
    assert store.live(queue.name) == {}
    ran = Counter(crew.journal.first_words("run")) + Counter(rest)
    assert set(ran.values()) <= {1}
    assert sorted([*ran, *gone]) == sorted(ids)


def test_cancelling_what_is_being_leased(
    store: Store, busy: Callable[..., tuple[Queue, Crew]], size: Callable[[int, int], int]
) -> None:
    queue, crew = busy()
    ids, gone = [], []
    for _ in range(size(10, 200)):
        fresh = _fill(queue, 20)
        ids += fresh
        gone += queue.cancel(fresh[1::2])
    assert gone
    _audit(store, queue, crew, ids, gone)


def test_purging_what_is_being_leased(
    store: Store, busy: Callable[..., tuple[Queue, Crew]], size: Callable[[int, int], int]
) -> None:
    queue, crew = busy()
    total = removed = 0
    for turn in range(size(4, 40)):
        for key in PARTITIONS:
            many = [{"id": f"{turn}-{key}-{i}"} for i in range(size(500, 5000))]
            _publish_many(queue, key, many)
            total += len(many)
        removed += queue.purge("a") + queue.purge(None if turn % 2 else "b")
    assert removed
    crew.flag("drain")
    crew.join()
    assert _drain(queue) == []
    ran = Counter(crew.journal.first_words("run"))
    assert set(ran.values()) <= {1}
    assert len(ran) + removed == total
    assert store.live(queue.name) == {}


def _publish_many(queue: Queue, key: str, items: list[dict[str, Any]]) -> None:
    from vtrr_django.domain.job import NewJob

    jobs = [
        NewJob(task_name="Note", payload='{"args":[],"kwargs":{}}', partition_key=key, **item)
        for item in items
    ]
    queue.engine.enqueue(jobs, {})


@crossing_rows
def test_cancelling_a_job_that_becomes_due_in_this_moment(
    store: Store, make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, halt = make_queue(), Halt()
    ids = [queue.publish(Note(), partition_key="a", delay=60) for _ in range(2)]
    store.advance(queue.name, 61)
    engine: Any = queue.engine
    transact = engine._returns.store.transact

    def halting(work: Callable[[Any], Any]) -> Any:
        return transact(halt.behind(work))

    class HaltingStore:
        def __getattr__(self, name: str) -> Any:
            return halting if name == "transact" else getattr(engine.store, name)

    monkeypatch.setattr(engine._returns, "store", HaltingStore())
    upkeep = Background(queue.reclaim)
    halt.reached()
    canceller = Background(lambda: queue.cancel(ids[0]))
    try:
        canceller.result(3)
    except AssertionError:
        pass
    halt.go_on()
    upkeep.result()
    assert canceller.result() == [ids[0]]
    assert [*store.live(queue.name)] == [ids[1]]


STEER: dict[str, Callable[[Queue, random.Random], Any]] = {
    "pause": lambda q, rng: q.pause(rng.choice(PARTITIONS)),
    "resume": lambda q, rng: q.resume(rng.choice(PARTITIONS)),
    "pause_all": lambda q, rng: q.pause(),
    "resume_all": lambda q, rng: q.resume(),
    "limit": lambda q, rng: q.set_partition(rng.choice(PARTITIONS), limit=rng.choice([1, 2, None])),
    "share": lambda q, rng: q.set_partition(rng.choice(PARTITIONS), share=rng.uniform(0.1, 9)),
}


def test_pauses_limits_and_shares_that_change_all_the_time(
    store: Store,
    make_queue: MakeQueue,
    make_crew: Callable[[Queue], Crew],
    size: Callable[[int, int], int],
) -> None:
    queue, rng = make_queue(COMPLETED_RETENTION=None), random.Random(1)
    ids, ran = [], []
    for _ in range(size(2, 20)):
        crew = make_crew(queue)
        processes = [
            crew.start("consume", n=2),
            crew.start("consume", n=1),
            crew.start("consume_in_one_trip", n=5),
        ]
        steerers = [
            Background(lambda seed=seed: _steer(queue, seed, size(30, 300))) for seed in range(2)
        ]
        while any(steerer.runs for steerer in steerers):
            ids += _fill(queue, 10, rng.random())
        for steerer in steerers:
            steerer.result()
        crew.flag("enough")
        crew.join(*processes)
        assert _stranded(queue) == []
        _wake(queue)
        assert _stranded(queue) == []
        ran += crew.journal.first_words("run")
    store.advance(queue.name, 1)
    ran += _drain(queue)
    assert store.live(queue.name) == {}
    assert sorted(ran) == sorted(ids)


def _steer(queue: Queue, seed: int, count: int) -> None:
    rng = random.Random(seed)
    for _ in range(count):
        STEER[rng.choice([*STEER, "resume_all"])](queue, rng)


@crossing_rows
def test_letters_that_others_hold_keep_nobody_from_those_behind_them(
    store: Store, make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vtrr_django.storing._CHUNK", 2)
    queue = make_queue(SHARES={"a": 2.0})
    for _ in range(7):
        queue.publish(Note(), partition_key="a")
    ids = [job.id for job in queue.lease(7) if queue.fail(job, "r")]
    letters = FailedJob.objects.using(store.history_alias).filter(queue=queue.name)
    with transaction.atomic(using=store.history_alias):
        assert len(letters.filter(id__in=ids[:3]).select_for_update()) == 3
        assert Background(lambda: queue.requeue(limit=2)).result() == ids[3:5]
        assert Background(queue.requeue).result() == ids[5:]
    assert queue.requeue() == ids[:3]


def test_requeueing_what_fails_at_the_same_time(
    store: Store,
    make_queue: MakeQueue,
    make_crew: Callable[[Queue], Crew],
    size: Callable[[int, int], int],
) -> None:
    queue = make_queue(COMPLETED_RETENTION=None, PARTITION_LIMIT=2)
    crew = make_crew(queue)
    for seed in range(3):
        crew.start("consume_and_fail", n=3, seed=seed)
    ids: list[str] = []
    back: Counter[str] = Counter()
    for turn in range(size(8, 200)):
        ids += _fill(queue, 10, turn)
        for requeued in together(
            lambda: queue.requeue(limit=5), lambda: queue.requeue(ids[-50:]), queue.requeue
        ):
            back.update(requeued)
    until(lambda: back.update(queue.requeue(limit=5)) or back, "a job that failed")
    crew.flag("enough")
    crew.join()
    assert _stranded(queue) == []
    runs = Counter(crew.journal.first_words("run"))
    store.advance(queue.name, 1)
    back.update(queue.requeue(limit=1_000_000))
    runs.update(_drain(queue))
    assert runs == Counter(ids) + back
    assert sorted(row["id"] for row in store.history(queue.name)["completed"]) == sorted(ids)
    assert store.history(queue.name)["failed"] == []
    assert store.live(queue.name) == {}
