"""Which tests of the example can run under the settings in force."""

from __future__ import annotations

import os

# The site's tests need the site's settings; test_site.py starts pytest again with those.
UNDER_THE_SITES_SETTINGS = os.environ.get("DJANGO_SETTINGS_MODULE") == "example_project.settings"
collect_ignore = [] if UNDER_THE_SITES_SETTINGS else ["site"]
