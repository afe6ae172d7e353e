"""Leasing and enqueuing at full speed from several processes: each job runs exactly once."""

from __future__ import annotations

from collections.abc import Callable

from tests.contract.stores import Store
from tests.races.conftest import MakeQueue
from tests.races.processes import Crew
from vtrr_django.queue import Queue


def test_two_processes_lease_while_a_third_enqueues_in_transactions(
    store: Store,
    make_queue: MakeQueue,
    make_crew: Callable[[Queue], Crew],
    size: Callable[[int, int], int],
) -> None:
    queue = make_queue(COMPLETED_RETENTION=None)
    crew = make_crew(queue)
    crew.start("consume", n=1)
    crew.start("consume_in_one_trip", n=10)
    producer = crew.start(
        "produce", seed=1, transactions=size(60, 4000), partitions=["", "a", "b", "c"]
    )
    crew.join(producer, seconds=250)
    crew.flag("drain")
    crew.join(seconds=250)
    enqueued = sorted(job_id for kept, _ in crew.journal.said("enqueued") for job_id in kept)
    assert sorted(crew.journal.first_words("run")) == enqueued
    assert sorted(row["id"] for row in store.history(queue.name)["completed"]) == enqueued
    assert store.live(queue.name) == {}
