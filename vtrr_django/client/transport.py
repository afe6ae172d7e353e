"""Signed requests to the HTTP API, with patience for a server that is away for a moment.

A request is tried again where it may be done twice, or has certainly not arrived. Each try is
signed anew, with a nonce and a time of its own: no server lets the same signature in twice.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from typing import Any, Final

import httpx

from vtrr_django.client.address import Address
from vtrr_django.client.connections import Connections
from vtrr_django.client.options import all_options
from vtrr_django.client.replies import Away, not_answered, read
from vtrr_django.client.talk import Call
from vtrr_django.domain import signature
from vtrr_django.domain.values import check_number
from vtrr_django.exceptions import ConfigurationError, StoreUnavailable, ValidationError

PATIENCE: Final = 30.0
"""Seconds in which a request is tried again: a server is started anew within them."""

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0
"""Seconds between two tries: twice as long each time, of which half or more is waited."""

CONNECT_SECONDS: Final = 5.0


class Transport:
    """The way to one server; threads and event loops may share it.

    Args:
        base_url: where its API is.
        secret: shared with the server; None: requests are not signed.
        timeout: seconds for each step of a request, such as waiting for the answer.
        patience: seconds in which what has failed is tried again; 0: not once.
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
        patience: float = PATIENCE,
        http_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.address = Address.of(base_url)
        _check_secret(secret)
        self._secret = secret
        try:
            self._timeout = check_number(timeout, "timeout", 0.001, 3600)
            self._patience = check_number(patience, "patience", 0, 86_400)
        except ValidationError as error:
            raise ConfigurationError(str(error)) from error
        self._connections = Connections(all_options(http_options))

    def __repr__(self) -> str:
        return f"<Transport to {self.address}>"

    # -- one request, several tries --------------------------------------------------

    def call(self, call: Call) -> dict[str, Any]:
        """Make a request and return the JSON object that came back.

        Raises:
            ValidationError, DuplicateJobError, ConfigurationError: see
                :func:`~vtrr_django.client.replies.read`.
            StoreUnavailable: the last try failed too.
        """
        left = self._patience_of(call)
        while True:
            client = self._connections.of_threads()
            try:
                return self._read(client.send(self._request(client, call)))
            except (httpx.RequestError, Away) as error:
                pause = left.pause_after(self._away(error))
            except RuntimeError:
                if not client.is_closed:
                    raise
                pause = 0.0  # another thread closed it before this one could send
            time.sleep(pause)

    async def acall(self, call: Call) -> dict[str, Any]:
        """Do :meth:`call` in asyncio's event loop."""
        left = self._patience_of(call)
        while True:
            client = await self._connections.of_loop()
            try:
                return self._read(await client.send(self._request(client, call)))
            except (httpx.RequestError, Away) as error:
                pause = left.pause_after(self._away(error))
            except RuntimeError:
                if not client.is_closed:
                    raise
                pause = 0.0  # as in call(): here it was another task
            await asyncio.sleep(pause)

    def _patience_of(self, call: Call) -> _Patience:
        seconds = self._patience if call.patience is None else call.patience
        return _Patience(seconds, repeatable=call.repeatable)

    def _request(self, client: httpx.Client | httpx.AsyncClient, call: Call) -> httpx.Request:
        timeout = httpx.Timeout(
            self._timeout,
            connect=min(CONNECT_SECONDS, self._timeout),
            read=self._timeout + call.wait,
        )
        headers = self._signed(call)
        if call.content:
            headers["content-type"] = "application/json"
        url = self.address.under(call.path)
        return client.build_request(
            call.method, url, content=call.content, headers=headers, timeout=timeout
        )

    def _signed(self, call: Call) -> dict[str, str]:
        if self._secret is None:
            return {}
        timestamp, nonce = str(int(time.time())), signature.new_nonce()
        message = signature.canonical(
            call.method,
            self.address.prefix + call.path,
            "",
            timestamp=timestamp,
            nonce=nonce,
            body=call.content,
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

    def close(self) -> None:
        """Close the connections of threads; a later request opens new ones.

        Those of event loops are closed when their loop ends.
        """
        self._connections.close()

    async def aclose(self) -> None:
        """Close the connections of this event loop, and those of threads."""
        await self._connections.aclose()


class _Patience:
    """The time that one request has for its tries.

    Args:
        seconds: in which the last try begins; 0: there is one.
        repeatable: whether it may be done twice.
    """

    def __init__(self, seconds: float, *, repeatable: bool) -> None:
        self._ends = time.monotonic() + seconds
        self._repeatable = repeatable
        self._pause = FIRST_PAUSE

    def pause_after(self, away: Away) -> float:
        """Return the seconds until the next try.

        Raises:
            StoreUnavailable: there is none.
        """
        left = self._ends - time.monotonic()
        if left <= 0 or not (self._repeatable or away.unsent):
            raise StoreUnavailable(str(away)) from away.__cause__
        pause = self._pause * random.uniform(0.5, 1.0)  # noqa: S311 - spreads clients, hides nothing
        self._pause = min(LONGEST_PAUSE, self._pause * 2)
        return min(left, min(LONGEST_PAUSE, away.after) + pause)


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
