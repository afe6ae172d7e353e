"""Who asks: a signature, the secret itself, staff of the project, or somebody on this machine.

The last only where there is no secret, and somebody has said that this is meant: no request tells
for sure that it was not passed on by a proxy.

What is wrong with a request that is refused is not said, and hardly shows in how long it takes:
the same things are computed for each, whatever its headers hold or lack.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import logging
import re
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest
from django.middleware.csrf import CsrfViewMiddleware

from vtrr_django.api import nonces
from vtrr_django.api.answers import Refused
from vtrr_django.conf import get_settings
from vtrr_django.domain import signature

USER_NAME: Final = "vtrr"
"""Of Basic authentication, whose password is the secret."""

LOOPBACK: Final = "loopback"

_KEY = secrets.token_hex(32)
_LOCAL_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
_FORWARDED = (
    *("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_FORWARDED", "HTTP_X_REAL_IP", "HTTP_X_CLIENT_IP"),
    *("HTTP_CF_", "HTTP_CDN_LOOP", "HTTP_TRUE_CLIENT_IP", "HTTP_X_ORIGINAL_", "HTTP_X_ENVOY_"),
    *("HTTP_X_CLUSTER_CLIENT_IP", "HTTP_X_PROXY", "HTTP_FASTLY_", "HTTP_FLY_", "HTTP_X_AMZN_"),
    *("HTTP_X_APPENGINE_", "HTTP_X_AZURE_", "HTTP_X_ARR_", "HTTP_PROXY_"),
)
"""How the headers begin that proxies add."""

_this_machine = threading.Event()
_refused_this_machine = threading.Event()

logger = logging.getLogger("vtrr_django.api")


def allow_loopback() -> None:
    """Let in, without a secret, whoever is on this machine: as ``ALLOW_LOOPBACK``, for a server.

    It counts for this process and those it forks. Whoever calls it says so to people.
    """
    _this_machine.set()


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """Who asks.

    Attributes:
        name: of a member of staff, or "vtrr" for who has the secret, or "loopback".
        user: the member of staff; None: whoever it is may do everything.
    """

    name: str
    user: Any = None


class Unauthorized(Refused):
    """Nobody we know. It is always the same answer."""

    def __init__(self) -> None:
        # A scheme that no browser knows: it does not ask its user, nor keep a secret. And Vary
        # would otherwise be there only if it was looked for a session.
        super().__init__(
            401, "unauthorized", headers={"WWW-Authenticate": "VTRR", "Vary": "Cookie"}
        )


def authenticate(request: HttpRequest, body: bytes) -> Caller:
    """Return who asks.

    Raises:
        Unauthorized: nobody we know.
        StoreUnavailable: a signature is good, but whether it comes for the first time could
            not be found out.
    """
    caller = _caller(request, body)
    if caller is None:
        if not _accepted() and _is_local(request):
            _tell_of_the_setting()
        raise Unauthorized
    return caller


def may_read(request: HttpRequest, permission: str) -> bool:
    """Return whether who asks may read what not everybody may, where everybody gets an answer.

    Nobody is refused: whom we do not know, or cannot ask for just now, may not. A read that
    comes with a body is none.

    Args:
        request: to GET something.
        permission: what staff need.
    """
    try:
        caller = _caller(request, b"")
        return caller is not None and (caller.user is None or caller.user.has_perm(permission))
    except Exception as error:  # noqa: BLE001 - whatever sessions, users or nonces are kept in
        # Not its text, which may quote anything.
        logger.warning("who asks could not be found out (%s)", type(error).__name__)
        return False


def _caller(request: HttpRequest, body: bytes) -> Caller | None:
    accepted = _accepted()
    if accepted:
        # Both, always: it takes the same time whatever headers there are.
        signed = _is_signed(request, body, accepted)
        known = _knows_secret(request, accepted)
        if _header(request, signature.SIGNATURE) is not None:
            return Caller(name=USER_NAME) if signed and _is_first(request) else None
        return Caller(name=USER_NAME) if known else _staff(request)
    return _loopback(request) or _staff(request)


def authorize(caller: Caller, request: HttpRequest, *, read: bool, permission: str | None) -> None:
    """Let staff do what they may, if it is they who want it.

    Raises:
        Refused: they lack the permission, nobody of them may (None), or a write comes without
            CSRF token (403).
    """
    if caller.user is None:
        return
    if permission is None:
        raise Refused(403, "expected a worker, which has the secret, got a user of the site")
    if not read:
        check = _Csrf(_no_response)
        check.process_request(request)
        reason = check.process_view(request, _no_response, (), {})
        if reason is not None:
            raise Refused(403, f"CSRF: {reason} Send the cookie's token as X-CSRFToken")
    if not caller.user.has_perm(permission):
        raise Refused(403, f"expected a user with the permission {permission}")


# -- the secret --------------------------------------------------------------------


def _accepted() -> tuple[str, ...]:
    secret = get_settings().secret
    return (secret,) if isinstance(secret, str) else secret or ()


def _header(request: HttpRequest, name: str) -> bytes | None:
    """Return a header as it was sent: WSGI has bytes as Latin-1."""
    value = request.META.get("HTTP_" + name.upper().replace("-", "_"))
    return None if value is None else str(value).encode("latin-1", "replace")


def _is_signed(request: HttpRequest, body: bytes, accepted: Sequence[str]) -> bool:
    """Return whether the signature is of this request; not yet whether it is fresh."""
    given = _header(request, signature.SIGNATURE) or b""
    timestamp = _header(request, signature.TIMESTAMP) or b""
    nonce = _header(request, signature.NONCE) or b""
    message = signature.canonical(
        request.method or "",
        request.path,
        _query(request),
        timestamp=timestamp.decode("latin-1"),
        nonce=nonce.decode("latin-1"),
        body=body,
    )
    return signature.verify(given, accepted, message)


def _query(request: HttpRequest) -> str:
    query = str(request.META.get("QUERY_STRING", ""))
    try:
        return query.encode("latin-1").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # ASGI decodes it
        return query


def _is_first(request: HttpRequest) -> bool:
    """Return whether a request whose signature is good is fresh and comes for the first time."""
    timestamp = _header(request, signature.TIMESTAMP) or b""
    nonce = _header(request, signature.NONCE) or b""
    if not signature.is_fresh(timestamp, time.time()) or not signature.is_nonce(nonce):
        return False
    return nonces.use(nonce.decode("ascii"))


def _knows_secret(request: HttpRequest, accepted: Sequence[str]) -> bool:
    """Return whether Basic authentication gives our user name and a secret."""
    user, password = _basic(_header(request, "authorization") or b"")
    good = False
    for secret in accepted:
        good |= _same(password, secret.encode())
    return _same(user, USER_NAME.encode()) & good


def _basic(header: bytes) -> tuple[bytes, bytes]:
    scheme, _, credentials = header.partition(b" ")
    if scheme.lower() != b"basic":
        return b"", b""
    try:
        user, _, password = base64.b64decode(credentials.strip(), validate=True).partition(b":")
    except binascii.Error:
        return b"", b""
    return user, password


def _same(given: bytes, expected: bytes) -> bool:
    # Of digests: comparing the values themselves would tell how long the secret is.
    return signature.verify(signature.sign(_KEY, given).encode(), (_KEY,), expected)


# -- without it --------------------------------------------------------------------


def _loopback(request: HttpRequest) -> Caller | None:
    """Return whoever is on this machine, if that is who asks, and it is let in."""
    allowed = get_settings().allow_loopback or _this_machine.is_set()
    return Caller(name=LOOPBACK) if allowed and _is_local(request) else None


def _tell_of_the_setting() -> None:
    """Say once to the operator, not to who asks, why somebody on this machine is refused."""
    if not _refused_this_machine.is_set():
        _refused_this_machine.set()
        logger.warning(
            "a request from this machine was refused: without VTRR['SECRET'] only staff are let "
            "in; set it, or VTRR['ALLOW_LOOPBACK'] = True where no proxy leads to this machine"
        )


def _is_local(request: HttpRequest) -> bool:
    """Return whether a request was made on this machine, as far as that can be told.

    Its ``Host`` must be local too, or a page anywhere could have its name resolve to this
    machine. What a proxy passes on comes from this machine as well: most give themselves away by
    a header, or (nginx before 1.29.7, whose default sends none) by HTTP/1.0. Not all do: so this
    counts only where somebody has said that there is no proxy.
    """
    meta = request.META
    if any(name.startswith(_FORWARDED) for name in meta):
        return False
    if meta.get("SERVER_PROTOCOL") == "HTTP/1.0":
        return False
    return _is_loopback(str(meta.get("REMOTE_ADDR", ""))) and bool(
        _LOCAL_HOST.fullmatch(str(meta.get("HTTP_HOST", "")))
    )


def _is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return bool((mapped or found).is_loopback)


def _staff(request: HttpRequest) -> Caller | None:
    """Return the signed-in member of staff, if the project has sessions and it is one."""
    user: Any = getattr(request, "user", None)
    if user is None or not (user.is_active and user.is_staff):
        return None
    return Caller(name=user.get_username(), user=user)


class _Csrf(CsrfViewMiddleware):
    """Django's check, which says why instead of answering."""

    def _reject(self, request: HttpRequest, reason: str) -> Any:
        return reason


def _no_response(request: HttpRequest) -> Any:
    raise AssertionError("a check of a request asks for no response")
