"""The page of a run: it is left, come back to, looked at by others, and shows how it ended."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core import signing
from django.test import Client

from tests.admin.ended import (
    FAILED,
    RUN,
    Staff,
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
from vtrr_django.admin import bulk, bulk_page, bulk_step
from vtrr_django.admin.bulk_ledger import name_of, number_of

JSON = {"accept": "application/json"}


@pytest.fixture(autouse=True)
def declared(settings: Any, db: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the database of two queues, of which a run takes ten letters at a time."""
    settings.VTRR = {"QUEUES": {"one": {}, "two": {}}}
    monkeypatch.setattr(bulk_step, "CHUNK", 10)
    monkeypatch.setattr(bulk_step, "SECONDS", 0.0)
    return "default"


def told(client: Client, response: Any) -> str:
    assert response.status_code == 302
    return messages(look(client, response.headers["Location"]))


def test_the_confirmation_leads_to_a_page_that_can_be_loaded_again(
    declared: str, root: Client
) -> None:
    letters(declared, "one", 25)

    address = begun(root, asked(root, "discard", "?queue=one"))

    number = runs().get().pk
    assert address == f"{RUN}{number}/"
    for _ in range(2):
        page = look(root, address)
        assert "Discard 25 failed jobs (queue one)" in page.text
        assert "10 of 25 failed jobs discarded" in page.text
        assert set(page.buttons) >= {"Continue", "Stop"}
        assert page.buttons["Continue"].action == f"{RUN}{number}/"
        assert page.buttons["Continue"].method == "post"
    assert len(dead(declared)) == 15
    assert "no-store" in root.get(address).headers["Cache-Control"]


def goes(client: Client, path: str) -> bool:
    """Return whether the page of a run has its script go on by itself."""
    [form] = [form for form in look(client, path).find("form") if form.get("id") == "vtrr-run"]
    return "data-goes" in form


def test_only_the_page_after_a_button_has_the_script_go_on_by_itself(
    declared: str, root: Client
) -> None:
    """One that is opened some other day, or from a link, waits until it is told to."""
    letters(declared, "one", 35)
    letters(declared, "two", 35)
    address = begun(root, asked(root, "discard", "?queue=one"))
    other = begun(root, asked(root, "discard", "?queue=two"))

    assert not goes(root, address), "what was pressed last is another run"
    assert goes(root, other)
    for path in (other, f"{other}?go=1", f"{other}?go=1&x"):
        assert not goes(root, path), "it is used up"
    assert is_run(go_on(root, address))
    assert goes(root, address)
    assert not goes(root, address)


def test_a_page_that_comes_long_after_the_button_waits(
    declared: str, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a browser was closed in between, and is opened on another day."""
    letters(declared, "one", 35)
    address = begun(root, asked(root, "discard"))
    monkeypatch.setattr(bulk_page, "_JUST", -1.0)
    assert not goes(root, address)
    monkeypatch.undo()
    assert not goes(root, address)


def test_a_link_does_not_set_a_run_of_another_session_going(declared: str, root: Client) -> None:
    letters(declared, "one", 25)
    address = begun(root, asked(root, "discard"))
    again = Client()
    again.force_login(User.objects.get(username="root"))

    assert not goes(again, f"{address}?go=1")
    assert goes(root, address)


def test_who_logs_in_again_goes_on(declared: str, root: Client) -> None:
    letters(declared, "one", 25)
    address = begun(root, asked(root, "discard", "?queue=one"))
    root.logout()

    for response in (root.get(address), go_on(root, address)):
        assert response.headers["Location"].startswith("/admin/login/?next=/admin/vtrr_django")
    assert len(dead(declared)) == 15

    again = Client(enforce_csrf_checks=True)
    again.force_login(User.objects.get(username="root"))
    assert again.post(address.partition("?")[0], headers=JSON).status_code == 403
    form = look(again, address).buttons["Continue"]
    response = again.post(form.action, form.fields)
    assert is_run(response)
    form = look(again, response.headers["Location"]).buttons["Continue"]
    response = again.post(form.action, form.fields)
    assert response.headers["Location"] == f"{FAILED}?queue=one"
    assert "25 failed jobs discarded." in told(again, response)


def test_a_run_goes_on_however_old_it_is(
    declared: str, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters(declared, "one", 25)
    address = begun(root, asked(root, "discard"))
    monkeypatch.setattr(bulk, "LASTS", -1)

    assert "25 failed jobs discarded." in to_the_end(root, address=address)


def test_others_may_look_and_no_more(declared: str, root: Client, staff: Staff) -> None:
    letters(declared, "one", 25)
    address = begun(root, asked(root, "discard"))
    other = staff("view_failedjob", "requeue_jobs")

    page = look(other, address)

    assert "10 of 25 failed jobs discarded" in page.text
    assert "Asked for by root; only they can go on with it or stop it." in page.text
    assert not {"Continue", "Stop"} & set(page.buttons)
    assert not [one for one in page.find("script") if "bulk.js" in one.get("src", "")]
    for more in ({}, {"stop": "1"}):
        text = told(other, go_on(other, address, **more))
        assert "Nothing was done. This was asked for by somebody else" in text
    for permissions in (("view_failedjob",), ("requeue_jobs",)):
        client = staff(*permissions)
        assert client.get(address).status_code == 403
        assert go_on(client, address).status_code == 403
    assert Client().get(address).headers["Location"].startswith("/admin/login/")
    assert len(dead(declared)) == 15
    User.objects.get(username="root").delete()
    assert other.get(address).status_code == 302  # its log entries went with the user


@pytest.mark.parametrize("stopped", [False, True])
def test_the_page_of_a_run_that_has_ended_says_how(
    declared: str, root: Client, staff: Staff, stopped: bool
) -> None:
    letters(declared, "gone", 2)
    letters(declared, "one", 15)
    address = begun(root, asked(root, "requeue", "?partition=acme"))
    if stopped:
        go_on(root, address, stop="1")
        said = ["Stopped: 8 of 15 failed jobs requeued."]
    else:
        to_the_end(root, address=address)
        said = ["15 failed jobs requeued.", "Nothing was done with 2 failed jobs: settings do not"]

    for client in (root, staff("view_failedjob", "requeue_jobs")):
        page = look(client, address)
        for text in said:
            assert text in page.text
        assert not {"Continue", "Stop"} & set(page.buttons)
        assert page.links["Back to the failed jobs"] == f"{FAILED}?partition=acme"
        assert not [one for one in page.find("script") if "bulk.js" in one.get("src", "")]


def test_the_log_leads_to_the_page_of_a_run(declared: str, root: Client) -> None:
    letters(declared, "one", 15)
    begun(root, asked(root, "requeue"))
    entry = runs().get()

    response = root.get(str(entry.get_admin_url()))

    assert response.headers["Location"] == f"{RUN}{entry.pk}/"


@pytest.mark.parametrize(
    "name", ["", ":", ":x", "17", "one:17", ":²", ":-1", f":{'9' * 19}", ":1:2"]
)
def test_no_job_is_taken_for_a_run(name: str) -> None:
    assert number_of(name_of(17)) == 17
    assert number_of(name) is None


@pytest.mark.parametrize("number", [0, 1, 9**30])
def test_what_is_no_run_is_said_to_be_none(declared: str, root: Client, number: int) -> None:
    letters(declared, "one")
    root.post("/admin/auth/group/add/", {"name": "new"})
    assert LogEntry.objects.count() == 1
    if number == 1:
        number = LogEntry.objects.get().pk

    gone = "The log entry of this run was deleted; choose the jobs again."
    assert gone in told(root, root.get(f"{RUN}{number}/"))
    assert f"Nothing was done. {gone}" in told(root, root.post(f"{RUN}{number}/"))
    news = root.post(f"{RUN}{number}/", headers=JSON).json()
    assert news == {"location": FAILED}


def test_an_entry_that_somebody_has_made_up_is_no_run(declared: str, root: Client) -> None:
    ids = letters(declared, "one", 15)
    address = begun(root, asked(root, "discard"))
    entry = runs().get()
    signed = entry.change_message.rpartition("[run ")[2].split(" ")[1]
    for text in (
        "[run ",
        "[run x",
        "[run x y {}]",
        entry.change_message.replace(signed, "x:y:z"),
        f"x [run k {signing.dumps({'action': 'discard'}, salt='other')} {{}}]",
    ):
        LogEntry.objects.filter(pk=entry.pk).update(change_message=text)
        assert "Nothing was done. The log entry of this" in told(root, go_on(root, address))
        assert root.get(address).status_code == 302
    assert dead(declared) == set(ids[10:])


def test_a_script_that_loses_its_run_is_led_to_the_list(declared: str, root: Client) -> None:
    letters(declared, "one", 15)
    address = begun(root, asked(root, "discard")).partition("?")[0]
    LogEntry.objects.all().delete()

    assert root.post(address, headers=JSON).json() == {"location": FAILED}


def test_what_is_confirmed_twice_is_one_run(declared: str, root: Client) -> None:
    letters(declared, "one", 25)
    signed = asked(root, "copy")

    assert begun(root, signed) == begun(root, signed)
    assert runs().count() == 1
    assert "25 failed jobs copied." in told(root, begin(root, signed))
