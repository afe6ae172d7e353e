"""Where the pages are."""

from __future__ import annotations

from urllib.parse import urlencode

from vtrr_django.admin.links import quoted

QUEUES = "/admin/vtrr_django/queuestate/"
FAILED = "/admin/vtrr_django/failedjob/"
COMPLETED = "/admin/vtrr_django/completedjob/"


def queue(name: str, *steps: str, **query: str) -> str:
    """Return the address of a queue's page, or of one below it."""
    path = QUEUES + "".join(f"{step}/" for step in (name, *steps))
    return f"{path}?{urlencode(query)}" if query else path


def job(name: str, job_id: str) -> str:
    """Return the address of a job's page."""
    return queue(name, "job", quoted(job_id))
