"""What a client's token says, and what it cannot be made to say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtrr_django.api.tokens import LONGEST, WireToken, from_wire, to_wire
from vtrr_django.domain.job import LeasedJob

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def leased(**more: Any) -> LeasedJob:
    fields: dict[str, Any] = {
        "id": "j",
        "queue": "q",
        "task_name": "t",
        "args": [],
        "kwargs": {},
        "partition_key": "acme",
        "weight": 1,
        "priority": 0,
        "token": "abc-17",
        "delivery_count": 0,
        "timeouts": 0,
        "enqueued_at": NOW,
        "lease_expires_at": NOW,
        "ready_at": NOW,
        "parent_id": None,
        "msg_id": None,
    }
    return LeasedJob(**fields | more)


def test_a_token_says_when_and_whose() -> None:
    text = to_wire(leased(), now=1_796_083_200.1234)
    assert text == "abc-17~1796083200123~YWNtZQ"
    assert from_wire(text) == WireToken(
        token="abc-17", claimed_at=1_796_083_200.123, partition_key="acme"
    )


keys = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=255)


@given(
    key=keys | st.just(""),
    token=st.text(
        st.characters(codec="ascii", exclude_categories=("C", "Z")), min_size=1, max_size=64
    ),
)
def test_what_goes_in_comes_out(key: str, token: str) -> None:
    text = to_wire(leased(partition_key=key, token=token))
    told = from_wire(text)
    assert told is not None
    assert (told.token, told.partition_key) == (token, key)
    assert len(text) <= LONGEST
    assert text.isascii()
    assert text.isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "abc~1",
        "~1~YQ",
        "abc~~YQ",
        "abc~x~YQ",
        "abc~-1~YQ",
        "abc~1.5~YQ",
        "abc~1~Y",  # no base64 is one character long
        "abc~1~YQ==",
        "abc~1~Y Q",
        "abc~1~é",
        "abc~\u0661~YQ",
        "abc~1~_w",  # the byte FF
        "abc~1~AA",  # a partition key of NUL
        "abc~1~" + "YWFh" * 86,  # 258 characters
        "abc~1~YQ\n",
        "a c~1~YQ",
        "\x00~1~YQ",
        "abc~" + "9" * 16 + "~YQ",
        "a" * 257 + "~1~YQ",
        "a" * 1_000_000,
        "\ud800~1~YQ",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_is_no_token(text: str) -> None:
    assert from_wire(text) is None


@given(st.text())
def test_no_text_is_an_error(text: str) -> None:
    from_wire(text)
    from_wire(f"abc~1~{text}")
