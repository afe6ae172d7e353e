"""Asking whether to do something with many dead letters."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from tests.admin.ended import (
    ALIASES,
    FAILED,
    HOSTILE,
    NOW,
    RUN,
    Staff,
    ask,
    begin,
    dead,
    letters,
    runs,
    to_the_end,
)
from tests.admin.html import Page
from tests.admin.looking import look, messages
from vtrr_django.admin.bulk import Run
from vtrr_django.admin.bulk_ledger import Ledger
from vtrr_django.models import FailedJob


@pytest.fixture(params=ALIASES)
def alias(request: pytest.FixtureRequest, settings: Any) -> str:
    name: str = request.param
    settings.VTRR = {"QUEUES": {"one": {"DATABASE": name}, "two": {"DATABASE": name}}}
    return name


@pytest.fixture
def declared(settings: Any, db: None) -> str:
    """Return the database of two queues, for what no database has a say in."""
    settings.VTRR = {"QUEUES": {"one": {}, "two": {}}}
    return "default"


def shown(response: Any) -> Page:
    assert response.status_code == 200, response.headers
    page = Page(response.content.decode())
    assert page.refused == []
    return page


def said(client: Client, response: Any) -> str:
    assert response.status_code == 302
    return messages(look(client, response.headers["Location"]))


@pytest.mark.parametrize(
    ("action", "label", "explained"),
    [
        ("requeue", "Requeue", "They run again, with all their attempts"),
        ("copy", "Requeue as a copy", "A new job like each of them is enqueued"),
        ("discard", "Discard", "They are deleted"),
    ],
)
def test_the_page_names_the_number_and_does_nothing_yet(
    alias: str, root: Client, action: str, label: str, explained: str
) -> None:
    ids = letters(alias, "one", 60) + letters(alias, "two", 5)

    page = shown(ask(root, action))

    assert f"{label} 65 failed jobs ? {explained}" in page.text
    assert "all 65 failed jobs Queue one 60 Queue two 5" in page.text
    assert f"{label}: 65 failed jobs" in page.buttons
    assert page.links["No, take me back"] == FAILED
    assert dead(alias) == set(ids)
    assert LogEntry.objects.count() == 0


def test_it_is_about_the_rows_that_are_chosen(alias: str, root: Client) -> None:
    first, second, _ = letters(alias, "one", 3)

    page = shown(ask(root, "discard", chosen=[first, second]))

    assert f"2 failed jobs: one:{first}, one:{second} " in page.text
    assert "Discard: 2 failed jobs" in page.buttons


def test_many_chosen_rows_are_not_all_named(declared: str, root: Client) -> None:
    ids = letters(declared, "one", 30)

    page = shown(ask(root, "discard", chosen=ids))

    assert f"one:{ids[19]} and 10 more" in page.text
    assert ids[20] not in page.text


def test_it_is_about_all_that_match_filters_and_search(alias: str, root: Client) -> None:
    letters(alias, "one", 2)
    wanted = letters(alias, "one", 70, partition_key="globex", task_name="shop.tasks.resize")
    letters(alias, "two", 3, partition_key="globex", task_name="shop.tasks.resize")
    letters(alias, "one", 3, partition_key="globex")
    query = "?queue=one&task=shop.tasks.resize&q=globex&failed_at__year=2026"

    page = shown(ask(root, "discard", query))

    words = "70 failed jobs (queue one, task shop.tasks.resize, from 2026-01-01 00:00, "
    assert f"{words}before 2027-01-01 00:00, search “globex”)" in page.text
    assert page.links["No, take me back"].startswith(f"{FAILED}?queue=one&task=")
    before = dead(alias)
    form = page.buttons["Discard: 70 failed jobs"]
    assert "70 failed jobs discarded." in to_the_end(root, form.fields["run"])
    assert before - dead(alias) == set(wanted)


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("?partition=", {"partition_key": ""}),
        ("?error_class=", {"error_class": ""}),
        ("?task=shop.tasks.resize", {"task_name": "shop.tasks.resize"}),
        ("?parent=p-1", {"parent_id": "p-1"}),
        ("?failed_at__lt=2026-06-01", {"failed_at": NOW - timedelta(days=300)}),
        ("?failed_at__gte=2027-06-01", {"failed_at": NOW + timedelta(days=300)}),
        ("?q=globex", {"partition_key": "globex"}),
        ("?q=resize", {"task_name": "shop.tasks.resize"}),
        ("?q=upload-17&queue=one", {"msg_id": "upload-17"}),
    ],
)
def test_no_other_letters_are_touched(
    alias: str, root: Client, query: str, fields: dict[str, Any]
) -> None:
    others = letters(alias, "one", 3) + letters(alias, "two", 3)
    wanted = letters(alias, "one", 2, **({"msg_id": None} | fields))
    others += letters(alias, "one", 1)

    page = shown(ask(root, "discard", query))
    to_the_end(root, page.buttons["Discard: 2 failed jobs"].fields["run"])

    assert len(wanted) == 2
    assert dead(alias) == set(others)


def test_chosen_rows_that_do_not_match_any_more_are_left_out(alias: str, root: Client) -> None:
    [kept] = letters(alias, "two")
    [gone] = letters(alias, "one")
    seqs = dict(FailedJob.objects.using(alias).values_list("id", "seq"))
    sent = {"action": "discard", "_selected_action": [seqs[kept], seqs[gone]], "index": "0"}

    page = shown(root.post(f"{FAILED}?queue=one", sent))

    assert "Discard: 1 failed job" in page.buttons


@pytest.mark.parametrize("chosen", [None, [], ["nothing"]])
def test_with_nothing_chosen_nothing_is_asked(alias: str, root: Client, chosen: Any) -> None:
    response = ask(root, "requeue", "?queue=one", chosen)

    assert "No failed job matches any more: there was nothing to do." in said(root, response)


def test_without_an_action_django_says_so(declared: str, root: Client) -> None:
    [letter] = letters(declared, "one")
    seq = FailedJob.objects.using(declared).get(id=letter).seq

    response = root.post(FAILED, {"action": "", "_selected_action": seq, "index": "0"})

    assert "No action selected." in said(root, response)


@pytest.mark.parametrize("seq", ["x", "-1", "1.5", "9" * 30, "²", ""])
def test_row_numbers_that_are_none_are_refused(declared: str, root: Client, seq: str) -> None:
    letters(declared, "one")

    sent = {"action": "discard", "_selected_action": seq, "index": "0"}

    assert root.post(FAILED, sent).status_code == 400
    assert root.post(f"{FAILED}?failed_at__year=x", sent).status_code == 400
    assert len(dead(declared)) == 1


@pytest.mark.parametrize("index", ["7", "x", "-1", ""])
def test_a_button_that_is_not_there_does_nothing(declared: str, root: Client, index: str) -> None:
    letters(declared, "one")

    root.post(FAILED, {"action": ["", ""], "_selected_action": "1", "index": index})

    assert len(dead(declared)) == 1


@pytest.mark.parametrize(
    "query",
    [
        "bogus=1",
        "queue=one&bogus=",
        "payload__contains=x",
        "q=%00",
        "queue=%00",
        "before=x",
        "before=1%20nonsense",
        "before=",
        "queue=one&before=5",
        "failed_at__gte=",
        "failed_at__lt=",
        "failed_at__year=",
        "completed_at__year=2026",
    ],
)
@pytest.mark.parametrize("across", ["0", "1"])
def test_an_address_that_cannot_be_read_is_not_taken_for_everything(
    declared: str, root: Client, query: str, across: str
) -> None:
    letters(declared, "one", 3)
    seqs = [*FailedJob.objects.using(declared).values_list("seq", flat=True)]

    sent = {"action": "discard", "_selected_action": seqs, "select_across": across, "index": "0"}

    assert root.post(f"{FAILED}?{query}", sent).status_code == 400
    assert LogEntry.objects.count() == 0


def test_the_list_that_stands_for_an_unreadable_one_says_so(declared: str, root: Client) -> None:
    [first, _] = letters(declared, "one", 2)
    why = "Something in the address could not be read, so this is the whole list."

    assert why in look(root, f"{FAILED}?e=1").text
    assert why not in look(root, FAILED).text
    text = said(root, ask(root, "discard", "?e=1"))
    assert f"Nothing was done. {why}" in text
    page = shown(ask(root, "discard", "?e=1", chosen=[first]))
    assert "Discard: 1 failed job" in page.buttons


@pytest.mark.parametrize("query", ["?o=1", "?p=2", "?all=", "?_facets=True", "?before=9999"])
def test_what_only_shapes_a_list_is_no_filter(declared: str, root: Client, query: str) -> None:
    letters(declared, "one", 2)

    assert "Discard: 2 failed jobs" in shown(ask(root, "discard", query)).buttons


# -- queues nothing can be done with -----------------------------------------------


def test_letters_of_undeclared_queues_are_left_and_it_is_said_why(alias: str, root: Client) -> None:
    gone = letters(alias, "gone", 2)
    letters(alias, "one", 3)

    page = shown(ask(root, "requeue"))

    why = "settings do not declare queue gone any more, so nobody would run its jobs"
    assert f"Nothing will be done with 2 of them: {why}" in page.text
    assert "Requeue 3 failed jobs ?" in page.text
    assert "3 failed jobs (without 2 of queues with which nothing can be done)" in page.text
    assert page.text.count("5") == 0
    text = to_the_end(root, page.buttons["Requeue: 3 failed jobs"].fields["run"])
    assert "3 failed jobs requeued." in text
    assert f"Nothing was done with 2 failed jobs: {why}" in text
    assert "could not be" not in text
    assert dead(alias) == set(gone)


def test_of_chosen_letters_only_those_are_named_that_will_be_done(alias: str, root: Client) -> None:
    [gone], [one] = letters(alias, "gone"), letters(alias, "one")

    page = shown(ask(root, "requeue", chosen=[gone, one]))

    assert f"1 failed job: one:{one}" in page.text
    assert gone not in page.text
    to_the_end(root, page.buttons["Requeue: 1 failed job"].fields["run"])
    assert dead(alias) == {gone}
    [entry] = runs()
    assert entry.object_id == f"one:{one}"


@pytest.mark.parametrize("action", ["requeue", "copy", "discard"])
def test_nothing_is_asked_if_nothing_can_be_done(alias: str, root: Client, action: str) -> None:
    gone = letters(alias, "gone", 2)

    text = said(root, ask(root, action))

    assert "Nothing was done with 2 failed jobs: settings do not declare queue gone" in text
    assert "declare it in VTRR['QUEUES'] and try again" in text
    assert dead(alias) == set(gone)


@pytest.mark.service("postgres")
@pytest.mark.django_db(databases=["default", "postgres"])
def test_letters_that_their_queue_has_moved_away_from_are_left(settings: Any, root: Client) -> None:
    settings.VTRR = {"QUEUES": {"here": {}, "moved": {"DATABASE": "postgres"}}}
    [old] = letters("default", "moved")

    text = said(root, ask(root, "requeue"))

    assert "queue moved keeps its dead letters in database 'postgres' now" in text
    assert dead("default") == {old}


def test_a_queue_that_is_declared_meanwhile_was_not_named_and_keeps_its_letters(
    alias: str, root: Client, settings: Any
) -> None:
    gone = letters(alias, "gone")
    one = letters(alias, "one")
    page = shown(ask(root, "discard"))
    signed = page.buttons["Discard: 1 failed job"].fields["run"]
    settings.VTRR = {"QUEUES": {"gone": {"DATABASE": alias}}}

    text = to_the_end(root, signed)

    assert "0 failed jobs discarded." in text
    assert "settings do not declare queue one any more" in text
    assert "settings had no place for queue gone then" in text
    assert "could not be" not in text
    assert dead(alias) == {*gone, *one}
    assert "1 failed job discarded." in to_the_end(
        root,
        shown(ask(root, "discard", "?queue=gone")).buttons["Discard: 1 failed job"].fields["run"],
    )


# -- what others have chosen -------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE)
def test_names_of_others_are_shown_as_text(declared: str, root: Client, text: str) -> None:
    name = text[:255]
    [letter] = letters(
        declared, "one", partition_key=name, task_name=name, id=f"<b>{name[:40]}"[:64]
    )
    for query, chosen in (("", [letter]), ("", None)):
        page = shown(ask(root, "copy", query, chosen))
        assert page.find("b") == []
        [button] = [label for label in page.buttons if label.startswith("Requeue as a copy:")]
        to_the_end(root, page.buttons[button].fields["run"])
    response = root.post(
        f"{FAILED}?{_query(partition=name, q=name)}",
        {"action": "copy", "select_across": "1", "_selected_action": "1"},
    )
    page = shown(response)
    assert " ".join(name.split()) in page.text
    look(root, "/admin/")
    look(root, "/admin/vtrr_django/failedjob/")


def _query(**values: str) -> str:
    from urllib.parse import urlencode

    return urlencode(values)


def test_the_pages_take_few_queries(
    alias: str, staff: Staff, django_assert_max_num_queries: Any
) -> None:
    letters(alias, "one", 60)
    client = staff("view_failedjob", "requeue_jobs", "see_payloads")
    sent = {"action": "requeue", "select_across": "1", "_selected_action": "1"}
    with django_assert_max_num_queries(15):
        response = client.post(f"{FAILED}?q=acme", sent)
    signed = shown(response).buttons["Requeue: 60 failed jobs"].fields["run"]
    address = Ledger.of(Run.read(signed, User.objects.get(username="p0"))).number
    with django_assert_max_num_queries(15):
        look(client, f"{RUN}{address}/")
    assert begin(client, signed).status_code == 302
    with django_assert_max_num_queries(15):
        assert "60 failed jobs requeued." in look(client, f"{RUN}{address}/").text
