"""Telling those who run a queue that it has jobs: the seam between a queue and Celery.

``vtrr_worker`` polls and is told nothing. A queue with a ``CELERY_QUEUE`` has a
:class:`Dispatcher`; what implements it is found by its dotted path, so that nothing here
needs Celery to be installed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol, cast

from django.db import connections, transaction
from django.utils import timezone
from django.utils.module_loading import import_string

from vtrr_django.domain.job import NewJob
from vtrr_django.exceptions import ConfigurationError

if TYPE_CHECKING:
    from vtrr_django.queue import Queue
    from vtrr_django.tasks import Runnable

CELERY: Final = "vtrr_django.contrib.celery.CeleryDispatcher"
"""What dispatches the queues that have a ``CELERY_QUEUE``."""

LONGEST_CALL = 60
"""Seconds. A job due later than that is left to the reclaim, which looks every few seconds."""

LOOK_BACK = 4
"""How many callbacks of a transaction are looked at to find a call that can be added to."""


class Dispatcher(Protocol):
    """Starts runs of a queue's jobs. Its verbs raise nothing over a broker that is down."""

    def attach(self, runnable: Runnable) -> None:
        """Make ``runnable`` known to those who will run it.

        Raises:
            ValueError: the queue has its one task already.
        """

    def dispatch(self, count: int) -> int:
        """Have up to ``count`` jobs run that are ready; return how many runs were started."""

    def dispatch_waiting(self) -> int:
        """Have the jobs run that are ready, however many; return how many runs were started."""

    def wake(self, delay: float) -> None:
        """Have a job run that is due in ``delay`` seconds."""


def load_dispatcher(queue: Queue) -> Dispatcher:
    """Return the dispatcher of a queue that has a ``CELERY_QUEUE``.

    Raises:
        ConfigurationError: Celery is not installed.
    """
    try:
        return cast("Dispatcher", import_string(CELERY)(queue))
    except ImportError as error:
        raise ConfigurationError(
            f"expected Celery to be installed for queue {queue.name!r}, which has a CELERY_QUEUE, "
            f"got: {error}; pip install 'vtrr-django[celery]', or set CELERY_QUEUE to None and run "
            f"manage.py vtrr_worker --queue {queue.name}"
        ) from error


class Call:
    """What a transaction owes the dispatcher once it is committed."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.ready = 0
        self.due: set[int] = set()
        # What Django calls a callback that failed, which it takes for a function.
        self.__qualname__ = type(self).__qualname__

    def __call__(self) -> None:
        if self.ready:
            self.dispatcher.dispatch(self.ready)
        for delay in sorted(self.due):
            self.dispatcher.wake(delay)

    def add(self, jobs: Iterable[NewJob]) -> None:
        """Count jobs in."""
        for job in jobs:
            delay = _delay_of(job)
            if delay <= 0:
                self.ready += 1
            elif delay <= LONGEST_CALL:
                self.due.add(math.ceil(delay))


def call_for(dispatcher: Dispatcher, jobs: Iterable[NewJob], alias: str | None) -> None:
    """Call the dispatcher for new jobs, after the commit of the transaction they are part of.

    All enqueues of one transaction make one call. (Adding to an earlier one is safe: Django
    drops it with its savepoint, and then the later enqueue was in that savepoint too.)
    """
    if alias is None:
        call = Call(dispatcher)
        call.add(jobs)
        call()
        return
    for entry in reversed(connections[alias].run_on_commit[-LOOK_BACK:]):
        known = entry[1]
        if isinstance(known, Call) and known.dispatcher is dispatcher:
            known.add(jobs)
            return
    call = Call(dispatcher)
    call.add(jobs)
    transaction.on_commit(call, using=alias, robust=True)


def _delay_of(job: NewJob) -> float:
    if job.delay is not None:
        return job.delay
    if job.due_at is not None:
        return (job.due_at - timezone.now()).total_seconds()
    return 0.0
