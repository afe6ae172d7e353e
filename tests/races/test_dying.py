"""Workers that die, or stand still, in the middle of a job: it runs again, one result counts."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from tests.contract.stores import Store
from tests.races.conftest import MakeQueue
from tests.races.processes import Crew
from tests.races.roles import Note
from tests.races.threads import Background
from tests.races.waiting import until
from vtrr_django.queue import Queue

LEASE = 60.0
"""Long: what runs out here does so because the test says so, not because a machine is slow."""


def _gone(process: object) -> Callable[[], bool]:
    return lambda: getattr(process, "exitcode", None) == -signal.SIGKILL


def _stop_at_rest(crew: Crew, process: Any, store: Store, queue: Queue) -> None:
    """Stop a process that runs a job of partition "a" while its upkeep holds no lock."""

    def touch_everything() -> None:
        queue.resume()
        queue.pause("a")
        queue.resume("a")
        store.advance(queue.name, 0)

    def stopped() -> bool:
        crew.stop(process)
        probe = Background(touch_everything)
        try:
            probe.result(2)
        except AssertionError:
            crew.resume(process)
            probe.result()
            return False
        return True

    until(stopped, "the process to be at rest")


def test_the_job_of_a_killed_worker_runs_again_by_itself(
    store: Store, make_queue: MakeQueue, make_crew: Callable[[Queue], Crew]
) -> None:
    queue = make_queue(LEASE_SECONDS=4, RECLAIM_INTERVAL=0.1)
    crew = make_crew(queue)
    job_id = queue.publish(Note(), partition_key="a")
    victim = crew.start("work")
    crew.heard("run")
    expiry = store.live(queue.name)[job_id]["lease_expires_at"]
    until(
        lambda: store.live(queue.name)[job_id]["lease_expires_at"] > expiry,
        "the lease to be renewed",
    )
    crew.kill(victim)
    heir = crew.start("work")
    assert [pid for _, pid in crew.heard("run", 2)] == [victim.pid, heir.pid]
    crew.flag("finish")
    until(lambda: not store.live(queue.name), "the job to end")
    (row,) = store.history(queue.name)["completed"]
    assert (row["id"], row["timeouts"], row["delivery_count"]) == (job_id, 1, 0)
    assert f":{heir.pid}:" in row["worker_id"]
    heir.terminate()
    crew.join(heir)
    assert heir.exitcode == 0


def test_who_stood_still_is_told_that_the_lease_is_not_its_own_any_more(
    store: Store, make_queue: MakeQueue, make_crew: Callable[[Queue], Crew]
) -> None:
    queue = make_queue(LEASE_SECONDS=LEASE)
    crew = make_crew(queue)
    job_id = queue.publish(Note(), partition_key="a")
    kinds = ["renew", "ack", "fail", "retry", "snooze", "release"]
    sleeper = crew.start("hold", kinds=kinds)
    crew.heard("leased")
    crew.stop(sleeper)
    store.advance(queue.name, LEASE + 1)
    (job,) = queue.lease()
    assert (job.id, job.timeouts) == (job_id, 1)
    crew.flag("end")
    crew.resume(sleeper)
    crew.join(sleeper)
    assert crew.journal.said("ended") == [(kind, False) for kind in kinds]
    assert queue.ack(job)
    history = store.history(queue.name)
    assert [row["id"] for row in history["completed"]] == [job_id]
    assert history["failed"] == []
    assert store.live(queue.name) == {}


def test_the_result_of_a_worker_that_stood_still_is_dropped(
    store: Store, make_queue: MakeQueue, make_crew: Callable[[Queue], Crew]
) -> None:
    queue = make_queue(LEASE_SECONDS=LEASE)
    crew = make_crew(queue)
    job_id = queue.publish(Note(), partition_key="a")
    sleeper = crew.start("work", max_jobs=1)
    crew.heard("run")
    _stop_at_rest(crew, sleeper, store, queue)
    store.advance(queue.name, LEASE + 1)
    heir = crew.start("work", max_jobs=1)
    crew.heard("run", 2)
    crew.flag("finish")
    until(lambda: not store.live(queue.name), "the job to end")
    crew.resume(sleeper)
    crew.join()
    summaries = {
        entry.pid: entry.words for entry in crew.journal.entries() if entry.what == "summary"
    }
    assert summaries == {sleeper.pid: (1, 0, 1), heir.pid: (1, 1, 0)}  # jobs, succeeded, lost
    (row,) = store.history(queue.name)["completed"]
    assert (row["id"], row["timeouts"]) == (job_id, 1)
    assert f":{heir.pid}:" in row["worker_id"]


def test_a_job_that_kills_every_worker_becomes_a_dead_letter(
    store: Store, make_queue: MakeQueue, make_crew: Callable[[Queue], Crew]
) -> None:
    queue = make_queue(LEASE_SECONDS=LEASE, MAX_TIMEOUTS=3)
    crew = make_crew(queue)
    killer = queue.publish(Note(13), partition_key="a")
    for life in range(1, 4):
        victim = crew.start("work_and_die", killer=13)
        until(_gone(victim), "a worker to be killed by its job")
        assert len(crew.journal.said("run")) == life
        store.advance(queue.name, LEASE + 1)
    peaceful = queue.publish(Note(1), partition_key="a")
    survivor = crew.start("work_and_die", killer=13)
    until(lambda: store.history(queue.name)["completed"], "the worker to run the next job")
    survivor.terminate()
    crew.join(survivor)
    assert survivor.exitcode == 0
    history = store.history(queue.name)
    (dead,) = history["failed"]
    assert (dead["id"], dead["timeouts"], dead["delivery_count"]) == (killer, 3, 0)
    assert dead["reason"].startswith("lease ran out 3 times")
    assert dead["worker_id"] in dead["reason"]
    assert [row["id"] for row in history["completed"]] == [peaceful]
    assert store.live(queue.name) == {}
    assert queue.requeue() == [killer]
    assert [(job.id, job.timeouts) for job in queue.lease()] == [(killer, 0)]
