"""``manage.py vtrr_worker`` on every store: hard time limits and signals."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from tests.app import tasks
from tests.commands.manage import Process, manage
from tests.contract.stores import Store
from tests.races.waiting import until
from vtrr_django.queue import Queue

Start = Callable[..., AbstractContextManager[Process]]


@pytest.fixture
def queue(store: Store) -> Iterator[Queue]:
    """The queue of ``tests.app.tasks``, in the store."""
    with override_settings(VTRR=_settings(store)):
        yield tasks.default


def _settings(store: Store, **config: Any) -> dict[str, Any]:
    return {"QUEUES": {tasks.default.name: store.settings(**config)}}


@pytest.fixture
def start(store: Store, queue: Queue, tmp_path: Path) -> Start:
    """Start a worker on the queue."""
    numbers = itertools.count()

    def begin(*arguments: str, **config: Any) -> AbstractContextManager[Process]:
        folder = tmp_path / f"worker{next(numbers)}"
        folder.mkdir()
        with override_settings(VTRR=_settings(store, **config)):
            return manage(
                folder,
                "vtrr_worker",
                "--poll-interval=0.05",
                *arguments,
                vtrr=_settings(store, **config),
            )

    return begin


def _completed(store: Store, queue: Queue) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in store.history(queue.name)["completed"]}


def test_a_stuck_job_comes_back_and_holds_up_no_other(
    store: Store, queue: Queue, start: Start, tmp_path: Path
) -> None:
    stuck_began, began, go, late = (tmp_path / name for name in ("stuck", "began", "go", "late"))
    running = tasks.wait.enqueue(str(began), str(go), partition_key="b")
    with start("--concurrency=2", LEASE_SECONDS=4, RECLAIM_INTERVAL=0.1) as worker:
        assert int(worker.wait_for_file(began)) == worker.pid
        # Not before: were it the only one that runs, the worker would be replaced at once.
        stuck = tasks.get_stuck.enqueue(str(stuck_began), partition_key="a")
        assert int(worker.wait_for_file(stuck_began)) == worker.pid
        worker.wait_for("passed its hard time limit")
        # The other job still runs, so it is the same process that renews one lease only.
        until(lambda: store.live(queue.name)[stuck]["timeouts"] == 1, "the lease to run out")
        assert " is replaced" not in worker.err
        waiting = tasks.write.enqueue(str(late), partition_key="a")
        go.touch()
        worker.wait_for(" is replaced")
        until(lambda: len(_completed(store, queue)) == 3, "all jobs to end")
        worker.signal(signal.SIGTERM)
        ended = worker.end()
    assert ended.status == 0, ended.err
    assert ended.err.count(" starts:") == 2
    rows = _completed(store, queue)
    counts = {job_id: (row["timeouts"], row["delivery_count"]) for job_id, row in rows.items()}
    assert counts == {stuck: (1, 0), running: (0, 0), waiting: (0, 0)}
    assert store.live(queue.name) == {}


def _fill(queue: Queue, folder: Path) -> tuple[list[str], Path, Path]:
    """Enqueue quick jobs, so that workers take several at once, with a long one among them.

    Ids grow, so those in order are in the order of the line.
    """
    began, go = folder / "began", folder / "go"
    ids = [tasks.write.enqueue(str(folder / f"{i}"), partition_key="a") for i in range(20)]
    ids.append(tasks.wait.enqueue(str(began), str(go), partition_key="a"))
    ids += [tasks.write.enqueue(str(folder / f"{i}"), partition_key="a") for i in range(21, 40)]
    return ids, began, go


def test_a_signal_lets_the_job_end_and_gives_back_the_rest(
    store: Store, queue: Queue, start: Start, tmp_path: Path
) -> None:
    ids, began, go = _fill(queue, tmp_path)
    with start() as worker:
        worker.wait_for_file(began)
        worker.signal(signal.SIGTERM)
        worker.wait_for(" stops:")
        go.touch()
        ended = worker.end()
    assert ended.status == 0, ended.err
    assert sorted(_completed(store, queue)) == ids[:21]
    live = store.live(queue.name)
    assert {row["state"] for row in live.values()} == {"ready"}
    assert {(row["timeouts"], row["delivery_count"]) for row in live.values()} == {(0, 0)}
    assert [job.id for job in queue.lease(100)] == ids[21:]


def test_a_second_signal_gives_the_job_back_and_another_worker_runs_it(
    store: Store, queue: Queue, start: Start, tmp_path: Path
) -> None:
    ids, began, go = _fill(queue, tmp_path)
    with start() as worker:
        first = int(worker.wait_for_file(began))
        worker.signal(signal.SIGTERM)
        worker.wait_for(" stops:")
        worker.signal(signal.SIGTERM)
        assert worker.end().status == 128 + signal.SIGTERM
    live = store.live(queue.name)
    assert sorted(live) == ids[20:]
    assert {row["state"] for row in live.values()} == {"ready"}
    began.unlink()
    go.touch()
    with start("--burst") as heir:
        assert int(heir.wait_for_file(began)) != first
        assert heir.end().status == 0
    rows = _completed(store, queue)
    assert sorted(rows) == ids
    assert {(row["timeouts"], row["delivery_count"]) for row in rows.values()} == {(0, 0)}
    assert store.live(queue.name) == {}
