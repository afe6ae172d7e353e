"""Queries and fields: what is understood, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.signing import SignedClient
from vtrr_django.api.fields import Fields
from vtrr_django.exceptions import ValidationError

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("echoes")]


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
