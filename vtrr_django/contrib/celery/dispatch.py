"""Declaring a queue's Celery task, and sending its triggers."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

import celery
from celery import _state as celery_state
from celery.exceptions import CeleryError
from django.apps import apps
from django.utils.module_loading import autodiscover_modules

from vtrr_django.contrib.celery import line, reclaim
from vtrr_django.contrib.celery.broker import (
    RETRY_POLICY,
    Silence,
    logger,
    producer_of,
    waiting,
)
from vtrr_django.contrib.celery.pool import limits_of
from vtrr_django.contrib.celery.task import declare
from vtrr_django.dispatching import LONGEST_CALL
from vtrr_django.domain.forks import at_fork
from vtrr_django.exceptions import UnknownQueueError
from vtrr_django.tasks import Runnable

if TYPE_CHECKING:
    from vtrr_django.queue import Queue

COUNT_EVERY: Final = 1.0
"""Seconds between two counts by a process whose triggers replace themselves."""


_dispatchers: WeakSet[CeleryDispatcher] = WeakSet()


def _begin_anew() -> None:
    """Renew what a thread may have held that was not forked."""
    for dispatcher in list(_dispatchers):
        dispatcher._begin()


at_fork(after_in_child=_begin_anew)


class CeleryDispatcher:
    """Sends the triggers of one queue.

    A trigger that ran a job sends its successor, one for one and without counting, and one
    that found nothing ends: so nobody has to ask whether jobs wait. Whoever makes jobs
    runnable (an enqueue, a resume, a reclaim) sends triggers, so many that at most
    ``MAX_CONCURRENCY`` wait in the broker; if that many wait already, each of them will
    look at the store after the job got there, so none is missing.

    Args:
        queue: whose triggers.
        app: the Celery app; None: whichever is current when a trigger is sent.
        periodic: whether ``beat_schedule`` has the reclaim of this queue; None: unless
            django-celery-beat is installed, whose rows an entry would be written over.
    """

    def __init__(self, queue: Queue, app: Any = None, *, periodic: bool | None = None) -> None:
        self._queue = queue
        self._app = app
        self._periodic = periodic
        self._runnable: Runnable | None = None
        """What triggers are sent for: its Celery task is there."""
        self._wanted: Runnable | None = None
        """What is declared on each app."""
        self._next_count = 0.0
        self._woken: dict[int, None] = {}
        self._complaints = Silence(10.0)
        self._begin()
        _dispatchers.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()

    # -- declaring -----------------------------------------------------------------

    @property
    def app(self) -> Any:
        """The Celery app that triggers go through."""
        return celery.current_app._get_current_object() if self._app is None else self._app

    def attach(self, runnable: Runnable) -> None:
        """Declare the Celery task of the queue, on every app there is or will be.

        Raises:
            ValueError: the queue has another task already.
        """
        with self._lock:
            first = self._wanted
            if first is not None and first.name != runnable.name:
                raise ValueError(
                    f"expected one task on queue {self._queue.name!r}, which is run by Celery, "
                    f"got {runnable.name!r} besides {first.name!r}"
                )
            self._wanted = runnable
        if self._app is not None:
            self._declare_on(self._app)
        else:
            if first is None:
                celery_state.connect_on_app_finalize(self._declare_on)
            for app in celery_state._get_active_apps():
                if app.finalized:
                    self._declare_on(app)
        self._runnable = runnable

    def _declare_on(self, app: Any) -> None:
        runnable = self._wanted
        try:
            celery_queue = self._queue.config.celery_queue
        except UnknownQueueError:
            return  # in tests settings change, and with them who runs a queue
        if runnable is None or celery_queue is None:
            return
        declare(app, self._queue, runnable)
        periodic = self._periodic
        if periodic is None:
            periodic = not apps.is_installed("django_celery_beat")
        reclaim.declare(app, self._queue, periodic=periodic)

    def _task(self) -> Any:
        """Return the Celery task of the queue.

        Raises:
            CeleryError: no task was declared.
        """
        if self._runnable is None:
            self._queue.attach()
        if self._runnable is None:
            # As in a command: it needs no tasks module, but a trigger needs a name.
            autodiscover_modules("tasks")
        if self._runnable is None:
            raise CeleryError(
                f"expected a task on queue {self._queue.name!r}, got none: declare it with "
                "@queue.task in a tasks module of an installed app, or import its module"
            )
        return self.app.tasks[self._runnable.name]

    # -- sending -------------------------------------------------------------------

    def dispatch(self, count: int) -> int:
        """Send up to ``count`` triggers, as far as ``MAX_CONCURRENCY`` allows.

        Returns how many were sent. A broker that is down is logged: the jobs are stored,
        and the next reclaim sends what is missing.
        """
        return self._send(count)

    def dispatch_waiting(self) -> int:
        """Send as many triggers as jobs are ready; see :meth:`dispatch`."""
        return self._send(None)

    def wake(self, delay: float) -> None:
        """Send a trigger that arrives in ``delay`` seconds, when a job is due.

        One for all jobs that are due in the same second: it is replaced like any other
        until nothing is left. Beyond a minute it is left to the reclaim, which promotes
        what is due: a worker keeps messages that are not due in its memory.
        """
        if delay > LONGEST_CALL or self.app.conf.task_always_eager:
            return
        second = math.ceil(time.time() + delay)
        with self._lock:
            if second in self._woken:
                return
            self._woken[second] = None
            while len(self._woken) > 2 * LONGEST_CALL:
                del self._woken[next(iter(self._woken))]
        # Workers look at the clock of their own machine; the store at its own.
        if not self._try_to_send(countdown=max(0.0, second - time.time())):
            with self._lock:
                self._woken.pop(second, None)

    def replace(self) -> bool:
        """Send the successor of a trigger that ran a job; return whether it needs no more.

        Every second one process counts, and leaves it out when enough triggers wait: what
        adds triggers beyond the count (retries, redelivered messages) must not add up.
        """
        now = time.monotonic()
        if now < self._next_count:
            return self._send_quickly()
        self._next_count = now + COUNT_EVERY
        try:
            task = self._task()
            with producer_of(task.app) as producer:
                if self._room(producer, task.app) > 0:
                    self._apply(task, producer)
                else:
                    self._next_count = now
        except Exception as error:  # noqa: BLE001 - the caller sends it again
            self._complain(error)
            return False
        return True

    def later(self, pause: float) -> bool:
        """Send a trigger again in ``pause`` seconds, as when the store is down."""
        return self._try_to_send(countdown=pause)

    def after_a_death(self) -> bool:
        """Send a trigger that arrives when a lease which nobody renews has run out.

        Its lease brings the job back first, so that a death needs neither beat nor cron.
        """
        return self.later(self._queue.config.lease_seconds + 1)

    def _send(self, count: int | None) -> int:
        sent = 0
        if self.app.conf.task_always_eager:
            self._apply(self._task(), None)  # raises what the job did, if it is to propagate
            return 1
        try:
            task = self._task()
            quickly = self._send_room_quickly(task, count)
            if quickly is not None:
                return quickly
            with producer_of(task.app) as producer:
                room = self._room(producer, task.app)
                if count is None:
                    count = self._waiting_jobs() if room > 0 else 0
                for _ in range(min(count, room)):
                    self._apply(task, producer)
                    sent += 1
            line.prepare(task.app)
        except Exception as error:  # noqa: BLE001 - the jobs are stored; the caller is no part of it
            self._complain(error)
        return sent

    def _send_room_quickly(self, task: Any, count: int | None) -> int | None:
        """Send as :meth:`_send`; None: nothing was sent, it takes the usual way."""
        config = self._queue.config
        celery_queue = str(config.celery_queue)
        found = line.waiting(task.app, celery_queue)
        if found is None:
            return None
        room = config.max_concurrency - found
        if room > 0 and count is None:
            count = self._waiting_jobs()
        wanted = min(count or 0, room)
        if wanted <= 0:
            return 0
        return wanted if line.send(task, celery_queue, wanted, **self._options(task)) else None

    def _try_to_send(self, **options: Any) -> bool:
        try:
            task = self._task()
            self._apply(task, None, **options)
        except Exception as error:  # noqa: BLE001 - said here; the caller sends it again
            self._complain(error)
            return False
        return True

    def _send_quickly(self) -> bool:
        try:
            task = self._task()
            celery_queue = str(self._queue.config.celery_queue)
            if line.send(task, celery_queue, **self._options(task)):
                return True
            self._apply(task, None)
            line.prepare(task.app)
        except Exception as error:  # noqa: BLE001 - said here; the caller sends it again
            self._complain(error)
            return False
        return True

    def _options(self, task: Any) -> dict[str, Any]:
        drain = self._queue.config.options.get("DRAIN_SECONDS")
        hard = limits_of(task)[0] if drain else None
        # Celery's limit is one for all the jobs that a trigger runs.
        return {} if hard is None or not drain else {"time_limit": hard + drain + 1}

    def _apply(self, task: Any, producer: Any, **options: Any) -> None:
        options |= self._options(task)
        task.apply_async(
            queue=self._queue.config.celery_queue,
            producer=producer,
            retry=True,
            retry_policy=RETRY_POLICY,
            add_to_parent=False,
            **options,
        )

    def _room(self, producer: Any, app: Any) -> int:
        config = self._queue.config
        try:
            return config.max_concurrency - waiting(producer, app, str(config.celery_queue))
        except Exception as error:  # noqa: BLE001 - then rather a few triggers too many
            unsaid = self._complaints.broken()
            if unsaid is not None:
                logger.warning(
                    "the triggers of queue %s that wait in the broker cannot be counted (%s: %s): "
                    "sending up to %d",
                    self._queue.name,
                    type(error).__name__,
                    error,
                    config.max_concurrency,
                    extra={"queue": self._queue.name},
                )
            return config.max_concurrency

    def _waiting_jobs(self) -> int:
        return self._queue.engine.waiting()

    def _complain(self, error: Exception) -> None:
        unsaid = self._complaints.broken()
        if unsaid is None:
            return
        logger.error(
            "triggers of queue %s could not be sent (%s: %s)%s: its jobs are stored and wait for "
            "the next reclaim (beat, manage.py vtrr_reclaim) or the next enqueue",
            self._queue.name,
            type(error).__name__,
            error,
            f", nor {unsaid} times before" if unsaid else "",
            exc_info=None if isinstance(error, (CeleryError, OSError)) else error,
            extra={"queue": self._queue.name},
        )
