"""What every endpoint does: how errors are told, and methods, paths, queues that are none."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client

from tests.api.signing import SignedClient, send
from tests.api.urls import urlpatterns
from vtrr_django.api.answers import answer
from vtrr_django.api.dashboard import dashboard

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("echoes")]


# -- answers to errors -------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "status", "told"),
    [
        (
            "validation",
            400,
            {"error": "jobs[3].weight: expected 1, got 2", "path": "jobs[3].weight"},
        ),
        ("whole", 400, {"error": "expected a job"}),
        ("duplicate", 409, {"error": "another job has that id"}),
        ("queue", 404, {"error": "no such queue"}),
        ("refused", 409, {"error": "gone", "done": False}),
    ],
)
def test_errors_that_say_what_to_change(name: str, status: int, told: dict[str, Any]) -> None:
    answered = Client().get(f"/fail/{name}")
    assert (answered.status_code, answered.json()) == (status, told)
    assert answered.headers["Content-Type"] == "application/json"
    assert answered.headers["X-Content-Type-Options"] == "nosniff"
    assert "no-store" in answered.headers["Cache-Control"]
    assert answered.headers.get("x-more") == ("yes" if name == "refused" else None)


@pytest.mark.parametrize("name", ["store", "settings", "operational", "interface"])
def test_errors_that_are_the_operators(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        answered = Client().get(f"/fail/{name}")
    assert answered.status_code == 503
    assert answered.headers["Retry-After"] == "1"
    assert "SECRET" not in answered.content.decode()
    # Said once, and not to ADMINS.
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("vtrr_django.api", "WARNING")
    assert "SECRET" in record.getMessage()


def test_what_django_refuses_is_no_server_error() -> None:
    assert Client().get("/fail/suspicious").status_code == 400


def test_a_bug_is_djangos_to_answer() -> None:
    with pytest.raises(ZeroDivisionError):
        Client().get("/fail/bug")
    assert Client(raise_request_exception=False).get("/fail/bug").status_code == 500


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/echo", "PATCH, POST"),
        ("OPTIONS", "/who", "GET, HEAD, POST"),
        ("BREW", "/jobs/x", "DELETE, GET, HEAD"),
    ],
)
def test_a_method_that_is_none(signed: SignedClient, method: str, path: str, allowed: str) -> None:
    assert send(Client(), method, path).status_code == 401
    answered = signed.request(method, path)
    assert (answered.status_code, answered.headers["Allow"]) == (405, allowed)
    assert answered.json()["error"].startswith(f"expected {allowed}, got ")


@pytest.mark.parametrize("path", ["/", "/no", "/no/such/path", "/%00", "/%ff", "/a%0d%0ab"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_path_that_is_none(method: str, path: str) -> None:
    answered = Client().generic(method, path)
    assert answered.status_code == 404
    assert answered.json()["error"].startswith("expected a path")


@pytest.mark.parametrize("name", ["nothere", "a b", "é", "x" * 65, "x" * 5000, "\x00", "..", "%"])
def test_a_queue_that_is_none(signed: SignedClient, name: str) -> None:
    answered = signed.post(f"/{name}/named")
    assert answered.status_code == 404
    assert len(answered.content) < 1000


def test_a_view_answers_outside_any_transaction() -> None:
    views: list[Any] = [urlpatterns[0].callback, dashboard]
    for view in views:
        assert view._non_atomic_requests >= set(django_settings.DATABASES)


def test_what_an_answer_may_hold() -> None:
    assert answer({"lone": "\ud800"}).content == b'{"lone":"\\ud800"}'
    with pytest.raises(TypeError, match="expected JSON or datetimes, got set"):
        answer({"a": set()})
    with pytest.raises(ValueError, match="Out of range"):
        answer({"a": float("nan")})
