"""Settings that are wrong, and those that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage, Error

from vtrr_django import conf
from vtrr_django.checks.declared import declared_queues, queue_path
from vtrr_django.domain.config import QueueConfig
from vtrr_django.exceptions import ConfigurationError

_REDIS_KEYS = ("CACHE", "URL", "HASH_TAG")
_CELERY_KEYS = ("DRAIN_SECONDS", "RECLAIM_QUEUE")


def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """E001: ``settings.VTRR`` is wrong."""
    try:
        conf.get_settings()
    except ConfigurationError as error:
        return [
            Error(
                str(error),
                hint="Every key and value of VTRR is checked. Correct this one, then check again.",
                obj="settings.VTRR",
                id="vtrr.E001",
            )
        ]
    return []


def check_unused(**kwargs: Any) -> list[CheckMessage]:
    """W009: settings that have no effect on a queue like this."""
    return [
        message for name, config in declared_queues() for message in _check_unused(name, config)
    ]


def _check_unused(name: str, config: QueueConfig) -> Iterator[CheckMessage]:
    said = {**config.options, "RECLAIM_QUEUE": config.reclaim_queue}
    if config.engine == "orm":
        why, cure = "the engine of this queue is 'orm'", "Set ENGINE to 'redis', or leave it out."
        yield from (_unused(name, key, why, cure) for key in _REDIS_KEYS if said.get(key))
    if config.celery_queue is not None:
        return
    why = "this queue has no CELERY_QUEUE, so Celery does not run it"
    cure = "Set CELERY_QUEUE, or leave it out."
    yield from (_unused(name, key, why, cure) for key in _CELERY_KEYS if said.get(key))
    if config.max_concurrency != QueueConfig().max_concurrency and not config.reserve:
        yield _unused(
            name,
            "MAX_CONCURRENCY",
            "without a RESERVE it counts for Celery's triggers only",
            "Set RESERVE, or leave it out: vtrr_worker --concurrency says how many run at once.",
        )


def _unused(name: str, key: str, why: str, cure: str) -> CheckMessage:
    return checks.Warning(
        f"{key} has no effect: {why}.", hint=cure, obj=queue_path(name, key), id="vtrr.W009"
    )
