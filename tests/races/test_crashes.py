"""A process that ends between a commit and what should follow it: others make it good."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.contract.stores import Store
from tests.races.conftest import MakeQueue
from tests.races.processes import Crew
from tests.races.roles import Note
from tests.races.stores import partition_rows
from tests.races.waiting import until
from vtrr_django.queue import Queue

NEIGHBOURS = 8


def _publish(queue: Queue, key: str = "a", **options: Any) -> str:
    return queue.publish(Note(), partition_key=key, **options)


def _run(queue: Queue, count: int) -> list[str]:
    """Lease and ack up to ``count`` jobs, one after the other; return their ids."""
    ids = []
    for _ in range(count):
        for job in queue.lease():
            ids.append(job.id)
            assert queue.ack(job)
    return ids


def _heal_by_lease(queue: Queue) -> list[str]:
    return _run(queue, NEIGHBOURS * 2)


def _heal_by_reclaim(queue: Queue) -> list[str]:
    # The neighbour keeps every lease call from looking any further.
    for _ in range(NEIGHBOURS):
        _publish(queue, "neighbour")
    queue.reclaim()
    return _run(queue, 4)


heals = pytest.mark.parametrize("heal", [_heal_by_lease, _heal_by_reclaim])


class Cut(Exception):
    """Stands for the end of the process."""


@contextmanager
def _cut(queue: Queue, step: str) -> Iterator[None]:
    """Have a step of the engine's work on partitions be the end of the process."""
    part, what = step.split(".")

    def end(*args: Any, **kwargs: Any) -> Any:
        raise Cut

    engine: Any = queue.engine
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(getattr(engine, part), what, end)
        yield


@partition_rows
@heals
@pytest.mark.parametrize("step", ["_candidates.awaiting", "_partitions.refresh"])
@pytest.mark.parametrize("known", [True, False], ids=["known_tenant", "new_tenant"])
def test_an_enqueue_that_ends_at_its_commit(
    store: Store,
    make_queue: MakeQueue,
    heal: Callable[[Queue], list[str]],
    step: str,
    known: bool,
) -> None:
    queue = make_queue()
    if known:
        _publish(queue)
        assert len(_run(queue, 1)) == 1
    with _cut(queue, step):
        job_id = _publish(queue)  # Django logs it: the job is committed
    assert job_id in heal(queue)


@partition_rows
@heals
def test_a_process_killed_at_the_commit_of_its_enqueue(
    store: Store,
    make_queue: MakeQueue,
    make_crew: Callable[[Queue], Crew],
    heal: Callable[[Queue], list[str]],
) -> None:
    queue = make_queue()
    crew = make_crew(queue)
    process = crew.start("publish_and_die", partition_key="a")
    until(lambda: process.exitcode is not None, "the process to be killed")
    assert process.exitcode == -signal.SIGKILL
    (job_id,) = crew.journal.first_words("published")
    assert [partition.candidate for partition in queue.partitions()] == [False]
    assert job_id in heal(queue)


@partition_rows
@heals
def test_a_process_killed_at_the_commit_of_an_ack(
    store: Store,
    make_queue: MakeQueue,
    make_crew: Callable[[Queue], Crew],
    heal: Callable[[Queue], list[str]],
) -> None:
    queue = make_queue(PARTITION_LIMIT=1)
    crew = make_crew(queue)
    first, second = _publish(queue), _publish(queue)
    process = crew.start("ack_and_die")
    until(lambda: process.exitcode is not None, "the process to be killed")
    assert process.exitcode == -signal.SIGKILL
    assert [row["id"] for row in store.history(queue.name)["completed"]] == [first]
    assert [partition.candidate for partition in queue.partitions()] == [False]
    assert second in heal(queue)


def _requeue(queue: Queue) -> Callable[[], Any]:
    _publish(queue)
    assert queue.fail(queue.lease()[0], "why")
    return queue.requeue


def _release(queue: Queue) -> Callable[[], Any]:
    _publish(queue)
    job = queue.lease()[0]
    return lambda: queue.release(job)


def _reclaim(queue: Queue, store: Store) -> Callable[[], Any]:
    _publish(queue)
    queue.lease()
    store.advance(queue.name, queue.config.lease_seconds + 1)
    return queue.reclaim


def _promote(queue: Queue, store: Store) -> Callable[[], Any]:
    _publish(queue, delay=60)
    store.advance(queue.name, 61)
    return queue.reclaim


def _resume(queue: Queue) -> Callable[[], Any]:
    queue.pause("a")
    _publish(queue)
    return lambda: queue.resume("a")


COMING_BACK: dict[str, Callable[[Queue, Store], Callable[[], Any]]] = {
    "requeue": lambda queue, store: _requeue(queue),
    "release": lambda queue, store: _release(queue),
    "reclaim": _reclaim,
    "promote": _promote,
    "resume": lambda queue, store: _resume(queue),
}


@partition_rows
@heals
@pytest.mark.parametrize("how", COMING_BACK)
def test_a_job_that_comes_back_in_a_process_that_ends_there(
    store: Store,
    make_queue: MakeQueue,
    heal: Callable[[Queue], list[str]],
    how: str,
) -> None:
    queue = make_queue()
    come_back = COMING_BACK[how](queue, store)
    with _cut(queue, "_partitions.refresh"), pytest.raises(Cut):
        come_back()
    heal(queue)
    assert "a" not in {p.partition_key for p in queue.partitions() if p.ready or p.leased}
