"""Runs whose process is killed, whose store does not answer, or which two work on at once."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from tests import services
from tests.admin.conftest import declare
from tests.admin.ended import (
    LASTING,
    asked,
    begin,
    begun,
    go_on,
    is_run,
    letters,
    runs,
    to_the_end,
)
from tests.admin.looking import look, messages
from tests.contract.jobs import put
from tests.races.child import Part
from tests.races.processes import Crew
from tests.races.waiting import PATIENCE, until
from vtrr_django import Queue, get_queue
from vtrr_django.admin import bulk, bulk_step
from vtrr_django.admin.bulk_ledger import Ledger
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.models import FailedJob

DONE = {"requeue": "requeued", "copy": "copied", "discard": "discarded"}
CHUNK = 10


@pytest.fixture(autouse=True)
def _short_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_step, "CHUNK", CHUNK)
    monkeypatch.setattr(bulk_step, "SECONDS", 0.0)
    monkeypatch.setattr(bulk_step, "_LOOK", 0.005)


def _dead_in(queue: Queue, n: int) -> list[str]:
    """Have jobs of a queue fail; return the ids of the dead letters."""
    ids = put(queue.engine, *["acme"] * n)
    for leased in queue.lease(n):
        assert queue.fail(leased, "no")
    queue.archive()
    return ids


@pytest.fixture(params=["mariadb", "postgres", "redis", "sqlite"])
def queue(request: pytest.FixtureRequest, settings: Any, transactional_db: None) -> Queue:
    """A queue that other processes reach, in each store."""
    return _in_store(request, settings)


def _in_store(request: pytest.FixtureRequest, settings: Any) -> Queue:
    if request.param in ("mariadb", "postgres", "redis"):
        services.need(request.param)
    return declare(settings, request.param)


def _sound(action: str, queue: Queue, ids: list[str], history: set[str]) -> None:
    """Check that it was done once with each letter."""
    live = queue.jobs(limit=1000).jobs
    if action == "copy":
        assert Counter(job.parent_id for job in live) == Counter(ids)
    else:
        assert {job.id for job in live} == (set(ids) if action == "requeue" else set())
    assert history == (set(ids) if action == "copy" else set())


def _history(queue: Queue) -> set[str]:
    rows = FailedJob.objects.using(queue.config.database).filter(queue=queue.name)
    return set(rows.values_list("id", flat=True))


# -- killed ------------------------------------------------------------------------


def work(part: Part, number: int, moment: str) -> None:
    """Do a batch of a run, and be killed before or after the second chunk is done."""
    bulk_step.CHUNK, bulk_step.SECONDS = CHUNK, 1000.0  # type: ignore[misc]
    do, chunks = bulk_step._do, 0

    def deadly(*arguments: Any) -> None:
        nonlocal chunks
        chunks += 1
        if chunks < 2 or moment == "after":
            do(*arguments)
        if chunks == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    bulk_step._do = deadly
    ledger = Ledger.find(number)
    bulk_step.step(ledger.run, ledger)


@pytest.fixture
def crew(tmp_path: Path, settings: Any) -> Iterator[Callable[[Queue], Crew]]:
    crews: list[Crew] = []

    def make(queue: Queue) -> Crew:
        crews.append(Crew(tmp_path, settings.VTRR, queue.name))
        return crews[-1]

    yield make
    for one in crews:
        one.close()


@pytest.mark.django_db(transaction=True, databases=list(connections))
@pytest.mark.parametrize(
    ("action", "moment"),
    [("requeue", "after"), ("copy", "after"), ("discard", "after"), ("requeue", "before")],
)
def test_a_killed_process_costs_no_letter(
    queue: Queue,
    action: str,
    moment: str,
    crew: Callable[[Queue], Crew],
    root: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = _dead_in(queue, 65)
    address = begun(root, asked(root, action, f"?queue={queue.name}"))
    here = crew(queue)
    monkeypatch.setattr(bulk_step, "PATIENCE", 0.02)
    process = here.start("tests.admin.test_bulk_dying:work", number=runs().get().pk, moment=moment)
    process.join(PATIENCE)
    here.check()
    assert process.exitcode == -signal.SIGKILL

    text = to_the_end(root, address=address)

    _sound(action, queue, ids, _history(queue))
    assert "could not" not in text
    counted = 65 if action == "copy" or moment == "before" else 55
    assert f"{counted} failed jobs {DONE[action]}." in text
    gone = "10 failed jobs were gone when the run came to them: requeued or discarded by others, "
    gone += "or by this run before its server process or the store failed."
    assert (gone in text) == (counted < 65)
    assert text.count("gone") == (counted < 65)


# -- a store that does not answer --------------------------------------------------


def _replaced(
    monkeypatch: pytest.MonkeyPatch, does: Callable[[bulk.Action, Queue, Any, str], list[str]]
) -> None:
    """Have actions do something else."""

    def other(action: bulk.Action) -> bulk.Action:
        return replace(action, does=lambda queue, ids, once: does(action, queue, ids, once))

    changed = {name: other(action) for name, action in bulk.ACTIONS.items()}
    monkeypatch.setattr(bulk, "ACTIONS", changed)


@pytest.mark.django_db(transaction=True, databases=list(connections))
@pytest.mark.parametrize("moment", ["before", "after"])
def test_copies_are_made_once_each_through_outages(
    queue: Queue, moment: str, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can tell whether a store that did not answer has taken a chunk."""
    ids = _dead_in(queue, 35)
    calls = 0

    def unreliable(action: bulk.Action, queue: Queue, ids: Any, once: str) -> list[str]:
        nonlocal calls
        calls += 1
        if calls % 3 == 0 or moment == "after":
            done = action.does(queue, ids, once)
            if calls % 3 == 0:
                return done
        raise StoreUnavailable("it did not answer")

    _replaced(monkeypatch, unreliable)
    response = begin(root, asked(root, "copy", f"?queue={queue.name}"))
    outages = 0
    while is_run(response):
        outages += "It did not answer. Press Continue" in _told(root, response)
        response = go_on(root, response.headers["Location"])

    assert outages == 8
    text = _told(root, response)
    assert "35 failed jobs copied." in text
    assert "gone" not in text
    assert "could not" not in text
    _sound("copy", queue, ids, _history(queue))


def test_a_letter_that_was_changed_since_its_copy_was_made_holds_up_no_other(
    settings: Any, root: Client, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = declare(settings, "sqlite")
    ids = _dead_in(queue, 5)
    fails = [True, False, False]

    def unreliable(action: bulk.Action, queue: Queue, ids: Any, once: str) -> list[str]:
        done = action.does(queue, ids, once)
        if fails and fails.pop(0):
            raise StoreUnavailable("it did not answer")
        return done

    _replaced(monkeypatch, unreliable)
    address = begun(root, asked(root, "copy"))
    FailedJob.objects.filter(id=ids[2]).update(payload='{"args": [1], "kwargs": {}}')

    text = to_the_end(root, address=address)

    assert "4 failed jobs copied." in text
    assert "1 failed job could not be copied" in text
    assert Counter(job.parent_id for job in queue.jobs().jobs) == Counter(ids)


def _told(client: Client, response: Any) -> str:
    return messages(look(client, response.headers["Location"]))


# -- two at once -------------------------------------------------------------------


class Held:
    """Holds up the first one that does a run's last letters, until it is let go.

    Args:
        after: hold it up when it has done it, not before.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, last: str, *, after: bool) -> None:
        self.there, self.go = threading.Event(), threading.Event()
        _replaced(monkeypatch, self._does)
        self._last, self._after = last, after

    def _does(self, action: bulk.Action, queue: Queue, ids: Any, once: str) -> list[str]:
        done = action.does(queue, ids, once) if self._after else None
        if self._last in ids and not self.there.is_set():
            self.there.set()
            assert self.go.wait(PATIENCE)
        return action.does(queue, ids, once) if done is None else done


def _in_thread(work: Callable[[], str]) -> tuple[threading.Thread, list[str]]:
    results: list[str] = []

    def do() -> None:
        try:
            results.append(work())
        finally:
            connections.close_all()

    thread = threading.Thread(target=do)
    thread.start()
    return thread, results


def _tab_of(root: Client) -> Client:
    tab = Client()
    tab.cookies.load({name: one.value for name, one in root.cookies.items()})
    return tab


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("action", ["requeue", "copy", "discard"])
@pytest.mark.parametrize("alias", LASTING)
def test_a_second_tab_waits_for_what_the_first_is_doing(
    alias: str,
    settings: Any,
    action: str,
    after: bool,
    root: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.VTRR = {"QUEUES": {"one": {"DATABASE": alias}}}
    ids = letters(alias, "one", 30)
    held = Held(monkeypatch, ids[-1], after=after)
    address = begun(root, asked(root, action))
    first, first_said = _in_thread(lambda: to_the_end(_tab_of(root), address=address))
    assert held.there.wait(PATIENCE)
    looks, read = 0, Ledger.read

    def counted(ledger: Ledger) -> Any:
        nonlocal looks
        looks += 1
        return read(ledger)

    monkeypatch.setattr(Ledger, "read", counted)
    second, second_said = _in_thread(lambda: to_the_end(_tab_of(root), address=address))
    until(lambda: looks > 5, "the second tab to wait")
    assert second_said == []
    held.go.set()
    for thread in (first, second):
        thread.join(PATIENCE)

    for text in (*first_said, *second_said):
        assert f"30 failed jobs {DONE[action]}." in text
        assert "gone" not in text
        assert "could not" not in text
    assert len(first_said) == len(second_said) == 1
    queue = get_queue("one")
    _sound(action, queue, ids, _history(queue))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("action", ["requeue", "copy", "discard"])
@pytest.mark.parametrize("alias", LASTING)
def test_one_that_was_taken_for_dead_is_counted_all_the_same(
    alias: str,
    settings: Any,
    action: str,
    after: bool,
    root: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.VTRR = {"QUEUES": {"one": {"DATABASE": alias}}}
    ids = letters(alias, "one", 30)
    held = Held(monkeypatch, ids[-1], after=after)
    address = begun(root, asked(root, action))
    first, first_said = _in_thread(lambda: to_the_end(_tab_of(root), address=address))
    assert held.there.wait(PATIENCE)
    monkeypatch.setattr(bulk_step, "PATIENCE", 0.01)

    second_said = to_the_end(root, address=address)
    held.go.set()
    first.join(PATIENCE)

    uncounted = after and action != "copy"
    assert f"{20 if uncounted else 30} failed jobs {DONE[action]}." in second_said
    assert ("10 failed jobs were gone" in second_said) == uncounted
    [text] = first_said
    for said in (text, look(root, address).text):
        assert f"30 failed jobs {DONE[action]}." in said
        assert "gone" not in said
        assert "could not" not in said
    log = look(root, "/admin/vtrr_django/queuestate/one/history/").text
    assert f"Done: 30 {DONE[action]}." in log
    assert re.search(r'"taken": 30, ', runs().get().change_message) or uncounted
    queue = get_queue("one")
    _sound(action, queue, ids, _history(queue))


@pytest.mark.parametrize("alias", LASTING)
def test_letters_that_others_hold_are_waited_for(
    alias: str, settings: Any, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run has them in a transaction that then fails."""
    settings.VTRR = {"QUEUES": {"one": {"DATABASE": alias}}}
    ids = letters(alias, "one", 20)
    lost: list[str] = []

    def loses(action: bulk.Action, queue: Queue, ids: Any, once: str) -> list[str]:
        if not lost:
            lost.extend(ids)
            return action.does(queue, ids[4:], once)
        return action.does(queue, ids, once)

    _replaced(monkeypatch, loses)

    text = to_the_end(root, asked(root, "requeue"))

    assert "20 failed jobs requeued." in text
    assert "could not" not in text
    assert {job.id for job in get_queue("one").jobs().jobs} == set(ids)


@pytest.mark.parametrize("alias", LASTING)
def test_letters_that_others_keep_are_told(
    alias: str, settings: Any, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.VTRR = {"QUEUES": {"one": {"DATABASE": alias}}}
    ids = letters(alias, "one", 20)

    def held(action: bulk.Action, queue: Queue, some: Any, once: str) -> list[str]:
        return action.does(queue, [one for one in some if one not in ids[:3]], once)

    _replaced(monkeypatch, held)

    text = to_the_end(root, asked(root, "requeue"))

    assert "17 failed jobs requeued." in text
    assert (
        "3 failed jobs could not be requeued: their record is spoilt, or others held them." in text
    )
    assert "gone" not in text
    assert _history(get_queue("one")) == set(ids[:3])
