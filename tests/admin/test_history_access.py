"""Who may see ended jobs, and who may do something with them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin import AdminSite
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import path

from tests.admin.conftest import declare
from tests.admin.ended import COMPLETED, FAILED, RUN, Staff, add, asked, dead, page_of
from tests.admin.html import Page
from tests.admin.looking import look
from vtrr_django import Queue
from vtrr_django.admin.history import FailedJobAdmin
from vtrr_django.models import CompletedJob, FailedJob

ACTIONS = ("requeue", "copy", "discard")


@pytest.fixture
def one(settings: Any, db: None) -> Queue:
    return declare(settings, "sqlite")


@pytest.fixture
def pages(one: Queue) -> list[str]:
    [letter] = add(FailedJob, "default", one.name)
    [done] = add(CompletedJob, "default", one.name)
    failed, completed = (
        page_of(FailedJob, one.name, letter.id),
        page_of(CompletedJob, one.name, done.id),
    )
    return [FAILED, failed, failed.replace("change", "history"), COMPLETED, completed]


def test_strangers_are_led_to_the_log_in_page(pages: list[str]) -> None:
    for address in [*pages, RUN]:
        for response in (Client().get(address), Client().post(address, {"action": "requeue"})):
            assert response.status_code == 302
            assert response.headers["Location"].startswith("/admin/login/")


def test_users_who_are_no_staff_are_led_there_too(pages: list[str], staff: Staff) -> None:
    client = staff("view_failedjob", "view_completedjob", "requeue_jobs", is_staff=False)

    for address in [*pages, RUN]:
        assert client.get(address).headers["Location"].startswith("/admin/login/")


def test_each_table_needs_its_own_permission(pages: list[str], staff: Staff) -> None:
    failed, completed = staff("view_failedjob"), staff("view_completedjob", "requeue_jobs")

    for address in pages:
        allowed, refused = (failed, completed) if "failed" in address else (completed, failed)
        look(allowed, address)
        assert refused.get(address).status_code == 403
        assert staff("view_queuestate", "requeue_jobs").get(address).status_code == 403


def test_nobody_adds_changes_or_deletes_rows(pages: list[str], root: Client, one: Queue) -> None:
    [letter] = FailedJob.objects.all()
    for base, page in ((FAILED, pages[1]), (COMPLETED, pages[4])):
        for address in (f"{base}add/", page.replace("change", "delete")):
            assert root.get(address).status_code == 403
            assert root.post(address, {"post": "yes"}).status_code == 403
        assert root.post(page, {"reason": "x", "_save": "Save"}).status_code == 403
        gone = {"action": "delete_selected", "_selected_action": str(letter.seq), "post": "yes"}
        root.post(base, gone)
        assert f"{base}add/" not in look(root, base).links.values()

    assert dead("default") == {letter.id}
    assert CompletedJob.objects.count() == 1


def test_who_may_only_view_is_offered_nothing(pages: list[str], staff: Staff) -> None:
    client = staff("view_failedjob", "view_completedjob", "see_payloads")

    for address in pages:
        page = look(client, address)
        for action in ("Requeue", "Requeue as a copy", "Discard"):
            assert action not in page.text
        posts = [form.action for form in page.forms if form.method == "post" and form.buttons]
        assert [address for address in posts if address != "/admin/logout/"] == []
        assert [one for one in page.find("input") if one.get("type") == "checkbox"] == []


@pytest.mark.parametrize("permissions", [("view_failedjob",), ("requeue_jobs",)])
@pytest.mark.parametrize("across", ["0", "1"])
def test_what_is_sent_by_hand_is_refused(
    pages: list[str], staff: Staff, root: Client, one: Queue, permissions: Any, across: str
) -> None:
    [letter] = FailedJob.objects.all()
    client = staff(*permissions)
    signed = asked(root, "discard")

    for action in ACTIONS:
        sent = {"action": action, "_selected_action": str(letter.seq), "select_across": across}
        assert client.post(FAILED, sent | {"index": "0"}).status_code == 403
        assert client.post(FAILED, sent).status_code == 403
        assert client.post(FAILED, sent | {"action": ["", action], "index": "1"}).status_code == 403
    assert client.post(RUN, {"run": signed}).status_code == 403
    assert client.post(RUN, {"run": signed, "stop": "1"}).status_code == 403

    assert dead("default") == {letter.id}
    assert one.depth().ready == 0
    assert LogEntry.objects.count() == 0


def test_who_loses_the_permission_loses_the_run(pages: list[str], staff: Staff) -> None:
    client = staff("view_failedjob", "requeue_jobs")
    signed = asked(client, "discard")
    User.objects.get(pk=client.session["_auth_user_id"]).user_permissions.clear()

    assert client.post(RUN, {"run": signed}).status_code == 403
    assert len(dead("default")) == 1


def test_requests_from_elsewhere_are_refused(pages: list[str], root: Client, one: Queue) -> None:
    signed = asked(root, "requeue")
    careful = Client(enforce_csrf_checks=True)
    careful.force_login(User.objects.get(username="root"))
    [letter] = FailedJob.objects.all()
    sent = {"action": "requeue", "_selected_action": str(letter.seq), "index": "0"}

    assert careful.post(FAILED, sent).status_code == 403
    assert careful.post(RUN, {"run": signed}).status_code == 403
    careful.get(FAILED)
    token = careful.cookies["csrftoken"].value
    assert careful.post(RUN, {"run": signed, "csrfmiddlewaretoken": token}).status_code == 302
    assert dead("default") == set()
    assert one.depth().ready == 1


# -- a site of a project's own -----------------------------------------------------

alone = AdminSite(name="alone")
alone.register(FailedJob, FailedJobAdmin)

urlpatterns = [path("alone/", alone.urls), path("admin/", admin.site.urls)]


def test_a_site_that_has_nothing_but_dead_letters_works(
    one: Queue, root: Client, settings: Any
) -> None:
    settings.ROOT_URLCONF = __name__
    [parent] = add(CompletedJob, "default", one.name)
    [letter] = add(FailedJob, "default", one.name, parent_id=parent.id)
    base = FAILED.replace("admin", "alone", 1)

    page = look(root, look(root, base).links[letter.id])

    assert parent.id in page.text
    assert [link for link in page.links.values() if link.startswith("/admin/")] == []
    response = root.post(base, {"action": "requeue", "_selected_action": str(letter.seq)})
    [form] = [one for one in Page(response.content.decode()).forms if one.action.endswith("/run/")]
    assert form.action == f"{base}run/"
    assert root.post(form.action, form.fields).headers["Location"] == base
    assert one.depth().ready == 1
    gone = page_of(FailedJob, one.name, letter.id).replace("admin", "alone", 1)
    assert root.get(gone).headers["Location"] == base
