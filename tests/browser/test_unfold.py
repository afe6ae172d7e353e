"""The same pages as django-unfold draws them: they come, and their buttons work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import addresses
from tests.browser.data import LONG_NAME, complete, fail, put, waiting
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
        f"{addresses.COMPLETED}orders:{done}/change/": done,
        f"{addresses.FAILED}orders:{dead}/history/": dead,
    }.items():
        boss.resize(1200)
        boss.open(page)
        assert shown in boss.text, page
        boss.resize(PHONE)
        wide[page] = is_too_wide(boss)
    assert not any(wide.values()), wide


# Cells of a list whose text is cut, or that do not fill their row.
_CUT = """
return [...document.querySelectorAll("#result_list tbody :is(td, th)")].filter((one) =>
  one.scrollHeight > one.clientHeight + 1 || one.scrollWidth > one.clientWidth + 1
  || one.getBoundingClientRect().right < one.parentElement.getBoundingClientRect().right - 2
).map((one) => one.outerHTML.slice(0, 100));
"""


def test_a_phone_is_wide_enough_for_long_names(boss: Browser) -> None:
    queue = get_queue("orders")
    reason = ValueError(f"no such file {LONG_NAME} " * 9)
    [done] = complete(queue, LONG_NAME, task_name=LONG_NAME)
    [dead] = fail(queue, LONG_NAME, task_name=LONG_NAME, reason=reason, parent_id=done)
    put(queue, LONG_NAME, "acme")
    boss.resize(PHONE)
    wide, cut = {}, {}
    for page in (
        addresses.QUEUES,
        addresses.queue("orders"),
        addresses.queue("orders", "partition", key=LONG_NAME),
        addresses.queue("orders", "jobs", "ready"),
        addresses.queue("orders", "purge", key=LONG_NAME),
        addresses.job("orders", dead),
        addresses.job("orders", done),
        addresses.FAILED,
        f"{addresses.FAILED}?queue=orders",
        addresses.COMPLETED,
        f"{addresses.FAILED}orders:{dead}/change/",
        f"{addresses.FAILED}orders:{dead}/history/",
        f"{addresses.COMPLETED}orders:{done}/change/",
    ):
        boss.open(page)
        wide[page], cut[page] = is_too_wide(boss), boss.ask(_CUT)
    boss.open(f"{addresses.FAILED}orders:{dead}/change/")
    boss.press("Requeue as a copy")
    wide["confirm"] = is_too_wide(boss)

    assert not any(wide.values()), wide
    assert not any(cut.values()), cut


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
