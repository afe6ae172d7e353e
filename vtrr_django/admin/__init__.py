"""The admin: see who waits and why, and steer it. Pages read; what they do, queues do."""

from vtrr_django.admin import history, queues

__all__ = ["history", "queues"]
