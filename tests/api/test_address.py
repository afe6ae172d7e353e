"""Addresses that are not UTF-8."""

from __future__ import annotations

import io
from base64 import b64encode
from typing import Any
from urllib.parse import unquote

import pytest
from django.core.handlers.asgi import ASGIRequest
from django.test import Client
from django.urls import resolve

from tests.api.signing import SECRET, SignedClient

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("echoes")]


BASIC = {"Authorization": "Basic " + b64encode(f"vtrr:{SECRET}".encode()).decode()}

BAD_TEXT = ["%ff", "%FF", "%c3", "%C3%28", "%ED%A0%80", "%ed%bf%bf", "%C0%AF", "%F5%80%80%80"]


@pytest.mark.parametrize("bad", BAD_TEXT)
def test_what_is_no_utf8_in_an_address_is_refused(signed: SignedClient, bad: str) -> None:
    for where, address in [
        ("query", f"/who?text=a{bad}"),
        ("query", f"/who?{bad}=1"),
        ("path", f"/jobs/a{bad}"),
        ("path", f"/{bad}/named"),
    ]:
        method = "POST" if where == "path" and address.endswith("named") else "GET"
        answered = Client(headers=BASIC).generic(method, address, "{}", "application/json")
        if method == "GET":
            answered = Client(headers=BASIC).generic(method, address)
        assert answered.status_code == 400, address
        assert answered.json()["error"].startswith(
            f"expected a {where} in UTF-8, percent-encoded, "
        )
        assert Client().generic(method, address, "{}", "application/json").status_code == 401


@pytest.mark.parametrize("name", ["RAW_URI", "REQUEST_URI"])
def test_where_the_address_is_known_as_it_was_sent_a_percent_sign_is_one(
    signed: SignedClient, name: str
) -> None:
    def ask(address: str) -> Any:
        return Client(headers=BASIC, **{name: address}).get(address)

    assert ask("/jobs/a%25FF").json()["id"] == "a%FF"
    assert ask("/jobs/a%25FF?text=%25FF").json()["query"] == {"text": "%FF"}
    assert ask("/jobs/a%FF").status_code == 400
    assert ask("http://localhost/jobs/a%FF?text=x").status_code == 400


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        (b"/jobs/%C3%A9%25FF", b"text=%C3%A9%25FF", 200),
        (b"/jobs/%FF", b"", 400),
        (b"/jobs/x", b"text=%FF", 400),
    ],
)
def test_addresses_by_way_of_asgi(
    signed: SignedClient, path: bytes, query: bytes, status: int
) -> None:
    scope = {
        "type": "http",
        "method": "GET",
        "path": unquote(path.decode()),
        "raw_path": path,
        "query_string": query,
        "headers": [(b"authorization", BASIC["Authorization"].encode())],
    }
    request = ASGIRequest(scope, io.BytesIO())
    found = resolve(request.path_info, "tests.api.urls")
    assert found.func(request, **found.kwargs).status_code == status
