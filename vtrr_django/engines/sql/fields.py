"""Columns that mean the same on every database.

Names compare byte by byte everywhere, and moments are whole microseconds since the
epoch: independent of ``USE_TZ``, of session time zones and of the repeated hour when
summer time ends, in which a lease kept as local time would last an hour too long.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

if TYPE_CHECKING:
    _CharField = models.CharField[Any, Any]
    _TextField = models.TextField[Any, Any]
    _BigIntegerField = models.BigIntegerField[Any, Any]
else:
    _CharField, _TextField, _BigIntegerField = (
        models.CharField,
        models.TextField,
        models.BigIntegerField,
    )

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_microseconds(moment: datetime) -> int:
    """Return an aware datetime as whole microseconds since the epoch."""
    return (moment - _EPOCH) // _MICROSECOND


def from_microseconds(microseconds: int) -> datetime:
    """Return microseconds since the epoch as an aware UTC datetime."""
    return _EPOCH + timedelta(microseconds=microseconds)


def binary_collation(connection: BaseDatabaseWrapper, *, key: bool) -> str | None:
    """Return the collation under which different byte strings are different.

    MariaDB's and MySQL's defaults ignore case, accents and trailing blanks; a project's
    PostgreSQL may sort by language. SQLite compares bytes by default.
    """
    if connection.vendor == "mysql":
        mariadb = getattr(connection, "mysql_is_mariadb", True)
        return "utf8mb4_nopad_bin" if mariadb else "utf8mb4_0900_bin"
    if connection.vendor == "postgresql" and key:
        return "C"
    return None


class KeyField(_CharField):
    """A name: compared and sorted byte by byte on every database."""

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        return super().db_parameters(connection) | {
            "collation": binary_collation(connection, key=True)
        }


class ExactTextField(_TextField):
    """Text that comes back as it went in, emoji included, whatever the database's default."""

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        return super().db_parameters(connection) | {
            "collation": binary_collation(connection, key=False)
        }


class InstantField(_BigIntegerField):
    """A moment: an aware UTC datetime in Python, microseconds since the epoch in the table."""

    def from_db_value(self, value: int | None, *args: Any) -> datetime | None:
        return None if value is None else from_microseconds(value)

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str):
            value = models.DateTimeField().to_python(value)
        if isinstance(value, datetime):
            # As a DateTimeField does: a naive time is one of the project's time zone.
            return timezone.make_aware(value) if timezone.is_naive(value) else value
        return super().to_python(value)

    def get_prep_value(self, value: Any) -> Any:
        if isinstance(value, (datetime, str)):
            return to_microseconds(self.to_python(value))
        return super().get_prep_value(value)

    def value_to_string(self, obj: models.Model) -> str:
        value = self.value_from_object(obj)
        return "" if value is None else value.isoformat()
