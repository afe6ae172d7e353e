"""What ``vtrr_django.checks`` asks of a queue in Redis, and of its server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import redis
from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error

from vtrr_django.domain.config import QueueConfig
from vtrr_django.engines.redis.client import connect
from vtrr_django.exceptions import ConfigurationError

OLDEST: Final = (6, 2)


def check_way(name: str, config: QueueConfig) -> Iterator[CheckMessage]:
    """E012: settings lead to no Redis; W007: it may hang; W008: jobs in a cache.

    Nothing is sent to Redis.
    """
    try:
        client = connect(config.options, name)
    except ConfigurationError as error:
        yield Error(
            str(error),
            hint="Say in CACHE or in URL where the Redis of this queue is.",
            obj=_path(name),
            id="vtrr.E012",
        )
        return
    where = _where(name, config)
    if client.connection_pool.connection_kwargs.get("socket_timeout") is None:
        yield checks.Warning(
            "Without a timeout, web requests and workers wait for ever for a Redis that has "
            "stopped to answer.",
            hint=(
                "Give the cache OPTIONS 'SOCKET_TIMEOUT': 5 and 'SOCKET_CONNECT_TIMEOUT': 3, for "
                "Django's own RedisCache in small letters; or use URL, which has them."
            ),
            obj=where,
            id="vtrr.W007",
        )
    clearing = [alias for alias in settings.CACHES if _is_cleared_with(alias, config, client)]
    if clearing:
        yield checks.Warning(
            f"The jobs of this queue are in the Redis database of CACHES[{clearing[0]!r}]: "
            "cache.clear() deletes them.",
            hint=(
                "Give the queue a database of its own: an alias that nothing else uses, with "
                "another number at the end of its LOCATION."
            ),
            obj=where,
            id="vtrr.W008",
        )


def _is_cleared_with(alias: str, config: QueueConfig, client: redis.Redis) -> bool:
    """Return whether that cache, which is not the queue's own, is in the same database."""
    if alias == config.options.get("CACHE"):
        return alias == "default"
    try:
        return _place(connect({"CACHE": alias})) == _place(client)
    except ConfigurationError:  # it is not in Redis
        return False


def _place(client: redis.Redis) -> tuple[Any, ...]:
    pool: Any = client.connection_pool
    kwargs = pool.connection_kwargs
    service = getattr(pool, "service_name", None)
    place = (kwargs.get("path"), kwargs.get("host", "localhost"), kwargs.get("port", 6379))
    return (service or place, int(kwargs.get("db") or 0))


def check_server(name: str, config: QueueConfig) -> Iterator[CheckMessage]:
    """E013: too old; W010: it forgets jobs; W011: a crash does; W014: it does not answer."""
    try:
        info = connect(config.options, name).info()
    except (ConfigurationError, redis.exceptions.NoPermissionError):
        return  # E012 says it; this user may use the queue, but not ask about the server
    except redis.RedisError as error:
        yield checks.Warning(
            f"Redis does not answer: {error}",
            hint="Start it, or correct CACHE or URL.",
            obj=_where(name, config),
            id="vtrr.W014",
        )
        return
    yield from _check_info(info, _where(name, config))


def _check_info(info: dict[str, Any], where: str) -> Iterator[CheckMessage]:
    version = str(info["redis_version"])  # Valkey says which Redis it is compatible with
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        yield Error(
            f"The server is Redis {version}; queues need 6.2 or newer.",
            hint="Upgrade the server, or give this queue another one.",
            obj=where,
            id="vtrr.E013",
        )
    # The other policies evict keys with an expiry time, and no job is in one.
    if info.get("maxmemory") and str(info.get("maxmemory_policy")).startswith("allkeys"):
        yield checks.Warning(
            f"With maxmemory-policy {info['maxmemory_policy']}, a Redis that is full throws jobs "
            "away.",
            hint="Set maxmemory-policy noeviction: then it refuses new jobs, and says so.",
            obj=where,
            id="vtrr.W010",
        )
    if not int(info.get("aof_enabled", 1)):
        yield checks.Warning(
            "Redis writes no append-only file: a crash of it loses what happened since its last "
            "snapshot, if it makes any.",
            hint="Set appendonly yes.",
            obj=where,
            id="vtrr.W011",
        )


def _path(name: str) -> str:
    return f"settings.VTRR['QUEUES'][{name!r}]"


def _where(name: str, config: QueueConfig) -> str:
    return f"{_path(name)}[{'CACHE' if config.options.get('CACHE') else 'URL'!r}]"
