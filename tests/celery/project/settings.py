"""Settings of the project: those of the tests, and what the plan says."""

from __future__ import annotations

from tests.celery.project.plan import current
from tests.settings import *  # noqa: F403 - a Django settings module
from tests.settings import INSTALLED_APPS

_plan = current()
INSTALLED_APPS = [*INSTALLED_APPS, "tests.celery.project"]
SILENCED_SYSTEM_CHECKS = ["vtrr.W002"]  # the leases are short on purpose
VTRR = _plan.vtrr()
CELERY_BROKER_URL = _plan.broker
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
globals().update({f"CELERY_{name.upper()}": value for name, value in _plan.celery.items()})
