"""Jobs that a rename in settings left behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage
from django.db import DatabaseError, connections

from vtrr_django import strays
from vtrr_django.checks.declared import declared_queues
from vtrr_django.domain.job import Stray
from vtrr_django.models import Job
from vtrr_django.registry import get_queue


def check_databases_for_strays(
    *, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """W018: jobs in a queue that settings do not declare; ``migrate`` asks for it too."""
    if not databases or not declared_queues():
        return []
    return _messages(strays.in_databases(filter(_is_migrated, databases)))


def check_stores_for_strays(**kwargs: Any) -> list[CheckMessage]:
    """W018: the same in Redis. It connects: only for ``--deploy``."""
    queues = [get_queue(name) for name, _ in declared_queues()]
    return _messages(strays.in_stores(queues)) if queues else []


def _is_migrated(alias: str) -> bool:
    """Return whether a database has the tables: another of the project's need not."""
    try:
        return Job._meta.db_table in connections[alias].introspection.table_names()
    except DatabaseError:  # whoever migrates will see
        return False


def _messages(found: Sequence[Stray]) -> list[CheckMessage]:
    return [
        checks.Warning(
            sentence,
            hint="vtrr_stats and the admin's page of all queues say so too, until they are gone.",
            obj="settings.VTRR['QUEUES']",
            id="vtrr.W018",
        )
        for sentence in strays.told(found)
    ]
