"""Settings of a site whose admin django-unfold draws.

Unfold has scripts inside its pages, which a strict policy would stop: here is none.
"""

from tests.browser.site.settings import *  # noqa: F403
from tests.browser.site.settings import INSTALLED_APPS as _APPS
from tests.settings import MIDDLEWARE as _MIDDLEWARE

INSTALLED_APPS = ["unfold", *_APPS]
MIDDLEWARE = ["tests.browser.site.middleware.fresh_content_types", *_MIDDLEWARE]
