"""The options of ``@queue.task``, those of vtrr-queue, and what they mean for a retry.

The names and defaults are Celery's, so that a queue changes its runner by a setting.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from vtrr_django.domain.retry import RetryPolicy
from vtrr_django.domain.values import MAX_INT32, check_delay, child_path, describe
from vtrr_django.exceptions import ValidationError

DEFAULT_MAX_RETRIES = 3
DEFAULT_RETRY_DELAY = 180.0
_RETRY_KWARGS = ("max_retries", "countdown")


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskOptions:
    """What may be said about a task.

    Attributes:
        base: Celery task class to build on (Celery-run queues only).
        max_retries: most retries by ``self.retry()`` and ``autoretry_for``; None: no end. Where it
            is given, and not None, also by the queue's ``RETRY``.
        default_retry_delay: seconds that ``self.retry()`` waits unless told, and ``autoretry_for``
            without backoff; None: 0. ``RETRY`` has its own.
        autoretry_for: exceptions after which the task is retried by itself.
        retry_backoff: False, True (1 second) or the first delay of an exponential backoff, in
            whole seconds, 1 or more.
        retry_backoff_max: longest delay of that backoff, seconds.
        retry_jitter: whether that backoff is random.
        retry_kwargs: ``max_retries`` for ``autoretry_for``, instead of that above; and
            ``countdown``, instead of ``default_retry_delay``. A backoff goes before it.
        soft_time_limit: seconds after which ``SoftTimeLimitExceeded`` is raised in the job.
        time_limit: seconds after which the job counts as dead.
        acks_late: when Celery acks the trigger. A lease is always ended after its job, so
            the trigger need not be: it is acked early by default.
        reject_on_worker_lost: with ``acks_late``, whether Celery delivers the trigger of a
            lost worker again.
        given: the names of the options that were given; the others may be a Celery base
            class's to say.

    Raises:
        ValidationError: a value is one that neither runner could use.
    """

    base: Any = None
    max_retries: int | None = DEFAULT_MAX_RETRIES
    default_retry_delay: float = DEFAULT_RETRY_DELAY
    autoretry_for: tuple[type[BaseException], ...] = ()
    retry_backoff: bool | float = False
    retry_backoff_max: float = 600
    retry_jitter: bool = True
    retry_kwargs: Mapping[str, Any] = field(default_factory=dict)
    soft_time_limit: float | None = None
    time_limit: float | None = None
    acks_late: bool = False
    reject_on_worker_lost: bool = False
    given: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._check_limits()
        self._check_retries()
        for name in ("retry_jitter", "acks_late", "reject_on_worker_lost"):
            object.__setattr__(self, name, _switch(getattr(self, name), name))

    def _check_limits(self) -> None:
        for name in ("soft_time_limit", "time_limit"):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is not None and not (number and 0 < value < math.inf):
                raise ValidationError(name, f"expected a number of seconds > 0, got {value!r}")
        soft, hard = self.soft_time_limit, self.time_limit
        if soft is not None and hard is not None and soft >= hard:
            raise ValidationError(
                "soft_time_limit", f"expected less than time_limit ({hard}), got {soft}"
            )

    def _check_retries(self) -> None:
        """Refuse what would fail when a job has; Celery finds it out no sooner."""
        if not all(
            inspect.isclass(one) and issubclass(one, BaseException) for one in self.autoretry_for
        ):
            raise ValidationError(
                "autoretry_for", f"expected exception classes, got {self.autoretry_for!r}"
            )
        _check_most(self.max_retries, "max_retries")
        delay = self.default_retry_delay
        # None is "at once" to Celery.
        seconds = 0.0 if delay is None else check_delay(delay, "default_retry_delay")
        object.__setattr__(self, "default_retry_delay", seconds)
        if not isinstance(self.retry_backoff, bool):
            check_delay(self.retry_backoff, "retry_backoff")
        check_delay(self.retry_backoff_max, "retry_backoff_max")
        object.__setattr__(self, "retry_kwargs", _checked_kwargs(self.retry_kwargs))

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
            base_delay=int(max(1.0, self.retry_backoff)),  # as Celery does
            max_delay=int(self.retry_backoff_max),
            jitter=self.retry_jitter,
        )


def _switch(value: object, name: str) -> bool:
    if value not in (None, False, True):  # 0 and 1 are those
        raise ValidationError(name, f"expected True or False, got {describe(value)}")
    return bool(value)


def _check_most(value: object, path: str) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (whole and 0 <= value <= MAX_INT32):  # type: ignore[operator]
        raise ValidationError(
            path, f"expected a whole number from 0 to {MAX_INT32:,} or None, got {describe(value)}"
        )


def _checked_kwargs(given: object) -> dict[str, Any]:
    """Return what ``retry_kwargs`` says; None says nothing there, as with Celery."""
    if not isinstance(given, Mapping):
        raise ValidationError("retry_kwargs", f"expected a mapping, got {describe(given)}")
    for name in given:
        if name not in _RETRY_KWARGS:
            raise ValidationError(
                child_path("retry_kwargs", str(name)),
                f"expected one of {', '.join(_RETRY_KWARGS)}, got an unknown key",
            )
    said = {name: value for name, value in given.items() if value is not None}
    _check_most(said.get("max_retries"), "retry_kwargs.max_retries")
    if "countdown" in said:
        check_delay(said["countdown"], "retry_kwargs.countdown")
    return said
