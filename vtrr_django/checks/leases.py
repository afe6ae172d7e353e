"""How long leases last, beside what renews them and what runs under them; and limits."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage, Error
from django.utils.module_loading import autodiscover_modules, import_string

from vtrr_django.checks.declared import declared_queues, queue_path
from vtrr_django.domain.config import QueueConfig
from vtrr_django.registry import get_queue
from vtrr_django.tasks import Runnable

SHORT_LEASE = 5.0
"""Seconds; a pause of a process or a store may well take a third of it, and then some."""


def check_leases(**kwargs: Any) -> list[CheckMessage]:
    """W002: leases too short to be renewed in time; W003: reclaimed long after they ran out."""
    messages: list[CheckMessage] = []
    for name, config in declared_queues():
        if config.heartbeat and config.lease_seconds < SHORT_LEASE:
            messages.append(
                checks.Warning(
                    f"A lease of {config.lease_seconds:g} s is renewed every "
                    f"{config.lease_seconds / 3:.1f} s: a short pause of the worker or of the "
                    "store makes a running job run a second time.",
                    hint=f"Use {SHORT_LEASE:g} seconds or more; 60 is the default.",
                    obj=queue_path(name, "LEASE_SECONDS"),
                    id="vtrr.W002",
                )
            )
        if config.reclaim_interval > config.lease_seconds:
            messages.append(
                checks.Warning(
                    f"A lease lasts {config.lease_seconds:g} s, but is looked for only every "
                    f"{config.reclaim_interval:g} s: the job of a worker that died waits up to "
                    f"{config.lease_seconds + config.reclaim_interval:g} s.",
                    hint="Use a RECLAIM_INTERVAL shorter than LEASE_SECONDS.",
                    obj=queue_path(name, "RECLAIM_INTERVAL"),
                    id="vtrr.W003",
                )
            )
    return messages


def check_limits(**kwargs: Any) -> list[CheckMessage]:
    """W004: a ``PARTITION_LIMIT`` that is never reached."""
    messages: list[CheckMessage] = []
    for name, config in declared_queues():
        limit, most = config.partition_limit, config.max_concurrency - config.reserve
        # Without a RESERVE it bounds no jobs: with Celery, it does the triggers that wait.
        if config.reserve and limit is not None and limit > most:
            messages.append(
                checks.Warning(
                    f"A partition never runs {limit} jobs at once: MAX_CONCURRENCY "
                    f"({config.max_concurrency}) less RESERVE ({config.reserve}) is {most}.",
                    hint=f"Use {most} or less, or change the other two.",
                    obj=queue_path(name, "PARTITION_LIMIT"),
                    id="vtrr.W004",
                )
            )
    return messages


def check_time_limits(**kwargs: Any) -> list[CheckMessage]:
    """E009: without heartbeat, a task that may outlive its lease and so run twice."""
    unrenewed = [(name, config) for name, config in declared_queues() if not config.heartbeat]
    if unrenewed:
        # Only then: a project's tasks modules may be slow to import, or not for this process.
        autodiscover_modules("tasks")
    return [
        _outlives(name, config, task, soft, hard)
        for name, config in unrenewed
        for task in get_queue(name).runnables.values()
        for hard, soft in [_limits(config, task)]
        if soft is None or hard is None or not soft < hard < config.lease_seconds
    ]


def _limits(config: QueueConfig, task: Runnable) -> tuple[float | None, float | None]:
    """Return the hard and the soft limit in force for a task, as far as settings say."""
    if config.celery_queue is None or find_spec("celery") is None:
        return task.time_limit, task.soft_time_limit
    found: tuple[float | None, float | None] = import_string(
        "vtrr_django.contrib.celery.facts.limits"
    )(task.options)
    return found


def _outlives(
    name: str, config: QueueConfig, task: Runnable, soft: float | None, hard: float | None
) -> CheckMessage:
    return Error(
        f"Task {task.name} may outlive its lease and then runs twice: expected "
        f"soft_time_limit < time_limit < LEASE_SECONDS, got {soft}, {hard}, "
        f"{config.lease_seconds:g}.",
        hint=(
            f"HEARTBEAT is False for queue {name!r}, so no lease is renewed. Give the task both "
            "limits, raise LEASE_SECONDS, or set HEARTBEAT to True."
        ),
        obj=queue_path(name, "HEARTBEAT"),
        id="vtrr.E009",
    )
