"""Who may see and do what, and that nobody else can."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import addresses
from tests.browser.data import fail, lapse, one_store, put, take, waiting

if TYPE_CHECKING:
    from tests.browser.pages import Browser
    from vtrr_django.queue import Queue

FORBIDDEN = "403 (Forbidden)"

STEER = ("pause", "resume", "reclaim", "share", "limit")


@pytest.fixture
def filled(queue: Queue) -> dict[str, str]:
    """One job in each state, by its state."""
    [failed] = fail(queue, "acme")
    put(queue, "acme")
    take(queue, 1)
    put(queue, "globex")
    [leased] = lapse(queue)
    [ready], [scheduled] = put(queue, "acme"), put(queue, "acme", delay=3600)
    return {"failed": failed, "leased": leased, "ready": ready, "scheduled": scheduled}


def _pages(queue: Queue, jobs: dict[str, str]) -> list[str]:
    return [
        addresses.QUEUES,
        addresses.queue(queue.name),
        addresses.queue(queue.name, "partition", key="acme"),
        *(addresses.queue(queue.name, "jobs", one) for one in ("ready", "scheduled", "leased")),
        *(addresses.job(queue.name, one) for one in jobs.values()),
    ]


def _actions(queue: Queue, jobs: dict[str, str]) -> dict[str, list[tuple[str, str]]]:
    """Return every address that changes something, with fields that would."""
    acme = ("partition", "acme")
    fields: dict[str, list[tuple[str, str]]] = {
        "pause": [],
        "resume": [acme],
        "reclaim": [],
        "share": [acme, ("share", "7")],
        "limit": [acme, ("limit", "7")],
        "requeue": [("id", jobs["failed"])],
        "cancel": [("id", jobs["ready"])],
    }
    verbs = {addresses.queue(queue.name, "do", verb): sent for verb, sent in fields.items()}
    return verbs | {addresses.queue(queue.name, "purge"): [("seen", "99")]}


def _stands(queue: Queue) -> Any:
    stats, depth = queue.stats(), queue.depth()
    live = [{job.id for job in waiting(queue, s)} for s in ("ready", "scheduled", "leased")]
    parts = [(p.partition_key, p.share, p.limit, p.paused) for p in queue.partitions()]
    return live, sorted(parts), depth.paused, stats["failed"], stats["completed"]


def test_nobody_sees_the_page_to_log_in_and_then_the_page(
    browser: Browser, person: Callable[..., Any], queue: Queue, filled: dict[str, str]
) -> None:
    person("boss", superuser=True)
    for page in [*_pages(queue, filled), addresses.queue(queue.name, "purge")]:
        browser.open(page)
        assert browser.path == "/admin/login/"
        assert "acme" not in browser.text

    browser.open(addresses.queue(queue.name))
    browser.fill("Username", "boss")
    browser.fill("Password", "password of boss")
    browser.press("Log in")
    assert browser.path == addresses.queue(queue.name)


@one_store
def test_forms_that_nobody_sends_do_nothing(
    browser: Browser, queue: Queue, filled: dict[str, str]
) -> None:
    before = _stands(queue)
    browser.open("/admin/login/")

    for address, fields in _actions(queue, filled).items():
        assert browser.post(address, fields) == "opaqueredirect"

    assert _stands(queue) == before


def test_who_may_only_view_finds_no_button_and_changes_nothing(
    watcher: Browser, queue: Queue, filled: dict[str, str]
) -> None:
    watcher.allow(FORBIDDEN)
    before = _stands(queue)

    for page in _pages(queue, filled):
        watcher.open(page)
        assert watcher.all("#content-main form[method=post] button, .vtrr-danger") == []
        assert watcher.all("#content-main input[type=checkbox]") == []
    for address, fields in _actions(queue, filled).items():
        assert watcher.post(address, fields) == 403, address
    watcher.open(addresses.queue(queue.name, "purge"))
    assert "403" in watcher.source

    assert _stands(queue) == before


@one_store
def test_staff_without_permissions_sees_and_changes_nothing(
    browser: Browser, person: Callable[..., Any], queue: Queue, filled: dict[str, str]
) -> None:
    browser.allow(FORBIDDEN)
    before = _stands(queue)
    browser.sign_in(person("clerk"))
    browser.open("/admin/")
    assert "Queues" not in browser.controls

    for address, fields in _actions(queue, filled).items():
        assert browser.post(address, fields) == 403, address
    for page in _pages(queue, filled):
        browser.open(page)
        assert "403" in browser.source
        assert "acme" not in browser.source

    assert _stands(queue) == before


@one_store
@pytest.mark.parametrize(
    ("permission", "verbs", "buttons"),
    [
        ("steer_queues", STEER, ["Pause queue {}", "Reclaim now queue {}"]),
        ("requeue_jobs", ("requeue",), ["Requeue all failed (1) queue {}"]),
        ("purge_queues", ("cancel", "purge"), ["Purge (2)… queue {}"]),
    ],
)
def test_each_permission_opens_its_own_buttons(
    browser: Browser,
    person: Callable[..., Any],
    queue: Queue,
    filled: dict[str, str],
    permission: str,
    verbs: tuple[str, ...],
    buttons: list[str],
) -> None:
    browser.allow(FORBIDDEN)
    browser.sign_in(person("operator", "view_queuestate", permission))
    browser.open(addresses.QUEUES)
    shown = [one for one in browser.controls if one.endswith(f" queue {queue.name}")]
    assert shown == [label.format(queue.name) for label in buttons]

    answers = {
        address.rstrip("/").rpartition("/")[2]: browser.post(address, fields)
        for address, fields in _actions(queue, filled).items()
    }

    allowed = [verb for verb, answer in answers.items() if answer == "opaqueredirect"]
    assert allowed == list(verbs)
    assert {answer for verb, answer in answers.items() if verb not in verbs} == {403}


@one_store
def test_a_form_without_the_token_of_the_page_is_refused(boss: Browser, queue: Queue) -> None:
    boss.allow(FORBIDDEN)
    boss.open(addresses.QUEUES)
    forms = boss.all(".vtrr-form")
    assert forms
    boss.ask(
        "for (const one of document.querySelectorAll('[name=csrfmiddlewaretoken]')) one.remove()"
    )

    boss.allow("/do/pause/")  # Django's page that says so has its style inside
    boss.press(f"Pause queue {queue.name}")

    assert "CSRF verification failed" in boss.text
    assert not queue.depth().paused


@one_store
def test_whose_session_ended_comes_back_to_the_page_and_nothing_was_done(
    boss: Browser, queue: Queue
) -> None:
    boss.open(addresses.queue(queue.name))
    boss.sign_out()
    boss.allow(FORBIDDEN)
    boss.open("/admin/login/")

    assert boss.post(addresses.queue(queue.name, "do", "pause")) == "opaqueredirect"
    boss.open(addresses.queue(queue.name, "do", "pause"))
    boss.fill("Username", "boss")
    boss.fill("Password", "password of boss")
    boss.press("Log in")

    assert boss.path == addresses.queue(queue.name)
    assert "Nothing was done" in boss.messages[0]
    assert not queue.depth().paused
