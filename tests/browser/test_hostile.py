"""Names and texts that somebody hostile chose, and secrets, on every page of the app."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.browser import addresses
from tests.browser.conftest import SECRET
from tests.browser.crawling import crawl
from tests.browser.data import (
    CANARY,
    HOSTILE,
    IDS,
    LONG_NAME,
    complete,
    fail,
    fill_with_hostile,
    payload,
    put,
    take,
)
from tests.browser.looking import PHONE, is_too_wide
from vtrr_django import get_queue

if TYPE_CHECKING:
    from tests.browser.pages import Browser
    from vtrr_django.queue import Queue

STRANGE = "script:not([src^='/'], [type='application/json']), img:not([src^='/'])"
"""Elements that no template of the admin has."""

_MARKUP = "return [...document.querySelectorAll(arguments[0])].map((one) => one.outerHTML)"

_MARKS = """
return [...document.querySelectorAll('.vtrr-escape')].filter((one) => one.checkVisibility()).map(
  (one) => [one.textContent, one.getBoundingClientRect().width, getComputedStyle(one).clipPath])
"""
"""What stands for characters that nobody would see, and whether that can be seen."""

QUEUES = (get_queue("orders"), get_queue("uploads"))


@pytest.fixture
def names() -> list[str]:
    return [*HOSTILE, LONG_NAME]


def test_hostile_names_are_text_on_every_page_and_stay_within_a_phone(
    boss: Browser, queue: Queue, names: list[str]
) -> None:
    boss.allow("404 (Not Found)")  # a letter's parent may be gone
    fill_with_hostile(queue, names)
    boss.resize(PHONE, 844)
    wide, shown, marked = {}, dict.fromkeys(names, 0), 0
    page = addresses.queue(queue.name)
    pages = crawl(boss, page, within=page)
    if queue.name == "orders":  # the history is the same for all
        pages = itertools.chain(pages, crawl(boss, addresses.FAILED, within=addresses.FAILED))
        pages = itertools.chain(pages, crawl(boss, addresses.COMPLETED, within=addresses.COMPLETED))

    for page in pages:
        if told := is_too_wide(boss):
            wide[page] = told
        text = boss.text
        for name in names:
            shown[name] += name in text
        assert boss.ask(_MARKUP, STRANGE) == [], page
        for mark, width, clipped in boss.ask(_MARKS):
            marked += 1
            assert (width > 4, clipped) == (True, "none"), (page, mark)

    assert wide == {}
    assert marked
    assert all(count for name, count in shown.items() if name != LONG_NAME), shown


def test_hostile_names_are_text_in_messages_and_can_be_steered(
    boss: Browser, names: list[str]
) -> None:
    for name, queue in zip(names, itertools.cycle(QUEUES), strict=False):
        put(queue, name, name)
        boss.open(addresses.queue(queue.name, "partition", key=name))
        boss.press(next(one for one in boss.controls if one.startswith("Pause partition")))
        assert [one.paused for one in queue.partitions(name)] == [True]
        assert "is paused" in boss.messages[0]
        boss.fill("Share", "3")
        boss.press("Set share")
        assert [one.share for one in queue.partitions(name)] == [3]
        boss.press("Purge (2)…")
        boss.press("Purge 2 jobs")
        assert "2 waiting jobs purged" in boss.messages[0]
        assert queue.depth().ready == 0

    for job_id, queue in zip(IDS, itertools.cycle(QUEUES), strict=False):
        put(queue, "acme", id=job_id, given_id=True)
        boss.open(addresses.job(queue.name, job_id))
        boss.press("Cancel")
        assert queue.job(job_id) is None


def test_arguments_and_secrets_are_on_no_page_and_in_no_log(watcher: Browser) -> None:
    hidden = {"payload": payload(CANARY, key=CANARY)}
    for queue in QUEUES:
        [parent] = complete(queue, "acme", **hidden)
        error = ValueError(f"cannot open {CANARY}")
        fail(queue, "acme", reason=error, parent_id=parent, **hidden)
        fail(queue, "globex", reason=f"it broke on {CANARY}", **hidden)
        put(queue, "acme", **hidden)
        [begun] = take(queue, 1)
        queue.retry(begun, reason=error)
        take(queue, 1)
        put(queue, "acme", **hidden)
        put(queue, "acme", delay=3600, **hidden)
        queue.measure("worker-1")
    watcher.site.told()

    pages = 0
    for page in crawl(watcher):
        pages += 1
        source = watcher.source
        assert CANARY not in source, page
        assert SECRET not in source, page

    assert pages > 30
    logged = str(watcher.site.told())
    assert CANARY not in logged
    assert SECRET not in logged
