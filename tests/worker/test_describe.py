from __future__ import annotations

import pytest

from vtrr_django.worker import describe


def caught(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as exc:  # noqa: BLE001 - to describe it
        return exc


@pytest.mark.parametrize("length", [0, 1, 99, 100, 101, 150, 10_000])
def test_text_is_cut_in_the_middle(length: int) -> None:
    text = "a" * (length // 2) + "z" * (length - length // 2)
    got = describe.storable(text, 100)
    assert len(got) <= 100
    if length <= 100:
        assert got == text
    else:
        assert got.startswith("a")
        assert got.endswith("z")
        assert "characters cut" in got


@pytest.mark.parametrize("limit", [0, 1, 10, 40])
def test_a_tiny_limit_holds(limit: int) -> None:
    assert len(describe.storable("x" * 1000, limit)) <= limit


def test_what_no_database_keeps_is_replaced() -> None:
    got = describe.storable("a\0b\ud800c\udfffd", 100)
    assert got == "a�b�c�d"
    assert got.encode()


def test_a_group_shows_its_members() -> None:
    group = ExceptionGroup("several", [ValueError("one"), KeyError("two")])
    text = describe.format_traceback(caught(group))
    assert "one" in text
    assert "two" in text


def test_the_cause_is_shown() -> None:
    def fail() -> None:
        try:
            raise KeyError("inner")
        except KeyError as exc:
            raise ValueError("outer") from exc

    with pytest.raises(ValueError, match="outer") as info:
        fail()
    text = describe.format_traceback(info.value)
    assert "inner" in text
    assert "outer" in text


def test_a_huge_message_is_bounded() -> None:
    told = describe.describe_exception(caught(ValueError("x" * 1_000_000)))
    assert len(told["reason"]) <= describe.MAX_REASON
    assert len(told["traceback"]) <= describe.MAX_TRACEBACK
    assert told["error_class"] == "builtins.ValueError"


@pytest.mark.parametrize("failure", [ValueError, RecursionError, SystemExit, MemoryError])
def test_an_exception_that_fights_back_is_described(failure: type[BaseException]) -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise failure

        __repr__ = __str__

        @property
        def __notes__(self) -> list[str]:  # type: ignore[override]
            raise failure

    told = describe.describe_exception(caught(Hostile()))
    assert "Hostile" in told["reason"]
    assert "Hostile" in told["traceback"]


def test_an_exception_without_a_message_is_its_name() -> None:
    assert describe.reason(ValueError()) == "ValueError"
