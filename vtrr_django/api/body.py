"""The body of a request: read once, within limits, and then strictly JSON."""

from __future__ import annotations

import json
import math
import sys
from typing import Any, Final

from django.http import HttpRequest

from vtrr_django.api.answers import JSON, Refused
from vtrr_django.domain.payload import MAX_INT_DIGITS
from vtrr_django.domain.values import child_path

LARGEST: Final = 16 * 1024 * 1024
"""Bytes of a body that is read, whoever sends it."""

ORDINARY: Final = 4 * 1024 * 1024
"""Bytes of a body that is understood, unless a queue takes payloads so large that they need
more: enough for 1,000 jobs of 4 KiB."""

_ESCAPED: Final = 3
"""By how much JSON in ASCII may be longer than in UTF-8."""

BODY_METHODS: Final = frozenset({"POST", "PUT", "PATCH"})


def read_body(request: HttpRequest, *, required: bool = True) -> bytes:
    """Return the raw body, as it was sent and as it is signed.

    If it is not required, methods that have a body may come without: of no length is none.

    ``DATA_UPLOAD_MAX_MEMORY_SIZE``, which is made for forms, does not count: the stream is
    read here. What middleware has read already is taken from there.

    Raises:
        Refused: its length is not said (411), too large (413) or not what came (400).
    """
    length = _length(request, required=required)
    if length > LARGEST:
        raise _too_large(length, LARGEST)
    if not length:
        return b""
    try:
        body = request.body if hasattr(request, "_body") else _read(request, length)
    except OSError as error:
        raise Refused(400, f"expected a body of {length:,} bytes, got less") from error
    if len(body) != length:
        raise Refused(400, f"expected a body of {length:,} bytes, got {len(body):,}")
    return body


def _read(request: HttpRequest, length: int) -> bytes:
    chunks: list[bytes] = []
    while length and (chunk := request.read(length)):
        chunks.append(chunk)
        length -= len(chunk)
    return b"".join(chunks)


def _length(request: HttpRequest, *, required: bool) -> int:
    said = request.META.get("CONTENT_LENGTH") or ""
    if "HTTP_TRANSFER_ENCODING" in request.META:
        raise Refused(411, "expected Content-Length, got Transfer-Encoding")
    if not said:
        if required and request.method in BODY_METHODS:
            raise Refused(411, "expected Content-Length, got none")
        return 0
    if not (said.isascii() and said.isdecimal() and len(said) <= 18):
        raise Refused(411, "expected Content-Length to be a number of bytes")
    return int(said)


def most_bytes(max_payload: int) -> int:
    """Return how long a body may be that is about a queue with such a ``MAX_PAYLOAD_BYTES``."""
    return min(LARGEST, max(ORDINARY, _ESCAPED * max_payload + ORDINARY // 4))


def refuse_large(raw: bytes, most: int) -> None:
    """Refuse a body before its JSON becomes objects: that takes 50 times its memory, and a while.

    Raises:
        Refused: it is larger than that (413).
    """
    if len(raw) > most:
        raise _too_large(len(raw), most)


def _too_large(length: int, most: int) -> Refused:
    return Refused(413, f"expected a body of at most {most:,} bytes, got {length:,}; send several")


def parse_body(request: HttpRequest, raw: bytes) -> dict[str, Any]:
    """Return the JSON object that a body is.

    Refused besides what is no JSON: other encodings than UTF-8, a byte order mark, ``NaN`` and
    ``Infinity``, numbers that Python cannot hold or give back, and a key twice in an object.

    Raises:
        Refused: it is not called JSON, or is compressed (415), or is none (400).
    """
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding != "identity":
        raise Refused(415, f"expected a body without Content-Encoding, got {encoding[:20]!r}")
    charset = (request.content_params or {}).get("charset", "utf-8").lower()
    if request.content_type != JSON or charset not in {"utf-8", "utf8"}:
        raise Refused(415, f"expected Content-Type: {JSON}, in UTF-8")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Refused(
            400, f"expected a body in UTF-8, got something else at byte {error.start}"
        ) from None
    if text.startswith("\ufeff"):
        raise Refused(400, "expected UTF-8 without a byte order mark, got one")
    try:
        body = json.loads(
            text,
            object_pairs_hook=_object,
            parse_float=_float,
            # Python's own way, ten times as fast, has the same limit unless it was changed.
            parse_int=None if sys.get_int_max_str_digits() == MAX_INT_DIGITS else _int,
            parse_constant=_constant,
        )
    except json.JSONDecodeError as error:
        raise Refused(400, f"expected a JSON object as body: {error}") from None
    except ValueError:
        raise _too_many_digits() from None
    except RecursionError:
        raise Refused(400, "expected JSON that is not nested that deeply") from None
    if not isinstance(body, dict):
        raise Refused(400, "expected a JSON object as body, got another JSON value")
    return body


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise Refused(
                    400, f"expected each key once in an object, got {child_path('', name)} twice"
                )
            seen.add(name)
    return found


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Refused(400, f"expected numbers below 1.8e308, got {text[:40]}")
    return number


def _int(text: str) -> int:
    digits = len(text.lstrip("-"))
    if digits > MAX_INT_DIGITS:
        raise _too_many_digits()
    return int(text)


def _too_many_digits() -> Refused:
    return Refused(400, f"expected whole numbers of at most {MAX_INT_DIGITS:,} digits")


def _constant(text: str) -> Any:
    raise Refused(400, f"expected JSON, which knows no {text}")
