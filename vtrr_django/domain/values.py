"""What may be said about a job besides its arguments, each value within its limits.

One rule for every store: these checks run before anything is written. Each returns the
value as a plain ``str``, ``int``, ``float`` or ``datetime``, or raises ``ValidationError``
with the path to the culprit, what was expected and what came.
"""

from __future__ import annotations

import enum
import json
import math
import re
from datetime import UTC, datetime, timedelta

from vtrr_django.domain.job import (
    MAX_ID_LENGTH,
    MAX_MSG_ID_LENGTH,
    MAX_PARTITION_KEY_LENGTH,
    MAX_PRIORITY,
    MAX_QUEUE_NAME_LENGTH,
    MAX_TASK_NAME_LENGTH,
    MAX_WEIGHT,
    MAX_WORKER_ID_LENGTH,
    MIN_PRIORITY,
    MIN_WEIGHT,
)
from vtrr_django.exceptions import ValidationError

MAX_DELAY = 315_576_000
"""Seconds in ten years: the longest delay, snooze or backoff."""

MIN_SHARE, MAX_SHARE = 0.000_001, 1_000_000
MIN_DUE_YEAR, MAX_DUE_YEAR = 1970, 2199
MAX_INT32 = 2_147_483_647

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # category Cc, and surrogates
_JOB_ID = re.compile(rf"[!-~]{{1,{MAX_ID_LENGTH}}}")
_QUEUE_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_QUEUE_NAME_LENGTH}}}")


def describe(value: object) -> str:
    """Return what ``value`` is, short and printable, for the "got Z" of a message.

    Only plain values are shown; of others only the type, for their repr may be long,
    secret or (a QuerySet) a database query.
    """
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, str):
        return str.__repr__(value if len(value) <= 40 else value[:40] + "...")
    if isinstance(value, float):
        return json.dumps(value) + (" (float)" if math.isfinite(value) else "")
    if isinstance(value, int):
        # Longer ones tell a reader nothing, and past MAX_INT_DIGITS repr() raises.
        bits = value.bit_length()
        return f"{int(value)} (int)" if bits <= 128 else f"an int of {bits:,} bits"
    return with_article(type(value).__name__)


def describe_kind(value: object) -> str:
    """Return what ``value`` is without a bit of it: where it is a job's argument.

    What is said of a job ends in logs and statistics, which more people read than may see
    what tenants sent.
    """
    kinds = {type(None): "null", bool: "a boolean", str: "a string", list: "a list"}
    kinds |= {int: "a whole number", float: "a number", dict: "an object"}
    return kinds.get(type(value)) or with_article(type(value).__name__)


def with_article(name: str) -> str:
    """Return ``name`` behind "a" or "an"."""
    return f"{'an' if name[:1] in 'AEIOaeio' else 'a'} {name}"


def child_path(path: str, key: str | int) -> str:
    """Return the path of item ``key`` of ``path``: ``a.b``, ``a[3]`` or ``a["odd key"]``."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if len(key) > 40:
        key = key[:40] + "..."
    if key.isidentifier():
        return f"{path}.{key}" if path else key
    return f"{path}[{json.dumps(key)}]"


def check_number(value: object, path: str, least: float, most: float) -> float:
    """Return ``value`` as a float; refuse all but an int or float within the bounds."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or not least <= value <= most:  # type: ignore[operator]
        cure = "; pass its .total_seconds()" if isinstance(value, timedelta) else ""
        raise ValidationError(
            path,
            f"expected a finite number from {least:,} to {most:,}, got {describe(value)}{cure}",
        )
    return float(value)  # type: ignore[arg-type]


def check_whole(value: object, path: str, least: int, most: int) -> int:
    """Return ``value`` as an int; refuse all but an int within the bounds."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValidationError(
            path, f"expected a whole number from {least:,} to {most:,}, got {describe(value)}"
        )
    return int(value)


def _check_name(value: object, path: str, longest: int) -> str:
    """Return ``value`` as a plain str of 1 to ``longest`` characters, none of them control."""
    if not isinstance(value, str) or not 1 <= len(value) <= longest:
        got = describe(value)
        if isinstance(value, str) and value:
            got = f"{len(value):,} characters"
        cure = "; pass str(value)" if type(value) is int else ""
        raise ValidationError(
            path, f"expected a string of 1 to {longest} characters, got {got}{cure}"
        )
    bad = None if value.isprintable() else _UNPRINTABLE.search(value)
    if bad:
        raise ValidationError(
            path,
            "expected no control characters and valid Unicode, "
            f"got {bad[0]!r} at character {bad.start()}",
        )
    return str.__str__(value)


def check_partition_key(value: object, path: str, *, required: bool) -> str:
    """Return a partition key: 1 to 255 characters, no control characters.

    Args:
        value: what the caller gave.
        path: where, for the message.
        required: whether ``""``, the partition of what names none, is refused.
    """
    if not required and type(value) is str and not value:
        return value
    return _check_name(value, path, MAX_PARTITION_KEY_LENGTH)


def check_task_name(value: object, path: str) -> str:
    """Return a task name: 1 to 255 characters, no control characters."""
    return _check_name(value, path, MAX_TASK_NAME_LENGTH)


def check_worker_id(value: object, path: str) -> str:
    """Return a worker id: 1 to 255 characters, no control characters."""
    return _check_name(value, path, MAX_WORKER_ID_LENGTH)


def check_msg_id(value: object, path: str) -> str | None:
    """Return an idempotency key: 1 to 255 characters, no control characters; or None."""
    return None if value is None else _check_name(value, path, MAX_MSG_ID_LENGTH)


def check_job_id(value: object, path: str) -> str:
    """Return a job id: 1 to 64 printable ASCII characters, no space."""
    if not isinstance(value, str) or not _JOB_ID.fullmatch(value):
        raise ValidationError(
            path,
            f"expected 1 to {MAX_ID_LENGTH} printable ASCII characters without spaces, "
            f"got {describe(value)}",
        )
    return str.__str__(value)


def check_parent_id(value: object, path: str) -> str | None:
    """Return the id of the job that made this one, or None."""
    return None if value is None else check_job_id(value, path)


def check_queue_name(value: object, path: str) -> str:
    """Return a queue name: 1 to 64 of ``A-Z a-z 0-9 _ -``."""
    if not isinstance(value, str) or not _QUEUE_NAME.fullmatch(value):
        raise ValidationError(
            path,
            f"expected 1 to {MAX_QUEUE_NAME_LENGTH} of the characters A-Z a-z 0-9 _ -, "
            f"got {describe(value)}",
        )
    return str.__str__(value)


def check_weight(value: object, path: str) -> int:
    """Return a weight: a whole number from 1 to 1,000,000."""
    return check_whole(value, path, MIN_WEIGHT, MAX_WEIGHT)


def check_priority(value: object, path: str) -> int:
    """Return a priority: a whole number from -100 to 100."""
    return check_whole(value, path, MIN_PRIORITY, MAX_PRIORITY)


def check_limit(value: object, path: str) -> int | None:
    """Return an in-flight limit: a whole number >= 1 (a column's 31 bits), or None."""
    return None if value is None else check_whole(value, path, 1, MAX_INT32)


def check_share(value: object, path: str) -> float:
    """Return a share: a number from 0.000001 to 1,000,000."""
    return check_number(value, path, MIN_SHARE, MAX_SHARE)


def check_delay(value: object, path: str) -> float:
    """Return a delay in seconds: a number from 0 to ten years."""
    return check_number(value, path, 0, MAX_DELAY)


def check_due_at(value: object, path: str) -> datetime:
    """Return a moment in UTC: an aware datetime, past or future, of the years 1970 to 2199."""
    if not isinstance(value, datetime):
        raise ValidationError(path, f"expected an aware datetime, got {describe(value)}")
    if value.utcoffset() is None:
        raise ValidationError(
            path,
            "expected an aware datetime, got a naive one; "
            "start from django.utils.timezone.now() or use timezone.make_aware()",
        )
    try:
        moment = value.astimezone(UTC)
    except OverflowError:  # the first or last day of the calendar
        moment = value
    if not MIN_DUE_YEAR <= moment.year <= MAX_DUE_YEAR:
        raise ValidationError(
            path,
            f"expected a year from {MIN_DUE_YEAR} to {MAX_DUE_YEAR}, got {moment.year}",
        )
    return moment
