"""The engine of each queue; and, for those in Redis, the way to it and its server."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from django.core.checks import CheckMessage, Error
from django.utils.module_loading import import_string

from vtrr_django import conf
from vtrr_django.checks.declared import declared_queues, queue_path
from vtrr_django.domain.config import QueueConfig
from vtrr_django.engines.base import Engine


def check_engines(**kwargs: Any) -> list[CheckMessage]:
    """E003: an ``ENGINE`` that cannot be imported; E004: one that is no engine."""
    return [
        message for name, config in declared_queues() for message in _check_engine(name, config)
    ]


def _check_engine(name: str, config: QueueConfig) -> Iterator[CheckMessage]:
    hint = (
        f"Use one of {', '.join(map(repr, sorted(conf.ENGINES)))}, or the dotted path of a "
        "subclass of vtrr_django.engines.base.Engine."
    )
    try:
        found = import_string(conf.ENGINES.get(config.engine, config.engine))
    except ImportError as error:
        yield Error(
            f"The engine {config.engine!r} cannot be imported: {error}",
            hint=hint,
            obj=queue_path(name, "ENGINE"),
            id="vtrr.E003",
        )
        return
    if not (isinstance(found, type) and issubclass(found, Engine)):
        yield Error(
            f"The engine {config.engine!r} is no subclass of Engine, but {found!r}.",
            hint=hint,
            obj=queue_path(name, "ENGINE"),
            id="vtrr.E004",
        )


def check_redis(**kwargs: Any) -> list[CheckMessage]:
    """E012, W007 and W008: the way to Redis. It connects to none."""
    return _ask_redis("check_way")


def check_redis_servers(**kwargs: Any) -> list[CheckMessage]:
    """E013, W010, W011, W014: a server that is not fit. It connects: only for ``--deploy``."""
    return _ask_redis("check_server")


def _ask_redis(what: str) -> list[CheckMessage]:
    queues = [(name, config) for name, config in declared_queues() if config.engine == "redis"]
    if not queues or find_spec("redis") is None:
        return []  # E003 says so
    ask = getattr(import_module("vtrr_django.engines.redis.checks"), what)
    return [message for name, config in queues for message in ask(name, config)]
