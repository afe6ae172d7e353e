"""``settings.VTRR`` as typed, frozen values: read lazily, dropped when settings change.

Every key is checked; what is wrong is refused with its path and, for a misspelt name,
the nearest valid one.
"""

from __future__ import annotations

import difflib
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from vtrr_django.domain.config import QueueConfig, Shares
from vtrr_django.domain.retry import RetryPolicy
from vtrr_django.domain.values import (
    check_limit,
    check_partition_key,
    check_queue_name,
    check_share,
)
from vtrr_django.exceptions import ConfigurationError, UnknownQueueError, ValidationError

DEFAULT_QUEUE: Final = "default"

ENGINES: Final[Mapping[str, str]] = {
    "orm": "vtrr_django.engines.orm.engine.OrmEngine",
    "redis": "vtrr_django.engines.redis.engine.RedisEngine",
}
"""Short names of engines; any other value is the dotted path of an ``Engine`` subclass."""

_MOST_SECONDS = 10 * 365 * 24 * 3600

MOST_METRICS_TENANTS = 100
"""Each is three lines of ``/metrics`` for each queue, read every few seconds."""

_MOST_LONG_POLLS = 1000
"""Each occupies a thread of the server's process, and while it looks a connection."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The whole of ``settings.VTRR``.

    Attributes:
        queues: the configuration of each queue, by its name.
        secret: shared secret of the HTTP API; None: staff only, or who ``allow_loopback`` lets in.
        allow_loopback: whether the API, without a secret, lets in whoever is on this machine.
        redact: callable that hides parts of a payload from people, or None.
        metrics_tenants: how many tenants of each queue have metrics of their own.
        long_polls: how many claims of a process may wait at once; None: as its server says.
    """

    queues: Mapping[str, QueueConfig]
    secret: str | tuple[str, ...] | None
    allow_loopback: bool
    redact: Callable[..., Any] | None
    metrics_tenants: int
    long_polls: int | None


def get_settings() -> Settings:
    """Return the parsed settings.

    Raises:
        ConfigurationError: ``settings.VTRR`` is wrong.
    """
    return _parsed()


def get_config(name: str) -> QueueConfig:
    """Return the configuration of one queue.

    Raises:
        UnknownQueueError: no queue has that name.
        ConfigurationError: ``settings.VTRR`` is wrong.
    """
    queues = get_settings().queues
    try:
        return queues[name]
    except KeyError:
        raise UnknownQueueError(
            f"expected a queue declared in VTRR['QUEUES'] ({', '.join(sorted(queues))}), got "
            f"{name!r}{_nearest(name, queues)}; declare it in settings or use one of these"
        ) from None


@functools.cache
def _parsed() -> Settings:
    return parse(getattr(settings, "VTRR", {}))


def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting == "VTRR":
        _parsed.cache_clear()


setting_changed.connect(_forget, dispatch_uid="vtrr_django.conf")


# -- one parser per kind of value -------------------------------------------------


def _boolean(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise _expected(path, "True or False", value)
    return value


def _whole(
    minimum: int, maximum: float = math.inf, *, optional: bool = False
) -> Callable[[Any, str], int | None]:
    bounds = f">= {minimum}" if maximum == math.inf else f"from {minimum} to {maximum:g}"

    def parse_whole(value: Any, path: str) -> int | None:
        if value is None and optional:
            return None
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not minimum <= value <= maximum:
            or_none = " or None" if optional else ""
            raise _expected(path, f"a whole number {bounds}{or_none}", value)
        return value  # type: ignore[no-any-return]

    return parse_whole


def _seconds(minimum: float, *, optional: bool = False) -> Callable[[Any, str], float | None]:
    def parse_seconds(value: Any, path: str) -> float | None:
        if value is None and optional:
            return None
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not minimum <= value <= _MOST_SECONDS:
            or_none = " or None" if optional else ""
            raise _expected(
                path, f"a number of seconds from {minimum:g} to {_MOST_SECONDS:,}{or_none}", value
            )
        return float(value)

    return parse_seconds


def _text(*, optional: bool = False) -> Callable[[Any, str], str | None]:
    def parse_text(value: Any, path: str) -> str | None:
        if value is None and optional:
            return None
        if not isinstance(value, str) or not value:
            raise _expected(path, "a non-empty string" + (" or None" if optional else ""), value)
        return value

    return parse_text


def _engine(value: Any, path: str) -> str:
    if not isinstance(value, str) or (value not in ENGINES and "." not in value):
        raise _expected(
            path,
            f"one of {', '.join(map(repr, sorted(ENGINES)))} or a dotted path",
            value,
            _nearest(str(value), ENGINES),
        )
    return value


def _cost(value: Any, path: str) -> str:
    if value not in ("weight", "runtime"):
        raise _expected(path, "'weight' or 'runtime'", value)
    return str(value)


def _limit(value: Any, path: str) -> int | None:
    return check_limit(value, path)


def _shares(value: Any, path: str) -> Shares | None:
    if value is None or callable(value):
        return value  # type: ignore[no-any-return]
    if isinstance(value, str):
        found = _import(value, path)
        return _shares(found, path)
    if not isinstance(value, Mapping):
        raise _expected(path, "a mapping, a callable or the dotted path of one", value)
    shares = {}
    for key, share in value.items():
        where = f"{path}[{key!r}]"
        # The share of a key that no partition can have would be nobody's.
        shares[check_partition_key(key, where, required=False)] = check_share(share, where)
    return shares


def _retry(value: Any, path: str) -> RetryPolicy | None:
    if value is None or isinstance(value, RetryPolicy):
        return value
    if not isinstance(value, Mapping):
        raise _expected(path, "a mapping, a RetryPolicy or None", value)
    return RetryPolicy.from_mapping(value, path)


def _callable(value: Any, path: str) -> Callable[..., Any] | None:
    if isinstance(value, str):
        value = _import(value, path)
    if value is not None and not callable(value):
        raise _expected(path, "a callable, its dotted path or None", value)
    return value  # type: ignore[no-any-return]


def _secret(value: Any, path: str) -> str | tuple[str, ...] | None:
    if value is None or (isinstance(value, str) and value):
        return value
    pair = isinstance(value, (list, tuple)) and 1 <= len(value) <= 2
    if pair and all(isinstance(one, str) and one for one in value):
        return tuple(value)
    # The value is not shown: it is a secret.
    raise ConfigurationError(
        f"{path}: expected a non-empty string, one or two of them in a list, or None, "
        f"got a {type(value).__name__}"
    )


COMMON: Mapping[str, Callable[[Any, str], Any]] = {
    "ENQUEUE_ON_COMMIT": _boolean,
    "MAX_PAYLOAD_BYTES": _whole(100),
}
"""Keys that count for all queues and may be overruled by one."""

_QUEUE_KEYS: Mapping[str, Callable[[Any, str], Any]] = {
    **COMMON,
    "ENGINE": _engine,
    "DATABASE": _text(),
    "CELERY_QUEUE": _text(optional=True),
    "MAX_CONCURRENCY": _whole(1),
    "LEASE_SECONDS": _seconds(1),
    "HEARTBEAT": _boolean,
    "MAX_TIMEOUTS": _whole(1, optional=True),
    "RECLAIM_INTERVAL": _seconds(0.1),
    "RECLAIM_QUEUE": _text(optional=True),
    "PARTITION_LIMIT": _limit,
    "RESERVE": _whole(0),
    "SHARES": _shares,
    "COST": _cost,
    "COMPLETED_RETENTION": _whole(0, optional=True),
    "FAILED_RETENTION": _whole(0, optional=True),
    "RETRY": _retry,
    "PREFETCH": _whole(1),
    "HEALTH_MAX_READY": _whole(0, optional=True),
    "HEALTH_MAX_WAIT": _seconds(1, optional=True),
}

_ENGINE_OPTIONS: Mapping[str, Callable[[Any, str], Any]] = {
    "CACHE": _text(optional=True),
    "URL": _text(optional=True),
    "HASH_TAG": _boolean,
    "DRAIN_SECONDS": _seconds(0),
}
"""Keys that only some engines or runners read; kept in ``QueueConfig.options``."""

_TOP_KEYS: Mapping[str, Callable[[Any, str], Any]] = {
    **COMMON,
    "SECRET": _secret,
    "ALLOW_LOOPBACK": _boolean,
    "REDACT": _callable,
    "METRICS_TENANTS": _whole(0, MOST_METRICS_TENANTS),
    "LONG_POLLS": _whole(0, _MOST_LONG_POLLS, optional=True),
}


def parse(value: Any) -> Settings:
    """Parse ``settings.VTRR``.

    Raises:
        ConfigurationError: it is wrong; the message names the path.
    """
    if not isinstance(value, Mapping):
        raise _expected("VTRR", "a mapping", value)
    _refuse_unknown(value, [*_TOP_KEYS, "QUEUES"], "VTRR")
    top = {
        key: _parse_one(parser, value[key], f"VTRR[{key!r}]")
        for key, parser in _TOP_KEYS.items()
        if key in value
    }
    common = {key.lower(): top[key] for key in COMMON if key in top}
    queues = _queues(value)
    return Settings(
        queues={name: _parse_queue(name, queue, common) for name, queue in queues.items()},
        secret=top.get("SECRET"),
        allow_loopback=top.get("ALLOW_LOOPBACK", False),
        redact=top.get("REDACT"),
        metrics_tenants=top.get("METRICS_TENANTS", 0),
        long_polls=top.get("LONG_POLLS"),
    )


def queue_names(value: Any) -> list[Any]:
    """Return which queues ``settings.VTRR`` declares, without a look at what it says of them.

    Raises:
        ConfigurationError: it cannot be told.
    """
    if not isinstance(value, Mapping):
        raise _expected("VTRR", "a mapping", value)
    return list(_queues(value))


def _queues(value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    queues = value.get("QUEUES", {DEFAULT_QUEUE: {}})
    if not isinstance(queues, Mapping) or not queues:
        raise _expected("VTRR['QUEUES']", "a mapping with at least one queue", queues)
    return queues


def _parse_queue(name: Any, value: Any, common: Mapping[str, Any]) -> QueueConfig:
    path = f"VTRR['QUEUES'][{name!r}]"
    _parse_one(check_queue_name, name, path)
    if not isinstance(value, Mapping):
        raise _expected(path, "a mapping", value)
    _refuse_unknown(value, [*_QUEUE_KEYS, *_ENGINE_OPTIONS], path)
    fields: dict[str, Any] = dict(common)
    options: dict[str, Any] = {}
    for key, given in value.items():
        where = f"{path}[{key!r}]"
        if key in _QUEUE_KEYS:
            fields[key.lower()] = _parse_one(_QUEUE_KEYS[key], given, where)
        else:
            options[key] = _parse_one(_ENGINE_OPTIONS[key], given, where)
    if fields.get("celery_queue") is not None:
        # On Celery-run queues Celery's own retry options rule unless RETRY is given.
        fields.setdefault("retry", None)
    config = QueueConfig(**fields, options=options)
    if config.reserve >= config.max_concurrency:
        raise _expected(
            f"{path}['RESERVE']",
            f"less than MAX_CONCURRENCY ({config.max_concurrency})",
            config.reserve,
        )
    return config


def _parse_one(parser: Callable[[Any, str], Any], value: Any, path: str) -> Any:
    try:
        return parser(value, path)
    except ValidationError as error:
        raise ConfigurationError(str(error)) from error


def _import(path: str, where: str) -> Any:
    try:
        return import_string(path)
    except ImportError as error:
        raise ConfigurationError(
            f"{where}: expected the dotted path of something importable, got {path!r}: {error}"
        ) from error


def _refuse_unknown(value: Mapping[Any, Any], known: Iterable[str], path: str) -> None:
    names = list(known)
    for key in value:
        if key not in names:
            raise ConfigurationError(
                f"{path}[{key!r}]: expected one of {', '.join(sorted(names))}, got an unknown "
                f"key{_nearest(str(key), names)}"
            )


def _nearest(name: str, known: Iterable[str]) -> str:
    by_lower = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=1)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


def _expected(path: str, what: str, value: Any, more: str = "") -> ConfigurationError:
    return ConfigurationError(f"{path}: expected {what}, got {value!r}{more}")
