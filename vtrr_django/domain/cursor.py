"""Where a page of jobs ended, as a text that callers pass back and need not understand."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

from vtrr_django.domain.values import describe
from vtrr_django.exceptions import ValidationError

Value = str | int | float

_MOST = 2**63 - 1


def write_cursor(listing: str, *values: Value) -> str:
    """Return the cursor of a place in a listing; letters, digits, ``-`` and ``_`` only."""
    told = json.dumps([listing, *values], separators=(",", ":"))
    return base64.urlsafe_b64encode(told.encode()).decode().rstrip("=")


def read_cursor(cursor: str, listing: str, *kinds: type[Value]) -> list[Any]:
    """Return the values that :func:`write_cursor` was given, one of each kind.

    Raises:
        ValidationError: it is not a cursor of this listing.
    """
    try:
        told = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError, RecursionError):
        raise bad_cursor(cursor) from None
    if not isinstance(told, list) or told[:1] != [listing] or len(told) != len(kinds) + 1:
        raise bad_cursor(cursor)
    if not all(_is_good(value, kind) for value, kind in zip(told[1:], kinds, strict=True)):
        raise bad_cursor(cursor)
    return told[1:]


def bad_cursor(cursor: object) -> ValidationError:
    """Return the error that says that this is no cursor of the listing it was given to."""
    return ValidationError(
        "after",
        f"expected the `next` of an earlier page of the same listing, got {describe(cursor)}; "
        "leave it out to begin with the first page",
    )


def _is_good(value: object, kind: type[Value]) -> bool:
    """Return whether every store can take ``value`` for one of that kind."""
    if type(value) is not kind:
        return False
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= one <= "\udfff" for one in value)
    return math.isfinite(value) and abs(value) <= _MOST
