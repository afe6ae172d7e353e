"""Signed requests to the HTTP API, with patience for a server that is away for a moment.

A request is tried again where it may be done twice, or has certainly not arrived. Each try is
signed anew, with a nonce and a time of its own: no server lets the same signature in twice.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

import httpx

import vtrr_django
from vtrr_django.client.address import Address
from vtrr_django.client.replies import Away, not_answered, read
from vtrr_django.domain import signature
from vtrr_django.domain.values import check_number
from vtrr_django.exceptions import ConfigurationError, StoreUnavailable, ValidationError

TRIES: Final = 6
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0
"""Seconds between two tries: twice as long each time, of which half or more is waited."""

CONNECT_SECONDS: Final = 5.0

KEEP_SECONDS: Final = 1.5
"""How long an idle connection is kept.

Less than servers do (gunicorn, by default: 2 s), so that they hardly ever close one in the
moment in which it is used again.
"""


class Transport:
    """The way to one server; threads and event loops may share it.

    Args:
        base_url: where its API is.
        secret: shared with the server; None: requests are not signed.
        timeout: seconds for each step of a request, such as waiting for the answer.
        http_options: more arguments of ``httpx.Client`` and ``httpx.AsyncClient``.

    Raises:
        ConfigurationError: an argument is wrong.
    """

    def __init__(
        self,
        base_url: str,
        secret: str | None = None,
        *,
        timeout: float = 10.0,
        http_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.address = Address.of(base_url)
        _check_secret(secret)
        self._secret = secret
        try:
            self._timeout = check_number(timeout, "timeout", 0.001, 3600)
        except ValidationError as error:
            raise ConfigurationError(str(error)) from error
        self._options: dict[str, Any] = {
            "headers": {
                "accept": "application/json",
                "user-agent": f"vtrr-django/{vtrr_django.__version__}",
            },
            # As many connections as threads ask for: none has to wait for another's long poll.
            "limits": httpx.Limits(max_connections=None, keepalive_expiry=KEEP_SECONDS),
            **(http_options or {}),
            "follow_redirects": False,
        }
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._pid = 0
        self._inherited: list[httpx.Client] = []
        self._async: dict[
            asyncio.AbstractEventLoop, tuple[httpx.AsyncClient, AsyncGenerator[None, None]]
        ] = {}

    def __repr__(self) -> str:
        return f"<Transport to {self.address}>"

    # -- one request, several tries --------------------------------------------------

    def call(
        self,
        method: str,
        path: str,
        content: bytes = b"",
        *,
        repeatable: bool = True,
        tries: int = TRIES,
        wait: float = 0.0,
    ) -> dict[str, Any]:
        """Make a request and return the JSON object that came back.

        Args:
            method: in capitals.
            path: below ``base_url``; it needs no percent-encoding.
            content: JSON; ``b""``: none.
            repeatable: whether it may be done twice. What may not is tried again only where it
                has certainly not arrived.
            tries: most of them.
            wait: seconds that the server may take besides, as for a long poll.

        Raises:
            ValidationError, DuplicateJobError, ConfigurationError: see
                :func:`~vtrr_django.client.replies.read`.
            StoreUnavailable: the last try failed too.
        """
        patience = _Patience(tries, repeatable=repeatable)
        while True:
            client = self._own_client()
            request = self._request(client, method, path, content, wait)
            try:
                return self._read(client.send(request))
            except (httpx.RequestError, Away) as error:
                pause = patience.pause_after(self._away(error))
            time.sleep(pause)

    async def acall(
        self, method: str, path: str, content: bytes = b"", *, repeatable: bool = True
    ) -> dict[str, Any]:
        """Do :meth:`call` in asyncio's event loop."""
        patience = _Patience(TRIES, repeatable=repeatable)
        client = await self._client_of_loop()
        while True:
            request = self._request(client, method, path, content, 0.0)
            try:
                return self._read(await client.send(request))
            except (httpx.RequestError, Away) as error:
                pause = patience.pause_after(self._away(error))
            await asyncio.sleep(pause)

    def _request(
        self,
        client: httpx.Client | httpx.AsyncClient,
        method: str,
        path: str,
        content: bytes,
        wait: float,
    ) -> httpx.Request:
        timeout = httpx.Timeout(
            self._timeout,
            connect=min(CONNECT_SECONDS, self._timeout),
            read=self._timeout + wait,
        )
        headers = self._signed(method, path, content)
        if content:
            headers["content-type"] = "application/json"
        return client.build_request(
            method, self.address.under(path), content=content, headers=headers, timeout=timeout
        )

    def _signed(self, method: str, path: str, content: bytes) -> dict[str, str]:
        if self._secret is None:
            return {}
        timestamp, nonce = str(int(time.time())), signature.new_nonce()
        message = signature.canonical(
            method,
            self.address.prefix + path,
            "",
            timestamp=timestamp,
            nonce=nonce,
            body=content,
        )
        return {
            signature.SIGNATURE: signature.sign(self._secret, message),
            signature.TIMESTAMP: timestamp,
            signature.NONCE: nonce,
        }

    def _read(self, response: httpx.Response) -> dict[str, Any]:
        return read(response, str(self.address), signed=self._secret is not None)

    def _away(self, error: httpx.RequestError | Away) -> Away:
        return error if isinstance(error, Away) else not_answered(error, str(self.address))

    # -- connections -------------------------------------------------------------------

    def _own_client(self) -> httpx.Client:
        """Return the client of this process: a connection must not be shared over a fork."""
        client = self._client
        if client is not None and self._pid == os.getpid():
            return client
        with self._lock:
            if self._client is None or self._pid != os.getpid():
                if self._client is not None:
                    self._inherited.append(self._client)  # to close it would end the parent's
                self._client, self._pid = httpx.Client(**self._all_options()), os.getpid()
                # For whoever does not close the queue; at the latest when Python ends.
                weakref.finalize(self, self._client.close)
            return self._client

    def _all_options(self) -> dict[str, Any]:
        """Add what takes a tenth of a second to make, certificates, the first time."""
        if self._options.get("verify", True) is True and "transport" not in self._options:
            self._options["verify"] = httpx.create_ssl_context()
        return self._options

    async def _client_of_loop(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        with self._lock:
            known = self._async.get(loop)
            if known is not None:
                return known[0]
            client = httpx.AsyncClient(**self._all_options())
            keeper = self._keep(client, loop)
            self._async[loop] = client, keeper
        await anext(keeper)
        return client

    async def _keep(
        self, client: httpx.AsyncClient, loop: asyncio.AbstractEventLoop
    ) -> AsyncGenerator[None, None]:
        """Close a client when its loop ends: an event loop that ends finishes its generators."""
        try:
            yield
        finally:
            with self._lock:
                del self._async[loop]
            await client.aclose()

    def close(self) -> None:
        """Close the connections of threads; a later request opens new ones.

        Those of event loops are closed when their loop ends.
        """
        with self._lock:
            client, self._client = self._client, None
        if client is not None and self._pid == os.getpid():
            client.close()


class _Patience:
    """The tries that one request has.

    Args:
        tries: most of them.
        repeatable: whether it may be done twice.
    """

    def __init__(self, tries: int, *, repeatable: bool) -> None:
        self._left = tries
        self._repeatable = repeatable
        self._pause = FIRST_PAUSE

    def pause_after(self, away: Away) -> float:
        """Return the seconds until the next try.

        Raises:
            StoreUnavailable: there is none.
        """
        self._left -= 1
        if self._left <= 0 or not (self._repeatable or away.unsent):
            raise StoreUnavailable(str(away)) from away.__cause__
        pause = self._pause * random.uniform(0.5, 1.0)  # noqa: S311 - spreads clients, hides nothing
        self._pause = min(LONGEST_PAUSE, self._pause * 2)
        return min(LONGEST_PAUSE, away.after) + pause


def _check_secret(secret: object) -> None:
    if secret is None:
        return
    try:
        good = isinstance(secret, str) and bool(secret.encode())
    except UnicodeEncodeError:
        good = False
    if not good:
        # The value is not shown: it is a secret.
        raise ConfigurationError(
            f"secret: expected a non-empty string or None, got a {type(secret).__name__}"
        )
