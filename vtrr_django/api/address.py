"""Paths and queries are UTF-8, percent-encoded; what is not is refused, not guessed.

Django shows such a path as it was written, so that ``%FF`` would name the same job as ``%25FF``,
and reads U+FFFD in such a query.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote_to_bytes

from django.http import HttpRequest

from vtrr_django.api.answers import Refused

_BYTE = re.compile(rb"%[89A-F][0-9A-F]")


def check_address(request: HttpRequest) -> None:
    """Refuse an address that is no text.

    Raises:
        Refused: its path or its query is not UTF-8 (400).
    """
    _check("path", _path(request))
    query = str(request.META.get("QUERY_STRING", ""))
    # ASGI has it as text, WSGI its bytes as Latin-1. "+" and "&" are no part of any character, so
    # that the whole is as good as its parts.
    raw = query.encode("utf-8" if _scope(request) else "latin-1", "replace")
    _check("query", unquote_to_bytes(raw))


def _scope(request: HttpRequest) -> dict[str, Any] | None:
    return getattr(request, "scope", None)


def _path(request: HttpRequest) -> bytes:
    """Return the path without percent-encoding, but otherwise as it was sent."""
    scope = _scope(request)
    if scope is not None:
        sent = scope.get("raw_path")
    else:
        sent = request.META.get("RAW_URI") or request.META.get("REQUEST_URI")
    if sent:
        raw = sent if isinstance(sent, bytes) else sent.encode("latin-1", "replace")
        return unquote_to_bytes(raw.partition(b"?")[0])
    # Of what a server does not tell as it was sent, Django's "%FF" is taken for what it may be.
    return _BYTE.sub(lambda found: unquote_to_bytes(found[0]), request.path.encode())


def _check(what: str, raw: bytes) -> None:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        bad = "".join(f"%{byte:02X}" for byte in raw[error.start : error.end])
        raise Refused(
            400, f"expected a {what} in UTF-8, percent-encoded, got {bad}, which is none"
        ) from None
