"""Numbers in a project whose language groups digits: what a machine reads stays plain."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from tests.admin.ended import COMPLETED, FAILED, add, ask, asked, begun, page_of
from tests.admin.html import Page
from tests.admin.looking import address
from tests.admin.test_queues_pages import filled, paths, seen
from tests.contract.jobs import put
from vtrr_django import Queue
from vtrr_django.admin import bulk_step, history_window, queue_pages
from vtrr_django.models import CompletedJob, FailedJob


@pytest.fixture(params=["de", "fa"])
def _grouping(request: pytest.FixtureRequest, settings: Any) -> None:
    """Every number of more than one digit that Django localizes has a sign in it."""
    settings.FORMAT_MODULE_PATH = "tests.admin.formats"
    settings.LANGUAGE_CODE, settings.USE_THOUSAND_SEPARATOR = request.param, True


def localized(html: str) -> list[str]:
    """Return the attributes that hold a localized number, but for one of Django's own."""
    return [
        f"<{tag} {name}={value}>"
        for tag, attributes in Page(html).tags
        for name, value in attributes.items()
        if "¤" in value and name != "data-actions-icnt"
    ]


@pytest.mark.usefixtures("_grouping")
def test_no_attribute_of_a_page_holds_a_localized_number(
    queue: Queue, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(queue)
    put(queue.engine, *["acme"] * 60, priority=42, weight=12345)
    add(FailedJob, "default", queue.name, 120, weight=12345)
    add(CompletedJob, "default", queue.name, 120, weight=12345)
    queue.set_partition("acme", share=1234.5, limit=12345)
    for n in range(12):
        seen(queue, f"worker-{n}", timedelta())
    queue.measure("worker-7")
    monkeypatch.setattr(queue_pages, "SHOWN_WORKERS", 2)
    monkeypatch.setattr(history_window, "MOST_LISTED", 100)
    monkeypatch.setattr(bulk_step, "CHUNK", 20)
    monkeypatch.setattr(bulk_step, "SECONDS", 0.0)

    found: dict[str, Any] = {}
    for path in [
        *(path for path in paths(queue)[:12]),
        *(address(page, queue.name) for page in ("purge", "history")),
        f"{address('purge', queue.name)}?key=acme",
        FAILED,
        COMPLETED,
        page_of(FailedJob, queue.name, FailedJob.objects.values_list("id", flat=True)[0]),
    ]:
        found[path] = root.get(path)
    found["confirm"] = ask(root, "discard", f"?queue={queue.name}")
    found["progress"] = root.get(begun(root, asked(root, "discard")))

    assert {response.status_code for response in found.values()} == {200}
    found = {path: response.content.decode() for path, response in found.items()}
    assert not {path: told for path, html in found.items() if (told := localized(html))}
    assert 'value="1' in found["progress"], "the bar has come some way"
    ours = [html for path, html in found.items() if path not in (FAILED, COMPLETED)]
    assert not [html for html in ours if "¤" in html], "our pages speak English, numbers too"
    assert "More than 100 match; these are the newest 100." in found[FAILED]
