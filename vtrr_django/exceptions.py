"""Every error this package raises on purpose.

All of them derive from :class:`VTRRError`, so one ``except`` clause catches the
family, and each message says what was expected, what came and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class VTRRError(Exception):
    """Base class of every error raised by ``vtrr_django``.

    Attributes:
        done: with how many jobs a verb that works in steps had done it when this stopped it;
            1 for what is done once. It stays done, if no transaction of the caller's undoes it.
            The step that failed is not counted, though a store that did not answer may have
            done it.
    """

    done: int = 0


@contextmanager
def so_far(done: Callable[[], int]) -> Iterator[None]:
    """Have an error tell how much was done before it, which ``done`` counts then."""
    try:
        yield
    except VTRRError as error:
        error.done += done()
        raise


class ConfigurationError(VTRRError):
    """``settings.VTRR`` is wrong; the message names the path of the culprit."""


class UnknownQueueError(ConfigurationError):
    """A queue was asked for that ``settings.VTRR["QUEUES"]`` does not declare."""


class ValidationError(VTRRError, ValueError):
    """A job was refused before anything was written.

    Attributes:
        path: where the culprit is, e.g. ``args[2].rows[0]`` or ``tasks[3].weight``.
    """

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}")

    def __reduce__(self) -> tuple[type[ValidationError], tuple[str, str]]:
        return type(self), (self.path, self.problem)


class DuplicateJobError(VTRRError):
    """The id a caller gave belongs to a different job already."""


class StoreUnavailable(VTRRError):
    """The store did not answer, or refused a write, after the bounded retries."""


class Snooze(Exception):
    """Raise inside a job to run it again later without using up an attempt.

    Args:
        delay: seconds until the job is due again, a finite number >= 0.
    """

    def __init__(self, delay: float = 0.0) -> None:
        self.delay = delay
        super().__init__(delay)

    def __str__(self) -> str:
        return f"snoozed for {self.delay} s"


class Discard(Exception):
    """Raise inside a job to give it up at once: it becomes a dead letter, unretried.

    Args:
        reason: kept as the dead letter's reason.
    """

    def __init__(self, reason: str = "discarded by the job") -> None:
        self.reason = reason
        super().__init__(reason)


class Retry(Exception):
    """What ``self.retry()`` raises under ``vtrr_worker``: run the job again later.

    Args:
        delay: seconds until the job is due again.
        exc: the exception that made the job ask for it, if one did.
    """

    def __init__(self, delay: float, exc: BaseException | None = None) -> None:
        self.delay = delay
        self.exc = exc
        super().__init__(delay, exc)

    def __str__(self) -> str:
        return f"retry in {self.delay} s" + (f": {self.exc!r}" if self.exc is not None else "")


class SoftTimeLimitExceeded(Exception):
    """Raised inside a job that ran longer than its ``soft_time_limit``."""
