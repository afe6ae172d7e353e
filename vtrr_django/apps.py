"""The app as Django knows it."""

from __future__ import annotations

import sys

from django.apps import AppConfig, apps


class VTRRConfig(AppConfig):
    """``INSTALLED_APPS += ["vtrr_django"]`` finds this class by itself."""

    name = "vtrr_django"
    verbose_name = "Fair queues"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks; connect what logs; tell Celery about tasks."""
        from vtrr_django import checks, logs
        from vtrr_django.queue import attach_all

        checks.register()
        logs.connect()
        attach_all()
        if sys.modules.get("celery"):  # without it there is no app, and it is slow to import
            from vtrr_django.contrib.beat import periodic

            periodic.connect()
        if apps.is_installed("django_celery_beat"):
            from vtrr_django.contrib.beat import hook

            hook.connect(self)
