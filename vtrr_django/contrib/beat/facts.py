"""What the system checks want to know of beat's rows."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import celery
from celery.app.defaults import DEFAULTS
from celery.utils.imports import load_extension_class_names, symbol_by_name
from django.conf import settings
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler

from vtrr_django.contrib.beat.plan import wanted_rows
from vtrr_django.contrib.beat.rows import database, has_table


def missing_tasks(aliases: Collection[str]) -> list[str]:
    """Return the Celery tasks that no row calls, ours or another; it connects.

    Args:
        aliases: the databases that may be asked; without the one of the rows, and before it
            was migrated, nothing is missing.
    """
    alias = database()
    if alias not in aliases or not has_table(alias):
        return []
    tasks = [one.task for one in wanted_rows()]
    rows = PeriodicTask.objects.using(alias).filter(task__in=tasks)
    known = set(rows.values_list("task", flat=True))
    return [task for task in tasks if task not in known]


def other_scheduler() -> str | None:
    """Return the scheduler that the app names, if it reads no rows; connects to nothing."""
    conf: Any = celery.current_app.conf
    name = conf.beat_scheduler
    named = (
        name != DEFAULTS["beat_scheduler"]
        or conf.value_set_for("beat_scheduler")
        or hasattr(settings, "CELERY_BEAT_SCHEDULER")  # Celery 5.4 does not see the namespace
    )
    return None if not named or reads_rows(_class_of(name)) else str(name)


def reads_rows(scheduler: Any) -> bool:
    """Return whether a class of schedulers is django-celery-beat's."""
    return isinstance(scheduler, type) and issubclass(scheduler, DatabaseScheduler)


def _class_of(name: Any) -> Any:
    """Find a scheduler as beat does; None: there is none, which beat will say."""
    try:
        aliases = dict(load_extension_class_names("celery.beat_schedulers"))
        return symbol_by_name(name, aliases=aliases)
    except (AttributeError, ImportError, ValueError):
        return None
