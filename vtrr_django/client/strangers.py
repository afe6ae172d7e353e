"""Answers that are none of the API's: of a proxy before it, or of another program there."""

from __future__ import annotations

from typing import Final

import httpx

_SERVED: Final = "where vtrr_serve, or include('vtrr_django.api.urls'), is served"

_KEPT_OUT: Final = "let what is before it, such as a proxy or a middleware, pass requests on"

_CURES: Final = {
    400: "begin base_url with https:// if that is spoken there, name a host of ALLOWED_HOSTS in it",
    401: _KEPT_OUT,
    403: _KEPT_OUT,
    407: _KEPT_OUT,
}

_AWAY_CURES: Final = {
    429: "it limits how often it may be asked",
    500: "its log says why",
    502: "does the server behind it run?",
    503: "does the server behind it run?",
    504: "it has to wait for answers longer than 20 s (nginx: proxy_read_timeout)",
}
"""What may be wrong where a status that says "later" does not pass by itself."""

_LONGEST_SHOWN: Final = 300


def away(response: httpx.Response) -> str:
    """Say who says "later" instead of the API; what follows ``… is away for the moment: ``."""
    status = response.status_code
    cure = _AWAY_CURES.get(status)
    return f"status {status} of a proxy, or of another program there" + (
        f"; {cure}" if cure else ""
    )


def no_api(response: httpx.Response, where: str) -> str:
    """Say what was there instead of the API, and the cure; ``where`` is the server, for people."""
    status = response.status_code
    location = response.headers.get("location")
    if location is not None and 300 <= status < 400:
        return _redirected(response, location, where)
    if status == 413:
        return (
            f"expected {where} to take a request of {len(response.request.content):,} bytes, got "
            "status 413 of a proxy before it: raise its limit to 16 MiB, the server's own (nginx: "
            "client_max_body_size 16m)"
        )
    cure = f"{_CURES[status]}; or " if status in _CURES else ""
    return (
        f"expected the HTTP API at {where}, got status {status} and no answer of its kind: "
        f"{cure}give as base_url {_SERVED}"
    )


def _redirected(response: httpx.Response, location: str, where: str) -> str:
    moved = _moved(response.request.url, location, where)
    return (
        f"expected the HTTP API at {where}, got a redirect to {location[:_LONGEST_SHOWN]}: "
        "redirects are not followed, for a signature counts for one address; "
        + (f"give {moved} as base_url" if moved else f"give as base_url {_SERVED}")
    )


def _moved(asked: httpx.URL, location: str, where: str) -> str:
    """Return where the API has gone as a whole; "": the redirect does not say so."""
    below = str(asked).removeprefix(where)
    try:
        target = asked.join(location)
    except httpx.InvalidURL:
        return ""
    moved = str(target).removesuffix(below)
    # What asks for a log-in has the address in its query.
    good = str(target) != moved != where and not (target.query or target.fragment)
    return moved if good and len(moved) <= _LONGEST_SHOWN else ""
