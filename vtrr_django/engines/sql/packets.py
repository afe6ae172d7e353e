"""Rows for INSERTs that a database takes: MariaDB refuses a statement that is too long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from vtrr_django.domain.parts import packed

T = TypeVar("T")

MOST_ROWS: Final = 500
MOST_BYTES: Final = 4 * 1024 * 1024
"""Bounds of one INSERT, below MariaDB's default ``max_allowed_packet`` of 16 MiB."""


def packets(items: Iterable[T], length: Callable[[T], int]) -> Iterator[list[T]]:
    """Divide what is to be inserted into as much as goes into one statement.

    Args:
        items: what is inserted, in its order.
        length: of the texts of one, in characters; each may be two bytes in the statement, for a
            quotation mark is escaped there.
    """
    return packed(items, length, largest=MOST_BYTES // 2, most=MOST_ROWS)


def text_length(row: Iterable[Any]) -> int:
    """Return how many characters the texts of a row have."""
    return sum(len(value) for value in row if isinstance(value, str))
