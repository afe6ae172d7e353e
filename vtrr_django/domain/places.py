"""What has to answer for a queue to be used, and what hangs together when it does not."""

from __future__ import annotations

import ssl
from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")

_PORT = 6379


class Place(NamedTuple):
    """Where a queue, or its history, is kept.

    Attributes:
        store: who uses the same one shares its fate: an address with database and credentials.
        server: what a store is in. One that is silent is so to all who ask; one that refuses
            may refuse this database, or these credentials, alone.
    """

    store: Hashable
    server: Hashable

    def known(self, away: Mapping[Hashable, T]) -> T | None:
        """Return what is noted of this place among those that are away; None: nothing is."""
        return next((away[key] for key in self if key in away), None)

    def lost(self, error: BaseException) -> Hashable:
        """Return what is away, as a question to this place failed like that."""
        return self.server if _is_silence(error) else self.store


def server_of(addresses: Iterable[str]) -> tuple[Hashable, ...] | None:
    """Return what URLs that differ in database and credentials only have in common.

    None: they are no URLs of servers.
    """
    servers: list[Hashable] = []
    for address in addresses:
        try:
            url = urlsplit(address)
            where = (url.hostname, url.port or _PORT) if url.hostname else (url.path,)
        except ValueError:
            return None
        if not url.scheme or where == ("",):
            return None
        servers.append((url.scheme, *where))
    return tuple(servers) if servers else None


def _is_silence(error: BaseException | None) -> bool:
    """Return whether it was the network that failed, not what somebody answered."""
    while error is not None:
        if isinstance(error, OSError):
            return not isinstance(error, ssl.SSLError)
        error = error.__cause__ or error.__context__
    return False
