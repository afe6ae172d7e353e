"""What settings declare, for checks; and where in them what a check found is."""

from __future__ import annotations

from vtrr_django import conf
from vtrr_django.domain.config import QueueConfig
from vtrr_django.exceptions import ConfigurationError


def declared_queues() -> list[tuple[str, QueueConfig]]:
    """Return what settings declare; nothing when they are wrong, which E001 says."""
    try:
        return list(conf.get_settings().queues.items())
    except ConfigurationError:
        return []


def queue_path(queue: str, key: str) -> str:
    """Return where in settings a key of a queue is."""
    return f"settings.VTRR['QUEUES'][{queue!r}][{key!r}]"
