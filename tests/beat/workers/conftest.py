"""Sites with real workers, as for the tests of Celery."""

from __future__ import annotations

from tests.celery.conftest import _django_db_helper, open_site

__all__ = ["_django_db_helper", "open_site"]
