"""Settings of the site that the browser visits: the admin, with a strict policy on every page.

Environment:
    VTRR_TEST_SETTINGS: ``settings.VTRR`` as JSON.
"""

import json
import os

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as _APPS
from tests.settings import MIDDLEWARE as _MIDDLEWARE

VTRR = json.loads(os.environ.get("VTRR_TEST_SETTINGS", "{}"))
ROOT_URLCONF = "tests.browser.site.urls"
ALLOWED_HOSTS = ["127.0.0.1"]
INSTALLED_APPS = [*_APPS, "tests.browser.site"]
MIDDLEWARE = ["tests.browser.site.middleware.strict_policy", *_MIDDLEWARE]
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"kept": {"class": "tests.browser.site.told.Keeper"}},
    "root": {"handlers": ["kept"], "level": "WARNING"},
    "loggers": {
        # Django's own goes to the terminal, and mails.
        "django": {"handlers": [], "level": "WARNING"},
        "vtrr_django": {"level": "DEBUG"},
    },
}
