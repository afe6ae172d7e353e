"""The worker's logger, what its records carry, and saying an outage once."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

from vtrr_django.domain.job import LeasedJob
from vtrr_django.exceptions import StoreUnavailable

logger = logging.getLogger("vtrr_django.worker")

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0


def job_extra(job: LeasedJob, worker_id: str) -> dict[str, str]:
    """Return the ``extra`` of every record about ``job``; never its args or kwargs."""
    return {
        "queue": job.queue,
        "job_id": job.id,
        "task_name": job.task_name,
        "partition_key": job.partition_key,
        "worker_id": worker_id,
    }


def call_hook(hook: Callable[[], None], worker_id: str, job: LeasedJob | None = None) -> None:
    """Call one of the caller's hooks; log what it raises."""
    try:
        hook()
    except BaseException:  # a hook ends no thread, not even with SystemExit
        extra = job_extra(job, worker_id) if job is not None else {"worker_id": worker_id}
        logger.exception("the worker's hook %r failed", hook, extra=extra)


class Outage:
    """One activity that may stop working: says so once, and once when it works again.

    Several threads may fail at the same thing at once.

    Args:
        what: what does not work, e.g. ``"leasing from queue uploads"``.
        extra: of the log records.
        level: of the record that says it stopped.
    """

    def __init__(self, what: str, extra: dict[str, str], level: int = logging.ERROR) -> None:
        self._what = what
        self._extra = extra
        self._level = level
        self._since = 0.0
        self._lock = threading.Lock()
        self._pauses = 0
        self._paused_until = 0.0
        self.failures = 0

    def failed(self, exc: BaseException) -> float:
        """Note a failure; return the seconds to wait: exponential, with jitter, at most 30.

        Failures before the last pause is over, those of other threads, make the next no longer.
        """
        with self._lock:
            now = time.monotonic()
            self.failures += 1
            is_news = self.failures == 1
            if is_news:
                self._since = now
            is_next = now >= self._paused_until
            if is_next:
                self._pauses += 1
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._pauses - 1, 16))
            pause *= random.uniform(0.5, 1.0)  # noqa: S311 - spreads workers, hides nothing
            if is_next:
                self._paused_until = now + pause
        if is_news:
            # What an unreachable store raises is expected; anything else is a bug to find.
            trace = None if isinstance(exc, StoreUnavailable) else exc
            logger.log(
                self._level,
                "%s does not work (%s: %s); trying again, with pauses of up to %d s",
                self._what,
                type(exc).__name__,
                exc,
                LONGEST_PAUSE,
                exc_info=trace,
                extra=self._extra,
            )
        return pause

    def recovered(self) -> None:
        """Note a success."""
        if not self.failures:
            return
        with self._lock:
            failures, self.failures = self.failures, 0
            self._pauses, self._paused_until = 0, 0.0
        if failures:
            logger.info(
                "%s works again after %.1f s and %d failures",
                self._what,
                time.monotonic() - self._since,
                failures,
                extra=self._extra,
            )
