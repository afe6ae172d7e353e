"""A purge: it names the number, and removes no more than somebody has agreed to."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.admin.html import Page
from tests.admin.looking import address, look, messages, press
from tests.admin.test_queues_actions import logged
from tests.contract.jobs import put, take
from vtrr_django import Queue


def test_purging_asks_first_and_names_the_number(queue: Queue, root: Client) -> None:
    put(queue.engine, "acme", "acme", "globex")
    put(queue.engine, "acme", delay=3600)
    take(queue.engine)

    page = look(root, address("detail", queue.name))
    [ask] = [url for label, url in page.links.items() if label.startswith("Purge (3)")]
    asked = look(root, ask)

    assert f"This removes 3 jobs of queue {queue.name}: 2 ready, 1 scheduled." in asked.text
    assert queue.depth().ready == 2, "looking purges nothing"
    told = press(root, ask, "Purge 3 jobs")
    assert f"Queue {queue.name}: 3 waiting jobs purged." in told.text
    stats = queue.depth()
    assert (stats.ready, stats.scheduled, stats.leased) == (0, 0, 1)
    assert logged() == ["Purged 3 waiting jobs."]
    assert "there is nothing to purge" in look(root, ask).text


@pytest.mark.parametrize("seen", [None, "", "x", "-1", "²", "1"])
def test_nothing_is_purged_that_nobody_was_asked_about(
    queue: Queue, root: Client, seen: str | None
) -> None:
    put(queue.engine, "acme", "acme")

    again = root.post(address("purge", queue.name), {} if seen is None else {"seen": seen})

    assert queue.depth().ready == 2
    assert "Nothing was purged: " in again.content.decode()
    assert "2 jobs" in again.content.decode()


def test_more_than_one_was_asked_about_is_not_purged(queue: Queue, root: Client) -> None:
    put(queue.engine, "acme", "globex")
    ask = address("purge", queue.name)
    form = look(root, ask).buttons["Purge 2 jobs"]
    put(queue.engine, "acme")

    again = Page(root.post(ask, form.fields).content.decode())
    assert "Nothing was purged: more jobs wait than you were asked about." in again.text
    assert queue.depth().ready == 3
    assert logged() == []
    root.post(ask, again.buttons["Purge 3 jobs"].fields)
    assert queue.depth().ready == 0


@pytest.mark.parametrize("key", ["acme", None])
def test_a_queue_that_grows_is_purged_when_somebody_agrees_to_that(
    queue: Queue, root: Client, key: str | None
) -> None:
    put(queue.engine, "acme")
    ask = address("purge", queue.name) + ("?key=acme" if key else "")
    first = look(root, ask)
    assert not first.find("label"), "at first the number is all there is to agree to"
    put(queue.engine, "acme")
    again = Page(root.post(ask, first.buttons["Purge 1 job"].fields).content.decode())
    [box] = [one for one in again.find("input") if one.get("type") == "checkbox"]
    assert "checked" not in box
    assert {one["for"] for one in again.find("label")} == {box["id"]}
    put(queue.engine, "acme", "acme")
    fields = again.buttons["Purge 2 jobs"].fields

    response = root.post(ask, fields | {box["name"]: box["value"]})

    told = messages(look(root, response.headers["Location"]))
    assert "4 waiting jobs purged, 2 more than you were asked about." in told
    assert queue.depth().ready == 0
    [entry] = logged()
    assert entry.startswith("Purged 4 waiting jobs")


def test_who_was_named_no_number_has_agreed_to_nothing(queue: Queue, root: Client) -> None:
    put(queue.engine, "acme")

    again = root.post(address("purge", queue.name), {"since": "1"})

    assert "Nothing was purged: you were not asked about." in again.content.decode()
    assert queue.depth().ready == 1
