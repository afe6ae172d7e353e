"""The lists of ended jobs: what is in them, how they are narrowed, how far back they go."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.admin.ended import ALIASES, COMPLETED, FAILED, NOW, add, letters, listed
from tests.admin.looking import look
from vtrr_django import get_queue
from vtrr_django.admin import history_names, history_window
from vtrr_django.models import CompletedJob, FailedJob

PLACES = [(FailedJob, FAILED, "failed_at"), (CompletedJob, COMPLETED, "completed_at")]


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


# -- narrowing ---------------------------------------------------------------------


@pytest.mark.parametrize(("model", "base", "moment"), PLACES)
def test_the_newest_come_first(
    alias: str, root: Client, model: Any, base: str, moment: str
) -> None:
    rows = add(model, alias, "one", 3) + add(model, alias, "two", 2)

    assert listed(root, base) == [one.id for one in reversed(rows)]


@pytest.mark.parametrize(("model", "base", "moment"), PLACES)
def test_filters_narrow_the_list(
    alias: str, root: Client, model: Any, base: str, moment: str
) -> None:
    [plain] = add(model, alias, "one")
    [queue] = add(model, alias, "two")
    [task] = add(model, alias, "one", task_name="shop.tasks.other")
    [partition] = add(model, alias, "one", partition_key="globex")
    [keyless] = add(model, alias, "one", partition_key="")
    [child] = add(model, alias, "one", parent_id=plain.id)
    [old] = add(model, alias, "one", **{moment: NOW - timedelta(days=40)})

    def found(**query: str) -> list[str]:
        return listed(root, f"{base}?{urlencode(query)}")

    assert found(queue="two") == [queue.id]
    assert found(queue="nobody's") == []
    assert found(task="shop.tasks.other") == [task.id]
    assert found(task="shop.tasks.other", queue="two") == []
    assert found(partition="globex") == [partition.id]
    assert found(partition="") == [keyless.id]
    assert found(partition="Globex ") == []
    assert found(parent=plain.id) == [child.id]
    assert found(**{f"{moment}__lt": "2026-11-01"}) == [old.id]
    assert found(**{f"{moment}__gte": "2026-11-01T00:00:00+00:00"}, queue="two") == [queue.id]
    october = {f"{moment}__year": "2026", f"{moment}__month": "10"}
    assert found(**october) == [old.id]
    assert found(**october, task="shop.tasks.other") == []
    assert found(**october, partition="acme") == [old.id]
    assert found(**october, **{f"{moment}__day": "21"}, queue="one") == [old.id]
    assert found(**october, **{f"{moment}__day": "22"}, queue="one") == []


def test_dead_letters_are_filtered_by_error_class(alias: str, root: Client) -> None:
    letters(alias, "one")
    [other] = letters(alias, "one", error_class="shop.Other")
    [none] = letters(alias, "one", error_class="")

    assert listed(root, f"{FAILED}?error_class=shop.Other") == [other]
    assert listed(root, f"{FAILED}?error_class=") == [none]
    page = look(root, FAILED)
    assert {"shop.Broken", "shop.Other", '""'} <= page.links.keys()


@pytest.mark.parametrize(("model", "base", "moment"), PLACES)
def test_search_finds_ids_partitions_and_tasks(
    alias: str, root: Client, model: Any, base: str, moment: str
) -> None:
    [plain] = add(model, alias, "one", partition_key="globex")
    [named] = add(model, alias, "two", msg_id="upload 17")
    [tenant] = add(model, alias, "two", partition_key=plain.id)
    [task] = add(model, alias, "one", task_name="shop.tasks.Resize")

    def found(term: str, **more: str) -> list[str]:
        return listed(root, f"{base}?{urlencode({'q': term} | more)}")

    assert found(plain.id) == [tenant.id, plain.id]
    assert found(f" {plain.id} ") == [tenant.id, plain.id]
    assert found(plain.id, queue="one") == [plain.id]
    assert found("upload 17") == [named.id]
    assert found("upload") == [tenant.id, named.id, plain.id]  # a part of their task's name
    assert found("upload", queue="two", task="shop.tasks.upload") == [tenant.id, named.id]
    assert found("globex") == [plain.id]
    assert found("resize") == [task.id]
    assert found("resize", queue="two") == []
    assert found("it broke") == []
    assert found("x" * 2000) == []
    assert found("\0") == [task.id, tenant.id, named.id, plain.id]


def test_tasks_that_only_this_process_knows_are_offered(alias: str, root: Client) -> None:
    @get_queue("one").task
    def known_here(self: Any) -> None:
        """Never run."""

    try:
        offered = urlencode({"task": known_here.name})
        assert f"?{offered}" in look(root, FAILED).links.values()
        assert f"?queue=two&{offered}" not in look(root, f"{FAILED}?queue=two").links.values()
        assert f"?queue=one&{offered}" in look(root, f"{FAILED}?queue=one").links.values()
    finally:
        get_queue("one")._runnables.pop(known_here.name)


# -- what may be asked -------------------------------------------------------------


@pytest.mark.parametrize(
    "lookup",
    [
        "payload__contains",
        "reason__startswith",
        "traceback__regex",
        "payload",
        "id__gt",
        "seq__in",
        "error_class__contains",
    ],
)
def test_no_other_lookup_is_allowed(declared: str, root: Client, lookup: str) -> None:
    letters(declared, "one", payload='{"args": ["CANARY"], "kwargs": {}}', reason="CANARY")

    assert root.get(f"{FAILED}?{lookup}=CANARY").status_code == 400
    sent = {"action": "discard", "_selected_action": "1", "select_across": "1"}
    root.post(f"{FAILED}?{lookup}=CANARY", sent)
    assert FailedJob.objects.using(declared).count() == 1


@pytest.mark.parametrize("term", ["CANARY", "canary", "C"])
def test_search_is_no_oracle_for_what_is_hidden(declared: str, root: Client, term: str) -> None:
    hidden = '{"args": ["CANARY"], "kwargs": {}}'
    letters(
        declared, "one", payload=hidden, reason="CANARY", traceback="CANARY", worker_id="CANARY"
    )

    assert listed(root, f"{FAILED}?q={term}") == []


@pytest.mark.parametrize(
    "query",
    [
        "failed_at__year=9999",
        "failed_at__year=x",
        "failed_at__month=5",
        "failed_at__year=2026&failed_at__day=5",
        "failed_at__year=2026&failed_at__month=2&failed_at__day=30",
        "failed_at__gte=yesterday",
        "failed_at__gte=0001-01-01",
        "failed_at__lt=9999-12-31T23:59:59%2B00:00",
        "queue=%00",
        "before=x",
        "before=-1",
        "before=99999999999999999999",
        "before=5~x",
        "before=5~0001-01-01",
        "queue=one&before=5",
        "p=77",
    ],
)
def test_addresses_that_make_no_sense_lead_to_the_whole_list(
    declared: str, root: Client, query: str
) -> None:
    letters(declared, "one")

    response = root.get(f"{FAILED}?{query}")

    assert (response.status_code, response.headers["Location"]) == (302, f"{FAILED}?e=1")
    assert root.get(response.headers["Location"]).status_code == 200


@pytest.mark.parametrize("o", ["1", "-2", "9.1", "x"])
def test_nobody_can_have_a_million_rows_sorted(declared: str, root: Client, o: str) -> None:
    ids = letters(declared, "one", 2)

    assert listed(root, f"{FAILED}?o={o}") == ids[::-1]
    assert root.get(FAILED).context["cl"].get_ordering_field_columns() == {}


# -- long lists --------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lists be long at 120 rows."""
    monkeypatch.setattr(history_window, "MOST_LISTED", 120)
    monkeypatch.setattr(history_window, "MOST_READ", {FailedJob: 40, CompletedJob: 40})
    monkeypatch.setattr(history_window, "MOST_LOOKED_UP", 30)


def all_listed(client: Client, path: str) -> list[list[str]]:
    """Follow the links to older rows, through all pages; return the ids of each list."""
    lists: list[list[str]] = []
    while len(lists) < 50:
        cl = client.get(path).context["cl"]
        pages = [
            listed(client, FAILED + cl.get_query_string({"p": n + 1}))
            for n in range(cl.paginator.num_pages)
        ]
        lists.append([one for page in pages for one in page])
        if not cl.older:
            return lists
        path = FAILED + cl.older
    raise AssertionError("the lists did not come to an end")


@pytest.mark.parametrize("query", ["", "?queue=one", "?failed_at__year=2026", "?q=acme"])
def test_old_rows_are_reached_step_by_step(
    alias: str, root: Client, small: None, query: str
) -> None:
    rows = []
    for n in range(130):
        at = NOW - timedelta(hours=130 - n // 3)  # some ended at the same moment
        rows += add(FailedJob, alias, "one", failed_at=at)
        rows += [] if query == "?queue=one" else add(FailedJob, alias, "two", failed_at=at)

    lists = all_listed(root, FAILED + query)

    assert [len(one) for one in lists[:-1]] == [120] * (len(rows) // 120)
    found = [job_id for one in lists for job_id in one]
    assert len(found) == len(set(found))
    assert set(found) == {one.id for one in rows}
    moments = {one.id: one.failed_at for one in rows}
    assert [moments[one] for one in found] == sorted(moments.values(), reverse=True)
    page = look(root, FAILED + query)
    assert "More than 120 match; these are the newest 120. Older ones" in page.text
    assert "and the rest that match" in page.text


def test_another_list_begins_at_its_newest(declared: str, root: Client, small: None) -> None:
    letters(declared, "one", 130)
    older = FAILED + root.get(FAILED).context["cl"].older

    page = look(root, older)

    assert "before" in older
    assert "before" not in page.links["one"] + page.links["Back to the newest"]
    [search] = [form for form in page.forms if "q" in form.fields]
    assert "before" not in search.fields


@pytest.mark.parametrize(
    "query",
    [
        "?task=rare",
        "?task=rare&queue=one",
        "?q=rare",
        "?error_class=rare",
        "?partition=acme&task=rare",
        "?partition=acme&queue=one&error_class=rare",
        "?partition=acme&q=rare",
        "?partition=acme&failed_at__year=2024",
        "?parent=order-1&task=rare",
        "?q=acme&task=rare",
        "?q=acme&failed_at__year=2024",
    ],
)
def test_what_no_index_finds_is_looked_for_bit_by_bit(
    alias: str, root: Client, small: None, query: str
) -> None:
    rows = []
    for n in range(100):
        at, fields = NOW - timedelta(hours=100 - n), {"parent_id": "order-1"}
        if n in (3, 50, 99):
            fields |= {"task_name": "rare", "error_class": "rare"}
            at = at.replace(year=2024) if "2024" in query else at
        rows += add(FailedJob, alias, "one", failed_at=at, **fields)
        add(FailedJob, alias, "one", partition_key="globex")

    lists = all_listed(root, FAILED + query)

    assert len(lists) > 2
    assert [one for part in lists for one in part] == [rows[n].id for n in (99, 50, 3)]
    page = look(root, FAILED + query)
    assert (
        "jobs were looked through, as no index finds what you filter by. Look further" in page.text
    )


def test_a_list_that_is_all_says_so_by_saying_nothing(
    alias: str, root: Client, small: None
) -> None:
    letters(alias, "one", 120)

    page = look(root, FAILED)

    assert "Older ones" not in page.text
    assert "120 failed jobs" in page.text


@pytest.mark.parametrize(("model", "base", "moment"), PLACES)
@pytest.mark.parametrize(
    "query",
    ["", "?queue=one", "?q=job-1", "?q=upload", "?task=shop.tasks.upload", "?{m}__year=2026"],
)
def test_a_list_takes_few_queries(
    alias: str, staff: Any, model: Any, base: str, moment: str, query: str
) -> None:
    add(model, alias, "one", 60)
    add(model, alias, "two", 5)
    client = staff(f"view_{model._meta.model_name}", "see_payloads", "requeue_jobs")

    with (
        CaptureQueriesContext(connections["default"]) as ours,
        CaptureQueriesContext(connections[alias]) as theirs,
    ):
        assert client.get(base + query.format(m=moment)).status_code == 200

    seen = {id(one): one for one in [*ours.captured_queries, *theirs.captured_queries]}
    assert len(seen) <= 15
    table = model._meta.db_table
    assert not [
        one for one in theirs.captured_queries if table in one["sql"] and "COUNT(" in one["sql"]
    ]


# -- dates -------------------------------------------------------------------------


def test_years_months_and_days_are_offered_without_looking_at_rows(
    alias: str, root: Client
) -> None:
    for day in (datetime(2024, 12, 31), datetime(2026, 2, 27), datetime(2026, 3, 2)):  # noqa: DTZ001
        letters(alias, "one", failed_at=day.replace(hour=12, tzinfo=NOW.tzinfo))
    letters(alias, "two", failed_at=datetime(2026, 5, 5, 12, tzinfo=NOW.tzinfo))

    def choices(query: str) -> list[str]:
        steps = root.get(FAILED + query).context["cl"].steps
        return [one["title"] for one in steps["choices"]]

    assert choices("") == ["2024", "2025", "2026"]
    assert choices("?queue=two") == ["May 5"]
    assert choices("?failed_at__year=2026") == [
        "January 2026",
        "February 2026",
        "March 2026",
        "April 2026",
        "May 2026",
    ]
    february = "?failed_at__year=2026&failed_at__month=2"
    assert choices(february) == [f"February {n}" for n in range(1, 29)]
    assert choices(f"{february}&failed_at__day=27") == ["February 27"]
    page = look(root, f"{FAILED}{february}&failed_at__day=27&q=acme")
    assert "q=acme" in page.links["\u2039 February 2026"]
    assert look(root, f"{FAILED}?queue=nix").text.count("2026") == 0


# -- queues and databases ----------------------------------------------------------


def test_queues_that_settings_no_longer_declare_are_offered(alias: str, root: Client) -> None:
    [gone] = letters(alias, "gone")
    letters(alias, "one")

    page = look(root, FAILED)

    assert page.links["gone (not in settings)"] == "?queue=gone"
    assert "two" in page.links  # it has no rows, but may have
    assert listed(root, f"{FAILED}?queue=gone") == [gone]


def test_many_queues_are_found_and_merged(alias: str, root: Client, monkeypatch: Any) -> None:
    rows = [one for n in range(25) for one in add(FailedJob, alias, f"q{n:02}")]
    names = [f"q{n:02}" for n in range(25)]
    assert history_names.queue_names(FailedJob, alias) == names
    expected = [one.id for one in reversed(rows)]
    for merged in (30, 10):
        monkeypatch.setattr(history_window, "MOST_MERGED", merged)
        assert listed(root, f"{FAILED}?failed_at__year=2026") == expected
    monkeypatch.setattr(history_names, "MOST_QUEUES", 10)
    assert history_names.queue_names(FailedJob, alias) == names[:10]


@pytest.mark.service("postgres")
@pytest.mark.django_db(databases=["default", "postgres"])
def test_each_queue_has_its_history_in_its_own_database(settings: Any, root: Client) -> None:
    settings.VTRR = {"QUEUES": {"here": {}, "there": {"DATABASE": "postgres"}}}
    [here] = letters("default", "here")
    [there] = letters("postgres", "there")

    assert listed(root, FAILED) == [here]
    assert listed(root, f"{FAILED}?queue=there") == [there]
    page = look(root, FAILED)
    assert "history in database default. For that of there choose the queue" in page.text
    assert {"here", "there"} <= page.links.keys()
    [link] = [look(root, f"{FAILED}?queue=there").links[there]]
    assert there in look(root, link).text


def test_lists_work_without_time_zones(settings: Any, root: Client, small: None) -> None:
    settings.USE_TZ = False
    settings.VTRR = {"QUEUES": {"one": {}, "two": {}}}
    rows = []
    for n in range(130):
        at = datetime(2026, 3, 5) + timedelta(hours=n // 3)  # noqa: DTZ001 - as settings say
        fields = {"failed_at": at, "created_at": at, "ready_at": at, "claimed_at": at}
        rows += add(FailedJob, "default", "one", **fields) + add(
            FailedJob, "default", "two", **fields
        )

    for query in ("", "?failed_at__year=2026", "?failed_at__gte=2026-03-05T00:00:00%2B00:00"):
        lists = all_listed(root, FAILED + query)
        assert sorted(one for part in lists for one in part) == sorted(one.id for one in rows)
    assert len(root.get(f"{FAILED}?failed_at__year=2026").context["cl"].steps["choices"]) == 1


def test_settings_that_are_wrong_are_told_not_a_traceback(settings: Any, root: Client) -> None:
    settings.VTRR = {"QUEUES": {"default": {"ENGIN": "orm"}}}

    for base in (FAILED, COMPLETED):
        response = root.get(base)
        assert response.headers["Location"] == "/admin/"
        assert "did you mean 'ENGINE'?" in look(root, "/admin/").text
