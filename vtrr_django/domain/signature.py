"""How a request to the HTTP API is signed, and how a signature is checked.

An HMAC-SHA256 (RFC 2104) over everything that decides what a request does: method, path,
query, time, nonce and the raw body. Client and server share this module.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

SIGNATURE: Final = "x-signature"
TIMESTAMP: Final = "x-timestamp"
NONCE: Final = "x-nonce"

WINDOW: Final = 300
"""Seconds by which the clocks of both sides may differ."""

NONCE_LENGTH: Final = 64
"""Characters of the longest nonce."""

_TIMESTAMP = re.compile(rb"[0-9]{1,12}")
_NONCE = re.compile(rb"[A-Za-z0-9_-]{16,%d}" % NONCE_LENGTH)


def canonical(
    method: str, path: str, query: str, *, timestamp: str, nonce: str, body: bytes
) -> bytes:
    """Return what is signed: five lines, and then the body as it is.

    Args:
        method: in capitals.
        path: without percent-encoding; it is encoded here, so that both sides agree on how.
        query: as it was sent, without ``?``; ``""`` if there is none.
        timestamp: seconds since the epoch, decimal.
        nonce: 16 to 64 of ``A-Z a-z 0-9 _ -``.
        body: the raw bytes; ``b""`` if there is none.
    """
    encoded = quote(path, safe="/", errors="surrogateescape")
    lines = "\n".join((method, encoded, query, timestamp, nonce, ""))
    return lines.encode("utf-8", "surrogateescape") + body


def sign(secret: str, message: bytes) -> str:
    """Return the signature of a canonical message: 64 hexadecimal digits, in lower case."""
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def new_nonce() -> str:
    """Return a nonce that nobody has used."""
    return secrets.token_urlsafe(24)


def verify(signature: bytes, accepted: Sequence[str], message: bytes) -> bool:
    """Return whether one of the accepted secrets made the signature.

    It takes the same time whatever is wrong: each secret is tried, and compared byte by byte
    in constant time.
    """
    good = False
    for secret in accepted:
        good |= hmac.compare_digest(sign(secret, message).encode(), signature)
    return good


def is_fresh(timestamp: bytes, now: float) -> bool:
    """Return whether a timestamp is well-formed and within the window."""
    return bool(_TIMESTAMP.fullmatch(timestamp)) and abs(now - int(timestamp)) <= WINDOW


def is_nonce(nonce: bytes) -> bool:
    """Return whether a nonce is well-formed."""
    return bool(_NONCE.fullmatch(nonce))
