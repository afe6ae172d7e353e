"""Jobs that arrive, or places that become free, at the worst moment: none is left behind.

A partition with a job to run that nobody knows of would wait for the next sweep, and as
long as others keep the workers busy, only ``reclaim()`` sweeps. So each test has a busy
neighbour and asks for the job among the next leases, where fairness puts it.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.stores import Store
from tests.races.conftest import MakeQueue
from tests.races.roles import Note
from tests.races.stores import crossing_rows
from tests.races.threads import Background, Halt
from vtrr_django.engines.orm import partitions
from vtrr_django.engines.orm.engine import OrmEngine
from vtrr_django.queue import Queue

NEIGHBOURS = 20


def _publish(queue: Queue, key: str = "a", **options: Any) -> str:
    return queue.publish(Note(), partition_key=key, **options)


def _busy_neighbour(queue: Queue) -> None:
    for _ in range(NEIGHBOURS):
        _publish(queue, "neighbour")


def _next(queue: Queue, count: int = 6) -> list[str]:
    """Lease and ack the next few jobs; return their ids."""
    ids = []
    for _ in range(count):
        for job in queue.lease():
            ids.append(job.id)
            assert queue.ack(job)
    return ids


def _engine(queue: Queue) -> Any:
    """Return the queue's engine, whose parts a test may halt."""
    assert isinstance(queue.engine, OrmEngine)
    return queue.engine


@crossing_rows
def test_a_job_that_arrives_while_a_worker_finds_its_partition_empty(
    store: Store, make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, halt = make_queue(), Halt()
    claimer = _engine(queue)._claimer
    _publish(queue)
    monkeypatch.setattr(claimer, "_store_lines", halt.before(claimer._store_lines))
    worker = Background(queue.lease)
    halt.reached()
    late = _publish(queue)
    _busy_neighbour(queue)
    halt.go_on()
    assert len(worker.result()) == 1
    assert late in _next(queue)


@crossing_rows
def test_a_job_that_arrives_while_a_cancel_finds_its_partition_empty(
    store: Store, make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, halt = make_queue(), Halt()
    parts = _engine(queue)._partitions
    only = _publish(queue)
    monkeypatch.setattr(parts, "_heads", halt.behind(parts._heads))
    canceller = Background(lambda: queue.cancel(only))
    halt.reached()
    late = _publish(queue)
    _busy_neighbour(queue)
    halt.go_on()
    assert canceller.result() == [only]
    assert late in _next(queue)


@crossing_rows
@pytest.mark.parametrize(
    ("end", "more"), [("ack", ()), ("fail", ("why",)), ("retry", (60,)), ("snooze", (60,))]
)
def test_a_place_that_becomes_free_while_an_enqueue_finds_none(
    store: Store,
    make_queue: MakeQueue,
    monkeypatch: pytest.MonkeyPatch,
    end: str,
    more: tuple[Any, ...],
) -> None:
    queue, halt = make_queue(PARTITION_LIMIT=1), Halt()
    _publish(queue)
    running = queue.lease()[0]
    counted = halt.behind(partitions.leased_counts)
    monkeypatch.setattr(partitions, "leased_counts", counted)
    client = Background(lambda: _publish(queue))
    halt.reached()
    assert getattr(queue, end)(running, *more)
    _busy_neighbour(queue)
    halt.go_on()
    assert client.result() in _next(queue)


@crossing_rows
def test_a_place_that_becomes_free_while_a_worker_finds_none(
    store: Store, make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, halt = make_queue(PARTITION_LIMIT=2), Halt()
    ids = [_publish(queue) for _ in range(3)]
    running = queue.lease()[0]
    claimer = _engine(queue)._claimer
    monkeypatch.setattr(claimer, "_store_lines", halt.before(claimer._store_lines))
    worker = Background(queue.lease)
    halt.reached()
    assert queue.ack(running)
    _busy_neighbour(queue)
    halt.go_on()
    assert [job.id for job in worker.result()] == [ids[1]]
    assert ids[2] in _next(queue)
