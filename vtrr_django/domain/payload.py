"""The arguments of a job: JSON that comes back equal, or a refusal that names the culprit."""

from __future__ import annotations

import dataclasses
import decimal
import enum
import json
import math
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import date, time, timedelta
from typing import Any, NoReturn

from vtrr_django.domain.values import child_path, describe
from vtrr_django.exceptions import ValidationError

MAX_DEPTH = 30
"""Lists and dicts may stand this deep inside ``args`` or ``kwargs``, which are depth 0."""

MAX_INT_DIGITS = 4300
"""Python's default limit for reading a number back from text (sys.set_int_max_str_digits)."""

_SCALARS = frozenset({str, int, float, bool, type(None)})
_STR_ONLY = frozenset({str})
_LEAST_BYTES = 2  # an item in a list: a digit and a comma, or a bracket where there is none
_SAFE_INT_BITS = 2_100  # below 640 digits, the least that limit can be set to
_SURROGATE = re.compile("[\ud800-\udfff]")


# json.dumps() builds an encoder for every call that is not all defaults, and JSONEncoder a new
# encoder in C for every value: a third of what a bulk's payloads take. So that is made once.
# Circular structures are refused by their depth.
_ENCODER = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
)


def _make_encode() -> Callable[[Any], str]:
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # no CPython
        return _ENCODER.encode
    text: Any = json.encoder.encode_basestring
    chunks = make(None, _ENCODER.default, text, None, ":", ",", False, False, False)
    return lambda value: "".join(chunks(value, 0))


_encode = _make_encode()

_MESSAGE_CURE = "or use a handler with a dataclass, whose fields may be of this type"
_CURES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (enum.Enum, "pass its .value"),
    (tuple, "JSON would bring it back as a list: pass a list"),
    ((set, frozenset), "pass a list"),
    ((date, time), f"pass it as a string (.isoformat()), {_MESSAGE_CURE}"),
    (timedelta, f"pass its .total_seconds(), {_MESSAGE_CURE}"),
    ((decimal.Decimal, uuid.UUID), f"pass it as a string, {_MESSAGE_CURE}"),
    ((bytes, bytearray, memoryview), "pass base64 text, or store it and pass its key"),
)


def dump_payload(
    args: list[Any] | tuple[Any, ...], kwargs: dict[str, Any], *, max_bytes: int, path: str = ""
) -> str:
    """Return the JSON text ``{"args": [...], "kwargs": {...}}`` that comes back equal.

    What :func:`load_payload` makes of the text is equal to what came in. Subclasses of
    ``str``, ``int``, ``float``, ``list`` and ``dict`` are accepted when that holds for
    them too (``SafeString``, ``OrderedDict``) and come back as the plain type; members
    of an ``Enum`` are not. ``args`` itself may be a tuple, tuples inside may not.

    Args:
        args: positional arguments.
        kwargs: keyword arguments.
        max_bytes: longest text accepted, in bytes of UTF-8.
        path: what the path in an error starts with, e.g. ``tasks[3]``.

    Raises:
        ValidationError: for anything else, anything nested deeper than ``MAX_DEPTH``,
            numbers that are not finite or longer than ``MAX_INT_DIGITS``, keys that are
            not strings, NUL and lone surrogates, and a text over ``max_bytes``.
    """
    text = None
    if (type(args) is list or type(args) is tuple) and type(kwargs) is dict:
        text = _encode_plain(args, kwargs, max_bytes, path)
    if text is None:
        # Something is wrong or at least unusual: look again, slowly, to name it.
        _inspect(args, kwargs, max_bytes, path)
        text = _encode({"args": args, "kwargs": kwargs})
    size = len(text) if text.isascii() else len(text.encode())
    if size > max_bytes:
        _refuse_size(path, max_bytes, f"{size:,}")
    return text


def load_payload(text: str | bytes) -> tuple[list[Any], dict[str, Any]]:
    """Return the args and kwargs that :func:`dump_payload` wrote; other keys are ignored.

    Raises:
        ValidationError: when ``text`` is not such a payload.
    """
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise ValidationError("payload", f"expected JSON text, got an error: {exc}") from exc
    args, kwargs = (
        (body.get("args"), body.get("kwargs")) if isinstance(body, dict) else (None, None)
    )
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise ValidationError(
            "payload", 'expected {"args": [...], "kwargs": {...}}, got other JSON'
        )
    return args, kwargs


def _encode_plain(args: Any, kwargs: dict[str, Any], max_bytes: int, path: str) -> str | None:
    """Return the text of a payload that is certainly good, or None: look closer.

    A loop over levels, not a recursion, so that depth costs nothing. ``room`` ends it
    early for a structure that is wide, or shares its parts and would unfold to more than
    ``max_bytes``.

    Raises:
        ValidationError: it is so.
    """
    room = max_bytes
    level: list[Any] = [args, kwargs]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        room -= _LEAST_BYTES * sum(map(len, level))
        if room < 0:
            _refuse_size(path, max_bytes, "more")
        for container in level:
            values = container
            if type(container) is dict:
                if not _STR_ONLY.issuperset(map(type, container)):
                    return None
                values = container.values()
            for value in values:
                kind = type(value)
                if kind in _SCALARS:
                    continue
                if kind is not list and kind is not dict:
                    return None
                below.append(value)
        if not below:
            return _encode_checked({"args": args, "kwargs": kwargs})
        level = below
    return None


def _encode_checked(body: dict[str, Any]) -> str | None:
    """Encode what has only plain types; None when a number or a text in it may be bad."""
    try:
        text = _encode(body)  # ValueError: not finite, or too many digits
        if not text.isascii():
            text.encode()  # UnicodeEncodeError, a ValueError: lone surrogates
    except ValueError:
        return None
    if "\\u0000" in text:  # NUL, or a backslash that stands before u0000
        return None
    if len(text) > MAX_INT_DIGITS and sys.get_int_max_str_digits() != MAX_INT_DIGITS:
        return None  # json did not check the digits by the limit that other processes have
    return text


def _inspect(args: object, kwargs: object, max_bytes: int, path: str) -> None:
    """Raise ValidationError for the first culprit; return when there is none."""
    args_path, kwargs_path = child_path(path, "args"), child_path(path, "kwargs")
    if not isinstance(args, (list, tuple)):
        raise ValidationError(args_path, f"expected a list or a tuple, got {describe(args)}")
    if not isinstance(kwargs, dict):
        raise ValidationError(kwargs_path, f"expected a dict, got {describe(kwargs)}")
    inspector = _Inspector(max_bytes, path)
    inspector.visit(list(args), args_path, 0)
    inspector.visit(kwargs, kwargs_path, 0)


class _Inspector:
    """The walk that names the culprit; it recurses, but never below ``MAX_DEPTH``."""

    def __init__(self, max_bytes: int, path: str) -> None:
        self.max_bytes = self.room = max_bytes
        self.path = path

    def visit(self, value: Any, path: str, depth: int) -> None:
        if not isinstance(value, (list, dict)):
            _check_scalar(value, path)
            return
        if depth > MAX_DEPTH:
            raise ValidationError(path, f"expected at most {MAX_DEPTH} levels of nesting, got more")
        self.room -= _LEAST_BYTES * len(value)
        if self.room < 0:
            _refuse_size(self.path, self.max_bytes, "more")
        for child, below in _children(value, path):
            self.visit(child, below, depth + 1)


def _children(container: Any, path: str) -> Iterator[tuple[Any, str]]:
    """Yield the items of a list or dict that may be bad, each with its path.

    Check that the container itself comes back equal.
    """
    is_dict = isinstance(container, dict)
    # What the encoder sees of a subclass: a dict's items(), a list's own storage.
    plain: Any = dict(container.items()) if is_dict else list.copy(container)
    if plain != container:
        raise ValidationError(
            path,
            f"expected a {'dict' if is_dict else 'list'} that comes back equal from JSON, "
            f"got {describe(container)}; copy it into a plain one",
        )
    if not is_dict:
        for index, value in enumerate(plain):
            if not _is_good(value):  # a path takes longer to make
                yield value, f"{path}[{index}]"
        return
    for key, value in plain.items():
        if not isinstance(key, str) or isinstance(key, enum.Enum):
            raise ValidationError(path, f"expected keys to be strings, got {describe(key)}")
        key_path = child_path(path, key)
        _check_text(key, key_path)
        yield value, key_path


def _is_good(value: object) -> bool:
    """Return whether a value is a plain one that is good at a glance."""
    if type(value) is int:
        return value.bit_length() <= _SAFE_INT_BITS
    if type(value) is str:
        return value.isascii() and "\0" not in value
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) is bool


def _check_scalar(value: object, path: str) -> None:
    if isinstance(value, enum.Enum):
        _refuse_type(value, path)
    elif isinstance(value, str):
        _check_text(value, path)
        _check_equal(value, str.__str__(value), path)
    elif isinstance(value, int):
        _check_digits(value, path)
        _check_equal(value, int.__int__(value), path)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValidationError(path, f"expected a finite number, got {describe(value)}")
        _check_equal(value, float.__float__(value), path)
    elif value is not None:
        _refuse_type(value, path)


def _check_text(text: str, path: str) -> None:
    at = text.find("\0")
    if at >= 0:
        raise ValidationError(path, f"expected text without NUL, got one at character {at}")
    surrogate = None if text.isascii() else _SURROGATE.search(text)
    if surrogate:
        raise ValidationError(
            path,
            f"expected valid Unicode, got the lone surrogate {surrogate[0]!r} "
            f"at character {surrogate.start()}",
        )


def _check_digits(value: int, path: str) -> None:
    if value.bit_length() <= _SAFE_INT_BITS:
        return
    digits = min(MAX_INT_DIGITS, sys.get_int_max_str_digits() or MAX_INT_DIGITS)
    if abs(value) >= 10**digits:
        raise ValidationError(
            path,
            f"expected an integer of at most {digits:,} digits, got {describe(value)}; "
            "pass it as a string, hexadecimal for example",
        )


def _check_equal(value: object, plain: object, path: str) -> None:
    if value != plain:
        raise ValidationError(
            path,
            f"expected a value that comes back equal from JSON, got {describe(value)}; "
            f"pass a plain {type(plain).__name__}",
        )


def _refuse_type(value: object, path: str) -> NoReturn:
    cure = next((cure for kinds, cure in _CURES if isinstance(value, kinds)), None)
    if cure is None:
        if dataclasses.is_dataclass(value):
            cure = "publish it to a handler of its type, or pass dataclasses.asdict(value)"
        elif hasattr(value, "_meta") and hasattr(value, "pk"):
            cure = "pass its primary key and fetch it in the job"
        else:
            cure = "pass a str, int, float, bool, None, list or dict"
    raise ValidationError(path, f"expected a value JSON can carry, got {describe(value)}; {cure}")


def _refuse_size(path: str, max_bytes: int, size: str) -> NoReturn:
    raise ValidationError(
        path or "payload",
        f"expected at most {max_bytes:,} bytes of JSON (MAX_PAYLOAD_BYTES), got {size}; "
        "store the data elsewhere and pass its key",
    )
