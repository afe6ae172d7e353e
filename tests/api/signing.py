"""Requests that are signed as a client signs them."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import quote

from django.test import Client

from vtrr_django.domain import signature

SECRET = "of the tests: 7f3a 9c1e b4d8 62f0 5a7b"


def headers(
    method: str,
    path: str,
    query: str = "",
    body: bytes = b"",
    *,
    secret: str = SECRET,
    timestamp: str | None = None,
    nonce: str | None = None,
) -> dict[str, str]:
    """Return the three headers; ``path`` is without percent-encoding."""
    timestamp = str(int(time.time())) if timestamp is None else timestamp
    nonce = signature.new_nonce() if nonce is None else nonce
    message = signature.canonical(method, path, query, timestamp=timestamp, nonce=nonce, body=body)
    return {
        signature.SIGNATURE: signature.sign(secret, message),
        signature.TIMESTAMP: timestamp,
        signature.NONCE: nonce,
    }


class SignedClient:
    """Django's test client, every request of which is signed anew.

    Args:
        secret: to sign with.
        defaults: of Django's client, such as ``REMOTE_ADDR``.
    """

    def __init__(self, secret: str = SECRET, **defaults: Any) -> None:
        self.secret = secret
        self.django = Client(**defaults)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: str = "",
        more: dict[str, str] | None = None,
    ) -> Any:
        """Send a request. ``body`` is JSON, or bytes as they are; ``more`` are headers."""
        raw = b"" if body is None else body if isinstance(body, bytes) else encoded(body)
        signed = headers(method, path, query, raw, secret=self.secret)
        return send(self.django, method, path, raw, query=query, headers=signed | (more or {}))

    def get(self, path: str, **options: Any) -> Any:
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        return self.request("POST", path, {} if body is None else body, **options)

    def patch(self, path: str, body: Any = None, **options: Any) -> Any:
        return self.request("PATCH", path, {} if body is None else body, **options)

    def delete(self, path: str, **options: Any) -> Any:
        return self.request("DELETE", path, **options)


def encoded(body: Any) -> bytes:
    return json.dumps(body).encode()


def send(
    client: Client,
    method: str,
    path: str,
    body: bytes = b"",
    *,
    query: str = "",
    headers: dict[str, str] | None = None,
) -> Any:
    """Send a request as it is told; ``path`` is without percent-encoding."""
    address = quote(path, safe="/") + (f"?{query}" if query else "")
    kind = "application/json" if body or method in {"POST", "PATCH"} else ""
    return client.generic(method, address, body, content_type=kind, headers=headers or {})
