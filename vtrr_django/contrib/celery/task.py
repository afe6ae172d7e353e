"""The Celery task of a queue: a class of ours woven into the user's and the app's."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from celery import Task as CeleryTask
from celery.exceptions import Ignore, Reject
from celery.exceptions import Retry as CeleryRetry
from django.utils.module_loading import import_string

from vtrr_django.contrib.celery.broker import visibility_timeout
from vtrr_django.contrib.celery.pool import limits_of
from vtrr_django.contrib.celery.request import TriggerRequest
from vtrr_django.contrib.celery.runner import RUNNING, Run
from vtrr_django.contrib.celery.running import run_trigger
from vtrr_django.contrib.celery.station import station_of
from vtrr_django.contrib.celery.wire import OLD_RETRIED, RETRIED, dump_job
from vtrr_django.domain.job import LeasedJob
from vtrr_django.exceptions import Discard, Retry, Snooze, StoreUnavailable, ValidationError
from vtrr_django.tasks import Runnable
from vtrr_django.worker.context import refuse_change
from vtrr_django.worker.logs import job_extra, logger
from vtrr_django.worker.run import DEATHS

if TYPE_CHECKING:
    from vtrr_django.queue import Queue

KEPT_LEASES: Final = 5
"""How many times ``LEASE_SECONDS`` a kept lease outlasts the countdown of its retry."""

MARGIN: Final = 60.0
"""Seconds by which a countdown stays below the broker's visibility timeout."""

_TOLD = (Snooze, Discard, Retry, Reject, ValidationError, *DEATHS)
"""What tells how a job ends, whatever ``autoretry_for`` names, as under ``vtrr_worker``."""

_PASSED_ON = (
    "max_retries",
    "default_retry_delay",
    "autoretry_for",
    "retry_backoff",
    "retry_backoff_max",
    "retry_jitter",
    "retry_kwargs",
    "soft_time_limit",
    "time_limit",
)


class _NotNoted:
    """An attribute that may be set and deleted, and is never there."""

    def __get__(self, task: object, kind: type | None = None) -> Any:
        raise AttributeError("expected nobody to ask: what one job sets is not for the next")

    def __set__(self, task: object, value: object) -> None:
        pass

    def __delete__(self, task: object) -> None:
        pass


class RetryKwargs(Mapping[str, Any]):
    """``retry_kwargs`` of one task: what one thread sets, no other one sees.

    Celery (5.6 does, 5.7 makes a copy first) writes the countdown of the job that it retries into
    them, for the call it makes next: they were those of all jobs of the task, and of each task
    that has them from the same base class.
    """

    def __init__(self, said: Mapping[str, Any]) -> None:
        self._said = dict(said)
        self._own = threading.local()

    def _all(self) -> dict[str, Any]:
        return {**self._said, **vars(self._own)}

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self._own, name, value)

    def __getitem__(self, name: str) -> Any:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def copy(self) -> dict[str, Any]:
        """Return them as a dict."""
        return self._all()


class TriggerTask:
    """Comes first among the bases of the Celery task of every queue.

    Calling it runs a trigger. ``run`` is the user's function, which Celery wraps with
    ``autoretry_for`` as for any task, and to which the ``__call__`` of a base of the user's
    leads as for any task.
    """

    abstract = True
    vtrr_queue: Queue
    typing = False
    ignore_result = True
    Request = TriggerRequest
    # Where Celery notes the limit that one job asked for, on a task that all threads share, for
    # ``autoretry_for`` to find; ``Run.most_retries`` is that of each job.
    override_max_retries = _NotNoted()
    # What Celery's class, behind this one, brings along.
    request_stack: Any
    name: str
    run: Any

    @property
    def request(self) -> Any:
        """The message that this thread runs, or for which it runs a coroutine.

        Celery's own is a matter of the thread, and a coroutine is in another.
        """
        run = RUNNING.get()
        if run is not None and run.task is self and self.request_stack.top is None:
            return run.celery_request
        return super().request  # type: ignore[misc]

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs.get(OLD_RETRIED) is not None:
            _take_over(self.vtrr_queue, kwargs[OLD_RETRIED])
        run_trigger(self, kwargs.get(RETRIED))

    def call_function(self, job: LeasedJob) -> object:
        """Run the user's function with the job's arguments, by way of their base classes."""
        call = _call_behind(type(self))
        if call is None:
            return self.run(*job.args, **job.kwargs)
        self.request._protected = 0  # Celery's guard is for one call a message; we drain
        return call(self, *job.args, **job.kwargs)

    def apply_async(
        self, args: Any = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        """Send a trigger; to the queue's own Celery queue, whatever routes say.

        Raises:
            TypeError: for arguments: those of a job go through ``.enqueue()`` or ``.queue()``.
        """
        if args or set(kwargs or ()) - {RETRIED}:
            raise TypeError(
                f"expected no arguments: a message of {self.name} only says that a job waits; use "
                f"{self.name.rpartition('.')[2]}.enqueue(..., partition_key=...)"
            )
        options["queue"] = self.vtrr_queue.config.celery_queue
        return super().apply_async(args, kwargs, **options)  # type: ignore[misc]

    def retry(  # noqa: PLR0917 - Celery's signature
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: BaseException | None = None,
        throw: bool = True,
        eta: datetime | None = None,
        countdown: float | None = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> Any:
        """Run this very job again later, keeping its lease until then.

        As Celery's, except that other arguments than the job's are refused, and that a wait
        longer than the broker keeps messages goes through the store: the job comes back as
        a retried one then.

        Nothing is sent, and nothing asked of the store, before the function has ended: see
        :meth:`CeleryRunner.call <vtrr_django.contrib.celery.runner.CeleryRunner.call>`. Until
        then a ``Retry`` of Celery's has no ``sig``.

        Raises:
            Retry: (Celery's, or ours) the job runs again.
            MaxRetriesExceededError: no retry is left and ``exc`` was not given.
            ValidationError: other arguments than the job's.
        """
        run = RUNNING.get()
        if run is None:
            return super().retry(  # type: ignore[misc]
                args, kwargs, exc, throw, eta, countdown, max_retries, **options
            )
        job = run.job
        refuse_change("args", None if args is None else list(args), job.args)
        refuse_change("kwargs", None if kwargs is None else dict(kwargs), job.kwargs)
        if run.again is None:
            self._refuse_if_spent(run, exc, max_retries)
            if eta is None and countdown is None:
                countdown = float(getattr(self, "default_retry_delay", 0) or 0)
            options |= {
                "eta": eta,
                "countdown": None if eta is not None else countdown,
                "queue": self.vtrr_queue.config.celery_queue,
                "argsrepr": "()",
                "kwargsrepr": _repr_of({"id": job.id}),
            }
            run.again = self._ask(run, exc, max_retries, options)
        if throw:
            raise run.again
        return run.again

    def _ask(
        self,
        run: Run,
        exc: BaseException | None,
        max_retries: int | None,
        options: dict[str, Any],
    ) -> BaseException:
        """Return the retry that a run asks for: to be kept, or to be handed over to the store."""
        wait = _seconds_until(options["eta"], options["countdown"])
        if self.request.is_eager:  # at once, as Celery's
            return Retry(0.0, exc)
        if wait > _longest_countdown(self.app):  # type: ignore[attr-defined]
            return Retry(wait, exc)
        retry = CeleryRetry(exc=exc, when=options["eta"] or options["countdown"])
        reason = exc or sys.exception()
        run.keep = partial(self._keep, run, retry, wait, reason, max_retries=max_retries, **options)
        return cast("BaseException", retry)

    def _keep(
        self,
        run: Run,
        retry: Any,
        wait: float,
        reason: BaseException | None,
        **options: Any,
    ) -> BaseException:
        """Keep the lease for the retry, and send its message; through the store, if that fails."""
        job = run.enqueued.of(run.job)
        _extend(run, wait, reason)
        try:
            sent = super().retry(  # type: ignore[misc]
                (),
                {RETRIED: dump_job(job)},
                exc=retry.exc,
                throw=False,
                **options,
            )
        except Reject as reject:
            logger.warning(
                "the retry of job %s could not be sent (%s): it goes through the store instead",
                job.id,
                reject.reason,
                extra=job_extra(job, run.worker_id),
            )
            return Retry(wait, retry.exc)
        run.kept = True
        retry.sig = sent.sig
        return cast("BaseException", retry)

    def send_retry_again(self, retried: Mapping[str, Any], pause: float) -> None:
        """Send the message of a retry once more, as it was: the store could not be asked."""
        self.apply_async(
            kwargs={RETRIED: retried},
            countdown=pause,
            retries=self.request.retries,
            task_id=self.request.id,
            argsrepr="()",
            kwargsrepr=_repr_of(retried),
        )

    def _refuse_if_spent(
        self, run: Run, exc: BaseException | None, max_retries: int | None
    ) -> None:
        """Raise what Celery raises when no retry is left, before anything is done.

        What the function says about ``max_retries`` counts for ``autoretry_for`` too, which
        asks when it sees what is raised here.
        """
        if run.most_retries is None:
            run.most_retries = max_retries
        limit = self.max_retries if run.most_retries is None else run.most_retries  # type: ignore[attr-defined]
        if limit is None or self.request.retries < limit:
            return
        run.given_up = exc or self.MaxRetriesExceededError(  # type: ignore[attr-defined]
            f"job {run.job.id} of {self.name} was retried {self.request.retries} times, "
            f"max_retries is {limit}"
        )
        raise run.given_up


def _take_over(queue: Queue, payload: Mapping[str, Any]) -> None:
    """Store the job of a retry that vtrr-queue 0.1 sent; the trigger that brought it goes on."""
    queue.take_over(payload["task_name"], payload["args"], payload["kwargs"])


def _repr_of(retried: Mapping[str, Any]) -> str:
    """Return what Celery shows of a message; not its payload, which is the tenant's."""
    return f"{{'{RETRIED}': {retried['id']!r}}}"


def _extend(run: Run, wait: float, exc: BaseException | None) -> None:
    """Let the lease outlast the wait.

    Raises:
        Ignore: it was reclaimed: the job is somebody else's now.
    """
    queue, job = run.task.vtrr_queue, run.job
    try:
        ours = station_of(queue).extend(run.lease, wait + _patience(run), exc)
    except StoreUnavailable:
        # Nobody knows; the retry run finds out.
        logger.warning(
            "the lease of job %s could not be extended for its retry: if it runs out first, the "
            "job is reclaimed and the retry is dropped",
            job.id,
            extra=job_extra(job, run.worker_id),
        )
        return
    if not ours:
        run.gone = True
        logger.warning(
            "job %s asked for a retry, but its lease was not ours any more: it was reclaimed and "
            "runs again anyway",
            job.id,
            extra=job_extra(job, run.worker_id),
        )
        raise Ignore


def _patience(run: Run) -> float:
    """Return how long a retry's message may wait for a free process, in seconds.

    The run that arrives renews the lease for ``LEASE_SECONDS``, so this is how long the job
    of a *lost* message waits, while too little would end the leases of jobs that only wait
    for a busy pool.
    """
    lease = run.lease.lane.config.lease_seconds
    return max(KEPT_LEASES * lease, lease + (limits_of(run.task)[0] or 0.0))


def _seconds_until(eta: datetime | None, countdown: float | None) -> float:
    if eta is None:
        return max(0.0, countdown or 0.0)
    aware = eta if eta.tzinfo is not None else eta.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())


def _longest_countdown(app: Any) -> float:
    """Return how long a message may wait: some brokers deliver it again after a while."""
    timeout = visibility_timeout(app)
    return math.inf if timeout is None else max(timeout - MARGIN, timeout / 2)


# -- declaring ---------------------------------------------------------------------


def declare(app: Any, queue: Queue, runnable: Runnable) -> None:
    """Declare the Celery task of a queue on an app; again does nothing.

    Raises:
        ValueError: another task of the app has the name.
    """
    known = app.tasks.get(runnable.name) if app.finalized else None
    if known is not None:
        if getattr(known, "vtrr_queue", None) is not queue:
            raise ValueError(
                f"expected no other Celery task named {runnable.name!r}, got {known!r}; rename one"
            )
        return

    def run(self: Any, *args: Any, **kwargs: Any) -> object:
        current = RUNNING.get()
        if current is None:
            raise TypeError(f"expected {runnable.name} to be run by a trigger")
        job = current.job
        if kwargs != job.kwargs or list(args) != job.args:  # a base class changed them
            job = replace(job, args=list(args), kwargs=kwargs)
        known = queue.resolve(runnable.name) or runnable  # the newest, after a reload
        return known.run(self, job)

    function = getattr(runnable, "function", None)
    run.__name__ = getattr(function, "__name__", "handler")
    run.__qualname__ = getattr(function, "__qualname__", run.__name__)
    run.__module__ = getattr(function, "__module__", run.__module__)
    run.__doc__ = getattr(function, "__doc__", None)
    given = {
        name: getattr(runnable.options, name)
        for name in _PASSED_ON
        if name in runnable.options.given
    }
    base = weave(runnable.options.base or app.Task)
    given["retry_kwargs"] = RetryKwargs(
        given.get("retry_kwargs") or getattr(base, "retry_kwargs", None) or {}
    )
    app.task(
        run,
        name=runnable.name,
        base=base,
        throws=(*getattr(base, "throws", ()), Discard),  # no error of Celery's to shout about
        dont_autoretry_for=(*getattr(base, "dont_autoretry_for", ()), *_TOLD),
        bind=True,
        shared=False,
        vtrr_queue=queue,
        acks_late=runnable.options.acks_late,
        reject_on_worker_lost=runnable.options.reject_on_worker_lost,
        **given,
    )


def weave(base: Any) -> Any:
    """Return a class that is ours first and ``base`` second; ``base`` if it is ours already.

    Raises:
        TypeError: ``base`` is no Celery task class.
    """
    if not (isinstance(base, type) and issubclass(base, CeleryTask)):
        raise TypeError(f"expected base to be a subclass of celery.Task, got {base!r}")
    if issubclass(base, TriggerTask):
        return base
    body: dict[str, Any] = {"abstract": True, "__module__": base.__module__}
    request: Any = getattr(base, "Request")  # noqa: B009 - mypy sees no attribute there
    if isinstance(request, str):
        request = import_string(request.replace(":", "."))
    if not issubclass(TriggerRequest, request):
        body["Request"] = type("TriggerRequest", (TriggerRequest, request), {})
    return type(f"VTRR{base.__name__}", (TriggerTask, base), body)


def _call_behind(kind: type) -> Any:
    """Return the ``__call__`` of a base of the user's; None: they have none of their own."""
    for base in kind.__mro__:
        if base is CeleryTask:
            return None
        if not issubclass(base, TriggerTask) and "__call__" in vars(base):
            return vars(base)["__call__"]
    return None
