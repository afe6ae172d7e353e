"""The view: what it answers, and to whom it says what."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connections
from django.test import Client, RequestFactory
from django.urls import path
from django.utils import timezone

import vtrr_django.health
from tests.own_redis import OwnRedis
from tests.races.roles import Note
from vtrr_django import get_queue
from vtrr_django.health import health

urlpatterns = [path("health/", vtrr_django.health.health)]

pytestmark = pytest.mark.django_db(transaction=True)

CANARY = "CANARY"


@pytest.fixture
def client(settings: Any) -> Client:
    settings.ROOT_URLCONF = __name__
    settings.VTRR = {"QUEUES": {"q": {}}, "SECRET": CANARY}
    return Client()


@pytest.fixture
def user(client: Client) -> User:
    made = User.objects.create_user("somebody")
    client.force_login(made)
    return made


def test_all_is_well(client: Client) -> None:
    response = client.get("/health/")
    assert response.status_code == 200
    assert "no-store" in response.headers["cache-control"]
    assert response.json() == {"status": "ok"}


def test_staff_are_told_all(client: Client, user: User) -> None:
    user.is_staff = user.is_superuser = True
    user.save()
    get_queue("q").publish(Note(), scheduled_at=timezone.now() + timedelta(days=1))
    told = client.get("/health/").json()
    assert (told["status"], told["findings"]) == ("ok", [])
    [queue] = told["queues"]
    assert (queue["queue"], queue["status"]) == ("q", "ok")
    assert [one["id"] for one in queue["findings"]] == ["store", "database", "workers", "reclaim"]
    assert queue["findings"][0] == {
        "id": "store",
        "status": "ok",
        "sentence": "the store answers: 0 ready, 1 scheduled, 0 leased",
        "facts": {
            "paused": False,
            "ready": 0,
            "scheduled": 1,
            "leased": 0,
            "partitions_waiting": 0,
            "oldest_wait_seconds": 0.0,
        },
    }


def test_a_warning_is_no_alarm(client: Client) -> None:
    get_queue("q").publish(Note(), partition_key="acme")
    response = client.get("/health/")
    assert (response.status_code, response.json()["status"]) == (200, "warning")


def test_what_is_critical_is_not_available(client: Client, patience: None) -> None:
    get_queue("q").publish(Note(), partition_key="acme")
    response = client.get("/health/")
    assert (response.status_code, response.json()["status"]) == (503, "critical")
    assert client.head("/health/").status_code == 503
    assert client.post("/health/").status_code == 405


@pytest.mark.parametrize(
    ("staff", "active", "permission", "reads"),
    [
        (True, True, True, True),
        (True, True, False, False),
        (False, True, True, False),
        (True, False, True, False),
    ],
)
def test_findings_are_for_staff_who_may_view_queues(
    client: Client, user: User, staff: bool, active: bool, permission: bool, reads: bool
) -> None:
    if permission:
        user.user_permissions.add(Permission.objects.get(codename="view_queuestate"))
    user.is_staff, user.is_active = staff, active
    user.save()
    told = client.get("/health/").json()
    assert ("queues" in told) == reads
    assert reads or told == {"status": "ok"}


def test_a_project_whose_pages_need_a_log_in(client: Client, settings: Any) -> None:
    """A monitor would be led to the log-in page, and take that for an answer."""
    settings.MIDDLEWARE = [
        *settings.MIDDLEWARE,
        "django.contrib.auth.middleware.LoginRequiredMiddleware",
    ]
    assert client.get("/health/").json() == {"status": "ok"}


def test_it_needs_no_users(client: Client) -> None:
    response = health(RequestFactory().get("/"))
    assert response.status_code == 200
    assert response.content == b'{"status": "ok"}'


def test_a_database_that_is_down(
    client: Client, user: User, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Sessions and users are in it too, and each request is to be a transaction."""
    user.is_staff = user.is_superuser = True
    user.save()
    default = connections["default"]
    default.close()
    gone = tmp_path / "missing" / "db.sqlite3"
    with monkeypatch.context() as patch:
        patch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
        patch.setattr(default, "settings_dict", {**default.settings_dict, "NAME": gone})
        response = client.get("/health/")
    assert response.status_code == 503
    assert response.json() == {"status": "critical"}
    assert client.get("/health/").status_code == 200


@pytest.mark.service("postgres")
@pytest.mark.django_db(transaction=True, databases=["default", "postgres"])
@pytest.mark.parametrize("own", [True, False])
def test_another_database_that_is_down(
    client: Client, monkeypatch: pytest.MonkeyPatch, settings: Any, own: bool
) -> None:
    """Each request is to be a transaction in it, whether or not it has a queue."""
    settings.VTRR = {"QUEUES": {"q": {"DATABASE": "postgres" if own else "default"}}}
    other = connections["postgres"]
    other.close()
    with monkeypatch.context() as patch:
        patch.setitem(connections.settings["postgres"], "ATOMIC_REQUESTS", True)
        nowhere = {"HOST": "127.0.0.1", "PORT": "1"}
        patch.setattr(other, "settings_dict", {**other.settings_dict, **nowhere})
        response = client.get("/health/")
    assert response.status_code == (503 if own else 200)
    assert response.json()["status"] == ("critical" if own else "ok")


def test_neither_tenants_nor_arguments_nor_secrets_are_told(
    client: Client, user: User, patience: None, own_redis: Callable[..., OwnRedis], settings: Any
) -> None:
    user.is_staff = user.is_superuser = True
    user.save()
    server = own_redis({"requirepass": CANARY})
    settings.VTRR = {
        "QUEUES": {
            "q": {"HEALTH_MAX_READY": 0},
            "down": {"ENGINE": "redis", "URL": server.url()},
            "up": {"ENGINE": "redis", "URL": server.url()},
        },
        "SECRET": CANARY,
    }

    def explode(self: Any, text: str) -> None:
        raise ValueError(text)

    for name in ("q", "up"):
        queue = get_queue(name)
        task = queue.task(explode)
        for _ in range(2):
            task.enqueue(CANARY, partition_key="CANARY & Sons")
        [job] = queue.lease()
        assert queue.fail(job, CANARY)
        queue.measure("me")
    get_queue("down").publish(Note())
    for server_is_up in (True, False):
        if not server_is_up:
            server.stop()
        response = client.get("/health/")
        assert response.status_code == 503
        assert "sentence" in response.text
        assert CANARY not in response.text
        assert "Sons" not in response.text
