"""The way to Redis: one client per process for each ``CACHE`` alias or ``URL``."""

from __future__ import annotations

import difflib
import socket
from collections.abc import Mapping
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

import redis
from django.conf import settings
from django.core.cache import caches
from django.core.cache.backends.base import InvalidCacheBackendError
from django.core.cache.backends.redis import RedisCache
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from redis.backoff import NoBackoff
from redis.retry import Retry

from vtrr_django.exceptions import ConfigurationError

INSTALL: Final = 'pip install "vtrr-django[redis]"'

SCHEMES: Final = ("redis", "rediss", "unix")

SOCKET_TIMEOUT: Final = 5.0
"""Seconds after which a Redis that does not answer is away; no script takes a tenth of one."""

CONNECT_TIMEOUT: Final = 3.0

_KEEPALIVE: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds. Firewalls forget a silent connection after minutes, and dead peers are noticed.

By name, for not every system has all. redis-py's own health check would say no more: it
raises, where a closed connection is replaced.
"""

_clients: dict[tuple[str, str], redis.Redis] = {}


def connect(options: Mapping[str, Any], queue: str = "...") -> redis.Redis:
    """Return the client that ``CACHE`` or ``URL`` describes; nothing is sent yet.

    It is the same one in all threads, and safe to use after a fork: redis-py's pools notice.
    Whether it decodes responses, and whether it speaks RESP2 or RESP3, is the project's to say.

    A client made from ``URL`` repeats no command by itself. One whose answer got lost may have
    been obeyed, and a second ack of the same lease would be refused. Connections that Redis has
    closed are noticed, and replaced, before a command is sent. Timeouts are the constants of
    this module unless the query of the URL says otherwise.

    Args:
        options: of the queue, with exactly one of ``CACHE`` and ``URL``.
        queue: the name of the queue, for error messages.

    Raises:
        ConfigurationError: the settings do not lead to a Redis client.
    """
    path = f"VTRR['QUEUES'][{queue!r}]"
    given = [(key, str(options[key])) for key in ("CACHE", "URL") if options.get(key)]
    if len(given) != 1:
        raise ConfigurationError(
            f"{path}: expected exactly one of CACHE, the alias of a Redis cache in CACHES, and "
            f"URL, like 'redis://localhost:6379/1', got {'both' if given else 'neither'}"
        )
    [(key, value)] = given
    found = _clients.get((key, value))
    if found is None:
        make = _from_cache if key == "CACHE" else _from_url
        # No lock: a process forked while another thread holds it would wait for ever. A client
        # that loses this race has not connected yet.
        found = _clients.setdefault((key, value), make(value, f"{path}[{key!r}]"))
    return found


def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting == "CACHES":
        _clients.clear()


setting_changed.connect(_forget, dispatch_uid="vtrr_django.engines.redis.client")


# -- URL ---------------------------------------------------------------------------


def _from_url(url: str, path: str) -> redis.Redis:
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme not in SCHEMES:
        # The value is not shown: it may hold a password.
        raise ConfigurationError(
            f"{path}: expected redis://, rediss:// or unix://, got "
            f"{f'{scheme}://' if scheme else 'no scheme'}; Sentinel is reached through CACHE"
        )
    limits: dict[str, Any] = {"socket_timeout": SOCKET_TIMEOUT}
    if scheme != "unix":
        limits |= {
            "socket_connect_timeout": CONNECT_TIMEOUT,
            "socket_keepalive": True,
            "socket_keepalive_options": {
                getattr(socket, name): value
                for name, value in _KEEPALIVE.items()
                if hasattr(socket, name)
            },
        }
    try:
        urlsplit(url).port  # noqa: B018 - raises what redis-py would, in better words
        # What the URL's query says goes over these.
        return redis.Redis.from_url(
            url,
            retry=Retry(NoBackoff(), 0),
            **limits,
        )
    except ValueError as error:
        raise ConfigurationError(f"{path}: expected the URL of a Redis server: {error}") from error


# -- CACHE -------------------------------------------------------------------------


def _from_cache(alias: str, path: str) -> redis.Redis:
    try:
        cache: Any = caches[alias]
    except InvalidCacheBackendError as error:
        _refuse_alias(alias, path, error)
    if isinstance(cache, RedisCache):
        found: redis.Redis = cache._cache.get_client(write=True)
        return found
    try:
        from django_redis import get_redis_connection  # noqa: PLC0415 - URL does not need it

        client = get_redis_connection(alias, write=True)
    except (ImportError, ImproperlyConfigured, NotImplementedError, TypeError) as error:
        _refuse_backend(alias, path, str(error) or "its client knows no single server")
    if not isinstance(client, redis.Redis):
        _refuse_backend(alias, path, f"its client is a {type(client).__name__}")
    return client


def _refuse_alias(alias: str, path: str, error: Exception) -> NoReturn:
    known = sorted(settings.CACHES)
    if alias in known:  # its backend cannot be imported
        cure = f"; {INSTALL}" if "redis" in str(error) else ""
        raise ConfigurationError(f"{path}: CACHES[{alias!r}] cannot be used: {error}{cure}") from (
            error
        )
    near = difflib.get_close_matches(alias, known, n=1)
    raise ConfigurationError(
        f"{path}: expected an alias of CACHES ({', '.join(known)}), got {alias!r}"
        + (f"; did you mean {near[0]!r}?" if near else "; add it to CACHES, or give URL instead")
    ) from error


def _refuse_backend(alias: str, path: str, reason: str) -> NoReturn:
    raise ConfigurationError(
        f"{path}: expected CACHES[{alias!r}] to lead to one Redis server, or to Sentinel, through "
        f"'django_redis.cache.RedisCache' ({INSTALL}), got {settings.CACHES[alias]['BACKEND']!r}: "
        f"{reason}; use another alias, or give URL instead"
    )
