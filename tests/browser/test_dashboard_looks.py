"""The dashboard for all: keyboard, screen reader, dark, phone; and with hostile names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.data import (
    HOSTILE,
    IDS,
    LONG_NAME,
    complete,
    fail,
    fill_with_hostile,
    measure_now,
    put,
    take,
)
from tests.browser.looking import PHONE, faint_texts, is_too_wide, unnamed, walk
from tests.races.waiting import until
from vtrr_django import get_queue
from vtrr_django.admin.markup import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.browser.board import Board
    from tests.browser.pages import Browser
    from vtrr_django.queue import Queue


@pytest.fixture
def views(board: Board, transactional_db: None) -> Callable[[], Iterator[str]]:
    """Return what opens one view after the other, with something in it, and names it."""
    queue = get_queue("orders")
    complete(queue, "acme")
    fail(queue, "acme", reason=ValueError("no"))
    put(queue, *["acme"] * 4, "globex")
    queue.pause("globex")
    queue.pause()
    for job in take(queue, 3)[1:]:
        queue.ack(job)
    measure_now(queue)

    def visit() -> Iterator[str]:
        board.forget()
        board.open()
        yield "body"
        board.enter()
        yield "body"
        board.enter(queue.name)
        for summary in board.browser.all("summary"):
            summary.click()
        board.press("Resume queue")
        board.wait_for(f"Queue {queue.name} is resumed.")
        yield "body"
        board.press("Enqueue a job…")
        yield "#enqueue"
        board.press("Cancel")
        board.press("Requeue all failed (1)…")
        yield "#sure"

    return visit


def test_everything_has_a_name(browser: Browser, views: Callable[[], Iterator[str]]) -> None:
    found = [unnamed(browser, root) for root in views()]

    assert not any(found), found


def test_everything_is_reached_with_the_keyboard_and_shows_it(
    browser: Browser, views: Callable[[], Iterator[str]]
) -> None:
    found = [walk(browser, root) for root in views()]

    assert not any(missed or unseen for missed, unseen in found), found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_told_from_its_ground(
    browser: Browser, views: Callable[[], Iterator[str]], scheme: str
) -> None:
    browser.prefer(scheme)

    found = [faint_texts(browser, root) for root in views()]

    assert not any(found), found


def test_a_phone_is_wide_enough(browser: Browser, views: Callable[[], Iterator[str]]) -> None:
    browser.resize(PHONE, 844)

    found = [is_too_wide(browser) for _ in views()]

    assert not any(found), found


def test_nothing_moves_when_figures_and_messages_come(board: Board, browser: Browser) -> None:
    queue = get_queue("orders")
    put(queue, "acme", "globex")
    board.enter(queue.name)
    browser.ask(
        """
        window.moved = [];
        new PerformanceObserver((list) => {
          for (const {sources} of list.getEntries())
            for (const {node} of sources)
              if (node.parentElement.closest("main"))  // messages lie over the page
                window.moved.push((node.outerHTML || node.data).slice(0, 80));
        }).observe({type: "layout-shift"});
        """
    )

    put(queue, *["acme"] * 1000)
    queue.pause()
    board.wait_for_facts(ready="1,002")
    until(lambda: browser.texts("#note") != [""], "the note")
    browser.ask("tell('Something was done.')")
    put(queue, "globex")
    board.wait_for_facts(ready="1,003")

    assert browser.ask("return window.moved") == []


def test_hostile_names_are_text_and_stay_within_a_phone(
    board: Board, browser: Browser, queue: Queue
) -> None:
    names = [*HOSTILE, LONG_NAME]
    fill_with_hostile(queue, names)
    measure_now(queue)
    browser.resize(PHONE, 844)
    board.enter()
    assert is_too_wide(browser) == ""

    board.follow(queue.name)

    shown = {visible(name) for name in names}
    assert {row["Partition"] for row in board.rows("partitions")} == shown
    failed = {row["Job"] for row in board.rows("failures")}
    assert failed > {f"f{one}"[:64] for one in IDS}
    assert {row["Task"] for row in board.rows("runs")} == shown
    assert {row["Worker"] for row in board.rows("runs")} == {"worker-1"}
    for summary in browser.all("summary"):
        summary.click()
    until(
        lambda: {*HOSTILE[:2], LONG_NAME} <= set(browser.texts("#waiting thead th")),
        lambda: f"the numbers, not {browser.texts('#waiting thead th')}",
    )
    assert is_too_wide(browser) == ""
    assert board.stray == []


def test_hostile_names_can_be_steered(board: Board, browser: Browser, queue: Queue) -> None:
    put(queue, *HOSTILE)
    board.enter(queue.name)

    for name in HOSTILE:
        label = f"Pause partition {name}"
        board.browser.ask(
            """
            [...document.querySelectorAll("#partitions button")].find(
              (one) => one.ariaLabel === arguments[0]).click();
            """,
            label,
        )
        until(lambda key=name: queue.partitions(key)[0].paused, f"{name} to be paused")
        until(lambda: "is paused" in board.told, "to be told")

    ids = fail(queue, "acme", id="../%2e?a=1#<b>", given_id=True)
    board.wait_for_rows("failures", 1)
    board.press(f"Requeue job {ids[0]}")
    board.wait_for(f"Job \u2068{ids[0]}\u2069 is requeued.")
    assert board.stray == []
