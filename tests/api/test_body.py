"""Bodies, queries and fields: what is understood, and what is said of the rest."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest
from django.test import Client, RequestFactory

from tests.api.signing import SignedClient, send
from tests.api.urls import urlpatterns
from vtrr_django.api import body as bodies
from vtrr_django.api.answers import Refused, answer
from vtrr_django.api.body import LARGEST, parse_body, read_body
from vtrr_django.api.fields import Fields
from vtrr_django.exceptions import ValidationError

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
    assert django_settings.DATA_UPLOAD_MAX_MEMORY_SIZE < LARGEST
    body = b'{"a":"' + b"x" * (LARGEST - 8) + b'"}'
    assert len(body) == LARGEST
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


# -- query -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "path", "sentence"),
    [
        ("n=1&n=1", "n", "n: expected one value, got 2"),
        ("m=1", "m", "m: expected one of n, text, got an unknown key"),
        ("texts=1", "texts", "texts: expected one of n, text, got an unknown key"),
    ],
)
def test_a_query_holds_what_is_known_and_once(
    signed: SignedClient, query: str, path: str, sentence: str
) -> None:
    answered = signed.get("/who", query=query)
    assert answered.status_code == 400
    assert answered.json()["path"] == path
    assert answered.json()["error"].startswith(sentence)


def test_more_parameters_than_django_takes_are_refused(signed: SignedClient) -> None:
    answered = signed.get("/who", query="&".join(f"n={n}" for n in range(1001)))
    assert answered.status_code == 400
    assert "error" in answered.json()


@pytest.mark.parametrize(
    ("text", "number"), [("1", 1), ("10", 10), ("07", 7), ("1.0", 1), ("1e0", 1)]
)
def test_a_number_in_a_query(signed: SignedClient, text: str, number: int) -> None:
    answered = signed.delete("/jobs/x", query=f"n={text}")
    assert answered.json() == {"n": number, "seconds": float(number), "id": "x"}


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "11",
        "1.5",
        "1e9",
        "1e999",
        "x",
        "+1",
        "%201",
        "1_0",
        "%D9%A3",
        "NaN",
        "9" * 5000,
        "%00",
    ],
)
def test_what_is_none(signed: SignedClient, text: str) -> None:
    answered = signed.delete("/jobs/x", query=f"n={text}")
    assert answered.status_code == 400
    assert answered.json()["path"] == "n"
    assert answered.json()["error"].startswith("n: expected a whole number from 1 to 10, got ")


# -- fields ------------------------------------------------------------------------

GIVEN = Fields(
    where="jobs[3]",
    values={
        "none": None,
        "text": "hello",
        "empty": "",
        "lone": "\ud800",
        "one": 1,
        "half": 0.5,
        "yes": True,
        "list": [{"a": 1}, {}],
        "mixed": [{}, 7],
        "ids": ["a", "b"],
        "dict": {"in ner": {"x": 1}},
        "time": "2026-11-30T12:00:00+01:00",
        "naive": "2026-11-30T12:00:00",
        "early": "1900-01-01T00:00:00Z",
        "edge": "0001-01-01T00:00:00+14:00",
    },
)


def test_the_fields_of_a_body() -> None:
    assert GIVEN.text("text", required=True) == "hello"
    assert GIVEN.text("none") == GIVEN.text("empty") == GIVEN.text("nothing") == ""
    assert GIVEN.text("nothing", default="x") == "x"
    assert GIVEN.text_or_none("nothing") is None
    assert GIVEN.text_or_none("empty") == ""
    assert GIVEN.whole("one", 1, 9) == 1
    assert GIVEN.whole("none", 1, 9, default=5) == GIVEN.whole("nothing", 1, 9, default=5) == 5
    assert GIVEN.seconds("half") == 0.5
    assert GIVEN.seconds("none", default=2.5) == 2.5
    assert GIVEN.seconds_or_none("none") is None
    assert GIVEN.choice("text", ["hello", "bye"]) == "hello"
    assert GIVEN.choice("none", ["hello", "bye"], default="bye") == "bye"
    assert [dict(one.values) for one in GIVEN.objects("list", 0, 2)] == [{"a": 1}, {}]
    assert GIVEN.ids("ids", 1, 2) == ["a", "b"]
    assert str(GIVEN.moment("time")) == "2026-11-30 11:00:00+00:00"
    assert GIVEN.moment("none") is None
    inner = GIVEN.object_or_none("dict")
    assert inner is not None
    assert inner.path("in ner") == 'jobs[3].dict["in ner"]'
    assert GIVEN.object_or_none("nothing") is None
    assert GIVEN.has("one")
    assert not GIVEN.has("none")


@pytest.mark.parametrize(
    ("take", "told"),
    [
        (lambda: GIVEN.only("text", "one"), "none: expected one of text, one, got an unknown key"),
        (
            lambda: GIVEN.text("nothing", required=True),
            "string of 1 to 1,000,000 characters, got n",
        ),
        (
            lambda: GIVEN.text("none", required=True),
            "string of 1 to 1,000,000 characters, got None",
        ),
        (lambda: GIVEN.text("empty", required=True), "got 0 characters"),
        (lambda: GIVEN.text("text", longest=4), "string of 0 to 4 characters, got 5 characters"),
        (lambda: GIVEN.text("one"), r"got 1 \(int\)"),
        (lambda: GIVEN.text("lone"), "valid Unicode"),
        (lambda: GIVEN.whole("nothing", 1, 9), "whole number from 1 to 9, got nothing"),
        (lambda: GIVEN.whole("none", 1, 9), "whole number from 1 to 9, got None"),
        (lambda: GIVEN.whole("yes", 1, 9, default=1), "whole number from 1 to 9, got True"),
        (lambda: GIVEN.whole("half", 0, 9), "whole number from 0 to 9, got 0.5"),
        (lambda: GIVEN.seconds("nothing", 1, 2), "finite number from 1 to 2, got nothing"),
        (lambda: GIVEN.seconds("half", 1, 2), "finite number from 1 to 2, got 0.5"),
        (lambda: GIVEN.seconds_or_none("text"), "finite number from 0 to 315,576,000, got 'hello'"),
        (lambda: GIVEN.choice("text", ["a", "b"]), "one of a, b, got 'hello'"),
        (lambda: GIVEN.choice("nothing", ["a"]), "one of a, got nothing"),
        (lambda: GIVEN.choice("list", ["a"], default="a"), "one of a, got a list"),
        (lambda: GIVEN.objects("nothing", 0, 1), "list of 0 to 1 objects, got nothing"),
        (lambda: GIVEN.objects("list", 0, 1), "list of 0 to 1 objects, got 2"),
        (lambda: GIVEN.objects("list", 3, 4), "list of 3 to 4 objects, got 2"),
        (lambda: GIVEN.objects("mixed", 0, 2), r"mixed\[1\]: expected an object, got 7 \(int\)"),
        (lambda: GIVEN.ids("list", 0, 2), r"list\[0\]: expected 1 to 64 printable"),
        (lambda: GIVEN.object_or_none("list"), "an object, got a list"),
        (lambda: GIVEN.moment("text"), "a time with an offset, such as 2026-11-30T12:00:00Z"),
        (lambda: GIVEN.moment("naive"), "a time with an offset"),
        (lambda: GIVEN.moment("early"), "a year from 1970 to 2199, got 1900"),
        (lambda: GIVEN.moment("edge"), "a time with an offset|a year from"),
        (lambda: GIVEN.moment("one"), r"string of 0 to 100 characters, got 1 \(int\)"),
    ],
)
def test_fields_that_are_wrong(take: Any, told: str) -> None:
    with pytest.raises(ValidationError, match=told) as error:
        take()
    assert error.value.path.startswith("jobs[3].")


def test_a_misspelt_key_is_met_with_the_nearest() -> None:
    with pytest.raises(ValidationError, match="did you mean 'weight'"):
        Fields(values={"wieght": 1}).only("weight", "task")
    with pytest.raises(ValidationError, match="x: expected none, got an unknown key"):
        Fields(values={"x": 1}).only()


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
def test_a_method_that_is_none(method: str, path: str, allowed: str) -> None:
    answered = send(Client(), method, path)
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
    view: Any = urlpatterns[0].callback
    assert view._non_atomic_requests >= set(django_settings.DATABASES)


def test_what_an_answer_may_hold() -> None:
    assert answer({"lone": "\ud800"}).content == b'{"lone":"\\ud800"}'
    with pytest.raises(TypeError, match="expected JSON or datetimes, got set"):
        answer({"a": set()})
    with pytest.raises(ValueError, match="Out of range"):
        answer({"a": float("nan")})


def test_the_limit_is_16_mib() -> None:
    assert bodies.LARGEST == 16 * 2**20
