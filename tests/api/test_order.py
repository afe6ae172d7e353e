"""In which order requests are refused: who is not let in learns nothing."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.api.signing import SECRET, SignedClient, send
from vtrr_django.api.operations import OPERATIONS

pytestmark = pytest.mark.django_db

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
PATHS = sorted({one.path for one in OPERATIONS if one.endpoint.auth})
PUBLIC = ["/health", "/openapi.json", "/"]


@pytest.fixture
def known(settings: Any) -> SignedClient:
    """Somebody who has the secret of a server of the API."""
    settings.ROOT_URLCONF = "vtrr_django.api.site"
    settings.ALLOWED_HOSTS = ["*"]
    settings.VTRR = {"SECRET": SECRET, "QUEUES": {"default": {}}}
    return SignedClient()


def addresses(path: str) -> list[str]:
    """Return what may stand for a path: of a queue that is there, one that is not, and no name."""
    names = ("default", "nothere", "a b", "\x00") if "{queue}" in path else ("",)
    return [path.replace("{queue}", name).replace("{id}", "x") for name in names]


@pytest.mark.parametrize("path", PATHS)
def test_a_stranger_is_told_401_whatever_the_method_and_whatever_there_is(
    known: SignedClient, path: str
) -> None:
    told = set()
    for address in addresses(path):
        for method in METHODS:
            for body, kind in [(b"{}", "application/json"), (b"no JSON", "text/plain"), (b"", "")]:
                if not body and method in {"POST", "PUT", "PATCH"}:
                    continue
                answer = Client().generic(method, address.replace("\x00", "%00"), body, kind)
                text = "" if method == "HEAD" else answer.content.decode()
                told.add((answer.status_code, text, answer.headers.get("Allow")))
            answer = Client().generic(method, f"/%ff{address}?%ff=%ff&%ff=1")
            assert answer.status_code in {401, 404}  # the shape of some is no longer known
    empty = {one for one in told if not one[1]}
    assert told - empty == {(401, '{"error":"unauthorized"}', None)}
    assert empty == {(401, "", None)}


@pytest.mark.parametrize("path", PATHS)
def test_who_is_known_is_told_what_is_wrong(known: SignedClient, path: str) -> None:
    here = {one.method for one in OPERATIONS if one.path == path}
    here |= {"HEAD"} if "GET" in here else set()
    for address in addresses(path)[:2]:
        for method in set(METHODS) - here:
            for body in (b"{}", None):  # without one, its length is not said
                answer = known.request(method, address, body)
                assert answer.status_code == 405, method
                assert set(answer.headers["Allow"].split(", ")) == here


@pytest.mark.parametrize("path", PUBLIC)
def test_of_what_is_public_the_methods_are_too(known: SignedClient, path: str) -> None:
    answer = send(Client(), "DELETE", path)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_what_has_no_end_or_too_much_is_refused_unread(known: SignedClient) -> None:
    for more, status in [
        ({"HTTP_TRANSFER_ENCODING": "chunked"}, 411),
        ({"CONTENT_LENGTH": "99999999"}, 413),
    ]:
        for path in ("/default/jobs", "/nothere/jobs"):
            answer = Client().generic("POST", path, b"{}", "application/json", **more)
            assert answer.status_code == status


def test_a_path_of_another_shape_is_nobodys(known: SignedClient) -> None:
    for path in ("/default/nothing", "/nothere/nothing", "/default/jobs/", "/a/b/c/d"):
        answer = Client().get(path)
        assert (answer.status_code, "openapi.json" in answer.json()["error"]) == (404, True)
