"""When a job that raised runs again, and when it does not any more."""

from __future__ import annotations

import difflib
import math
import random as _random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, get_args

from vtrr_django.domain.values import (
    MAX_INT32,
    check_delay,
    check_whole,
    child_path,
    describe,
)
from vtrr_django.exceptions import ConfigurationError, ValidationError

Backoff = Literal["exponential", "linear", "constant"]
BACKOFFS: tuple[str, ...] = get_args(Backoff)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a job that raises is retried, and how long it waits each time.

    With ``jitter`` every wait, of any backoff, is drawn from 0 up to the computed one
    ("full jitter"), so that jobs which failed together do not come back together.

    Args:
        max_retries: retries after the first run, 0 for none; None: forever.
        backoff: ``"exponential"``, ``"linear"`` or ``"constant"``.
        base_delay: seconds before the first retry, 0 to ten years.
        max_delay: the longest wait in seconds, 0 to ten years; it caps ``base_delay`` too.
        jitter: whether waits are random; False: exactly as computed.

    Raises:
        ValidationError: (a ``ValueError``) for a value of another type or out of range.
    """

    max_retries: int | None = 3
    backoff: Backoff = "exponential"
    base_delay: float = 5.0
    max_delay: float = 300.0
    jitter: bool = True

    def __post_init__(self) -> None:
        if self.max_retries is not None:
            check_whole(self.max_retries, "max_retries", 0, MAX_INT32)
        if self.backoff not in BACKOFFS:
            expected = ", ".join(repr(name) for name in BACKOFFS)
            raise ValidationError(
                "backoff", f"expected one of {expected}, got {describe(self.backoff)}"
            )
        check_delay(self.base_delay, "base_delay")
        check_delay(self.max_delay, "max_delay")
        if not isinstance(self.jitter, bool):
            raise ValidationError("jitter", f"expected True or False, got {describe(self.jitter)}")

    def allows(self, delivery_count: int) -> bool:
        """Tell whether a job that was retried ``delivery_count`` times may be retried again."""
        return self.max_retries is None or delivery_count < self.max_retries

    def delay(self, attempt: int, *, random: Callable[[], float] = _random.random) -> float:
        """Return the seconds to wait before the next retry.

        ``base_delay`` times ``2**attempt`` (exponential), ``attempt + 1`` (linear) or 1
        (constant), at most ``max_delay``. The jitter is "Full Jitter" of Marc Brooker,
        "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.

        Args:
            attempt: how often the job was retried so far, its ``delivery_count``.
            random: returns a float from 0 up to, not including, 1.

        Raises:
            ValidationError: when ``attempt`` is not a whole number >= 0.
        """
        check_whole(attempt, "attempt", 0, MAX_INT32)
        longest = self._longest(attempt)
        return longest * random() if self.jitter else longest

    def _longest(self, attempt: int) -> float:
        base, cap = float(self.base_delay), float(self.max_delay)
        if not base or not cap:
            return 0.0
        if self.backoff == "exponential":
            # Compare exponents first: 2.0**5000 would overflow on its way to the cap.
            over = attempt >= math.log2(cap) - math.log2(base)
            return cap if over else min(cap, math.ldexp(base, attempt))
        return min(cap, base * (attempt + 1) if self.backoff == "linear" else base)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], path: str) -> Self:
        """Return the policy that a setting describes; what is left out keeps its default.

        Args:
            mapping: argument name -> value.
            path: where the setting is, for the message.

        Raises:
            ConfigurationError: for an unknown name, with the nearest valid one, or a bad value.
        """
        if not isinstance(mapping, Mapping):
            raise ConfigurationError(f"{path}: expected a mapping, got {describe(mapping)}")
        names = [field.name for field in fields(cls)]
        for name in mapping:
            if name not in names:
                near = difflib.get_close_matches(str(name).lower(), names, 1, 0.5)
                cure = f"did you mean {near[0]!r}?" if near else f"valid are {', '.join(names)}"
                raise ConfigurationError(f"{path}: unknown name {describe(name)}; {cure}")
        try:
            return cls(**mapping)
        except ValidationError as exc:
            raise ConfigurationError(f"{child_path(path, exc.path)}: {exc.problem}") from exc
