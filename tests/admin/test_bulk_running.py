"""Long runs: batch by batch, each letter once, whatever is sent how often."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.auth.models import User
from django.core import signing
from django.db import connections
from django.test import Client
from django.urls import resolve

from tests.admin.conftest import declare
from tests.admin.ended import (
    ALIASES,
    FAILED,
    LASTING,
    RUN,
    Staff,
    add,
    asked,
    begin,
    begun,
    dead,
    go_on,
    is_run,
    letters,
    runs,
    to_the_end,
)
from tests.admin.looking import look, messages
from tests.contract.jobs import put
from vtrr_django import Queue, get_queue
from vtrr_django.admin import bulk, bulk_step
from vtrr_django.admin.bulk_ledger import Ledger, for_people
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.models import CompletedJob, FailedJob, Job

CHUNK = 10


@pytest.fixture(autouse=True)
def _short_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_step, "CHUNK", CHUNK)
    monkeypatch.setattr(bulk_step, "SECONDS", 0.0)


def _declared(settings: Any, alias: str) -> str:
    settings.VTRR = {"QUEUES": {"one": {"DATABASE": alias}, "two": {"DATABASE": alias}}}
    return alias


@pytest.fixture(params=ALIASES)
def alias(request: pytest.FixtureRequest, settings: Any) -> str:
    return _declared(settings, request.param)


@pytest.fixture
def declared(settings: Any, db: None) -> str:
    """Return the database of two queues, for what no database has a say in."""
    return _declared(settings, "default")


@pytest.fixture(params=LASTING)
def lasting(request: pytest.FixtureRequest, settings: Any) -> str:
    return _declared(settings, request.param)


def told(client: Client, response: Any) -> str:
    assert response.status_code == 302
    return messages(look(client, response.headers["Location"]))


def parents(alias: str) -> list[str]:
    """Return of which letters there are copies."""
    jobs = Job.objects.using(alias).exclude(parent_id=None)
    return sorted(jobs.values_list("parent_id", flat=True))


def live(alias: str) -> set[str]:
    return set(Job.objects.using(alias).values_list("id", flat=True))


# -- to the end --------------------------------------------------------------------


def test_each_request_does_one_batch(alias: str, root: Client) -> None:
    ids = letters(alias, "one", 25) + letters(alias, "two", 10)
    signed = asked(root, "requeue")

    address = begun(root, signed)
    for done in (10, 20, 30):
        page = look(root, address)
        assert f"{done} of 35 failed jobs requeued" in page.text
        [bar] = page.find("progress")
        assert bar["value"] == str(done * 100 // 35)
        assert len(dead(alias)) == 35 - done
        response = go_on(root, address)
    text = told(root, response)

    assert "35 failed jobs requeued." in text
    assert "could not" not in text
    assert (dead(alias), live(alias)) == (set(), set(ids))


def test_requeued_letters_have_all_their_attempts_again(alias: str, root: Client) -> None:
    payload = '{"args": [1.5, "ü"], "kwargs": {}}'
    fields = {"weight": 7, "priority": 3, "delivery_count": 4, "timeouts": 2, "msg_id": "m"}
    [letter] = letters(alias, "one", payload=payload, partition_key="globex", **fields)

    to_the_end(root, asked(root, "requeue"))

    [job] = get_queue("one").jobs().jobs
    assert (job.id, job.partition_key, job.payload, job.msg_id) == (letter, "globex", payload, "m")
    assert (job.weight, job.priority, job.delivery_count, job.timeouts) == (7, 3, 0, 0)


def test_copies_are_new_jobs_and_the_letters_stay(alias: str, root: Client) -> None:
    ids = letters(alias, "one", 25, msg_id=None, weight=3)

    assert "25 failed jobs copied." in to_the_end(root, asked(root, "copy"))

    assert dead(alias) == set(ids)
    assert parents(alias) == sorted(ids)
    assert {job.weight for job in get_queue("one").jobs().jobs} == {3}


def test_discarded_letters_are_gone(alias: str, root: Client) -> None:
    letters(alias, "one", 25)

    assert "25 failed jobs discarded." in to_the_end(root, asked(root, "discard"))

    assert (dead(alias), live(alias)) == (set(), set())


@pytest.mark.parametrize("store", ["fakeredis", "redis"])
@pytest.mark.django_db(transaction=True)
def test_queues_in_redis_have_their_letters_back_too(
    store: str, settings: Any, root: Client
) -> None:
    if store == "redis":
        from tests import services

        services.need("redis")
    queue = declare(settings, store)
    for job in put(queue.engine, *["acme"] * 12):
        assert job
    for leased in queue.lease(12):
        assert queue.fail(leased, "no")
    queue.archive()
    assert FailedJob.objects.count() == 12

    assert "12 failed jobs copied." in to_the_end(root, asked(root, "copy"))
    assert queue.depth().ready == 12
    assert "12 failed jobs requeued." in to_the_end(root, asked(root, "requeue"))
    assert queue.depth().ready == 24
    assert dead("default") == set()


def test_letters_that_are_far_apart_are_found_in_many_batches(
    alias: str, root: Client, monkeypatch: Any
) -> None:
    monkeypatch.setattr(bulk_step, "SPAN", 7)
    wanted = []
    for _ in range(6):
        wanted += letters(alias, "one", 2, partition_key="globex")
        letters(alias, "one", 9)

    assert "12 failed jobs requeued." in to_the_end(
        root, asked(root, "requeue", "?partition=globex")
    )

    assert live(alias) == set(wanted)
    assert len(dead(alias)) == 54


def test_the_progress_is_told_to_a_script_as_numbers(declared: str, root: Client) -> None:
    letters(declared, "one", 15)
    letters(declared, "one", 10)
    address = begun(root, asked(root, "discard", "?queue=one")).partition("?")[0]

    def send() -> Any:
        return root.post(address, headers={"accept": "application/json"}).json()

    assert send() == {"percent": 80, "text": "20 of 25 failed jobs discarded", "trouble": ""}
    news = send()

    assert news == {"location": f"{FAILED}?queue=one"}
    assert "25 failed jobs discarded." in messages(look(root, news["location"]))


# -- again, twice, by two ----------------------------------------------------------


@pytest.mark.parametrize("action", ["requeue", "copy", "discard"])
def test_a_page_that_is_sent_again_goes_on_where_the_run_stands(
    alias: str, root: Client, action: str
) -> None:
    ids = letters(alias, "one", 35)
    signed = asked(root, action)
    first = begun(root, signed)
    assert "10 of 35 failed jobs" in look(root, first).text
    again = begun(root, signed)

    assert again == first
    assert "20 of 35 failed jobs" in look(root, first).text
    assert "35 failed jobs" in to_the_end(root, address=first)
    if action == "copy":
        assert parents(alias) == sorted(ids)


@pytest.mark.parametrize("action", ["requeue", "copy", "discard"])
def test_a_run_that_has_ended_is_not_run_again(alias: str, root: Client, action: str) -> None:
    ids = letters(alias, "one", 5)
    signed = asked(root, action)
    to_the_end(root, signed)
    before = (dead(alias), live(alias))
    new = letters(alias, "one", 3)

    text = told(root, begin(root, signed))

    assert "This had ended already: 5 failed jobs" in text
    assert (dead(alias) - set(new), live(alias)) == before
    assert len(live(alias)) == (0 if action == "discard" else len(ids))
    assert runs().count() == 1


def test_letters_that_die_again_meanwhile_are_not_taken_twice(alias: str, root: Client) -> None:
    ids = letters(alias, "one", 20)
    address = begun(root, asked(root, "requeue"))
    queue = get_queue("one")
    for leased in queue.lease(10):
        assert queue.fail(leased, "again")

    assert "20 failed jobs requeued." in to_the_end(root, address=address)

    assert len(dead(alias)) == 10
    assert dead(alias) | live(alias) == set(ids)


def test_letters_that_somebody_else_has_requeued_are_counted_as_such(
    alias: str, root: Client
) -> None:
    ids = letters(alias, "one", 12)
    signed = asked(root, "discard")
    get_queue("one").requeue(ids[:4])

    text = to_the_end(root, signed)

    assert "8 failed jobs discarded." in text
    gone = "4 failed jobs were gone when the run came to them: requeued or discarded by others, "
    assert f"{gone}or by this run before its server process or the store failed." in text
    assert "could not" not in text
    assert live(alias) == set(ids[:4])


def test_two_people_at_once_requeue_each_letter_once(alias: str, staff: Staff) -> None:
    ids = letters(alias, "one", 40)
    clients = [staff("view_failedjob", "requeue_jobs") for _ in range(2)]
    signed = [asked(client, "requeue") for client in clients]
    pages = [begun(client, text) for client, text in zip(clients, signed, strict=True)]

    ends = [to_the_end(client, address=one) for client, one in zip(clients, pages, strict=True)]

    counts = [
        int(found) for end in ends for found in re.findall(r"(\d+) failed jobs requeued", end)
    ]
    assert sum(counts) == 40
    assert (dead(alias), live(alias)) == (set(), set(ids))
    assert runs().count() == 2


def in_threads(*work: Callable[[], Any]) -> list[Any]:
    """Do things at once, each with connections of its own; return what came of them."""
    begin, results = threading.Barrier(len(work)), [None] * len(work)

    def do(n: int) -> None:
        try:
            begin.wait(30)
            results[n] = work[n]()
        except BaseException as error:  # noqa: BLE001 - told below
            results[n] = error  # type: ignore[call-overload]
        finally:
            connections.close_all()

    threads = [threading.Thread(target=do, args=(n,)) for n in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


@pytest.mark.parametrize("action", ["requeue", "copy"])
def test_many_clicks_at_once_are_one_run(lasting: str, root: Client, action: str) -> None:
    """Four tabs send the same page at the same moment, from before the run began."""
    ids = letters(lasting, "one", 50)
    signed = asked(root, action)
    tabs = []
    for _ in range(4):
        tab = Client()
        tab.cookies.load({name: one.value for name, one in root.cookies.items()})
        tabs.append(tab)

    def run(tab: Client) -> Callable[[], str]:
        def to_its_end() -> str:
            response = begin(tab, signed)
            for _ in range(200):
                if not is_run(response):
                    return told(tab, response)
                response = go_on(tab, response.headers["Location"])
            raise AssertionError("the run did not come to an end")

        return to_its_end

    ends = in_threads(*(run(tab) for tab in tabs))

    done = {"requeue": "requeued", "copy": "copied"}[action]
    for end in ends:
        assert f"50 failed jobs {done}." in end
        assert "gone" not in end
        assert "could not" not in end
    [entry] = runs()
    assert '"state": "done", "taken": 50, "done": {"one": 50}' in entry.change_message
    if action == "copy":
        assert parents(lasting) == sorted(ids)
    else:
        assert live(lasting) == set(ids)


# -- stopping ----------------------------------------------------------------------


def test_a_run_is_stopped(alias: str, root: Client) -> None:
    letters(alias, "one", 35)
    signed = asked(root, "requeue", "?queue=one")
    address = begun(root, signed)

    response = go_on(root, address, stop="1")

    assert response.headers["Location"] == f"{FAILED}?queue=one"
    assert "Stopped: 10 of 35 failed jobs requeued." in told(root, response)
    again = "This had ended already: Stopped: 10 of 35 failed jobs requeued."
    assert again in told(root, go_on(root, address))
    assert again in told(root, go_on(root, address, stop="1"))
    assert again in told(root, begin(root, signed))
    assert len(dead(alias)) == 25


# -- trouble -----------------------------------------------------------------------


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Have a queue's store not answer when asked for the n-th time: ``{"one": 2}``."""
    times: dict[str, int] = {}

    def unreliable(action: bulk.Action) -> bulk.Action:
        def does(queue: Queue, ids: Any, once: str) -> list[str]:
            times[queue.name] = times.get(queue.name, 0) - 1
            if times[queue.name] == 0:
                raise StoreUnavailable("database 'x' did not answer: <gone>.")
            return action.does(queue, ids, once)

        return replace(action, does=does)

    broken = {name: unreliable(action) for name, action in bulk.ACTIONS.items()}
    monkeypatch.setattr(bulk, "ACTIONS", broken)
    yield times
    times.clear()


@pytest.mark.parametrize("action", ["requeue", "copy", "discard"])
def test_a_store_that_does_not_answer_costs_no_letter(
    alias: str, root: Client, failing: dict[str, int], action: str
) -> None:
    ids = [one for _ in range(15) for name in ("one", "two") for one in letters(alias, name)]
    signed = asked(root, action)
    failing["two"] = 2
    address = begun(root, signed)

    text = told(root, go_on(root, address))

    assert "Database 'x' did not answer: <gone>. Press Continue to go on." in text
    # The other queue's half of the batch; copies are counted when all of a batch are there.
    assert f"{10 if action == 'copy' else 15} of 30 failed jobs" in text
    text = to_the_end(root, address=address)
    assert "30 failed jobs" in text
    assert "could not" not in text
    assert "gone" not in text
    assert dead(alias) == (set(ids) if action == "copy" else set())
    assert parents(alias) == (sorted(ids) if action == "copy" else [])
    if action != "copy":
        assert live(alias) == (set(ids) if action == "requeue" else set())


def test_a_script_is_told_what_is_in_the_way(
    declared: str, root: Client, failing: dict[str, int]
) -> None:
    letters(declared, "one", 30)
    failing["one"] = 2
    address = begun(root, asked(root, "copy")).partition("?")[0]

    news = root.post(address, headers={"accept": "application/json"}).json()

    assert news == {
        "percent": 33,
        "text": "10 of 30 failed jobs copied",
        "trouble": "database 'x' did not answer: <gone>. Press Continue to go on.",
    }


def test_a_letter_whose_record_is_spoilt_holds_up_no_other(alias: str, root: Client) -> None:
    ids = letters(alias, "one", 9)
    letters(alias, "one", payload='{"args": [')

    text = to_the_end(root, asked(root, "copy"))

    assert "9 failed jobs copied." in text
    assert "1 failed job could not be copied: its record is spoilt, or others held it." in text
    assert "gone" not in text
    assert parents(alias) == sorted(ids)


@pytest.mark.parametrize("action", ["copy", "requeue"])
@pytest.mark.parametrize("wrong", ["seven", float("nan")])
def test_letters_are_not_blamed_for_a_share_that_is_none(
    alias: str, root: Client, settings: Any, action: str, wrong: Any
) -> None:
    answer: list[Any] = [wrong]
    shares = {"DATABASE": alias, "SHARES": lambda partition_key: answer[0]}
    settings.VTRR = {"QUEUES": {"one": shares, "two": {"DATABASE": alias}}}
    letters(alias, "one", 3)

    address = begun(root, asked(root, action))

    text = messages(look(root, address))
    assert "SHARES['acme']" in text
    assert "Press Continue to go on." in text
    assert "spoilt" not in text
    answer[0] = 2.0
    text = to_the_end(root, address=address)
    assert f"3 failed jobs {'copied' if action == 'copy' else 'requeued'}." in text
    assert "could not" not in text


# -- what is sent ------------------------------------------------------------------


def _forged(**changes: Any) -> str:
    run = {"upto": 10**9, "total": 1, "words": "x", "logged": 0, "back": "", "key": "k"}
    return signing.dumps(
        {**run, "user": "1", "action": "discard", "selection": {}, **changes}, salt="another"
    )


def test_what_was_not_made_here_is_refused(declared: str, root: Client) -> None:
    letters(declared, "one", 3)
    signed = asked(root, "discard")
    head, _, signature = signed.rpartition(":")
    other = asked(root, "requeue")
    tampered = f"{other.rpartition(':')[0]}:{signature}"

    for text in ("", "x", signed[:-2], f"{head}:", tampered, _forged(), "\0", "a:b:c"):
        said = told(root, begin(root, text))
        assert "Nothing was done. This was not sent from a page of this site." in said

    assert len(dead(declared)) == 3
    assert root.post(RUN).status_code == 302
    assert LogEntry.objects.count() == 0


def test_what_somebody_else_has_asked_for_is_refused(
    declared: str, root: Client, staff: Staff
) -> None:
    letters(declared, "one", 3)
    signed = asked(root, "discard")
    other = staff("view_failedjob", "requeue_jobs")

    for more in ({}, {"stop": "1"}):
        text = told(other, begin(other, signed, **more))
        assert "Nothing was done. This was asked for by somebody else" in text

    assert len(dead(declared)) == 3


def test_a_page_of_yesterday_is_refused(declared: str, root: Client, monkeypatch: Any) -> None:
    letters(declared, "one", 3)
    signed = asked(root, "discard")
    monkeypatch.setattr(bulk, "LASTS", -1)

    assert "This page is more than a day old" in told(root, begin(root, signed))
    assert len(dead(declared)) == 3


def test_a_run_whose_log_entry_was_deleted_ends(
    declared: str, root: Client, monkeypatch: Any
) -> None:
    ids = letters(declared, "one", 30)
    signed = asked(root, "copy")

    def deleted(run: Any, ledger: Ledger) -> Any:
        LogEntry.objects.all().delete()
        return bulk_step.step(run, ledger)

    monkeypatch.setattr("vtrr_django.admin.bulk_page.step", deleted)

    assert "The log entry of this run was deleted" in told(root, begin(root, signed))
    assert dead(declared) == set(ids)


def test_an_address_that_is_only_opened_does_nothing(declared: str, root: Client) -> None:
    letters(declared, "one")

    assert root.get(RUN).headers["Location"] == FAILED
    assert len(dead(declared)) == 1


def test_batches_are_outside_any_transaction_of_the_request() -> None:
    for address in (RUN, f"{RUN}1/"):
        view: Any = resolve(address).func
        assert view._non_atomic_requests == set(connections)


# -- the admin's log ---------------------------------------------------------------


def test_the_log_tells_of_a_run(alias: str, root: Client) -> None:
    letters(alias, "one", 15)
    to_the_end(root, asked(root, "discard", "?queue=one&partition=acme"))

    [entry] = runs()
    assert entry.user == User.objects.get(username="root")
    assert (entry.action_flag, entry.object_id) == (DELETION, f":{entry.pk}")
    assert entry.object_repr == "15 failed jobs (queue one, partition acme)"
    sentence = "Discard: 15 failed jobs (queue one, partition acme). Done: 15 discarded. [run "
    assert entry.get_change_message().startswith(sentence)
    assert entry.get_change_message().endswith("}]")
    look(root, "/admin/")


def test_the_log_tells_of_a_run_that_is_under_way(declared: str, root: Client) -> None:
    letters(declared, "one", 15)
    letters(declared, "gone", 2)
    address = begun(root, asked(root, "requeue"))

    def told() -> str:
        return for_people(runs().get().get_change_message())

    words = "Requeue: 15 failed jobs (without 2 of queues with which nothing can be done)"
    assert told() == f"{words}. Not ended yet: 10 requeued."
    go_on(root, address, stop="1")
    assert told() == f"{words}. Stopped: 10 requeued."
    to_the_end(root, asked(root, "requeue", "?queue=one"))
    assert "Stopped" in for_people(runs().earliest("pk").change_message)


@pytest.mark.parametrize("text", ["", "[]", "Paused.", '[{"changed": {"fields": ["x"]}}]'])
def test_what_others_write_in_the_log_is_left_as_it_is(text: str) -> None:
    assert for_people(text) == text


@pytest.mark.parametrize("stopped", [False, True])
def test_a_run_is_told_in_the_log_of_each_queue(alias: str, root: Client, stopped: bool) -> None:
    ids = letters(alias, "one", 15)
    letters(alias, "two", 1)
    letters(alias, "gone", 2)
    get = {queue: f"/admin/vtrr_django/queuestate/{queue}/history/" for queue in ("one", "two")}
    signed = asked(root, "requeue")
    get_queue("one").discard(ids[:1])
    address = begun(root, signed)

    of = "of this queue, of 16 failed jobs (without 2 of queues with which nothing can be done)"
    begin_of_one, begin_of_two = f"Requeue: 15 failed jobs {of}.", f"Requeue: 1 failed job {of}."
    assert look(root, get["one"]).text.count(f"{begin_of_one} Not ended yet.") == 1
    assert look(root, get["two"]).text.count(f"{begin_of_two} Not ended yet.") == 1
    if stopped:
        go_on(root, address, stop="1")
        ends = ("Stopped: 10 requeued.", "Stopped: 0 requeued.")
    else:
        to_the_end(root, address=address)
        ends = ("Done: 14 requeued.", "Done: 1 requeued.")
    assert look(root, get["one"]).text.count(f"{begin_of_one} {ends[0]}") == 1
    assert look(root, get["two"]).text.count(f"{begin_of_two} {ends[1]}") == 1
    assert "Not ended yet" not in look(root, get["one"]).text
    assert not LogEntry.objects.filter(object_id="gone").exists()


def test_the_log_of_one_letter_is_on_its_history_page(alias: str, root: Client) -> None:
    [letter] = letters(alias, "one")
    to_the_end(root, asked(root, "copy", "?queue=one", chosen=[letter]))

    [entry] = runs()
    assert (entry.action_flag, entry.object_id) == (CHANGE, f"one:{letter}")
    page = look(root, FAILED + "one_3A" + letter + "/history/")
    assert f"Requeue as a copy: 1 failed job: one:{letter}. Done: 1 copied." in page.text
    assert "[run" not in page.text
    look(root, str(entry.get_admin_url()))


# -- fairness ----------------------------------------------------------------------


def test_many_requeued_letters_keep_nobody_else_waiting(lasting: str, root: Client) -> None:
    queue = get_queue("one")
    put(queue.engine, *["small"] * 3, *["busy"] * 5)
    letters(lasting, "one", 60, partition_key="busy")
    to_the_end(root, asked(root, "requeue"))

    order = [leased.partition_key for leased in queue.lease(20)]

    assert [n for n, key in enumerate(order) if key == "small"][-1] <= 6
    assert queue.depth().ready == 68 - 20


def test_requeued_letters_join_the_end_of_the_line(lasting: str, root: Client) -> None:
    queue = get_queue("one")
    waiting = put(queue.engine, *["acme"] * 3)
    back = letters(lasting, "one", 12)

    to_the_end(root, asked(root, "requeue"))

    assert [leased.id for leased in queue.lease(15)] == waiting + back


def test_completed_jobs_are_left_alone(declared: str, root: Client) -> None:
    letters(declared, "one", 3)
    add(CompletedJob, declared, "one", 3)

    to_the_end(root, asked(root, "discard"))

    assert CompletedJob.objects.using(declared).count() == 3
