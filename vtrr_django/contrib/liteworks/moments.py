"""Times as the file may hold them: ISO 8601 text, or seconds or milliseconds since the epoch."""

from __future__ import annotations

import contextlib
import math
from datetime import UTC, datetime, timedelta

from vtrr_django.domain.values import check_due_at, describe
from vtrr_django.exceptions import ValidationError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_MOST_SECONDS = 10**11
"""In the year 5138. What is greater counts milliseconds, those of 1973 and later."""

_MOST_MILLISECONDS = 10**14


def read_moment(value: object, path: str) -> datetime:
    """Return a time as an aware datetime, of the years 1970 to 2199.

    Args:
        value: text, in which a time without an offset is UTC, or a number, also as text.
        path: the column, for the error.

    Raises:
        ValidationError: it is neither.
    """
    moment: datetime | None = None
    # What no calendar has overflows.
    with contextlib.suppress(ValueError, OverflowError):
        if isinstance(value, str):
            moment = _from_text(value.strip())
        elif isinstance(value, (int, float)):
            moment = _from_number(value)
    if moment is None:
        raise ValidationError(
            path,
            "expected a time, as ISO 8601 text or in seconds or milliseconds since 1970, got "
            + describe(value),
        )
    return check_due_at(moment, path)


def _from_text(text: str) -> datetime | None:
    try:
        number = float(text)
    except ValueError:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return _from_number(number)


def _from_number(number: float) -> datetime | None:
    if not math.isfinite(number) or not 0 <= number <= _MOST_MILLISECONDS:
        return None
    unit = timedelta(seconds=1) if number <= _MOST_SECONDS else timedelta(milliseconds=1)
    return _EPOCH + number * unit
