from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.test_payload import Count, Plain, Real, Safe, Size, refusal
from vtrr_django.domain import values as values_of
from vtrr_django.domain.values import describe
from vtrr_django.exceptions import ValidationError

LONG = "é" * 255
NAMES = [
    ("check_task_name", {}),
    ("check_worker_id", {}),
    ("check_msg_id", {}),
    ("check_partition_key", {"required": True}),
    ("check_partition_key", {"required": False}),
]


def check(name, value, **options):
    return getattr(values_of, name)(value, "tasks[3].field", **options)


def field_refusal(name, value, **options):
    with pytest.raises(ValidationError) as caught:
        check(name, value, **options)
    assert caught.value.path == "tasks[3].field"
    str(caught.value).encode()
    return caught.value.problem


@pytest.mark.parametrize(("name", "options"), NAMES)
@pytest.mark.parametrize("value", ["a", LONG, " spaces ", "\u2028", "\U0001f600", "a:b/c"])
def test_a_name_is_returned(name, options, value):
    assert check(name, value, **options) == value
    plain = check(name, Safe(value), **options)
    assert (type(plain), plain) == (str, value)


@pytest.mark.parametrize(("name", "options"), NAMES)
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (LONG + "x", "expected a string of 1 to 255 characters, got 256 characters"),
        (42, "expected a string of 1 to 255 characters, got 42 (int); pass str(value)"),
        (b"a", "got a bytes"),
        (True, "got True"),
        ("a\nb", r"expected no control characters and valid Unicode, got '\n' at character 1"),
        ("\0", "control"),
        ("\x1f", "control"),
        ("\x7f", "control"),
        ("é\x80", "control"),
        ("é\x9f", "control"),
        ("é\ud800", r"got '\ud800' at character 1"),
    ],
)
def test_a_bad_name_is_refused(name, options, value, problem):
    assert problem in field_refusal(name, value, **options)


@pytest.mark.parametrize("name", ["check_task_name", "check_worker_id", "check_msg_id"])
def test_an_empty_name_is_refused(name):
    assert "got ''" in field_refusal(name, "")


@given(st.characters())
def test_exactly_the_control_characters_and_surrogates_are_refused(character):
    # U+00A0, not printable either, takes every name down the slow path.
    name = "\u00a0" + character
    if ord(character) < 32 or 127 <= ord(character) < 160 or 0xD800 <= ord(character) <= 0xDFFF:
        field_refusal("check_task_name", name)
    else:
        assert check("check_task_name", name) == name


def test_the_nameless_partition_is_allowed_unless_a_partition_is_required():
    assert check("check_partition_key", "", required=False) == ""
    assert "got ''" in field_refusal("check_partition_key", "", required=True)
    assert "got None" in field_refusal("check_partition_key", None, required=False)


@pytest.mark.parametrize("name", ["check_msg_id", "check_parent_id", "check_limit"])
def test_none_is_allowed_where_a_field_is_optional(name):
    assert check(name, None) is None


@pytest.mark.parametrize("name", ["check_job_id", "check_parent_id"])
def test_job_ids(name):
    for good in ("a", "x" * 64, "0190a8f0-0000-7000-8000-000000000000", "!~:{}", Safe("a")):
        assert check(name, good) == good
        assert type(check(name, good)) is str
    for bad in ("", "x" * 65, "a b", "é", "a\n", "\x7f", 5, b"a"):
        assert "1 to 64 printable ASCII characters without spaces" in field_refusal(name, bad)


def test_queue_names():
    for good in ("default", "A-z_09", "q" * 64):
        assert check("check_queue_name", good) == good
    for bad in ("", "q" * 65, "a b", "a.b", "é", "a\n", None, 5):
        assert "1 to 64 of the characters A-Z a-z 0-9 _ -" in field_refusal("check_queue_name", bad)


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("check_weight", 1, 1_000_000),
        ("check_priority", -100, 100),
        ("check_limit", 1, 2**31 - 1),
    ],
)
def test_whole_numbers(name, least, most):
    for good in (least, most, Count(least), Size.BIG):
        assert check(name, good) == good
        assert type(check(name, good)) is int
    for bad in (least - 1, most + 1, True, 5.0, "5", math.nan, 10**5000, Decimal(1)):
        assert f"expected a whole number from {least:,} to {most:,}, got " in field_refusal(
            name, bad
        )


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("check_delay", 0, 315_576_000), ("check_share", 0.000_001, 1_000_000)],
)
def test_numbers(name, least, most):
    for good in (least, most, 1, 2.5, Real(2)):
        assert check(name, good) == good
        assert type(check(name, good)) is float
    bad = [math.nan, math.inf, -math.inf, True, "1", None, Decimal(1), 10**5000, -1]
    for value in [*bad, most + 1, math.nextafter(least, -1)]:
        assert f"expected a finite number from {least:,} to {most:,}, got " in field_refusal(
            name, value
        )


def test_a_timedelta_is_told_what_to_do():
    problem = field_refusal("check_delay", dt.timedelta(1))
    assert problem.endswith("got a timedelta; pass its .total_seconds()")


def test_a_due_time_comes_back_in_utc():
    paris = dt.datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("Europe/Paris"))
    due = check("check_due_at", paris)
    assert due == paris
    assert due.tzinfo is dt.UTC
    assert due.hour == 10
    for year in (1970, 2199):
        moment = dt.datetime(year, 6, 1, tzinfo=dt.UTC)
        assert check("check_due_at", moment) == moment


EAST, WEST = dt.timezone(dt.timedelta(hours=14)), dt.timezone(-dt.timedelta(hours=12))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("2024-01-01", "expected an aware datetime, got '2024-01-01'"),
        (dt.date(2024, 1, 1), "expected an aware datetime, got a date"),
        (60, "expected an aware datetime, got 60 (int)"),
        (dt.datetime(2024, 1, 1), "got a naive one; start from django.utils.timezone.now()"),  # noqa: DTZ001
        (dt.datetime(1969, 12, 31, tzinfo=dt.UTC), "expected a year from 1970 to 2199, got 1969"),
        (dt.datetime(1970, 1, 1, tzinfo=EAST), "got 1969"),
        (dt.datetime(2199, 12, 31, 23, tzinfo=WEST), "got 2200"),
        (dt.datetime.min.replace(tzinfo=EAST), "expected a year from 1970 to 2199, got 1"),
        (dt.datetime.max.replace(tzinfo=WEST), "got 9999"),
    ],
)
def test_a_bad_due_time_is_refused(value, problem):
    assert problem in field_refusal("check_due_at", value)


# -- describing ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x" * 41, "'" + "x" * 40 + "...'"),
        ("x" * 40, "'" + "x" * 40 + "'"),
        (Safe("a"), "'a'"),
        (2**128, "an int of 129 bits"),
        (Count(3), "3 (int)"),
        (1.5, "1.5 (float)"),
        (Plain.ONE, "Plain.ONE"),
        ([], "a list"),
        (object(), "an object"),
    ],
)
def test_a_value_is_described_shortly(value, text):
    assert describe(value) == text


def test_describing_a_value_does_not_ask_it_for_its_repr():
    class Secret:
        def __repr__(self):
            raise AssertionError("a QuerySet's repr is a query")

    assert describe(Secret()) == "a Secret"
    refusal([Secret()])
