"""Settings of the processes that these tests start.

Environment:
    VTRR_TEST_SETTINGS: ``settings.VTRR`` as JSON.
    VTRR_TEST_EXTRA_APP: one more installed app.
    VTRR_TEST_HANDLER: set: the project configures a handler of its own for all logs.
    VTRR_TEST_FILES: more databases, SQLite files, as JSON: alias -> path.
    VTRR_TEST_ROUTERS: DATABASE_ROUTERS.
    VTRR_TEST_HOSTS: ALLOWED_HOSTS.
"""

import json
import os

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES as _DATABASES
from tests.settings import INSTALLED_APPS as _APPS
from tests.settings import SQLITE as _SQLITE

VTRR = json.loads(os.environ.get("VTRR_TEST_SETTINGS", "{}"))
INSTALLED_APPS = [*_APPS, *os.environ.get("VTRR_TEST_EXTRA_APP", "").split()]
DATABASES = _DATABASES | {
    alias: _SQLITE | {"NAME": path}
    for alias, path in json.loads(os.environ.get("VTRR_TEST_FILES", "{}")).items()
}
DATABASE_ROUTERS = os.environ.get("VTRR_TEST_ROUTERS", "").split()
ALLOWED_HOSTS = os.environ.get("VTRR_TEST_HOSTS", "").split()

if "VTRR_TEST_HANDLER" in os.environ:
    LOGGING = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"own": {"format": "own %(message)s"}},
        "handlers": {"own": {"class": "logging.StreamHandler", "formatter": "own"}},
        "root": {"handlers": ["own"], "level": "INFO"},
    }
