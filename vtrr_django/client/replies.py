"""What came of a request: the JSON of its answer, or the error that fits."""

from __future__ import annotations

import json
import ssl
from typing import Any, Final

import httpx

from vtrr_django.client.strangers import away, no_api
from vtrr_django.domain.signature import WINDOW
from vtrr_django.exceptions import (
    ConfigurationError,
    DuplicateJobError,
    StoreUnavailable,
    UnknownQueueError,
    ValidationError,
    VTRRError,
)

_AWAY: Final = frozenset({408, 425, 429})
"""Statuses below 500 that say "later", as proxies do."""

_LONGEST_SAID: Final = 500


class Away(StoreUnavailable):
    """The server, or its store, did not answer as it does when all is well.

    Attributes:
        unsent: whether the request has certainly not reached the server.
        after: seconds that the server wants to be left alone.
    """

    def __init__(self, message: str, *, unsent: bool = False, after: float = 0.0) -> None:
        self.unsent = unsent
        self.after = after
        super().__init__(message)


def not_answered(error: httpx.RequestError, where: str) -> Away:
    """Return what a request that got no answer comes to; ``where`` is the server, for people."""
    unsent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
    said = f"no answer from {where}: {str(error) or type(error).__name__}{_cure_of_tls(error)}"
    came_to = Away(said, unsent=unsent)
    came_to.__cause__ = error
    return came_to


def _cure_of_tls(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "; trust whoever signs for it: http_options={'verify': an ssl.SSLContext}"
        if isinstance(cause, ssl.SSLError):
            return "; if it does not speak TLS, let base_url begin with http://"
        cause = cause.__cause__ or cause.__context__
    return ""


def read(response: httpx.Response, where: str, *, signed: bool) -> dict[str, Any]:
    """Return the JSON object of an answer.

    Args:
        response: the answer, with its body.
        where: the server, for people.
        signed: whether the client has a secret.

    Raises:
        ValidationError: the server refused a value.
        DuplicateJobError: an id belongs to a different job.
        ConfigurationError: the client is not let in, or does not talk to the API.
        StoreUnavailable: the server, or its store, is away.
    """
    status = response.status_code
    body = _object(response)
    if status < 300 and body is not None:
        return body
    said = _sentence(body)
    if status >= 500 or status in _AWAY:
        after = response.headers.get("retry-after", "")
        raise Away(
            f"{where} is away for the moment: {said or away(response)}",
            after=float(after) if after.isascii() and after.isdecimal() else 0.0,
        )
    if body is None or not said:
        raise ConfigurationError(no_api(response, where))
    raise _refusal(status, said, body.get("path"), where, signed=signed)


def _refusal(status: int, said: str, path: object, where: str, *, signed: bool) -> VTRRError:
    if status in {400, 413}:
        if not isinstance(path, str) or not path:
            return ValidationError("request", said)
        return ValidationError(path, said.removeprefix(f"{path}: "))
    if status == 409:
        return DuplicateJobError(said)
    if status == 401:
        return ConfigurationError(_locked_out(where, signed=signed))
    if status == 404:
        return UnknownQueueError(
            f"{where} answered: {said}; name a queue that its VTRR['QUEUES'] declares, and give "
            "as base_url where the API begins"
        )
    return ConfigurationError(f"{where} refused the request with status {status}: {said}")


def _locked_out(where: str, *, signed: bool) -> str:
    if not signed:
        return (
            f"expected to be let in by {where}, got 401: give secret=, what its "
            "VTRR['SECRET'] says; without one it serves its own machine only"
        )
    return (
        f"expected to be let in by {where}, got 401: secret= has to be what its VTRR['SECRET'] "
        "says, base_url the address by which the server itself goes (a proxy must not change the "
        f"path), and the clocks of both machines may differ by {WINDOW} s at most"
    )


def _object(response: httpx.Response) -> dict[str, Any] | None:
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _sentence(body: dict[str, Any] | None) -> str:
    said = body.get("error") if body is not None else None
    return said[:_LONGEST_SAID] if isinstance(said, str) else ""
