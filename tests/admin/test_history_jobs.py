"""The page of one ended job."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.test import Client

from tests.admin.conftest import declare
from tests.admin.ended import ALIASES, COMPLETED, FAILED, HOSTILE, add, page_of
from tests.admin.looking import look, messages
from tests.contract.jobs import put
from vtrr_django import Queue, get_queue
from vtrr_django.admin import history_job
from vtrr_django.models import CompletedJob, FailedJob

CANARY = "CANARY-7f3a"


@pytest.fixture(params=ALIASES)
def alias(request: pytest.FixtureRequest, settings: Any) -> str:
    name: str = request.param
    settings.VTRR = {"QUEUES": {"one": {"DATABASE": name}}}
    return name


@pytest.fixture
def declared(settings: Any, db: None) -> str:
    """Return the database of two queues, for what no database has a say in."""
    settings.VTRR = {"QUEUES": {"one": {}, "two": {}}}
    return "default"


def canaries(alias: str) -> FailedJob:
    payload = json.dumps({"args": [CANARY], "kwargs": {"password": "swordfish"}})
    secrets = {"reason": f"no {CANARY}", "traceback": f"in {CANARY}", "payload": payload}
    letter: FailedJob = add(FailedJob, alias, "one", **secrets)[0]
    return letter


@pytest.mark.parametrize("model", [FailedJob, CompletedJob])
def test_a_page_shows_all_that_is_kept(alias: str, root: Client, model: Any) -> None:
    [row] = add(
        model,
        alias,
        "one",
        partition_key="acme corp",
        payload='{"args": [17, "ü"], "kwargs": {}}',
        msg_id="upload-17",
        weight=12345,
        priority=-7,
        delivery_count=3,
        timeouts=2,
        worker_id="worker-9",
        parent_id="nowhere",
    )

    page = look(root, page_of(model, "one", row.id))

    for shown in (
        f"Id {row.id} Queue one Task shop.tasks.upload Partition acme corp msg_id upload-17",
        "Weight 12,345 Priority -7 Retries used 3 Timeouts 2 Worker worker-9",
        "Ran for 1.5 s",
        "Made by nowhere (nothing is kept of it)",
        '"args": [ 17, "ü" ]',
    ):
        assert shown in page.text
    assert page.links["acme corp"].endswith("?queue=one&partition=acme+corp")
    assert page.links["one"] == "/admin/vtrr_django/queuestate/one/"
    dead = "Error class shop.Broken", "Reason it broke", "Traceback File x"
    assert all((text in page.text) == (model is FailedJob) for text in dead)


def test_texts_are_hidden_from_those_who_may_not_see_payloads(alias: str, staff: Any) -> None:
    letter = canaries(alias)
    viewer, reader = (
        staff("view_failedjob"),
        staff("view_failedjob", "see_payloads"),
    )
    path = page_of(FailedJob, "one", letter.id)

    for address in (FAILED, f"{FAILED}?queue=one", path):
        content = viewer.get(address).content.decode()
        assert CANARY not in content
        assert "swordfish" not in content
        assert "shop.Broken" in content
    assert "Hidden: seeing arguments" in look(viewer, path).text
    assert look(reader, path).text.count(CANARY) == 3
    assert CANARY in look(reader, FAILED).text


def test_arguments_are_redacted(alias: str, root: Client, settings: Any) -> None:
    def redact(task_name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return args, kwargs | {"password": "***"}

    settings.VTRR = settings.VTRR | {"REDACT": redact}
    letter = canaries(alias)

    page = look(root, page_of(FailedJob, "one", letter.id))

    assert "swordfish" not in page.text
    assert '"password": "***"' in page.text


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("model", [FailedJob, CompletedJob])
def test_texts_of_others_are_shown_as_text(
    declared: str, root: Client, model: Any, text: str
) -> None:
    short = text[:255]
    fields = {"payload": json.dumps({"args": [text], "kwargs": {}}), "partition_key": short}
    fields |= {"task_name": short, "msg_id": short, "worker_id": short}
    if model is FailedJob:
        fields |= {"reason": text, "traceback": text, "error_class": short}
    [row] = add(model, declared, "one", **fields)
    [child] = add(model, declared, "one", parent_id=row.id, **fields | {"msg_id": None})
    base = FAILED if model is FailedJob else COMPLETED

    for address in (base, page_of(model, "one", row.id), page_of(model, "one", child.id)):
        page = look(root, address)  # refuses scripts and handlers of its own
        assert [one for one in page.find("img") if one.get("src") == "x"] == []
    page = look(root, page_of(model, "one", row.id))
    assert " ".join(json.dumps(text, ensure_ascii=False).split()) in page.text
    for opened in root.get(base + f"?partition={short}").content.decode().split("<bdi")[1:]:
        assert opened.startswith((' dir="auto"', " title="))


def test_very_long_texts_are_cut(declared: str, root: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr(history_job, "LONGEST_TEXT", 50)
    [row] = add(FailedJob, declared, "one", traceback="y" * 1050)

    assert (
        f"{'y' * 50} … and 1,000 characters more"
        in look(root, page_of(FailedJob, "one", row.id)).text
    )


# -- family ------------------------------------------------------------------------


def test_a_page_leads_to_the_parent_and_the_children(alias: str, root: Client) -> None:
    [parent] = add(CompletedJob, alias, "gone")
    [row] = add(FailedJob, alias, "one", parent_id=parent.id)
    [dead] = add(FailedJob, alias, "one", parent_id=row.id)
    [done] = add(CompletedJob, alias, "one", parent_id=row.id)

    page = look(root, page_of(FailedJob, "one", row.id))

    assert page.links[parent.id] == page_of(CompletedJob, "gone", parent.id)
    assert page.links[dead.id] == page_of(FailedJob, "one", dead.id)
    assert page.links[done.id] == page_of(CompletedJob, "one", done.id)
    assert row.id in look(root, page.links[done.id]).links


def test_family_that_may_not_be_seen_is_named_only(declared: str, staff: Any) -> None:
    [parent] = add(CompletedJob, declared, "one")
    [row] = add(FailedJob, declared, "one", parent_id=parent.id)

    page = look(staff("view_failedjob"), page_of(FailedJob, "one", row.id))

    assert parent.id in page.text
    assert parent.id not in page.links
    assert "one" not in page.links  # the queue's page


def test_a_parent_that_is_live_is_found(queue: Queue, root: Client) -> None:
    [parent] = put(queue.engine, "acme")
    [row] = add(FailedJob, "default", queue.name, parent_id=parent)

    page = look(root, page_of(FailedJob, queue.name, row.id))

    assert page.links[parent] == f"/admin/vtrr_django/queuestate/{queue.name}/job/{parent}/"


# -- jobs that are elsewhere -------------------------------------------------------


def test_a_job_that_is_not_there_any_more_is_looked_for(queue: Queue, root: Client) -> None:
    [live] = put(queue.engine, "acme")
    [done] = add(CompletedJob, "default", queue.name)
    [dead] = add(FailedJob, "default", queue.name)

    def led(model: Any, job_id: str) -> tuple[str, str]:
        response = root.get(page_of(model, queue.name, job_id))
        assert response.status_code == 302
        address = response.headers["Location"]
        return address, messages(look(root, address))

    address, said = led(FailedJob, live)
    assert address.endswith(f"/queuestate/{queue.name}/job/{live}/")
    assert f"There is no failed job {live} (any more): it is to run, or runs." in said
    address, said = led(FailedJob, done.id)
    assert address == page_of(CompletedJob, queue.name, done.id)
    assert "it was completed" in said
    assert led(CompletedJob, dead.id)[0] == page_of(FailedJob, queue.name, dead.id)
    address, said = led(CompletedJob, "nothing")
    assert address == COMPLETED
    assert "it was discarded, its history was trimmed, or there never was one" in said


@pytest.mark.parametrize(
    "key", ["", "one", "one:", "one:\0", ":x", "no/queue:x", "9" * 30, "x" * 999]
)
def test_keys_that_make_no_sense_lead_to_the_list(declared: str, root: Client, key: str) -> None:
    response = root.get(f"{FAILED}{quote(key) or 'x'}/change/")

    assert (response.status_code, response.headers["Location"]) == (302, FAILED)


def test_a_job_is_found_by_its_row_number_too(alias: str, root: Client) -> None:
    [row] = add(FailedJob, alias, "one")

    assert row.id in look(root, f"{FAILED}{row.seq}/change/").text


def test_a_page_of_an_undeclared_queue_says_what_it_takes(alias: str, root: Client) -> None:
    [row] = add(FailedJob, alias, "gone")

    page = look(root, page_of(FailedJob, "gone", row.id))

    assert "Settings do not declare queue gone any more" in page.text
    assert "Requeue" not in page.buttons


def test_a_store_that_does_not_answer_hides_no_page(settings: Any, root: Client) -> None:
    settings.VTRR = {"QUEUES": {"broken": {"ENGINE": "redis", "URL": "redis://127.0.0.1:1/0"}}}
    [row] = add(FailedJob, "default", "broken", parent_id="p-1")

    assert "Made by p-1" in look(root, page_of(FailedJob, "broken", row.id)).text
    assert root.get(page_of(FailedJob, "broken", "nothing")).status_code == 302
    assert get_queue("broken").name == "broken"


def test_pages_of_jobs_take_few_queries(
    settings: Any, staff: Any, django_assert_max_num_queries: Any
) -> None:
    queue = declare(settings, "sqlite")
    [parent] = add(CompletedJob, "default", queue.name)
    [row] = add(FailedJob, "default", queue.name, parent_id=parent.id)
    add(FailedJob, "default", queue.name, 30, parent_id=row.id)
    client = staff("view_failedjob", "view_completedjob", "view_queuestate", "requeue_jobs")

    with django_assert_max_num_queries(15):
        client.get(page_of(FailedJob, queue.name, row.id))
