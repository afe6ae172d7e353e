"""Names and texts that somebody hostile chose, and secrets, on every page of the app."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.browser import addresses
from tests.browser.conftest import SECRET
from tests.browser.crawling import crawl
from tests.browser.data import (
    BIDI,
    CANARY,
    HOSTILE,
    LONG,
    complete,
    fail,
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

IDS = ("</pre><script>alert(1)</script>", '"><img/src=x/onerror=alert(1)>', "..", "W" * 64)

LONG_NAME = "W" * 255
"""As wide as a name gets, with no place to break it."""

QUEUES = (get_queue("orders"), get_queue("uploads"))


@pytest.fixture
def names() -> list[str]:
    return [*HOSTILE, LONG_NAME]


def _fill(queue: Queue, names: list[str]) -> dict[str, str]:
    """Put hostile jobs in each state into a queue; return their ids, by state."""
    long = (BIDI + "W" * 97 + "</pre><script>alert(1)</script>") * (LONG // 128)
    ids = {}
    for number, name in enumerate(names):
        job_id = IDS[number]
        fields = {"task_name": name, "given_id": True, "payload": payload(name, long)}
        common = {"parent_id": IDS[number], "msg_id": name}
        done = complete(queue, name, id=job_id, **fields)
        failed = fail(queue, name, id=f"f{job_id}"[:64], **fields, **common, reason=long)
        ids |= {"completed": done[0], "failed": failed[0]}
    raised = ValueError(long)
    fail(queue, names[0], reason=raised)
    for number, name in enumerate(names):
        fields = {"task_name": name, "given_id": True, "payload": payload(name, long)}
        put(queue, name, id=f"l{IDS[number]}"[:64], **fields)
        take(queue, 1, name)
    for number, name in enumerate(names):
        fields = {"task_name": name, "given_id": True, "payload": payload(name, long)}
        put(queue, name, id=f"r{IDS[number]}"[:64], **fields)
        put(queue, name, id=f"s{IDS[number]}"[:64], **fields, delay=3600)
        queue.pause(name)
    queue.measure(names[0])
    return ids


def test_hostile_names_are_text_on_every_page_and_stay_within_a_phone(
    boss: Browser, queue: Queue, names: list[str]
) -> None:
    boss.allow("404 (Not Found)")  # a letter's parent may be gone
    _fill(queue, names)
    boss.resize(PHONE, 844)
    wide, shown = {}, dict.fromkeys(names, 0)
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

    assert wide == {}
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
