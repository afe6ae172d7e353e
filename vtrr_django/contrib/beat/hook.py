"""After ``migrate``: beat's rows follow settings."""

from __future__ import annotations

import logging
from typing import Any

from django.apps import AppConfig
from django.core.exceptions import ValidationError
from django.db import DatabaseError
from django.db.models.signals import post_migrate

from vtrr_django.contrib.beat import rows
from vtrr_django.contrib.beat.plan import wanted_rows
from vtrr_django.contrib.beat.telling import told
from vtrr_django.exceptions import VTRRError

logger = logging.getLogger("vtrr_django.beat")


def connect(config: AppConfig) -> None:
    """Have the rows made whenever migrations have run; ``AppConfig.ready()`` calls it."""
    post_migrate.connect(make_rows, sender=config, dispatch_uid="vtrr_django.contrib.beat")


def make_rows(*, using: str, verbosity: int = 1, **kwargs: Any) -> None:
    """Make the rows, if it is their database that was migrated, and say what changed.

    Whatever hinders it is logged: the migrations are done, and ``vtrr_schedule`` can do the
    rest later.
    """
    if using != rows.database() or not rows.has_table(using):
        return
    try:
        changes = rows.sync(wanted_rows())
    except (DatabaseError, ValidationError, VTRRError) as error:
        logger.warning(
            "the periodic tasks of the queues could not be made (%s: %s); correct that, then run "
            "manage.py vtrr_schedule",
            type(error).__name__,
            error,
        )
        return
    stdout = kwargs.get("stdout")
    for change in changes:
        if stdout is not None and verbosity >= 1 and change.what != rows.UNCHANGED:
            stdout.write(f"  {told(change)}")
