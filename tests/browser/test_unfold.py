"""The same pages as django-unfold draws them: they come, and their buttons work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import addresses
from tests.browser.data import complete, fail, put, waiting
from tests.browser.looking import PHONE, is_too_wide
from tests.races.waiting import until
from vtrr_django import get_queue

if TYPE_CHECKING:
    from tests.browser.pages import Browser
    from vtrr_django.queue import Queue


@pytest.fixture
def boss(unfold: Browser, person: Callable[..., Any]) -> Browser:
    unfold.sign_in(person("boss", superuser=True))
    return unfold


def test_every_page_comes(boss: Browser) -> None:
    queue = get_queue("orders")
    [done], [dead] = complete(queue, "acme"), fail(queue, "acme", reason=ValueError("no"))
    [live] = put(queue, "acme")
    wide = {}
    for page, shown in {
        "/admin/": "Queues",
        addresses.QUEUES: "orders",
        addresses.queue("orders"): "acme",
        addresses.queue("orders", "partition", key="acme"): "acme",
        addresses.queue("orders", "jobs", "ready"): live,
        addresses.queue("orders", "purge"): "1 job",
        addresses.job("orders", dead): dead,
        addresses.FAILED: dead,
        addresses.COMPLETED: done,
        f"{addresses.FAILED}orders:{dead}/change/": "ValueError",
    }.items():
        boss.resize(1200)
        boss.open(page)
        assert shown in boss.text, page
        boss.resize(PHONE)
        if page.startswith(addresses.QUEUES):
            wide[page] = is_too_wide(boss)
    assert not any(wide.values()), wide


def test_buttons_work(boss: Browser, queue: Queue) -> None:
    put(queue, "acme", "globex")
    boss.open(addresses.queue(queue.name))

    boss.press(f"Pause queue {queue.name}")
    assert queue.depth().paused
    assert f"Queue {queue.name} is paused" in boss.text
    boss.press(f"Resume queue {queue.name}")
    assert not queue.depth().paused
    boss.open(addresses.queue(queue.name, "partition", key="acme"))
    boss.fill("Share", "3")
    boss.press("Set share")
    assert [one.share for one in queue.partitions("acme")] == [3]
    boss.open(addresses.queue(queue.name, "jobs", "ready"))
    boss.tick("Choose all jobs of this page")
    boss.press("Cancel the chosen jobs")
    assert waiting(queue) == []


def test_dead_letters_are_requeued(boss: Browser, queue: Queue) -> None:
    one, two = fail(queue, "acme", "globex")
    boss.open(f"{addresses.FAILED}{queue.name}:{one}/change/")
    boss.press("Requeue")
    boss.press("Requeue: 1 failed job")
    until(lambda: "1 failed job requeued." in boss.text, "the run to end")
    assert [job.id for job in waiting(queue)] == [one]

    boss.open(addresses.FAILED)
    boss.all("#result_list tbody input[type=checkbox]")[0].click()
    boss.ask("document.querySelector('select[name=action]').value = 'requeue'")
    boss.leave(lambda: boss.ask("document.querySelector('#changelist-form').requestSubmit()"))
    boss.press("Requeue: 1 failed job")
    until(lambda: "1 failed job requeued." in boss.text, "the run to end")
    assert {job.id for job in waiting(queue)} == {one, two}
