"""The page of all queues and the page of one: each button does what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.admin.models import LogEntry

from tests.browser import addresses
from tests.browser.data import fail, lapse, one_store, put, waiting
from tests.browser.looking import PHONE, is_too_wide, unnamed, walk

if TYPE_CHECKING:
    from tests.browser.pages import Browser
    from vtrr_django.queue import Queue


@pytest.fixture
def page(queue: Queue) -> str:
    """One of the two pages that have a queue's buttons: both are pressed, and both stores."""
    return addresses.QUEUES if queue.config.engine == "orm" else addresses.queue(queue.name)


def _logged() -> list[str]:
    return list(LogEntry.objects.order_by("pk").values_list("change_message", flat=True))


def test_a_queue_is_paused_and_resumed(boss: Browser, queue: Queue, page: str) -> None:
    boss.open(page)

    boss.press(f"Pause queue {queue.name}")
    assert queue.depth().paused
    assert boss.messages == [f"Queue {queue.name} is paused: what runs, ends; nothing new starts."]
    assert "paused" in boss.texts(".vtrr-state")
    assert boss.path == page

    boss.press(f"Resume queue {queue.name}")
    assert not queue.depth().paused
    assert boss.messages == [f"Queue {queue.name} is resumed."]
    assert boss.path == page
    assert _logged() == ["Paused.", "Resumed."]


def test_leases_that_ran_out_are_reclaimed(boss: Browser, queue: Queue, page: str) -> None:
    put(queue, "acme")
    [gone] = lapse(queue)
    boss.open(page)

    boss.press(f"Reclaim now queue {queue.name}")

    assert [job.id for job in waiting(queue)] == [gone]
    assert boss.messages == [f"Queue {queue.name}: 1 lease that had run out came back."]
    boss.press(f"Reclaim now queue {queue.name}")
    assert boss.messages == [f"Queue {queue.name}: no lease had run out."]
    assert len(_logged()) == 1


def test_all_dead_letters_are_requeued(boss: Browser, queue: Queue, page: str) -> None:
    letters = fail(queue, "acme", "acme", "globex")
    boss.open(page)

    boss.press(f"Requeue all failed (3) queue {queue.name}")

    assert sorted(job.id for job in waiting(queue)) == sorted(letters)
    assert queue.stats()["failed"] == 0
    assert boss.messages == [f"Queue {queue.name}: 3 dead letters requeued."]
    assert not [label for label in boss.controls if label.startswith("Requeue")]


def test_a_purge_names_the_number_and_can_be_called_off(
    boss: Browser, queue: Queue, page: str
) -> None:
    put(queue, "acme", "globex")
    put(queue, "initech", delay=3600)
    boss.open(page)

    boss.press(f"Purge (3)… queue {queue.name}")
    assert "3 jobs" in boss.text
    assert "2 ready, 1 scheduled" in boss.text
    boss.press("No, take me back")
    assert boss.path == addresses.queue(queue.name)
    assert queue.depth().ready == 2

    boss.open(page)
    boss.press(f"Purge (3)… queue {queue.name}")
    boss.press("Purge 3 jobs")
    assert (queue.depth().ready, queue.depth().scheduled) == (0, 0)
    assert boss.messages == [f"Queue {queue.name}: 3 waiting jobs purged."]
    assert _logged() == ["Purged 3 waiting jobs."]


def test_a_queue_that_grows_is_purged_with_the_keyboard_on_a_phone(
    boss: Browser, queue: Queue
) -> None:
    put(queue, "acme")
    boss.resize(PHONE)
    boss.open(addresses.queue(queue.name, "purge"))
    put(queue, "acme")
    boss.press("Purge 1 job")
    assert boss.messages == ["Nothing was purged: more jobs wait than you were asked about."]
    assert (unnamed(boss), walk(boss), is_too_wide(boss)) == ([], ([], []), "")
    put(queue, "acme")

    boss.field("Also all that has come since this page was made, however many").send_keys(" ")
    boss.press("Purge 2 jobs")

    told = f"Queue {queue.name}: 3 waiting jobs purged, 1 more than you were asked about."
    assert boss.messages == [told]
    assert queue.depth().ready == 0


def test_a_second_click_on_a_stale_page_says_kindly_that_it_is_done(
    boss: Browser, queue: Queue
) -> None:
    page = addresses.queue(queue.name)

    boss.open(page)
    queue.pause()
    boss.press(f"Pause queue {queue.name}")
    assert boss.messages == [f"Queue {queue.name} was paused already."]

    queue.resume()
    boss.press(f"Resume queue {queue.name}")
    assert boss.messages == [f"Queue {queue.name} was not paused."]

    letters = fail(queue, "acme")
    boss.open(page)
    queue.requeue(letters)
    boss.press(f"Requeue all failed (1) queue {queue.name}")
    assert boss.messages == [f"Queue {queue.name} has no dead letters to requeue."]

    boss.press(f"Purge (1)… queue {queue.name}")
    queue.purge()
    boss.press("Purge 1 job")
    assert boss.messages == [f"Queue {queue.name}: no job waited; nothing was purged."]
    assert _logged() == []


@one_store
def test_who_did_what_is_kept(boss: Browser, queue: Queue) -> None:
    boss.open(addresses.queue(queue.name))
    boss.press(f"Pause queue {queue.name}")

    boss.press("Who did what")

    assert "Paused." in boss.text
    assert "boss" in boss.text
    boss.open("/admin/")
    boss.press(queue.name)
    assert boss.path == addresses.queue(queue.name)


def test_both_queues_are_on_one_page(boss: Browser) -> None:
    boss.open("/admin/")
    boss.press("Queues")

    assert boss.path == addresses.QUEUES
    assert boss.texts(".vtrr-queues tbody th a") == ["orders", "uploads"]
    assert boss.texts(".vtrr-queues tbody th span") == ["orm", "redis"]
    boss.press("uploads")
    assert boss.path == addresses.queue("uploads")


@one_store
def test_why_jobs_wait_is_said(boss: Browser, queue: Queue) -> None:
    put(queue, "acme")

    boss.open(addresses.QUEUES)

    [note] = boss.texts(".vtrr-note")
    assert note.startswith("1 ready, and no worker was seen in the last 60 seconds")
    queue.measure("worker-1")
    boss.open(addresses.QUEUES)
    assert boss.texts(".vtrr-note") == []


_FILL = """
const texts = ["12,345", "1,234", "128", "4,321", "100,000+", "23 h 59 min"];
document.querySelectorAll(".vtrr-queues tbody tr:first-child").forEach((row) => {
  const cells = row.querySelectorAll("td.vtrr-n");
  cells.forEach((cell, at) => { cell.textContent = texts[at] ?? "64"; });
  row.querySelector(".vtrr-hour").lastChild.textContent = " 100,000";
});
const around = document.querySelector(".vtrr-scroll");
return [around.scrollWidth, around.clientWidth];
"""


@pytest.mark.parametrize("width", [1200, 1024])
def test_the_table_of_queues_fits_beside_the_sidebar(
    boss: Browser, queue: Queue, width: int
) -> None:
    """With numbers as wide as those of a large site: the last column is not cut."""
    put(queue, "acme")
    boss.resize(width)
    boss.open(addresses.QUEUES)
    boss.ask("localStorage.setItem('django.admin.navSidebarIsOpen', 'true')")
    boss.open(addresses.QUEUES)
    assert boss.ask("return document.querySelector('#nav-sidebar').checkVisibility()")

    needed, there = boss.ask(_FILL)

    assert needed <= there
