"""System checks: what is wrong in settings is said before a job meets it.

``manage.py check --tag vtrr`` runs these alone, except those that have to connect: those for
databases belong to ``manage.py check --database ALIAS``, the one for Redis to ``--deploy``.
"""

from __future__ import annotations

from collections.abc import Callable

from django.core import checks
from django.core.checks import CheckMessage, Tags

from vtrr_django.checks.beat import check_beat_rows, check_beat_scheduler
from vtrr_django.checks.celery import check_celery_app, check_celery_queues
from vtrr_django.checks.databases import check_database_versions, check_databases, check_router
from vtrr_django.checks.engines import check_engines, check_redis, check_redis_servers
from vtrr_django.checks.http import check_loopback, check_secrets
from vtrr_django.checks.leases import check_leases, check_limits, check_time_limits
from vtrr_django.checks.settings import check_settings, check_unused
from vtrr_django.checks.strays import check_databases_for_strays, check_stores_for_strays

__all__ = [
    "TAG",
    "check_beat_rows",
    "check_beat_scheduler",
    "check_celery_app",
    "check_celery_queues",
    "check_database_versions",
    "check_databases",
    "check_databases_for_strays",
    "check_engines",
    "check_leases",
    "check_limits",
    "check_loopback",
    "check_redis",
    "check_redis_servers",
    "check_router",
    "check_secrets",
    "check_settings",
    "check_stores_for_strays",
    "check_time_limits",
    "check_unused",
    "register",
]

TAG = "vtrr"


def register() -> None:
    """Register all checks; ``AppConfig.ready()`` calls it."""
    offline: tuple[Callable[..., list[CheckMessage]], ...] = (
        check_settings,
        check_secrets,
        check_engines,
        check_redis,
        check_unused,
        check_databases,
        check_router,
        check_leases,
        check_limits,
        check_celery_queues,
        check_celery_app,
        check_beat_scheduler,
        check_time_limits,
    )
    for check in offline:
        checks.register(check, TAG)
    checks.register(check_redis_servers, TAG, deploy=True)
    checks.register(check_loopback, TAG, deploy=True)
    checks.register(check_stores_for_strays, TAG, deploy=True)
    # Without TAG: Django 6.1 runs what is tagged "database" when one of its tags is asked for.
    checks.register(check_database_versions, Tags.database)
    checks.register(check_beat_rows, Tags.database)
    checks.register(check_databases_for_strays, Tags.database)
