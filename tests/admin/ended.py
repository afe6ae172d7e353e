"""Ended jobs in each database, and short ways to look at them and to act on them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.test import Client

from tests.admin.html import Page
from tests.admin.looking import look, messages
from vtrr_django.models import FailedJob

FAILED = "/admin/vtrr_django/failedjob/"
COMPLETED = "/admin/vtrr_django/completedjob/"
RUN = f"{FAILED}run/"

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)

HOSTILE = (
    "</pre><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202eabc\u2066",
    "x" * 20_000,
)

_numbers = itertools.count(1)

_databases = ("default", "postgres", "mariadb")


def _marks(alias: str) -> list[Any]:
    services = [] if alias == "default" else [pytest.mark.service(alias)]
    return [*services, pytest.mark.django_db(databases=sorted({"default", alias}))]


ALIASES = [pytest.param(alias, marks=_marks(alias)) for alias in _databases]
"""The databases, for tests that are rolled back."""

LASTING = [
    pytest.param(
        alias,
        marks=[
            *_marks(alias)[:-1],
            pytest.mark.django_db(transaction=True, databases=sorted({"default", alias})),
        ],
    )
    for alias in _databases
]
"""The databases, for tests of several connections."""


def row(model: Any, queue: str, **fields: Any) -> Any:
    """Return a row, not saved."""
    number = next(_numbers)
    ended = "failed_at" if model is FailedJob else "completed_at"
    values: dict[str, Any] = {
        "id": f"job-{number}",
        "queue": queue,
        "partition_key": "acme",
        "task_name": "shop.tasks.upload",
        "payload": '{"args": [], "kwargs": {}}',
        "created_at": NOW - timedelta(minutes=3),
        "ready_at": NOW - timedelta(minutes=2),
        "claimed_at": NOW - timedelta(minutes=1),
        ended: NOW,
        "runtime": 1.5,
    }
    if model is FailedJob:
        values |= {"error_class": "shop.Broken", "reason": "it broke", "traceback": "File x"}
    return model(**values | fields)


def add(model: Any, alias: str, queue: str, n: int = 1, **fields: Any) -> list[Any]:
    """Add rows, all alike but for their ids, the oldest first."""
    rows = [row(model, queue, **fields) for _ in range(n)]
    for one in rows:
        one.save(using=alias)
    return rows


def letters(alias: str, queue: str, n: int = 1, **fields: Any) -> list[str]:
    """Add dead letters; return their ids."""
    return [one.id for one in add(FailedJob, alias, queue, n, **fields)]


def dead(alias: str) -> set[str]:
    """Return the ids of the dead letters there are."""
    return set(FailedJob.objects.using(alias).values_list("id", flat=True))


def page_of(model: Any, queue: str, job_id: str) -> str:
    base = FAILED if model is FailedJob else COMPLETED
    return f"{base}{quote(f'{queue}:{job_id}')}/change/"


def listed(client: Client, path: str) -> list[str]:
    """Return the ids on a page of a list, in its order."""
    response = client.get(path)
    assert response.status_code == 200, (response.status_code, response.headers)
    assert Page(response.content.decode()).refused == []
    return [one.id for one in response.context["cl"].result_list]


def ask(client: Client, action: str, query: str = "", chosen: Any = None) -> Any:
    """Choose an action for the rows with these ids, or for all that match."""
    seqs = ["1"]
    if chosen is not None:
        client_alias = client.get(FAILED + query).context["cl"].facts.alias
        rows = FailedJob.objects.using(client_alias).filter(id__in=chosen)
        seqs = [str(seq) for seq in rows.values_list("seq", flat=True)] or ["999999"]
    sent = {"action": action, "index": "0", "_selected_action": seqs}
    return client.post(FAILED + query, sent | {"select_across": "1" if chosen is None else "0"})


def asked(client: Client, action: str, query: str = "", chosen: Any = None) -> str:
    """Do :func:`ask`, and return what the page that asks back would send."""
    response = ask(client, action, query, chosen)
    assert response.status_code == 200, response.headers
    page = Page(response.content.decode())
    assert page.refused == []
    [form] = [form for form in page.forms if form.action == RUN]
    assert form.method == "post"
    return form.fields["run"]


def begin(client: Client, signed: str, **more: str) -> Any:
    """Send what the page that asks sends."""
    return client.post(RUN, {"run": signed, **more})


def go_on(client: Client, address: str, **more: str) -> Any:
    """Send what the page of a run sends."""
    return client.post(address.partition("?")[0], more)


def is_run(response: Any) -> bool:
    """Return whether it leads to the page of a run, not back to the list."""
    assert response.status_code == 302, (response.status_code, response.content[:2000])
    return bool(response.headers["Location"].startswith(RUN))


def begun(client: Client, signed: str) -> str:
    """Begin a run; return the address of its page."""
    response = begin(client, signed)
    assert is_run(response)
    return str(response.headers["Location"])


def runs() -> Any:
    """Return the entries of the admin's log that tell of runs; each is told to queues besides."""
    return LogEntry.objects.filter(content_type__model="failedjob")


def to_the_end(client: Client, signed: str = "", address: str = "") -> str:
    """Press Continue until the run has ended; return what the list then says.

    Args:
        client: who presses.
        signed: what the page that asks sends; "" for a run that has begun.
        address: the page of a run that has begun.
    """
    response = begin(client, signed) if signed else go_on(client, address)
    for _ in range(50):
        if not is_run(response):
            return messages(look(client, response.headers["Location"]))
        look(client, response.headers["Location"])
        response = go_on(client, response.headers["Location"])
    raise AssertionError("the run did not come to an end")


Staff = Callable[..., Client]
