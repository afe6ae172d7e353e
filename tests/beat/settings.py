"""Settings of a project with django-celery-beat: those of the tests, with fewer databases.

For the tests in ``inside``, and for the processes that they start.
"""

from __future__ import annotations

import os

from tests.celery.project.plan import VARIABLE

if VARIABLE in os.environ:
    from tests.celery.project.settings import *  # noqa: F403 - a Django settings module
    from tests.celery.project.settings import DATABASES as _DATABASES
    from tests.celery.project.settings import INSTALLED_APPS as _APPS
else:
    from tests.settings import *  # noqa: F403
    from tests.settings import DATABASES as _DATABASES
    from tests.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = [*_APPS, "django_celery_beat"]
DATABASES = {
    alias: database for alias, database in _DATABASES.items() if alias in {"default", "postgres"}
}
