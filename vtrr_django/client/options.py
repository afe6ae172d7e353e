"""What the clients of httpx are made with."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from typing import Any, Final

import httpx

import vtrr_django
from vtrr_django.domain.values import describe
from vtrr_django.exceptions import ConfigurationError

KEEP_SECONDS: Final = 1.5
"""How long an idle connection is kept.

Less than servers do (gunicorn, by default: 2 s), so that they hardly ever close one in the
moment in which it is used again.
"""

_HAS_ITS_OWN: Final = ("base_url", "timeout")


def all_options(given: object) -> dict[str, Any]:
    """Return ``http_options``, which win, and what counts besides.

    Raises:
        ConfigurationError: httpx would refuse them at the first request, or leave them aside.
    """
    options: Mapping[str, Any] = _checked(given)
    headers = httpx.Headers(
        {
            "accept": "application/json",
            "user-agent": f"vtrr-django/{vtrr_django.__version__}",
        }
    )
    headers.update(_checked_headers(options.get("headers")))
    # As many connections as threads ask for: none has to wait for another's long poll.
    limits = httpx.Limits(max_connections=None, keepalive_expiry=KEEP_SECONDS)
    return {"limits": limits, **options, "headers": headers, "follow_redirects": False}


def _checked(given: object) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"http_options: expected a mapping, got {describe(given)}")
    known = inspect.signature(httpx.Client).parameters
    for name in given:
        if name in _HAS_ITS_OWN:
            raise ConfigurationError(f"http_options: expected no {name}; give it as {name}=")
        if name == "params":
            raise ConfigurationError(
                "http_options: expected no params, got some; each would be a part of every "
                "address, and no signature would fit"
            )
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            raise ConfigurationError(
                f"http_options: expected arguments of httpx.Client, got {str(name)[:100]!r}; "
                + (f"did you mean {near[0]!r}?" if near else f"they are {', '.join(known)}")
            )
    return given


def _checked_headers(given: Any) -> httpx.Headers:
    """Refuse what no request can carry; values are not shown, for they may be secret."""
    try:
        headers = httpx.Headers(given)
    except (AttributeError, TypeError, ValueError):  # of which UnicodeError is one
        raise ConfigurationError(
            "http_options: expected headers that httpx.Headers knows, in ASCII, got others"
        ) from None
    for name, value in headers.raw:
        if value != value.strip() or {*b"\0\r\n"} & {*value}:
            raise ConfigurationError(
                f"http_options: expected a header {name.decode('ascii', 'replace')!r} without "
                "line feeds, and without blanks at its ends, got one with"
            )
    return headers
