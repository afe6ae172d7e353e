"""Celery's beat, where the rows of django-celery-beat say what it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import apps
from django.core import checks
from django.core.checks import CheckMessage
from django.utils.module_loading import import_string

from vtrr_django.checks.declared import declared_queues


def check_beat_scheduler(**kwargs: Any) -> list[CheckMessage]:
    """W015: a scheduler that reads no rows, where django-celery-beat is installed."""
    if not apps.is_installed("django_celery_beat"):
        return []
    name = import_string("vtrr_django.contrib.beat.facts.other_scheduler")()
    if name is None:
        return []
    return [
        checks.Warning(
            f"Beat's scheduler is {name!r}, which does not read the rows of django-celery-beat: "
            "it reclaims as settings say, and what is edited in the admin has no effect.",
            hint=(
                "Set CELERY_BEAT_SCHEDULER to "
                "'django_celery_beat.schedulers:DatabaseScheduler', or take django_celery_beat "
                "out of INSTALLED_APPS."
            ),
            obj="settings.CELERY_BEAT_SCHEDULER",
            id="vtrr.W015",
        )
    ]


def check_beat_rows(*, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """W015: no row has beat look after a queue; it connects, so only when asked to."""
    if not databases or not declared_queues() or not apps.is_installed("django_celery_beat"):
        return []
    missing = import_string("vtrr_django.contrib.beat.facts.missing_tasks")(databases)
    if not missing:
        return []
    return [
        checks.Warning(
            f"No periodic task of django-celery-beat calls {', '.join(missing)}: beat does not "
            "look after these queues.",
            hint=(
                "Run manage.py vtrr_schedule, which migrate does at its end. One that is not "
                "wanted is disabled instead of deleted."
            ),
            obj="settings.VTRR['QUEUES']",
            id="vtrr.W015",
        )
    ]
