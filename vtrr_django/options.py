"""The options of ``@queue.task``, those of vtrr-queue, and what they mean for a retry.

The names and defaults are Celery's, so that a queue changes its runner by a setting.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from vtrr_django.domain.retry import RetryPolicy
from vtrr_django.exceptions import ValidationError

DEFAULT_MAX_RETRIES = 3
DEFAULT_RETRY_DELAY = 180.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskOptions:
    """What may be said about a task.

    Attributes:
        base: Celery task class to build on (Celery-run queues only).
        max_retries: most retries by ``self.retry()`` and ``autoretry_for``; None: no end.
        default_retry_delay: seconds that ``self.retry()`` waits unless told.
        autoretry_for: exceptions after which the task is retried by itself.
        retry_backoff: False, True (1 second) or the first delay of an exponential backoff.
        retry_backoff_max: longest delay of that backoff, seconds.
        retry_jitter: whether that backoff is random.
        retry_kwargs: ``max_retries`` and ``countdown`` for ``autoretry_for``.
        soft_time_limit: seconds after which ``SoftTimeLimitExceeded`` is raised in the job.
        time_limit: seconds after which the job counts as dead.
        acks_late: when Celery acks the trigger. A lease is always ended after its job, so
            the trigger need not be: it is acked early by default.
        reject_on_worker_lost: with ``acks_late``, whether Celery delivers the trigger of a
            lost worker again.
        given: the names of the options that were given; the others may be a Celery base
            class's to say.
    """

    base: Any = None
    max_retries: int | None = DEFAULT_MAX_RETRIES
    default_retry_delay: float = DEFAULT_RETRY_DELAY
    autoretry_for: tuple[type[BaseException], ...] = ()
    retry_backoff: bool | int = False
    retry_backoff_max: int = 600
    retry_jitter: bool = True
    retry_kwargs: Mapping[str, Any] = field(default_factory=dict)
    soft_time_limit: float | None = None
    time_limit: float | None = None
    acks_late: bool = False
    reject_on_worker_lost: bool = False
    given: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in ("soft_time_limit", "time_limit"):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is not None and not (number and value > 0):
                raise ValidationError(name, f"expected a number of seconds > 0, got {value!r}")
        most = self.max_retries
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 0):
            raise ValidationError(
                "max_retries", f"expected a whole number >= 0 or None, got {most!r}"
            )
        soft, hard = self.soft_time_limit, self.time_limit
        if soft is not None and hard is not None and soft >= hard:
            raise ValidationError(
                "soft_time_limit", f"expected less than time_limit ({hard}), got {soft}"
            )
        if not all(
            inspect.isclass(one) and issubclass(one, BaseException) for one in self.autoretry_for
        ):
            raise ValidationError(
                "autoretry_for", f"expected exception classes, got {self.autoretry_for!r}"
            )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> TaskOptions:
        """Build the options from a decorator's keywords.

        Raises:
            TypeError: for a keyword that is no option; it names the allowed ones.
        """
        allowed = [one.name for one in fields(cls) if one.name != "given"]
        unknown = sorted(set(given) - set(allowed))
        if unknown:
            raise TypeError(
                f"unsupported task option(s) {', '.join(unknown)}; allowed are {', '.join(allowed)}"
            )
        if "autoretry_for" in given:
            one = given["autoretry_for"]
            classes = tuple(one) if isinstance(one, (list, tuple, set, frozenset)) else (one,)
            given = {**given, "autoretry_for": classes}
        return cls(**given, given=frozenset(given))

    def autoretry_policy(self) -> RetryPolicy:
        """Return Celery's automatic retry as a policy."""
        most = self.retry_kwargs.get("max_retries", self.max_retries)
        if not self.retry_backoff:
            delay = self.retry_kwargs.get("countdown", self.default_retry_delay)
            return RetryPolicy(
                max_retries=most,
                backoff="constant",
                base_delay=delay,
                max_delay=delay,
                jitter=False,
            )
        return RetryPolicy(
            max_retries=most,
            backoff="exponential",
            base_delay=float(self.retry_backoff),
            max_delay=float(self.retry_backoff_max),
            jitter=self.retry_jitter,
        )
