"""Tests that need django-celery-beat in ``INSTALLED_APPS``.

``tests/beat/test_inside.py`` runs them, in a pytest of their own; the others leave them out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.test import override_settings

INSTALLED = apps.is_installed("django_celery_beat")
collect_ignore_glob = [] if INSTALLED else ["*"]


def queues(**more: dict[str, Any]) -> override_settings:
    """Return what declares queues."""
    return override_settings(VTRR={"QUEUES": more})


def table() -> list[dict[str, Any]]:
    """Return all rows of beat, as they are."""
    from django_celery_beat.models import PeriodicTask

    return list(PeriodicTask.objects.order_by("pk").values())


def last_update() -> Any:
    """Return what a running beat looks at: when something last changed."""
    from django_celery_beat.models import PeriodicTasks

    return PeriodicTasks.last_change()


@pytest.fixture
def schedule(db: None) -> Callable[..., str]:
    """``vtrr_schedule``, which returns what it printed."""
    from tests.commands.manage import call

    return lambda *arguments: call("vtrr_schedule", *arguments)
