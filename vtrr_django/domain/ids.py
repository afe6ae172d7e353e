"""Job ids: UUIDv7 (RFC 9562), strictly increasing within a process.

RFC 9562, section 6.2, method 2 (monotonic random): below the 48 bits of Unix time in
milliseconds, all 74 other bits are one number, drawn at random in the first call of
each millisecond and raised by a random step from 1 to 2**32 by every further id. A
number that runs over, and a clock that is set back, let the ids run ahead of the
clock, as the RFC allows, instead of repeating or descending.

``uuid.uuid7`` of Python 3.14 takes no lock around its counter, so two threads may
be given the same one, and 3.11 to 3.13 have no such function at all.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from itertools import accumulate
from struct import unpack

from vtrr_django.domain.forks import at_fork

_RANDOM_BITS = 74


class IdGenerator:
    """A source of increasing ids; safe to share between threads, and to carry over a fork.

    Args:
        clock: returns the Unix time in nanoseconds.
        entropy: returns as many random bytes as it is asked for.
    """

    def __init__(
        self,
        clock: Callable[[], int] = time.time_ns,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._last = 0  # the time and the 74 bits of the last id, as one number
        self._lock = threading.Lock()

    def take(self, n: int) -> list[str]:
        """Return ``n`` new ids, each greater than all before, compared as text."""
        if n < 1:
            return []
        steps = unpack(f"<{n}I", self._entropy(4 * n))
        with self._lock:
            first = self._last + 1 + steps[0]
            now = self._clock() // 1_000_000
            if now > self._last >> _RANDOM_BITS:
                first = now << _RANDOM_BITS | self._fresh()
            numbers = list(accumulate(steps[1:], lambda last, step: last + 1 + step, initial=first))
            self._last = numbers[-1]
        return [_format(number) for number in numbers]

    def after_fork(self) -> None:
        """Part from the parent process: it would go on from the same number.

        The lock may be held by a thread that does not exist in this process.
        """
        self._lock = threading.Lock()
        # One millisecond ahead: still greater than the ids that were inherited.
        self._last = ((self._last >> _RANDOM_BITS) + 1) << _RANDOM_BITS | self._fresh()

    def _fresh(self) -> int:
        return int.from_bytes(self._entropy(10), "big") >> 80 - _RANDOM_BITS


def _format(number: int) -> str:
    """Spread 122 bits over the text of a UUID, round the version (7) and the variant (2)."""
    high, low = number >> 62, number & (1 << 62) - 1 | 2 << 62
    time_hex, low_hex = f"{high:015x}", f"{low:016x}"
    return f"{time_hex[:8]}-{time_hex[8:12]}-7{time_hex[12:]}-{low_hex[:4]}-{low_hex[4:]}"


_generator = IdGenerator()

at_fork(after_in_child=_generator.after_fork)


def new_job_id() -> str:
    """Return a new id, greater than every one this process made before."""
    return _generator.take(1)[0]


def new_job_ids(n: int) -> list[str]:
    """Return ``n`` new ids in increasing order, much faster than one by one."""
    return _generator.take(n)
