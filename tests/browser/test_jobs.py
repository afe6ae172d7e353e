"""The jobs of a queue, and the page of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser import addresses
from tests.browser.data import CANARY, complete, fail, one_store, payload, put, take, waiting

if TYPE_CHECKING:
    from tests.browser.pages import Browser
    from vtrr_django.queue import Queue

ROWS = "#content-main tbody tr"


@pytest.mark.parametrize(
    ("queue", "scripts"), [("orm", True), ("redis", False)], indirect=["queue"]
)
def test_chosen_jobs_are_cancelled(boss: Browser, queue: Queue, scripts: bool) -> None:
    kept, *chosen = put(queue, "acme", "acme", "globex")
    boss.run_scripts(scripts)
    boss.open(addresses.queue(queue.name, "jobs", "ready"))

    boss.tick(*(f"Choose job {one}" for one in chosen))
    boss.press("Cancel the chosen jobs")

    assert [job.id for job in waiting(queue)] == [kept]
    assert boss.messages == ["2 jobs cancelled."]
    boss.press("Cancel the chosen jobs")
    assert boss.messages == ["Choose the jobs to cancel first."]


@pytest.mark.parametrize("scripts", [True, False])
def test_who_goes_back_finds_nothing_ticked(boss: Browser, queue: Queue, scripts: bool) -> None:
    """A browser would tick by position: the job that has moved up."""
    [first, chosen, next_one] = put(queue, "acme", "acme", "acme")
    boss.run_scripts(scripts)
    boss.open(addresses.queue(queue.name, "jobs", "ready"))
    boss.tick(f"Choose job {chosen}")
    boss.press("Cancel the chosen jobs")

    boss.leave(boss.driver.back)
    assert len(boss.all(ROWS)) == 2
    assert boss.all("#content-main input:checked") == []
    boss.press("Cancel the chosen jobs")

    assert boss.messages == ["Choose the jobs to cancel first."]
    assert [job.id for job in waiting(queue)] == [first, next_one]


@one_store
def test_one_box_ticks_all(boss: Browser, queue: Queue) -> None:
    put(queue, "acme", "globex", delay=3600)
    boss.open(addresses.queue(queue.name, "jobs", "scheduled"))

    boss.tick("Choose all jobs of this page")
    boss.press("Cancel the chosen jobs")

    assert waiting(queue, "scheduled") == []
    assert boss.messages == ["2 jobs cancelled."]
    assert "No scheduled jobs." in boss.text


def test_cancelling_what_was_leased_meanwhile_says_so(boss: Browser, queue: Queue) -> None:
    [job_id] = put(queue, "acme")
    boss.open(addresses.queue(queue.name, "jobs", "ready"))
    take(queue, 1)

    boss.tick(f"Choose job {job_id}")
    boss.press("Cancel the chosen jobs")

    assert boss.messages == [
        "No job was cancelled; 1 did not wait any more: leased, ended or cancelled already."
    ]
    assert queue.depth().leased == 1


def test_jobs_are_browsed_by_state_page_and_partition(boss: Browser, queue: Queue) -> None:
    put(queue, *["acme"] * 51, *["globex"] * 2)
    leased = take(queue, 1)
    boss.open(addresses.queue(queue.name))

    boss.press("52")
    assert len(boss.all(ROWS)) == 50
    boss.press("Next page")
    assert len(boss.all(ROWS)) == 2
    boss.press("First page")
    assert len(boss.all(ROWS)) == 50

    boss.fill("Partition", "globex")
    boss.press("Show")
    assert len(boss.all(ROWS)) == 2
    boss.press("All partitions")
    boss.press("Leased")
    assert "worker-1" in boss.text
    boss.press(leased[0].id)
    assert "leased" in boss.texts(".vtrr-state")
    boss.press("acme")
    assert boss.path == addresses.queue(queue.name, "partition")


def test_a_waiting_job_is_shown_and_cancelled(boss: Browser, queue: Queue) -> None:
    [job_id] = put(
        queue,
        "acme",
        payload=payload(CANARY, password="swordfish"),
        weight=17,
        priority=9,
        msg_id="upload-17",
    )
    boss.open(addresses.job(queue.name, job_id))

    shown = boss.text
    assert all(one in shown for one in (job_id, "tests.task", "acme", "17", "9", "upload-17"))
    assert CANARY in shown
    assert '"password": "***"' in shown
    assert "swordfish" not in boss.source
    boss.press("Cancel")
    assert waiting(queue) == []
    assert boss.messages == ["1 job cancelled."]
    assert boss.path == addresses.queue(queue.name, "jobs", "ready")


def test_a_dead_letter_is_shown_with_its_family_and_requeued(boss: Browser, queue: Queue) -> None:
    [parent] = complete(queue, "acme", payload=payload(1))
    [child] = fail(queue, "acme", parent_id=parent, reason=ValueError(f"no {CANARY}"))
    boss.open(addresses.job(queue.name, child))

    assert f"no {CANARY}" in boss.text
    assert "failed" in boss.texts(".vtrr-state")
    boss.press(parent)
    assert "completed" in boss.texts(".vtrr-state")
    boss.press(child)
    boss.press("Requeue")

    assert [job.id for job in waiting(queue)] == [child]
    assert boss.messages == ["1 job requeued."]
    assert "ready" in boss.texts(".vtrr-state")


def test_arguments_and_reasons_are_hidden_from_who_may_not_see_them(
    watcher: Browser, queue: Queue
) -> None:
    [dead] = fail(queue, "acme", reason=f"no {CANARY}", payload=payload(CANARY))
    [live] = put(queue, "acme", payload=payload(CANARY))

    for job_id in (dead, live):
        watcher.open(addresses.job(queue.name, job_id))
        assert job_id in watcher.text
        assert CANARY not in watcher.source
        assert "Hidden: seeing arguments and error texts needs the permission" in watcher.text
