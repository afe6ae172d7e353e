"""Exceptions as text that any store can keep, whatever the exception does to prevent it."""

from __future__ import annotations

import re
import traceback
from types import TracebackType

MAX_REASON = 1_000
MAX_ERROR_CLASS = 255
MAX_TRACEBACK = 50_000

RETRY_ASKED = "the job asked for a retry"
"""The reason where there was no exception."""

# PostgreSQL refuses NUL in text; no database encodes lone surrogates.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_OWN_MODULES = "vtrr_django."


def storable(text: str, limit: int) -> str:
    """Return ``text`` as UTF-8 can carry it, its middle cut out beyond ``limit`` characters."""
    if len(text) > limit:
        mark = f" ... [{len(text) - limit:,} characters cut] ... "
        keep = max(0, limit - len(mark))
        text = text[: keep - keep // 2] + mark + text[len(text) - keep // 2 :]
        text = text[:limit]
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def describe_exception(exc: BaseException) -> dict[str, str]:
    """Return the three texts of an ``Outcome``: ``reason``, ``error_class``, ``traceback``."""
    return {
        "reason": reason(exc),
        "error_class": error_class(exc),
        "traceback": format_traceback(exc),
    }


def error_class(exc: BaseException) -> str:
    """Return the dotted name of the exception's class."""
    kind = type(exc)
    return storable(f"{kind.__module__}.{kind.__qualname__}", MAX_ERROR_CLASS)


def reason(exc: BaseException) -> str:
    """Return ``Name: message``, for people."""
    name = type(exc).__name__
    try:
        text = str(exc)
    except BaseException:  # noqa: BLE001 - the job's own __str__ may raise anything, even SystemExit
        text = "(its message cannot be shown: str() of it raises)"
    return storable(f"{name}: {text}" if text else name, MAX_REASON)


def format_traceback(exc: BaseException) -> str:
    """Return the formatted traceback from the job's own first frame on."""
    try:
        text = "".join(traceback.format_exception(type(exc), exc, _job_frames(exc.__traceback__)))
    except BaseException as failure:  # noqa: BLE001 - as in reason(); also RecursionError, MemoryError
        text = f"(the traceback cannot be formatted: {type(failure).__name__})\n{reason(exc)}\n"
    return storable(text, MAX_TRACEBACK)


def format_frames(exc: BaseException) -> str:
    """Return where an exception and those before it came from, without what they say.

    For logs: their texts may quote anything, a payload or an address with its password.
    """
    told: list[str] = []
    seen: set[int] = set()
    one: BaseException | None = exc
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        frames = "".join(traceback.format_tb(one.__traceback__))
        told.append(f"Traceback (most recent call last):\n{frames}{error_class(one)}\n")
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return storable("\n".join(reversed(told)), MAX_TRACEBACK)


def _job_frames(frames: TracebackType | None) -> TracebackType | None:
    """Skip the frames of this package that lead to the job."""
    first = frames
    while first is not None:
        module = first.tb_frame.f_globals.get("__name__") or ""
        if not str(module).startswith(_OWN_MODULES):
            return first
        first = first.tb_next
    return frames
