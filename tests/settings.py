"""Settings of the tests: the app on every database that answers; nothing here needs Redis.

Environment:
    VTRR_TEST_DATABASES: set by ``conftest.py``; a process that a test starts then works
        in the databases of that run: JSON, alias -> name.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tests import services


def _claim_slot() -> Path:
    """Return an empty folder that is ours until this process ends.

    Its number also names the databases on the servers. So two runs at the same time do
    not meet, and what a killed run left behind is cleared away by a later one.
    """
    home = Path(tempfile.gettempdir()) / f"vtrr-tests-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    for number in itertools.count():
        lock = os.open(home / f"{number}.lock", os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        # The lock stays open: the system drops it with the process, however that ends.
        slot = home / str(number)
        shutil.rmtree(slot, ignore_errors=True)
        slot.mkdir()
        return slot
    raise AssertionError("itertools.count() does not end")


# A file, not memory: threads and other processes open the same database.
SQLITE: dict[str, Any] = {
    "ENGINE": "django.db.backends.sqlite3",
    "OPTIONS": {
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
    },
}

if "VTRR_TEST_DATABASES" in os.environ:
    _names = json.loads(os.environ["VTRR_TEST_DATABASES"])
    DATABASES = {
        alias: (services.SERVICES[alias].settings() if alias != "default" else SQLITE)
        | {"NAME": name}
        for alias, name in _names.items()
    }
else:
    _slot = _claim_slot()
    DATABASES = {
        "default": SQLITE
        | {"NAME": _slot / "default.sqlite3", "TEST": {"NAME": str(_slot / "test.sqlite3")}}
    }
    for _alias in services.DATABASES:
        if services.why_missing(_alias) is None:
            _database = services.SERVICES[_alias].settings()
            _test = _database.get("TEST", {}) | {"NAME": f"test_vtrr_{_slot.name}"}
            DATABASES[_alias] = _database | {"TEST": _test}

if "mariadb" in DATABASES:
    services.install_mysql_driver()

CACHES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "vtrr": {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": services.SERVICES["redis"].url("redis"),
        "OPTIONS": {"SOCKET_TIMEOUT": 5, "SOCKET_CONNECT_TIMEOUT": 3},
    },
}

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "vtrr_django",
    "tests.app",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
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
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SECRET_KEY = "not a secret: nothing outside a test run is signed with it"
STATIC_URL = "static/"
USE_TZ = True
# The real hashers are slow on purpose.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
