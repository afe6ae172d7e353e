"""The partitions of a queue: the table and its order, the page of one and its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser import addresses
from tests.browser.data import one_store, put, take
from vtrr_django.domain.job import PartitionStats

if TYPE_CHECKING:
    from tests.browser.pages import Browser
    from vtrr_django.queue import Queue

ROWS = "#partitions tbody th"


def _stats(queue: Queue, key: str) -> PartitionStats:
    [found] = queue.partitions(key)
    return found


def test_a_partition_is_paused_and_resumed_in_the_table(boss: Browser, queue: Queue) -> None:
    put(queue, "acme", "globex")
    boss.open(addresses.queue(queue.name))

    boss.press("Pause partition \u2068acme\u2069")
    assert [_stats(queue, key).paused for key in ("acme", "globex")] == [True, False]
    assert "Partition \u2068acme\u2069" in boss.messages[0]

    boss.press("Resume partition \u2068acme\u2069")
    assert not _stats(queue, "acme").paused
    assert not queue.depth().paused


@pytest.mark.parametrize(("queue", "key"), [("orm", ""), ("redis", "acme")], indirect=["queue"])
def test_a_partition_is_steered_on_its_page(boss: Browser, queue: Queue, key: str) -> None:
    put(queue, key, key, "globex")
    before = _stats(queue, key)
    boss.open(addresses.queue(queue.name))
    boss.press(key or '""')

    boss.fill("Share", "2.5")
    boss.press("Set share")
    assert _stats(queue, key).share == 2.5
    boss.fill("Limit", "3")
    boss.press("Set limit")
    assert _stats(queue, key).limit == 3
    assert boss.field("Share").get_attribute("value") == "2.5"
    assert boss.field("Limit").get_attribute("value") == "3"

    for number in (0, 1):
        forms = boss.all(".vtrr-setting")
        boss.leave(forms[number].find_element("name", "default").click)
    assert (_stats(queue, key).share, _stats(queue, key).limit) == (before.share, before.limit)

    boss.press(f"Pause partition \u2068{key or chr(34) * 2}\u2069")
    assert _stats(queue, key).paused
    boss.press("Purge (2)…")
    assert "2 jobs" in boss.text
    boss.press("No, take me back")
    assert _stats(queue, key).ready == 2
    boss.press("Purge (2)…")
    boss.press("Purge 2 jobs")
    assert queue.depth().ready == 1
    assert boss.path == addresses.queue(queue.name, "partition")


@one_store
def test_a_wrong_setting_is_refused_in_words(boss: Browser, queue: Queue) -> None:
    put(queue, "acme")
    boss.open(addresses.queue(queue.name, "partition", key="acme"))

    boss.ask("document.querySelector('#vtrr-share').type = 'text'")
    boss.fill("Share", "plenty")
    boss.press("Set share")

    assert boss.messages == ["Nothing was done: share: expected a number, got \u2068plenty\u2069"]
    boss.ask("document.querySelector('#vtrr-limit').removeAttribute('min')")
    boss.fill("Limit", "0")
    boss.press("Set limit")
    assert boss.messages[0].startswith("Nothing was done: limit: expected")
    assert _stats(queue, "acme").paused is False


def test_the_table_is_sorted_searched_and_paged(boss: Browser, queue: Queue) -> None:
    keys = [f"tenant-{n:02}" for n in range(51)]
    put(queue, *keys, "tenant-07", "tenant-07", "tenant-33")
    queue.set_partition("tenant-50", share=9)
    boss.open(addresses.queue(queue.name))

    assert boss.texts(ROWS)[:2] == ["tenant-07", "tenant-33"]
    assert len(boss.all(ROWS)) == 50
    assert "51 partitions" in boss.text

    boss.press("Share")
    assert boss.texts(ROWS)[0] == "tenant-50"
    assert boss.texts("[aria-sort=descending]") == ["Share"]
    boss.press("Partition")
    assert boss.texts(ROWS) == keys[:50]
    boss.press("2")
    assert boss.texts(ROWS) == keys[50:]
    boss.press("Partition")
    assert boss.texts(ROWS)[0] == "tenant-50"
    boss.press("Ready")
    assert boss.texts(ROWS)[0] == "tenant-07"
    boss.press("Ready")
    assert boss.texts(ROWS)[0] != "tenant-07"

    boss.fill("Key, or how it begins", "tenant-3")
    boss.press("Search")
    assert len(boss.all(ROWS)) == 10
    boss.press("All partitions")
    assert len(boss.all(ROWS)) == 50


def test_the_table_says_how_each_stands(boss: Browser, queue: Queue) -> None:
    put(queue, "acme", "acme", "acme", "globex")
    queue.set_partition("acme", limit=1)
    queue.pause("globex")
    take(queue, 1)

    boss.open(addresses.queue(queue.name))

    cells = boss.texts("#partitions tbody td.vtrr-n")
    keys, states = boss.texts(ROWS), boss.texts("#partitions .vtrr-state")
    assert list(zip(keys, states, strict=True)) == [("acme", "at its limit"), ("globex", "paused")]
    assert cells[:3] == ["2", "0", "1 / 1"]
    half = len(cells) // 2
    assert cells[half : half + 2] == ["1", "0"]
