"""Settings of the example project.

Environment:
    VTRR_EXAMPLE_DATA: folder of the database, the uploads and the secret key;
        default ``.example-data/`` next to ``manage.py``, and ``redis/`` in there if the jobs
        are in Redis.
    VTRR_EXAMPLE_SECRET_KEY: the secret key; default: made once and kept in that folder.
    VTRR_EXAMPLE_DEBUG: ``1`` for Django's debug pages.
    VTRR_ENGINE: where the jobs are kept; default ``orm``, in the database, run by
        ``vtrr_worker``. ``redis``: in Redis, run by Celery.
    VTRR_EXAMPLE_REDIS: where that Redis is, ``redis://[:password@]host:port[/number]``;
        default: where ``make serve`` had it last.
"""

from __future__ import annotations

import os
from typing import Any

from example_project import environment
from example_project.secret_key import read_or_create

BASE_DIR = environment.ROOT
DATA_DIR = environment.data_dir()
DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)

DEBUG = os.environ.get("VTRR_EXAMPLE_DEBUG") == "1"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
SECRET_KEY = os.environ.get("VTRR_EXAMPLE_SECRET_KEY") or read_or_create(DATA_DIR / "secret-key")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.humanize",
    "django.contrib.staticfiles",
    "vtrr_django",
    "example_project.uploads",
]

_UPLOADS: dict[str, Any] = {
    "ENGINE": environment.engine(),
    "COMPLETED_RETENTION": 10_000,
    # A job takes a good part of a second: leasing several at once saves nothing
    # and would make the last of them wait for the first.
    "PREFETCH": 1,
    # The default, but under Celery: said here, it is the same whoever runs the jobs.
    "RETRY": {"max_retries": 3},
}
if _UPLOADS["ENGINE"] == "redis":
    _UPLOADS |= {"URL": environment.redis_url(), "CELERY_QUEUE": "vtrr_uploads"}
    CELERY_BROKER_URL = environment.redis_url()
    CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
    CELERY_WORKER_HIJACK_ROOT_LOGGER = False  # LOGGING below is meant for workers, too
VTRR = {"QUEUES": {"uploads": _UPLOADS}}

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATA_DIR / "db.sqlite3",
        "OPTIONS": {
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
        },
        # A file in tests too, not memory: the threads of a worker open the same database.
        "TEST": {"NAME": DATA_DIR / "test.sqlite3"},
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "example_project.middleware.content_security_policy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "example_project.urls"
WSGI_APPLICATION = "example_project.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "example_project" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "uploads:index"
LOGOUT_REDIRECT_URL = "login"
# Cookies are not told apart by port: another Django project on this host keeps its own.
SESSION_COOKIE_NAME = "vtrr_example_session"
CSRF_COOKIE_NAME = "vtrr_example_csrf"
CSRF_COOKIE_HTTPONLY = True
X_FRAME_OPTIONS = "DENY"

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "example_project" / "static"]
MEDIA_ROOT = DATA_DIR / "media"
FILE_UPLOAD_PERMISSIONS = 0o600
FILE_UPLOAD_DIRECTORY_PERMISSIONS = 0o700

UPLOADS_MAX_FILES = 200
UPLOADS_MAX_FILE_BYTES = 10 * 1024 * 1024
UPLOADS_MAX_REQUEST_BYTES = 200 * 1024 * 1024
# Django itself refuses a request with more files than this, without a friendly word.
DATA_UPLOAD_MAX_NUMBER_FILES = 5 * UPLOADS_MAX_FILES

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        "django.server": {"handlers": ["console"], "level": "WARNING", "propagate": False},
        "example_project": {"level": "INFO"},
        "vtrr_django": {"level": "INFO"},
    },
}
