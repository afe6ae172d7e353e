"""Bodies: what is understood, and what is said of the rest."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest
from django.test import Client, RequestFactory

from tests.api.signing import SECRET, SignedClient, send
from vtrr_django.api import body as bodies
from vtrr_django.api import endpoint
from vtrr_django.api.answers import Refused
from vtrr_django.api.body import LARGEST, ORDINARY, most_bytes, parse_body, read_body

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("echoes")]


# -- length ------------------------------------------------------------------------


def wsgi(stream: Any, **meta: str) -> HttpRequest:
    """Return a request as a server makes it."""
    environ = RequestFactory()._base_environ(REQUEST_METHOD="POST", **meta)
    return WSGIRequest(environ | {"wsgi.input": stream})


class Untouchable(io.RawIOBase):
    def read(self, size: int = -1) -> bytes:
        raise AssertionError("the body was read")


@pytest.mark.parametrize(
    ("meta", "status"),
    [
        ({}, 411),
        ({"CONTENT_LENGTH": ""}, 411),
        ({"CONTENT_LENGTH": "-1"}, 411),
        ({"CONTENT_LENGTH": "x"}, 411),
        ({"CONTENT_LENGTH": "1e3"}, 411),
        ({"CONTENT_LENGTH": "٣"}, 411),
        ({"CONTENT_LENGTH": "9" * 5000}, 411),
        ({"HTTP_TRANSFER_ENCODING": "chunked"}, 411),
        ({"HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_LENGTH": "3"}, 411),
        ({"CONTENT_LENGTH": str(LARGEST + 1)}, 413),
        ({"CONTENT_LENGTH": "9" * 18}, 413),
    ],
)
def test_a_length_that_is_wrong_is_told_before_anything_is_read(
    meta: dict[str, str], status: int
) -> None:
    with pytest.raises(Refused, match=r"^expected") as told:
        read_body(wsgi(Untouchable(), **meta))
    assert told.value.status == status


def test_the_largest_body_is_read_whatever_django_allows_forms(signed: SignedClient) -> None:
    assert django_settings.DATA_UPLOAD_MAX_MEMORY_SIZE < ORDINARY
    body = b'{"a":"' + b"x" * (ORDINARY - 8) + b'"}'
    assert len(body) == ORDINARY
    assert signed.request("POST", "/echo", body).status_code == 200
    assert signed.request("POST", "/echo", body + b" ").status_code == 413


class Dribble(io.RawIOBase):
    """A connection on which one byte comes at a time, and then nothing."""

    def __init__(self, body: bytes) -> None:
        self.left = body

    def read(self, size: int = -1) -> bytes:
        byte, self.left = self.left[:1], self.left[1:]
        return byte


def test_a_body_comes_in_pieces() -> None:
    assert read_body(wsgi(Dribble(b"abcdef"), CONTENT_LENGTH="6")) == b"abcdef"


def test_a_body_that_ends_early_is_refused() -> None:
    with pytest.raises(Refused, match=r"expected a body of 9 bytes, got 6") as told:
        read_body(wsgi(Dribble(b"abcdef"), CONTENT_LENGTH="9"))
    assert told.value.status == 400


def test_a_client_that_hangs_up_is_refused() -> None:
    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise ConnectionResetError

    with pytest.raises(Refused) as told:
        read_body(wsgi(Broken(), CONTENT_LENGTH="9"))
    assert told.value.status == 400


def test_what_middleware_has_read_is_there_all_the_same() -> None:
    request = wsgi(io.BytesIO(b"abc"), CONTENT_LENGTH="3")
    assert request.body == read_body(request) == b"abc"


def test_a_body_that_middleware_has_used_up_is_refused() -> None:
    request = wsgi(io.BytesIO(b"abc"), CONTENT_LENGTH="3")
    request.read()
    with pytest.raises(Refused):
        read_body(request)


@pytest.mark.parametrize("method", ["GET", "DELETE", "HEAD"])
def test_a_body_where_none_is_expected_is_refused(signed: SignedClient, method: str) -> None:
    assert signed.request(method, "/jobs/x", b"{}").status_code in {400, 405}
    assert signed.request(method, "/jobs/x").status_code == 200


# -- what it is --------------------------------------------------------------------


def test_what_is_compressed_is_refused(signed: SignedClient) -> None:
    for coding, status in {"gzip": 415, "br": 415, "identity": 200}.items():
        answered = signed.request("POST", "/echo", b"{}", more={"Content-Encoding": coding})
        assert answered.status_code == status, coding


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/plain",
        "application/json-seq",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "application/json; charset=utf-16",
        "é",
    ],
)
def test_what_is_not_called_json_is_refused(signed: SignedClient, kind: str) -> None:
    answered = signed.request("POST", "/echo", b"{}", more={"Content-Type": kind})
    assert answered.status_code == 415
    assert "application/json" in answered.json()["error"]


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=UTF-8",
        "application/json;",
    ],
)
def test_what_is_called_json_is_read(signed: SignedClient, kind: str) -> None:
    answered = signed.request("POST", "/echo", b'{"a": "\xc3\xa9"}', more={"Content-Type": kind})
    assert answered.json()["body"] == {"a": "é"}


BAD: dict[str, bytes] = {
    "spaces": b"  ",
    "no JSON": b"hello",
    "cut off": b'{"a": [1,',
    "two": b"{}{}",
    "single quotes": b"{'a': 1}",
    "a comma too many": b'{"a": 1,}',
    "a comment": b"{} // yes",
    "a list": b"[]",
    "a string": b'"x"',
    "a number": b"1",
    "null": b"null",
    "NaN": b'{"x": NaN}',
    "Infinity": b'{"x": Infinity}',
    "-Infinity": b'{"x": [-Infinity]}',
    "a large number": b'{"x": 1e999}',
    "a large negative number": b'{"x": -1e999}',
    "a large number, written out": b'{"x": ' + b"9" * 400 + b".0}",
    "a long integer": b'{"x": ' + b"9" * 5000 + b"}",
    "a very long integer": b'{"x": -' + b"9" * 1_000_000 + b"}",
    "brackets": b"[" * 40_000,
    "braces": b'{"a":' * 20_000,
    "brackets that close": b'{"a":' + b"[" * 40_000 + b"]" * 40_000 + b"}",
    "a key twice": b'{"a": {"b": 1, "b": 1}}',
    "UTF-16": '{"x": "é"}'.encode("utf-16"),
    "UTF-16, big-endian": '{"x": 1}'.encode("utf-16-be"),
    "UTF-32": '{"x": 1}'.encode("utf-32"),
    "Latin-1": '{"x": "é"}'.encode("latin-1"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "an overlong encoding": b'{"x": "\xc0\xaf"}',
    "an encoded surrogate": b'{"x": "\xed\xa0\x80"}',
    "a NUL": b'{"x": "\x00"}',
    "a line break": b'{"x": "\n"}',
}


@pytest.mark.parametrize("raw", BAD.values(), ids=list(BAD))
def test_what_is_no_json_object_is_refused(signed: SignedClient, raw: bytes) -> None:
    answered = signed.request("POST", "/echo", raw)
    assert answered.status_code == 400
    assert answered.json()["error"].startswith("expected ")
    assert len(answered.content) < 400


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"": 0},
        {"a": [1.5e300, -0.0, 10**400, True, None, "\u0000😀"]},
        {"deep": json.loads("[" * 100 + "]" * 100)},
    ],
)
def test_what_is_json_comes_through(body: Any) -> None:
    raw = json.dumps(body).encode()
    request = RequestFactory().post("/", raw, content_type="application/json")
    assert repr(parse_body(request, raw)) == repr(body)


def test_a_body_may_not_be_left_out() -> None:
    request = wsgi(io.BytesIO(), CONTENT_LENGTH="0", CONTENT_TYPE="application/json")
    assert read_body(request) == b""
    with pytest.raises(Refused, match="expected a JSON object as body"):
        parse_body(request, b"")


@pytest.mark.parametrize(
    ("payload", "most"),
    [(100, 4 * 2**20), (2**20, 4 * 2**20), (2 * 2**20, 7 * 2**20), (10**9, 16 * 2**20)],
)
def test_the_limit_is_4_mib_or_more_where_payloads_are_large(payload: int, most: int) -> None:
    assert most_bytes(payload) == most
    assert bodies.LARGEST == 16 * 2**20


def test_a_body_that_is_too_large_for_its_queue_is_not_even_parsed(
    echoes: Any, signed: SignedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    echoes.VTRR = {
        "SECRET": SECRET,
        "QUEUES": {"default": {}, "mails": {"MAX_PAYLOAD_BYTES": 10**7}},
    }
    body = b'{"args":[' + b"[]," * 1_500_000 + b"[]]}"
    assert signed.request("POST", "/mails/named", body).status_code == 200

    def parse(*args: Any) -> Any:
        raise AssertionError("it was parsed")

    monkeypatch.setattr(endpoint, "parse_body", parse)
    answered = signed.request("POST", "/default/named", body)
    assert answered.status_code == 413
    assert answered.json()["error"].startswith(
        "expected a body of at most 4,194,304 bytes, got 4,5"
    )
    assert send(Client(), "POST", "/default/named", body).status_code == 401


@pytest.mark.parametrize("digits", [4300, 4301])
@pytest.mark.parametrize("limit", [4300, 0, 10_000])
def test_the_digits_of_a_number_are_limited_whatever_python_allows(digits: int, limit: int) -> None:
    raw = b'{"x": -' + b"9" * digits + b"}"
    request = RequestFactory().post("/", raw, content_type="application/json")
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(limit)
    try:
        if digits == 4300:
            assert parse_body(request, raw)["x"] < 0
        else:
            with pytest.raises(Refused, match="at most 4,300 digits"):
                parse_body(request, raw)
    finally:
        sys.set_int_max_str_digits(before)
