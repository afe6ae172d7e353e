"""The page of the dashboard, as it is sent; ``tests/browser`` uses it."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client

from vtrr_django.api import dashboard as module
from vtrr_django.exceptions import StoreUnavailable

SECRET = "a secret of the tests"


@pytest.fixture
def project(settings: Any) -> Any:
    """A project whose API is for those who have the secret."""
    settings.ROOT_URLCONF = "vtrr_django.api.urls"
    settings.ALLOWED_HOSTS = ["testserver", "localhost"]
    settings.VTRR = {"SECRET": SECRET, "QUEUES": {"default": {}, "mails-of-the-project": {}}}
    return settings


@pytest.fixture
def source() -> str:
    """Everything in the page that is code or markup."""
    folder = resources.files("vtrr_django.api").joinpath("page")
    return "\n".join(one.read_text("utf-8") for one in folder.iterdir())


def _meta(page: str) -> dict[str, str]:
    [found] = re.findall(r'<meta name="vtrr"([^>]*)>', page)
    return dict(re.findall(r'data-([a-z-]+)="([^"]*)"', found))


def test_everybody_gets_the_page_and_nothing_of_the_project_is_in_it(project: Any) -> None:
    response = Client().get("/")

    page = response.content.decode()
    assert response.status_code == 200
    assert response["Content-Type"] == "text/html; charset=utf-8"
    assert SECRET not in page
    assert "mails-of-the-project" not in page
    assert _meta(page) == {}
    assert response.cookies == {}


def test_who_has_only_the_secret_gets_it_where_all_else_needs_a_user(project: Any) -> None:
    project.MIDDLEWARE = [
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.auth.middleware.LoginRequiredMiddleware",
    ]
    for path, status in {
        "/": 200,
        "/openapi.json": 200,
        "/queues": 401,
        "/default/jobs": 401,
    }.items():
        assert Client().get(path).status_code == status, path


def test_its_policy_allows_what_is_in_it_and_nothing_else(project: Any) -> None:
    response = Client().get("/")

    page = response.content.decode()
    policy = dict(
        one.strip().split(" ", 1) for one in response["Content-Security-Policy"].split(";")
    )
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        [text] = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy.pop(directive) == f"'sha256-{digest}'"
        assert page.count(f"<{tag}") == 1
    assert policy == {
        "default-src": "'none'",
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["X-Frame-Options"] == "DENY"
    assert response["Referrer-Policy"] == "same-origin"
    assert response["Cache-Control"] == "no-store"


def test_all_of_it_comes_from_the_server_itself(source: str) -> None:
    assert set(re.findall(r"https?://[^\s'\"/]+", source)) == {"http://www.w3.org"}
    assert "url(" not in source
    assert "@import" not in source


def test_texts_cannot_become_markup_or_code(source: str) -> None:
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacent|document\.write|DOMParser|createContextual|srcdoc"
        r"|setHTML|\beval\b|new Function|\.on[a-z]+ *=|\son[a-z]+=.|\.style\b|\sstyle *="
    )
    assert re.findall(forbidden, source) == []
    assert "</script" not in module.SCRIPT.lower()
    assert "<!--" not in module.SCRIPT
    assert "</style" not in module.STYLE.lower()


def test_every_script_of_the_folder_is_in_the_page() -> None:
    folder = resources.files("vtrr_django.api").joinpath("page")
    scripts = {one.name for one in folder.iterdir() if one.name.endswith(".js")}
    assert scripts == {f"{name}.js" for name in module.SCRIPTS}


def test_only_reading_it_is_allowed(project: Any) -> None:
    client = Client(enforce_csrf_checks=True)
    head = client.head("/")
    assert (head.status_code, head.content) == (200, b"")

    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        response = client.generic(method, "/")
        assert response.status_code == 405
        assert response["Allow"] == "GET, HEAD"
        assert response.json() == {"error": f"expected GET, HEAD, got {method}"}


def test_it_is_told_where_no_secret_is_needed(project: Any) -> None:
    project.VTRR = {}

    assert _meta(Client(HTTP_HOST="localhost").get("/").content.decode()) == {"open": "yes"}
    elsewhere = Client(HTTP_HOST="localhost", REMOTE_ADDR="192.0.2.7").get("/")
    assert _meta(elsewhere.content.decode()) == {}


@pytest.mark.django_db
@pytest.mark.parametrize("sessions", [False, True], ids=["cookie", "session"])
def test_staff_get_the_token_that_their_writes_need(project: Any, sessions: bool) -> None:
    project.CSRF_USE_SESSIONS = sessions
    project.CSRF_HEADER_NAME = "HTTP_X_OF_OURS"
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("ada"))

    told = _meta(client.get("/").content.decode())

    assert told["open"] == "yes"
    headers = {told["csrf-header"]: told["csrf"]}
    for given, status in (({}, 403), (headers, 200)):
        answer = client.post(
            "/default/resume", "{}", content_type="application/json", headers=given
        )
        assert answer.status_code == status, answer.content


@pytest.mark.django_db
def test_who_is_no_staff_is_told_nothing(project: Any) -> None:
    client = Client()
    client.force_login(User.objects.create_user("eve"))
    assert _meta(client.get("/").content.decode()) == {}


def test_sessions_that_cannot_be_read_do_not_keep_the_page(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise StoreUnavailable("the database is down")

    monkeypatch.setattr(SessionStore, "load", fail)
    client = Client()
    client.cookies["sessionid"] = "of somebody"

    response = client.get("/")

    assert response.status_code == 200
    assert _meta(response.content.decode()) == {}
