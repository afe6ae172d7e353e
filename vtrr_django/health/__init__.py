"""Whether queues are served: ``check_health()``, a view, and what ``vtrr_health`` prints."""

from vtrr_django.health.check import check_health, check_workers
from vtrr_django.health.report import STATUSES, Finding, HealthReport, QueueHealth, Status
from vtrr_django.health.views import health

__all__ = [
    "STATUSES",
    "Finding",
    "HealthReport",
    "QueueHealth",
    "Status",
    "check_health",
    "check_workers",
    "health",
]
