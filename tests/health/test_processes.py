"""Real workers, as a check sees them: at work, stopped, hanging, gone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.health.conftest import findings, status
from tests.races.conftest import MakeQueue
from tests.races.processes import Crew
from tests.races.roles import Note
from tests.races.waiting import until
from vtrr_django.health import check_health
from vtrr_django.queue import Queue

MakeCrew = Callable[[Queue], Crew]

ROLES = "tests.health.roles"


@pytest.fixture(autouse=True)
def _short_memory(monkeypatch: pytest.MonkeyPatch, patience: None) -> None:
    """Have a worker missed after two seconds; these say ten times a second that they live."""
    monkeypatch.setattr("vtrr_django.health.looking.ALIVE", timedelta(seconds=2))


def critically(queue: Queue, text: str) -> None:
    """Wait until a check finds that, of the workers of a queue."""

    def found() -> bool:
        finding = findings(queue)["workers"]
        return finding.status == "critical" and text in finding.sentence

    until(found, lambda: f"{text!r}, not {findings(queue)['workers']}")


def test_a_worker_at_work_that_is_stopped_and_goes_on(
    make_queue: MakeQueue, make_crew: MakeCrew
) -> None:
    queue = make_queue()
    crew = make_crew(queue)
    worker = crew.start(f"{ROLES}:work")
    until(lambda: "1 worker is alive" in findings(queue)["workers"].sentence, "it to be seen")
    for number in range(3):
        queue.publish(Note(number), partition_key="acme")
    crew.heard("run")
    # It holds a job; the others wait for that.
    until(lambda: check_health([queue]).status == "ok", "the worker to be found at work")
    crew.stop(worker)
    critically(queue, "no worker was seen")
    crew.flag("finish")
    crew.resume(worker)
    crew.heard("run", 3)
    until(lambda: check_health([queue]).status == "ok", "all to be well")
    worker.terminate()
    crew.join()


def test_one_that_hangs_where_it_would_lease(make_queue: MakeQueue, make_crew: MakeCrew) -> None:
    queue = make_queue()
    crew = make_crew(queue)
    crew.flag("finish")
    worker = crew.start(f"{ROLES}:work_and_hang")
    until(lambda: "1 worker is alive" in findings(queue)["workers"].sentence, "it to be seen")
    queue.publish(Note(), partition_key="acme")
    critically(queue, ": me, though jobs that may run")
    crew.flag("go on")
    crew.heard("run")
    until(lambda: check_health([queue]).status == "ok", "all to be well")
    worker.terminate()
    crew.join()


def test_one_that_is_killed(make_queue: MakeQueue, make_crew: MakeCrew) -> None:
    queue = make_queue()
    crew = make_crew(queue)
    worker = crew.start(f"{ROLES}:work")
    for number in range(2):
        queue.publish(Note(number), partition_key="acme")
    crew.heard("run")
    until(lambda: check_health([queue]).status == "ok", "the worker to be found at work")
    crew.kill(worker)
    until(lambda: status(queue, "workers") == "critical", "the worker to be missed")
