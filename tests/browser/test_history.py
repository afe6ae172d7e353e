"""Failed and completed jobs: finding them, reading them, and what is done with dead letters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry

from tests.browser import addresses
from tests.browser.data import CANARY, complete, fail, one_store, payload, waiting
from tests.browser.site.choices import BATCH
from tests.races.waiting import until
from vtrr_django import get_queue
from vtrr_django.models import FailedJob

if TYPE_CHECKING:
    from tests.browser.pages import Browser
    from vtrr_django.queue import Queue

IDS = "#result_list th.field-job"

LETTERS = 3 * BATCH
"""More than are on one page of the list, and more than one batch."""


def _dead(queue: Queue) -> set[str]:
    queue.archive()
    return set(FailedJob.objects.filter(queue=queue.name).values_list("id", flat=True))


def _live(queue: Queue) -> set[str]:
    return {job.id for job in waiting(queue)}


def _tick(browser: Browser, *ids: str) -> None:
    """Tick the rows of these jobs; all of the page if none is named."""
    count = browser.ask(
        """
        let count = 0;
        for (const row of document.querySelectorAll("#result_list tbody tr")) {
          const job = row.querySelector("th").innerText.trim();
          if (arguments.length && ![...arguments].includes(job)) continue;
          row.querySelector("input.action-select").click();
          count += 1;
        }
        return count;
        """,
        *ids,
    )
    assert count == (len(ids) or len(browser.all(IDS)))


def _go(browser: Browser, action: str) -> None:
    """Choose an action from the list above the jobs, and run it."""
    browser.choose("Action", action)
    browser.leave(browser.all(".actions button[name=index]")[0].click)


def _pages_to_the_end(browser: Browser) -> int:
    """Press Continue until the run has ended; return how often."""
    for times in range(100):
        if "Continue" not in browser.controls:
            return times
        browser.press("Continue")
    raise AssertionError("the run did not come to an end")


# -- doing something with dead letters ----------------------------------------------


@pytest.mark.parametrize(
    ("queue", "scripts"), [("orm", True), ("redis", False)], indirect=["queue"]
)
def test_chosen_letters_are_requeued(boss: Browser, queue: Queue, scripts: bool) -> None:
    one, two, kept = fail(queue, "acme", "globex", "initech", weight=5, priority=3)
    boss.run_scripts(scripts)
    boss.open(addresses.FAILED)

    _tick(boss, one, two)
    _go(boss, "Requeue")
    assert "2 failed jobs" in boss.text
    boss.press("No, take me back")
    assert _dead(queue) == {one, two, kept}
    _tick(boss, one, two)
    _go(boss, "Requeue")
    boss.press("Requeue: 2 failed jobs")
    if not scripts:
        _pages_to_the_end(boss)
    _arrive(boss)

    assert boss.messages == ["2 failed jobs requeued."]
    assert _dead(queue) == {kept}
    assert {(j.id, j.weight, j.priority, j.delivery_count) for j in waiting(queue)} == {
        (one, 5, 3, 0),
        (two, 5, 3, 0),
    }
    told = LogEntry.objects.filter(change_message__contains="Requeue")
    assert {entry.content_type.model for entry in told} == {"failedjob", "queuestate"}
    assert len(told) == 2


def test_a_chosen_letter_is_copied(boss: Browser, queue: Queue) -> None:
    [letter] = fail(queue, "acme", payload=payload(7))
    boss.open(addresses.FAILED)

    _tick(boss, letter)
    _go(boss, "Requeue as a copy")
    boss.press("Requeue as a copy: 1 failed job")
    _arrive(boss)

    assert boss.messages == ["1 failed job copied."]
    assert _dead(queue) == {letter}
    [copy] = waiting(queue)
    assert (copy.parent_id, copy.payload) == (letter, payload(7))


def test_a_chosen_letter_is_discarded(boss: Browser, queue: Queue) -> None:
    letter, kept = fail(queue, "acme", "acme")
    boss.open(addresses.FAILED)

    _tick(boss, letter)
    _go(boss, "Discard")
    boss.press("Discard: 1 failed job")
    _arrive(boss)

    assert boss.messages == ["1 failed job discarded."]
    assert _dead(queue) == {kept}
    assert _live(queue) == set()


@one_store
def test_who_goes_back_finds_no_letter_ticked(boss: Browser, queue: Queue) -> None:
    letters = fail(queue, "acme", "acme", "acme")
    boss.open(addresses.FAILED)
    _tick(boss, letters[1])
    _go(boss, "Discard")
    boss.press("Discard: 1 failed job")
    _arrive(boss)

    boss.open(addresses.FAILED)
    _tick(boss, letters[2])
    _go(boss, "Discard")
    FailedJob.objects.filter(id=letters[2]).delete()
    boss.leave(boss.driver.back)

    assert boss.all("#result_list input:checked") == []
    assert boss.all("select[name=action] option:checked")[0].get_attribute("value") == ""


def test_all_that_match_are_requeued_with_a_page_that_goes_on_by_itself(
    boss: Browser, queue: Queue
) -> None:
    matching = fail(queue, *["acme"] * LETTERS)
    [other] = fail(queue, "globex")
    boss.open(f"{addresses.FAILED}?partition=acme")

    _tick(boss)
    boss.all(".actions .question a")[0].click()
    _go(boss, "Requeue")
    assert f"{LETTERS} failed jobs" in boss.text
    boss.press(f"Requeue: {LETTERS} failed jobs")
    _arrive(boss)

    assert boss.messages == [f"{LETTERS} failed jobs requeued."]
    assert _dead(queue) == {other}
    assert _live(queue) == set(matching)


@pytest.mark.parametrize(
    ("queue", "label", "done", "dead", "live"),
    [
        ("orm", "Requeue", "requeued", 1, 50),
        ("redis", "Requeue as a copy", "copied", 51, 50),
        ("redis", "Discard", "discarded", 1, 0),
    ],
    indirect=["queue"],
)
def test_without_scripts_a_long_run_goes_on_by_a_button(
    boss: Browser, queue: Queue, label: str, done: str, dead: int, live: int
) -> None:
    fail(queue, *["acme"] * 51)
    boss.run_scripts(False)
    boss.open(addresses.FAILED)

    _tick(boss)
    _go(boss, label)
    boss.press(f"{label}: 50 failed jobs")
    assert f"{BATCH} of 50 failed jobs {done}" in boss.text
    assert _pages_to_the_end(boss) > 1

    assert boss.messages == [f"50 failed jobs {done}."]
    assert (len(_dead(queue)), len(_live(queue))) == (dead, live)


@one_store
def test_a_long_run_can_be_stopped_and_pressed_twice(boss: Browser, queue: Queue) -> None:
    fail(queue, *["acme"] * 50)
    boss.run_scripts(False)
    boss.open(addresses.FAILED)
    _tick(boss)
    _go(boss, "Requeue")
    boss.press("Requeue: 50 failed jobs")

    page = boss.path

    boss.press("Stop")

    stopped = f"Stopped: {BATCH} of 50 failed jobs requeued."
    assert boss.messages == [stopped]
    assert len(_dead(queue)) == 50 - BATCH
    boss.run_scripts(True)
    assert boss.post(page) == "opaqueredirect"
    boss.open(addresses.FAILED)
    assert boss.messages == [f"This had ended already: {stopped}"]
    boss.driver.back()
    boss.open(page)
    assert stopped in boss.text
    boss.press("Back to the failed jobs")
    assert boss.path == addresses.FAILED
    assert len(_dead(queue)) == 50 - BATCH


@one_store
def test_a_run_is_gone_back_to_and_loaded_again(boss: Browser, queue: Queue) -> None:
    fail(queue, *["acme"] * 50)
    boss.run_scripts(False)
    boss.open(addresses.FAILED)
    _tick(boss)
    _go(boss, "Requeue")
    boss.press("Requeue: 50 failed jobs")
    page = boss.path
    assert page.startswith(f"{addresses.FAILED}run/")

    boss.leave(boss.driver.refresh)
    assert f"{BATCH} of 50 failed jobs requeued" in boss.text
    boss.open(addresses.FAILED)
    boss.leave(boss.driver.back)
    assert boss.path == page
    assert f"{BATCH} of 50 failed jobs requeued" in boss.text
    _pages_to_the_end(boss)
    assert boss.messages == ["50 failed jobs requeued."]
    boss.leave(boss.driver.back)
    assert "50 failed jobs requeued." in boss.text
    assert "Continue" not in boss.controls
    assert _dead(queue) == set()


@one_store
@pytest.mark.parametrize("token", ["kept", "changed"])
def test_a_script_says_that_its_session_has_ended_and_goes_on_after_a_log_in(
    boss: Browser, person: Callable[..., Any], queue: Queue, token: str
) -> None:
    boss.allow("403 (Forbidden)")
    fail(queue, *["acme"] * 50)
    boss.run_scripts(False)
    boss.open(addresses.FAILED)
    _tick(boss)
    _go(boss, "Requeue")
    boss.press("Requeue: 50 failed jobs")
    page = boss.path
    boss.run_scripts(True)
    boss.open(f"{page}?go=1")  # it waits until it is told to go on, whatever a link says
    assert {"Continue", "Stop"} <= set(boss.controls)
    session = boss.driver.get_cookie("sessionid")
    assert session is not None
    boss.driver.delete_cookie("sessionid")
    if token == "changed":
        cookie = boss.driver.get_cookie("csrftoken")
        boss.driver.delete_cookie("csrftoken")
        boss.driver.add_cookie(cookie | {"value": "x" * 32})
    told = "You were logged out: log in again in another tab, then press Continue."

    for _ in range(2):
        boss.control("Continue").click()
        until(lambda: told in boss.text and "Continue" in boss.controls, "the page to say so")
    assert boss.path == page
    assert len(_dead(queue)) == 50 - BATCH
    boss.driver.add_cookie(session)
    boss.control("Continue").click()
    _arrive(boss)

    assert boss.messages == ["50 failed jobs requeued."]
    assert _dead(queue) == set()


@one_store
def test_a_page_of_somebody_elses_run_shows_it_and_does_nothing(
    boss: Browser, person: Callable[..., Any], queue: Queue
) -> None:
    fail(queue, *["acme"] * 50)
    boss.run_scripts(False)
    boss.open(addresses.FAILED)
    _tick(boss)
    _go(boss, "Requeue")
    boss.press("Requeue: 50 failed jobs")
    page = boss.path
    boss.run_scripts(True)
    boss.sign_in(person("other", "view_failedjob", "requeue_jobs"))

    boss.open(page)

    assert "Asked for by boss; only they can go on with it or stop it." in boss.text
    assert not {"Continue", "Stop"} & set(boss.controls)
    assert len(_dead(queue)) == 50 - BATCH


@one_store
def test_what_somebody_else_has_requeued_meanwhile_is_said(boss: Browser, queue: Queue) -> None:
    letters = fail(queue, "acme", "globex")
    boss.open(addresses.FAILED)
    _tick(boss)
    _go(boss, "Requeue")
    queue.requeue(letters[:1])

    boss.press("Requeue: 2 failed jobs")
    _arrive(boss)

    assert boss.messages[0] == "1 failed job requeued."
    assert boss.messages[1].startswith("1 failed job was gone when the run came to it: requeued")
    assert _live(queue) == set(letters)
    boss.open(addresses.FAILED)
    assert boss.all(IDS) == []


@one_store
def test_a_letter_is_dealt_with_on_its_own_page(boss: Browser, queue: Queue) -> None:
    [letter] = fail(queue, "acme")
    boss.open(addresses.FAILED)
    boss.press(letter)

    boss.press("Requeue")
    boss.press("Requeue: 1 failed job")
    _arrive(boss)

    assert _live(queue) == {letter}
    assert _dead(queue) == set()


def _arrive(browser: Browser) -> None:
    """Wait until a run has led back to the list."""
    until(lambda: browser.path == addresses.FAILED and browser.messages, "the list to come back")


# -- finding them -------------------------------------------------------------------


def test_jobs_are_searched_and_filtered(boss: Browser) -> None:
    orders, uploads = get_queue("orders"), get_queue("uploads")
    [one] = fail(orders, "acme", reason=ValueError("no"), msg_id="upload-17", task_name="app.one")
    [two] = fail(orders, "globex", reason=OSError("no"), task_name="app.two")
    [three] = fail(uploads, "acme", reason=OSError("no"), task_name="app.two", parent_id=two)
    boss.open(addresses.FAILED)
    assert boss.texts(IDS) == [three, two, one]

    for term, found in [
        (two, [two]),
        ("upload-17", [one]),
        ("acme", [three, one]),
        ("two", [three, two]),
        ("nothing like it", []),
    ]:
        boss.fill("Search", term)
        boss.leave(boss.all("#changelist-search [type=submit]")[0].click)
        assert boss.texts(IDS) == found, term

    boss.open(addresses.FAILED)
    boss.press("uploads")
    assert boss.texts(IDS) == [three]
    boss.open(addresses.FAILED)
    boss.press("app.two")
    assert boss.texts(IDS) == [three, two]
    boss.press("orders")
    assert boss.texts(IDS) == [two]
    boss.open(addresses.FAILED)
    boss.press("builtins.ValueError")
    assert boss.texts(IDS) == [one]
    boss.press("Today")
    assert boss.texts(IDS) == [one]
    boss.open(f"{addresses.FAILED}?parent={two}")
    assert boss.texts(IDS) == [three]


def test_days_are_stepped_through(boss: Browser) -> None:
    queue = get_queue("orders")
    moments = [(2024, 3, 5), (2025, 7, 1), (2025, 7, 9)]
    ids = fail(queue, "acme", "acme", "acme")
    for job_id, day in zip(ids, moments, strict=True):
        FailedJob.objects.filter(id=job_id).update(failed_at=datetime(*day, 18, tzinfo=UTC))
    boss.open(addresses.FAILED)

    boss.press("2025")
    assert set(boss.texts(IDS)) == set(ids[1:])
    if "July 2025" in boss.controls:
        boss.press("July 2025")
    boss.press("July 9")
    assert boss.texts(IDS) == ids[2:]


def test_long_lists_have_pages(boss: Browser) -> None:
    complete(get_queue("orders"), *["acme"] * 51)
    boss.open(addresses.COMPLETED)

    assert len(boss.all(IDS)) == 50
    boss.press("2")
    assert len(boss.all(IDS)) == 1


# -- reading them -------------------------------------------------------------------


@one_store
def test_a_letter_shows_everything_and_leads_to_its_family(boss: Browser, queue: Queue) -> None:
    [parent] = complete(queue, "acme")
    error = ValueError(f"cannot open {CANARY}")
    [letter] = fail(
        queue,
        "acme",
        reason=error,
        parent_id=parent,
        msg_id="upload-17",
        payload=payload(CANARY, password="swordfish"),
        id="Upload.17",
        given_id=True,
    )
    [child] = complete(queue, "acme", parent_id=letter)
    boss.open(addresses.FAILED)
    boss.press(letter)

    shown = boss.text
    for expected in (
        "Failed job Upload.17",
        "upload-17",
        "ValueError",
        "Traceback",
        f"cannot open {CANARY}",
    ):
        assert expected in shown
    assert "swordfish" not in boss.source
    boss.press(child)
    assert boss.path.startswith(addresses.COMPLETED)
    boss.press(letter)
    boss.press(parent)
    assert boss.path.startswith(addresses.COMPLETED)
    assert letter in boss.controls


def test_a_job_that_is_live_again_is_found_from_its_old_page(boss: Browser, queue: Queue) -> None:
    [letter] = fail(queue, "acme")
    boss.open(addresses.FAILED)
    boss.press(letter)
    here = boss.path
    queue.requeue(letter)

    boss.open(here)

    assert boss.path == addresses.job(queue.name, letter)


# -- who may ------------------------------------------------------------------------


def test_who_may_only_view_finds_no_action_and_cannot_force_one(
    watcher: Browser, queue: Queue
) -> None:
    watcher.allow("403 (Forbidden)")
    [letter] = fail(queue, "acme", reason=ValueError(CANARY), payload=payload(CANARY))
    [done] = complete(queue, "acme", payload=payload(CANARY))
    seq = str(FailedJob.objects.get(id=letter).seq)

    for page, job_id in ((addresses.FAILED, letter), (addresses.COMPLETED, done)):
        watcher.open(page)
        assert watcher.all("#result_list input, .actions, .object-tools a") == []
        assert CANARY not in watcher.source
        watcher.press(job_id)
        assert watcher.all("#content-main form, #content form[method=post]") == []
        assert CANARY not in watcher.source
    for action, answer in {
        "requeue": 403,
        "copy": 403,
        "discard": 403,
        "delete_selected": 200,
    }.items():
        chosen = [("action", action), ("_selected_action", seq), ("post", "yes")]
        assert watcher.post(addresses.FAILED, chosen) == answer, action
    assert watcher.post(f"{addresses.FAILED}run/", [("run", "x")]) == 403

    assert (_dead(queue), _live(queue)) == ({letter}, set())


@one_store
def test_a_run_belongs_to_who_asked_for_it(
    boss: Browser, person: Callable[..., Any], queue: Queue
) -> None:
    [letter] = fail(queue, "acme")
    boss.open(addresses.FAILED)
    _tick(boss, letter)
    _go(boss, "Requeue")
    signed = boss.all("[name=run]")[0].get_attribute("value")
    boss.allow("403 (Forbidden)")
    boss.sign_in(person("clerk", "view_failedjob"))
    boss.open(addresses.FAILED)

    assert boss.post(f"{addresses.FAILED}run/", [("run", str(signed))]) == 403
    boss.sign_in(person("other", "view_failedjob", "requeue_jobs"))
    boss.open(addresses.FAILED)
    assert boss.post(f"{addresses.FAILED}run/", [("run", str(signed))]) == "opaqueredirect"

    assert (_dead(queue), _live(queue)) == ({letter}, set())


def test_nobody_and_staff_without_permissions_see_no_list(
    browser: Browser, person: Callable[..., Any]
) -> None:
    browser.allow("403 (Forbidden)")
    fail(get_queue("orders"), "acme")
    for page in (addresses.FAILED, addresses.COMPLETED):
        browser.open(page)
        assert browser.path == "/admin/login/"

    browser.sign_in(person("clerk"))
    for page in (addresses.FAILED, addresses.COMPLETED):
        browser.open(page)
        assert "403" in browser.source
        assert "acme" not in browser.source


def test_rows_that_jobs_fail_anew_meanwhile_are_left_alone(boss: Browser) -> None:
    queue = get_queue("orders")
    fail(queue, *["acme"] * LETTERS)
    boss.run_scripts(False)
    boss.open(addresses.FAILED)
    _tick(boss)
    _go(boss, "Discard")
    boss.press("Discard: 50 failed jobs")
    [new] = fail(queue, "acme")

    _pages_to_the_end(boss)

    assert new in _dead(queue)
