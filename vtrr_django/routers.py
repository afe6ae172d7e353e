"""A database router, for queues whose ``DATABASE`` is not the project's default one.

One SQLite file per queue, for example, so that no queue waits for another one's writes::

    DATABASES = {
        "default": {...},
        "mails": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "mails.sqlite3"},
        "uploads": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "uploads.sqlite3"},
    }
    DATABASE_ROUTERS = ["vtrr_django.routers.VTRRRouter"]
    VTRR = {"QUEUES": {"mails": {"DATABASE": "mails"}, "uploads": {"DATABASE": "uploads"}}}

Then ``manage.py migrate --database=mails`` and ``--database=uploads`` create the tables, and
plain ``migrate`` does not. Django writes down in each database what it has migrated there,
with or without tables: a queue that moves to a database later needs them made by hand,
``migrate vtrr_django zero --database=NAME`` and ``migrate --database=NAME``.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Model

from vtrr_django.conf import get_settings

APP_LABEL = "vtrr_django"


class VTRRRouter:
    """Keeps this app's tables in the databases of the queues; has no opinion on other apps."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        """Return the database of the queues, when they share one."""
        return self._only_database(model)

    def db_for_write(self, model: type[Model], **hints: Any) -> str | None:
        """Return the database of the queues, when they share one."""
        return self._only_database(model)

    def allow_relation(self, obj1: Model, obj2: Model, **hints: Any) -> bool | None:
        """Relate rows of this app inside one database only; leave the rest to Django."""
        if obj1._meta.app_label == obj2._meta.app_label == APP_LABEL:
            return obj1._state.db == obj2._state.db
        return None

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        """Create this app's tables where some queue needs them, and nowhere else."""
        return db in queue_databases() if app_label == APP_LABEL else None

    def _only_database(self, model: type[Model]) -> str | None:
        # With several, Django goes on to the database a row came from, then to "default".
        if model._meta.app_label != APP_LABEL:
            return None
        databases = queue_databases()
        return next(iter(databases)) if len(databases) == 1 else None


def queue_databases() -> set[str]:
    """Return the ``DATABASES`` aliases that queues use.

    Raises:
        ConfigurationError: ``settings.VTRR`` is wrong.
    """
    return {config.database for config in get_settings().queues.values()}
