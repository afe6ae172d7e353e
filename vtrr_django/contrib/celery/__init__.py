"""Running queues with Celery: what a queue with a ``CELERY_QUEUE`` uses.

A *trigger* is an empty Celery message. The worker that gets it leases one job from the
queue and runs it, in one hop, and sends the next trigger. So the fair decision is made
when a worker is free, and a message that is lost loses no job: the jobs are in the store.

- ``dispatch``: declaring the Celery tasks, and how many triggers are sent when.
- ``broker``: counting and sending messages.
- ``task``: the Celery task class; ``request``: what the worker's parent process does.
- ``running``: one trigger from lease to end; ``station``: what a pool process keeps;
  ``caretaker``: the threads that look after it.
- ``reclaim``: the periodic task; ``plain``: :class:`VTRRQueue`.
"""

from __future__ import annotations

from vtrr_django.contrib.celery.dispatch import CeleryDispatcher
from vtrr_django.contrib.celery.plain import VTRRQueue

__all__ = ["CeleryDispatcher", "VTRRQueue"]
