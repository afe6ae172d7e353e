"""For people who use the keyboard, a screen reader, or dark pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser import addresses
from tests.browser.data import complete, fail, payload, put, take
from tests.browser.looking import PHONE, faint_texts, is_too_wide, unnamed, walk
from vtrr_django import get_queue

if TYPE_CHECKING:
    from tests.browser.pages import Browser


@pytest.fixture
def pages(transactional_db: None) -> list[str]:
    """One page of each kind, with something on it."""
    queue = get_queue("orders")
    [parent] = complete(queue, "acme", payload=payload("done"))
    [dead] = fail(queue, "acme", reason=ValueError("no"), parent_id=parent)
    put(queue, *["acme"] * 4, "globex")
    put(queue, "acme", delay=3600)
    queue.pause("globex")
    for job in take(queue, 3)[1:]:
        queue.ack(job)
    queue.measure("worker-1")
    jobs = (addresses.queue("orders", "jobs", one) for one in ("ready", "scheduled", "leased"))
    return [
        addresses.QUEUES,
        addresses.queue("orders"),
        addresses.queue("orders", "partition", key="acme"),
        addresses.queue("orders", "purge"),
        *jobs,
        addresses.job("orders", dead),
        addresses.job("orders", parent),
        f"{addresses.FAILED}orders:{dead}/change/",
        f"{addresses.COMPLETED}orders:{parent}/change/",
        addresses.FAILED,
        addresses.COMPLETED,
    ]


def test_everything_has_a_name(boss: Browser, pages: list[str]) -> None:
    found = {}
    for page in pages:
        boss.open(page)
        found[page] = unnamed(boss)

    assert not any(found.values()), found


def test_everything_is_reached_with_the_keyboard_and_shows_it(
    boss: Browser, pages: list[str]
) -> None:
    found = {}
    for page in pages:
        boss.open(page)
        found[page] = walk(boss)

    assert not any(missed or unseen for missed, unseen in found.values()), found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_told_from_its_ground(
    boss: Browser, pages: list[str], scheme: str
) -> None:
    boss.prefer(scheme)
    found = {}
    for page in pages:
        boss.open(page)
        found[page] = faint_texts(boss)

    assert not any(found.values()), found


def test_a_plot_is_an_image_with_its_numbers_beside_it(boss: Browser, pages: list[str]) -> None:
    boss.open(pages[1])
    plots = boss.all(".vtrr-figure svg[role=img]")
    assert plots

    boss.all(".vtrr-figure summary")[0].click()

    assert boss.all(".vtrr-figure details[open] table th[scope=col]")


def test_a_phone_is_wide_enough(boss: Browser, pages: list[str]) -> None:
    boss.resize(PHONE, 844)
    found = {}
    for page in pages:
        boss.open(page)
        found[page] = is_too_wide(boss)

    assert not any(found.values()), found
