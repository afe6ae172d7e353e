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

if SITE == "pages":
    _CONTRIB = "django.contrib"
    INSTALLED_APPS += [
        f"{_CONTRIB}.{name}"
        for name in ("admin", "auth", "contenttypes", "messages", "sessions", "staticfiles")
    ]
    MIDDLEWARE = [
        f"{_CONTRIB}.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        f"{_CONTRIB}.auth.middleware.AuthenticationMiddleware",
        f"{_CONTRIB}.messages.middleware.MessageMiddleware",
    ]
    _PROCESSORS = [
        "django.template.context_processors.request",
        f"{_CONTRIB}.auth.context_processors.auth",
        f"{_CONTRIB}.messages.context_processors.messages",
    ]
    TEMPLATES = [
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {"context_processors": _PROCESSORS},
        }
    ]
    ROOT_URLCONF = "benchmarks.sites.pages"
    STATIC_URL = "static/"
    ALLOWED_HOSTS = ["testserver"]

SECRET_KEY = "nothing outside a run is signed with it"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
}
