"""Settings of a measured process, the same for both sides.

Environment:
    VTRR_BENCH: JSON with ``site``, ``databases``, ``vtrr``, ``celery`` and ``more``; see
        ``benchmarks.agents``.
"""

from __future__ import annotations

import json
import os

from tests.services import install_mysql_driver

_told = json.loads(os.environ["VTRR_BENCH"])

SITE = _told["site"]
DATABASES = _told["databases"]
if any(database["ENGINE"].endswith("mysql") for database in DATABASES.values()):
    install_mysql_driver()

INSTALLED_APPS = ["django_tasks_db" if SITE == "tasks_db" else "vtrr_django"]
VTRR = _told["vtrr"]
MORE = _told["more"]
globals().update({f"CELERY_{name.upper()}": value for name, value in _told["celery"].items()})
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}

SECRET_KEY = "nothing is signed with it"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
}
