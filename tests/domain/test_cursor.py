"""Cursors: what was written comes back, and nothing else is taken for one."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtrr_django.domain.cursor import read_cursor, write_cursor
from vtrr_django.exceptions import ValidationError

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(
    text=TEXTS,
    whole=st.integers(-(2**63) + 1, 2**63 - 1),
    number=st.floats(-1e18, 1e18),
)
def test_a_cursor_tells_what_was_written(text: str, whole: int, number: float) -> None:
    cursor = write_cursor("LISTING", text, whole, number)
    assert re.fullmatch("[A-Za-z0-9_-]+", cursor)
    assert read_cursor(cursor, "LISTING", str, int, float) == [text, whole, number]


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        (["a"], [int]),
        ([1], [str]),
        ([1], [float]),
        ([1.0], [int]),
        ([True], [int]),
        ([None], [str]),
        ([["a"]], [str]),
        (["a"], [str, str]),
        (["a", "b"], [str]),
        (["\0"], [str]),
        (["\ud800"], [str]),
        ([2**63], [int]),
        ([-(2**63) - 1], [int]),
        ([float("nan")], [float]),
        ([float("inf")], [float]),
    ],
)
def test_values_that_no_store_takes_are_refused(values: list[Any], kinds: list[Any]) -> None:
    cursor = base64.urlsafe_b64encode(json.dumps(["LISTING", *values]).encode()).decode()
    with pytest.raises(ValidationError, match="after: expected the `next` of an earlier page"):
        read_cursor(cursor, "LISTING", *kinds)


@pytest.mark.parametrize(
    "cursor", ["", "x", "ü", "====", "e30", "bnVsbA", "W" * 4000, b"W10", 7, None, "[" * 100_000]
)
def test_what_is_no_cursor_at_all_is_refused(cursor: Any) -> None:
    with pytest.raises(ValidationError, match="leave it out to begin with the first page"):
        read_cursor(cursor, "LISTING")
    deep = base64.urlsafe_b64encode(b"[" * 100_000).decode()
    with pytest.raises(ValidationError):
        read_cursor(deep, "LISTING")


def test_a_cursor_of_another_listing_is_refused() -> None:
    with pytest.raises(ValidationError):
        read_cursor(write_cursor("ONE", "a"), "OTHER", str)
