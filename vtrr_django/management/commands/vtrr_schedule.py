"""``vtrr_schedule``: make the periodic tasks of django-celery-beat that look after queues."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.core.management.base import CommandError, CommandParser
from django.utils.module_loading import import_string

from vtrr_django.management.commands._base import QueueCommand


class Command(QueueCommand):
    """Do what ``migrate`` does at its end, and say more about it."""

    help = (
        "Make the periodic tasks of django-celery-beat follow settings.VTRR: those that reclaim "
        "leases and write and trim history. What was edited by hand stays. migrate does it too."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument(
            "--dry-run", action="store_true", help="Say what would be done, and do nothing."
        )
        parser.add_argument(
            "--remove",
            action="store_true",
            help="Remove all that were made by this app; the next migrate makes them again.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Make, change and remove rows."""
        if not apps.is_installed("django_celery_beat"):
            raise CommandError(
                "expected 'django_celery_beat' in INSTALLED_APPS, got none; pip install "
                "'vtrr-django[beat]' and add it, or run manage.py vtrr_reclaim --prune from cron"
            )
        schedule = import_string("vtrr_django.contrib.beat.telling.schedule")
        for text in schedule(dry_run=options["dry_run"], remove=options["remove"]):
            self.say(text, options)
