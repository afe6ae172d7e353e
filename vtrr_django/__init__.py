"""Background jobs for Django that are fair between tenants.

Importing this package reads no settings and loads no model: every public name is
fetched from its module the first time it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vtrr_django.domain.retry import RetryPolicy
    from vtrr_django.exceptions import (
        ConfigurationError,
        Discard,
        DuplicateJobError,
        Snooze,
        SoftTimeLimitExceeded,
        StoreUnavailable,
        UnknownQueueError,
        ValidationError,
        VTRRError,
    )
    from vtrr_django.queue import Queue
    from vtrr_django.registry import get_queue

__version__ = "0.1.0"

__all__ = [
    "ConfigurationError",
    "Discard",
    "DuplicateJobError",
    "Queue",
    "RetryPolicy",
    "Snooze",
    "SoftTimeLimitExceeded",
    "StoreUnavailable",
    "UnknownQueueError",
    "VTRRError",
    "ValidationError",
    "__version__",
    "get_queue",
]

if not TYPE_CHECKING:  # a type checker that saw __getattr__ would accept every name
    _HOMES = {"Queue": "queue", "RetryPolicy": "domain.retry", "get_queue": "registry"}

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f"{__name__}.{_HOMES.get(name, 'exceptions')}")
        value = globals()[name] = getattr(module, name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
