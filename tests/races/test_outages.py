"""The store goes away under running workers: they carry on by themselves, and no job is lost."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.contract.stores import Store
from tests.races.conftest import MakeQueue
from tests.races.processes import Crew
from tests.races.roles import Note
from tests.races.waiting import until
from vtrr_django.queue import Queue

LEASE = 300.0
"""No lease runs out by itself, so nothing may run twice."""


def test_workers_outlive_an_outage_of_their_store(
    store: Store,
    make_queue: MakeQueue,
    make_crew: Callable[[Queue], Crew],
    size: Callable[[int, int], int],
) -> None:
    queue = make_queue(LEASE_SECONDS=LEASE, RECLAIM_INTERVAL=0.1, COMPLETED_RETENTION=None)
    crew = make_crew(queue)
    workers = [crew.start("work_through_outages", concurrency=2) for _ in range(2)]
    crew.heard("begun", 2)
    server, rng = store.server(), random.Random(1)
    numbers: list[int] = []
    for turn in range(1, size(2, 15) + 1):
        queue.pause()
        for _ in range(40):
            numbers.append(len(numbers))
            queue.publish(Note(numbers[-1]), partition_key=rng.choice("abc"))
        done = len(crew.journal.said("run"))
        queue.resume()
        crew.heard("run", done + 5)
        with server.away():
            crew.heard("away", len(crew.journal.said("away")) + turn % 2 + 1)
        # A lease whose answer got lost is nobody's, until it runs out.
        until(lambda: not queue.stats()["ready"], "all jobs to be leased")
    for worker in workers:
        worker.terminate()
    crew.join()
    assert [worker.exitcode for worker in workers] == [0, 0]

    # What a worker had leased and not begun, it has released.
    lost = {job for job, row in store.live(queue.name).items() if row["state"] == "leased"}
    store.advance(queue.name, LEASE + 1)
    heir = crew.start("work_through_outages", concurrency=2)
    until(lambda: not store.live(queue.name), "all jobs to end")
    heir.terminate()
    crew.join(heir)
    assert sorted(crew.journal.first_words("run")) == numbers
    completed = store.history(queue.name)["completed"]
    assert len(completed) == len(numbers)
    assert {row["delivery_count"] for row in completed} == {0}
    assert {row["id"] for row in completed if row["timeouts"]} == lost


def test_who_uses_a_queue_by_hand_is_told_and_may_go_on_afterwards(
    store: Store, make_queue: MakeQueue, make_crew: Callable[[Queue], Crew]
) -> None:
    queue = make_queue()
    crew = make_crew(queue)
    process = crew.start("use_through_an_outage")
    crew.heard("in")
    with store.server().away():
        crew.flag("away")
        crew.heard("refused")
    crew.flag("back")
    crew.join(process)
    ran = crew.journal.said("run")
    assert ran
    assert all(acked for _, acked in ran)
    assert store.live(queue.name) == {}
