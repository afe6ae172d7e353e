"""What was done about rows, in words."""

from __future__ import annotations

from collections.abc import Iterator

from vtrr_django.contrib.beat import rows
from vtrr_django.contrib.beat.plan import wanted_rows
from vtrr_django.contrib.beat.rows import Change
from vtrr_django.exceptions import ConfigurationError

_FIELDS = {
    "schedule": "every {}",
    "queue": "Celery queue {}",
    "priority": "priority {}",
    "expire_seconds": "expires after {} s",
}


def schedule(*, dry_run: bool, remove: bool) -> Iterator[str]:
    """Make the rows, or ``remove`` them, and say of each what was done.

    Raises:
        ConfigurationError: settings are wrong, or the database was not migrated.
        DatabaseError: the database refused it.
    """
    alias = rows.database()
    if not rows.has_table(alias):
        raise ConfigurationError(
            f"expected the tables of django_celery_beat in database {alias!r}, got none; run "
            f"manage.py migrate --database={alias} first"
        )
    for change in rows.sync([] if remove else wanted_rows(), dry_run=dry_run):
        yield told(change, would_be="would be " if dry_run else "")


def told(change: Change, *, would_be: str = "") -> str:
    """Return a sentence about one row."""
    task = f"Periodic task {change.name}"
    if change.what == rows.LEFT_ALONE:
        return (
            f"{task}: left alone, for it is not ours, and ours cannot have its name too. Rename "
            "or delete it, then run manage.py vtrr_schedule."
        )
    done = f"{would_be if change.what in rows.CHANGED else ''}{change.what}"
    written = [
        _FIELDS[field].format(value) for field, value in change.values.items() if value is not None
    ]
    kept = [field.replace("_", " ") for field in change.kept]
    if not change.enabled:
        kept.append("disabled")
    by_hand = f"; kept as edited by hand: {', '.join(kept)}" if kept else ""
    return f"{task}: {', '.join([done, *written])}{by_hand}."
