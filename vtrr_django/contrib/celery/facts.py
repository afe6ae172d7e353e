"""What the system checks want to know of the Celery app."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import celery

from vtrr_django.contrib.celery.broker import visibility_timeout
from vtrr_django.options import TaskOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class AppFacts:
    """The app that is current in this process.

    Attributes:
        fallback: it is the one Celery makes up when no app was loaded.
        default_queue: where tasks without a queue go.
        visibility_timeout: seconds after which the broker delivers a message again; None:
            it does not.
    """

    fallback: bool
    default_queue: str
    visibility_timeout: float | None


def app_facts() -> AppFacts:
    """Look at the current app; connects to nothing."""
    app: Any = celery.current_app._get_current_object()
    return AppFacts(
        fallback=app.main == "default" and app._config_source is None,
        default_queue=app.conf.task_default_queue,
        visibility_timeout=visibility_timeout(app),
    )


def limits(options: TaskOptions) -> tuple[float | None, float | None]:
    """Return the hard and the soft limit of a task with these options under the current app.

    As :func:`~vtrr_django.contrib.celery.pool.limits_of` does of one that is declared, but for
    what a worker's command line says.
    """
    app: Any = celery.current_app._get_current_object()
    base = options.base or app.Task
    return (
        options.time_limit or base.time_limit or app.conf.task_time_limit or None,
        options.soft_time_limit or base.soft_time_limit or app.conf.task_soft_time_limit or None,
    )
