"""Sites and model admins of a project's own say who may enter and who may view."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.models import Permission
from django.http import HttpRequest
from django.test import Client
from django.urls import path

from tests.admin.conftest import declare
from tests.admin.ended import Staff, add
from tests.admin.looking import look
from tests.admin.test_queues_actions import ALL, NEEDED, VIEW, dead, logged
from tests.contract.jobs import job, put
from vtrr_django import Queue
from vtrr_django.admin.history import CompletedJobAdmin, FailedJobAdmin
from vtrr_django.admin.links import quoted
from vtrr_django.admin.queues import QueueStateAdmin
from vtrr_django.models import CompletedJob, FailedJob, QueueState

EVERYTHING = ALL | {"view_failedjob", "view_completedjob"}


class Open(AdminSite):
    """A site that lets in whoever is active."""

    def has_permission(self, request: HttpRequest) -> bool:
        return request.user.is_active


class ForMarked(QueueStateAdmin):
    """Whose first name says that they may view, do: permissions are not asked."""

    def has_view_permission(self, request: HttpRequest, obj: QueueState | None = None) -> bool:
        return getattr(request.user, "first_name", "") == "may"


class DeadForMarked(FailedJobAdmin):
    """The same of dead letters."""

    has_view_permission = ForMarked.has_view_permission


entered, marked = Open(name="entered"), AdminSite(name="marked")
for site, queues, failed in (
    (entered, QueueStateAdmin, FailedJobAdmin),
    (marked, ForMarked, DeadForMarked),
):
    site.register(QueueState, queues)
    site.register(FailedJob, failed)
    site.register(CompletedJob, CompletedJobAdmin)
    site.register(Permission, ModelAdmin)

urlpatterns = [path("entered/", entered.urls), path("marked/", marked.urls)]


@pytest.fixture
def one(settings: Any, db: None) -> Queue:
    settings.ROOT_URLCONF = __name__
    queue = declare(settings, "sqlite")
    dead(queue, 2)
    put(queue.engine, "acme")
    return queue


def paths(site: str, queue: Queue) -> list[str]:
    [letter, _] = FailedJob.objects.all()
    queues = f"/{site}/vtrr_django/queuestate/"
    [live] = queue.jobs("ready").jobs
    return [
        queues,
        f"{queues}{queue.name}/",
        f"{queues}{queue.name}/partition/?key=acme",
        f"{queues}{queue.name}/jobs/ready/",
        f"{queues}{queue.name}/job/{quoted(live.id)}/",
        f"{queues}{queue.name}/history/",
        f"/{site}/vtrr_django/failedjob/",
        f"/{site}/vtrr_django/failedjob/{queue.name}:{letter.id}/change/",
        f"/{site}/vtrr_django/failedjob/{queue.name}:{letter.id}/history/",
    ]


def test_who_may_enter_is_for_the_site_to_say(one: Queue, staff: Staff) -> None:
    client, powerless = staff(*EVERYTHING, is_staff=False), staff(is_staff=False)

    for address in [*paths("entered", one), "/entered/vtrr_django/completedjob/"]:
        look(client, address)
        assert powerless.get(address).status_code == 403
    index = look(client, "/entered/")
    assert {"Queues", "Failed jobs", "Completed jobs"} <= index.links.keys()
    look(client, "/entered/vtrr_django/")


@pytest.mark.parametrize("verb", NEEDED)
def test_who_may_enter_may_press_what_permissions_allow(
    one: Queue, staff: Staff, verb: str
) -> None:
    begin = f"/entered/vtrr_django/queuestate/{one.name}/"
    address = f"{begin}purge/" if verb == "purge" else f"{begin}do/{verb}/"
    [waiting] = one.jobs("ready").jobs
    sent = {"partition": "acme", "share": "2", "limit": "2", "seen": "1", "id": waiting.id}

    assert staff(NEEDED[verb], VIEW, is_staff=False).post(address, sent).status_code == 302
    assert staff(*(ALL - {NEEDED[verb]}), is_staff=False).post(address, sent).status_code == 403
    assert Client().post(address, sent).headers["Location"].startswith("/entered/login/")


def test_dead_letters_are_requeued_by_who_may_enter(one: Queue, staff: Staff) -> None:
    client = staff("view_failedjob", "requeue_jobs", is_staff=False)
    [letter, _] = FailedJob.objects.all()

    page = look(client, f"/entered/vtrr_django/failedjob/{one.name}:{letter.id}/change/")

    assert "Requeue" in page.buttons


def test_who_may_view_is_for_the_model_admin_to_say(one: Queue, staff: Staff) -> None:
    may, may_not = staff(first_name="may"), staff(*EVERYTHING)

    for address in paths("marked", one):
        look(may, address)
        assert may_not.get(address).status_code == 403
    assert "Queues" not in look(may_not, "/marked/").links


def test_links_lead_where_the_model_admins_let_one_in(one: Queue, staff: Staff) -> None:
    [letter, _] = FailedJob.objects.all()
    child = job("acme", parent_id=letter.id)
    one.engine.enqueue([child], {})
    may, may_not = staff(first_name="may"), staff(*EVERYTHING)
    queues, failed, completed = (
        f"/marked/vtrr_django/{name}/" for name in ("queuestate", "failedjob", "completedjob")
    )

    page = look(may, f"{queues}{one.name}/")
    assert f"{failed}?queue={one.name}" in page.links.values()
    assert f"{completed}?queue={one.name}" not in page.links.values()
    page = look(may, f"{queues}{one.name}/job/{letter.id}/")
    assert page.links["All that is kept of it, with its traceback"].startswith(failed)
    page = look(may, f"{failed}{one.name}:{letter.id}/change/")
    assert page.links[one.name] == f"{queues}{one.name}/"
    [done] = add(CompletedJob, "default", one.name, parent_id=letter.id)
    page = look(may_not, f"{completed}{one.name}:{done.id}/change/")
    assert letter.id in page.text
    assert not [url for url in page.links.values() if url.startswith((queues, failed))]
    assert logged() == []


# -- the README --------------------------------------------------------------------

README = Path(__file__).parents[2].joinpath("README.md").read_text()


def test_the_site_of_the_readme_has_every_page_and_link(
    one: Queue, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    [code] = re.findall(r"```python\n([^`]*site\.register\([^`]*)```", README)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - what the README tells people to write
    urls = [path("operations/", names["site"].urls)]
    monkeypatch.setattr(sys.modules[__name__], "urlpatterns", urls)
    add(CompletedJob, "default", one.name)
    failed, completed = (
        f"/operations/vtrr_django/{kind}job/?queue={one.name}" for kind in ("failed", "completed")
    )

    index = look(root, "/operations/")
    page = look(root, look(root, index.links["Queues"]).links[one.name])

    assert page.links["Recent failures"] == failed
    assert page.links["Recent runs"] == completed
    for address in (failed, completed):
        look(root, address)
