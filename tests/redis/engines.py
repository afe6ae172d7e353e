"""Engines on Redis servers of a test's own, and what is in such a server."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import redis

from tests.own_redis import OwnRedis
from vtrr_django.domain.config import QueueConfig
from vtrr_django.engines.redis.engine import RedisEngine

_numbers = itertools.count(1)


def engine_on(
    server: OwnRedis | redis.Redis, name: str | None = None, **config: Any
) -> RedisEngine:
    """Return an engine on a server; ``client`` may be one with options of its own."""
    client = server.client() if isinstance(server, OwnRedis) else server
    name = name or f"own{os.getpid()}-{next(_numbers)}"
    return RedisEngine(name, QueueConfig(**config), client)


def content(client: Any, *keys: str) -> dict[str, Any]:
    """Return what is in keys, all without any: key -> value, whatever its encoding."""
    values: dict[str, Any] = {}
    read: dict[str, Any] = {
        "string": client.get,
        "hash": client.hgetall,
        "zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        "stream": client.xrange,
    }
    for key in keys or map(bytes.decode, client.keys("*")):
        kind = client.type(key).decode()
        if kind != "none":
            values[key] = read[kind](key)
    return values


Hook = Callable[[str, tuple[Any, ...], Callable[[], Any]], Any]


def intercept(engine: RedisEngine, hook: Hook) -> None:
    """Have ``hook(script, arguments, run)`` called instead of each run of a script."""
    commands: Any = engine.commands
    run, run_together = type(commands).run, type(commands).run_together

    def other_run(name: str, *args: Any) -> Any:
        return hook(name, args, lambda: run(commands, name, *args))

    def other_run_together(before: Any, name: str, *args: Any) -> Any:
        return hook(name, args, lambda: run_together(commands, before, name, *args))

    commands.run, commands.run_together = other_run, other_run_together


def let_go(engine: RedisEngine) -> None:
    """Undo :func:`intercept`."""
    commands: Any = engine.commands
    del commands.run, commands.run_together


def once(engine: RedisEngine, script: str, act: Callable[[Callable[[], Any]], Any]) -> None:
    """Have ``act(run)`` called instead of the next run of a script."""

    def hook(name: str, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        if name != script:
            return run()
        let_go(engine)
        return act(run)

    intercept(engine, hook)
