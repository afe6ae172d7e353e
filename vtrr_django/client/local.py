"""The queue of this Django project that a ``Liteworks`` without a ``base_url`` is about."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from vtrr_django import conf
from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.values import check_queue_name
from vtrr_django.exceptions import ConfigurationError, ValidationError
from vtrr_django.queue import Queue
from vtrr_django.registry import get_queue


class _Undeclared(Queue):
    """A queue that settings do not declare: it has its configuration."""

    def __init__(self, name: str, config: QueueConfig) -> None:
        super().__init__(name)
        self._config = config

    @property
    def config(self) -> QueueConfig:
        return self._config


def local_queue(name: str, lease_seconds: float, completed_retention: int | None) -> Queue:
    """Return the queue that settings declare by that name, or else one with these arguments.

    It imports nothing that settings name, so it is safe at import time.

    Raises:
        ConfigurationError: an argument is wrong, or there are no settings.
    """
    try:
        check_queue_name(name, "queue")
        given = getattr(settings, "VTRR", {})
    except ValidationError as error:
        raise ConfigurationError(str(error)) from error
    except ImproperlyConfigured as error:
        raise ConfigurationError(
            "expected Django settings, or a base_url, got neither: set DJANGO_SETTINGS_MODULE for "
            "a queue of a project, or say with base_url where vtrr_serve serves it"
        ) from error
    if name in conf.queue_names(given):
        return get_queue(name)
    said = {"LEASE_SECONDS": lease_seconds, "COMPLETED_RETENTION": completed_retention}
    # What settings say of all queues counts for this one too.
    common = {key: given[key] for key in conf.COMMON if key in given}
    return _Undeclared(name, conf.parse({**common, "QUEUES": {name: said}}).queues[name])
