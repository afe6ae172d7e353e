"""Who is told what by ``GET /health``: everybody the status, who may read the rest everything."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from tests.api.signing import SECRET, SignedClient, headers
from vtrr_django import StoreUnavailable
from vtrr_django.api import nonces

pytestmark = pytest.mark.django_db(transaction=True)

STATUS_ALONE = {"status": "ok"}


@pytest.fixture(autouse=True)
def _site(settings: Any) -> None:
    settings.ROOT_URLCONF = "vtrr_django.api.urls"
    settings.ALLOWED_HOSTS = ["*"]
    settings.VTRR = {"QUEUES": {"default": {}}, "SECRET": SECRET}


def basic(secret: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"vtrr:{secret}".encode()).decode()}


def staff(*permissions: str) -> Client:
    person = User.objects.create_user("ann", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(person)
    return client


def is_full(told: dict[str, Any]) -> bool:
    [queue] = told["queues"]
    ids = [one["id"] for one in queue["findings"]]
    return queue["queue"] == "default" and ids[:2] == ["store", "database"]


def test_a_probe_needs_no_credentials_and_is_told_the_status_alone(settings: Any) -> None:
    response = Client().get("/health")
    assert (response.status_code, response.json()) == (200, STATUS_ALONE)
    settings.VTRR = {"QUEUES": {"default": {"ENGINE": "no.such.Engine"}}, "SECRET": SECRET}
    response = Client().get("/health")
    assert (response.status_code, response.json()) == (503, {"status": "critical"})


@pytest.mark.parametrize(
    "more", [basic("guessed"), headers("GET", "/health", secret="guessed"), {"cookie": "x=y"}]
)
def test_who_is_not_known_is_a_stranger(more: dict[str, str]) -> None:
    response = Client().get("/health", headers=more)
    assert (response.status_code, response.json()) == (200, STATUS_ALONE)


def test_who_has_the_secret_is_told_all() -> None:
    assert is_full(SignedClient().request("GET", "/health").json())
    assert is_full(Client().get("/health", headers=basic(SECRET)).json())


def test_a_signature_counts_once() -> None:
    signed = headers("GET", "/health")
    assert is_full(Client().get("/health", headers=signed).json())
    assert Client().get("/health", headers=signed).json() == STATUS_ALONE


def test_staff_who_may_view_queues_are_told_all() -> None:
    assert is_full(staff("view_queuestate").get("/health").json())


def test_other_staff_are_not() -> None:
    assert staff("steer_queues").get("/health").json() == STATUS_ALONE


def test_without_a_secret_who_is_on_this_machine_is_told_all(settings: Any) -> None:
    settings.VTRR = {"QUEUES": {"default": {}}}
    assert is_full(Client().get("/health", headers={"host": "localhost"}).json())


def test_a_stranger_on_this_machine_is_not_called_refused(
    settings: Any, machine: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.VTRR = {"QUEUES": {"default": {}}}
    machine.clear()
    assert Client().get("/health", headers={"host": "localhost"}).json() == STATUS_ALONE
    assert not caplog.records


def test_nonces_that_cannot_be_asked_for_are_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(nonce: str) -> bool:
        raise StoreUnavailable("CANARY")

    monkeypatch.setattr(nonces, "use", fail)
    response = SignedClient().request("GET", "/health")
    assert (response.status_code, response.json()) == (200, STATUS_ALONE)
    assert "StoreUnavailable" in caplog.text
    assert "CANARY" not in caplog.text
