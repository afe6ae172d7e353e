"""Cutting what there is into parts: as much as one statement, script or request takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def parts(values: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Yield values in order, ``most`` together; fewer in the last part; no part if none."""
    for start in range(0, len(values), most):
        yield values[start : start + most]


def packed(
    items: Iterable[T], size: Callable[[T], int], *, largest: int, most: int | None = None
) -> Iterator[list[T]]:
    """Yield items in order, as many together as fit, at least one; no part if none.

    Args:
        items: read one ahead.
        size: of one item.
        largest: that the sizes of a part may add up to.
        most: items of a part; None: as many as ``largest`` lets in.
    """
    part: list[T] = []
    total = 0
    for item in items:
        more = size(item)
        if part and (total + more > largest or len(part) == most):
            yield part
            part, total = [], 0
        part.append(item)
        total += more
    if part:
        yield part
