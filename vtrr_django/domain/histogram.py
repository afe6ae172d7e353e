"""How long things took, in few numbers: counts by buckets that grow by powers of two."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from operator import add
from typing import Final

BOUNDS: Final[tuple[float, ...]] = tuple(0.005 * 2**power for power in range(22))
"""Upper bounds of the buckets in seconds: 5 ms to 2 h 55 min. One more bucket has no bound."""

_BUCKETS = len(BOUNDS) + 1


def bucket_of(seconds: float) -> int:
    """Return the number of the bucket a duration is in; a bound is in the one it ends."""
    return bisect_left(BOUNDS, seconds)


class Histogram:
    """Durations in seconds, as counts by bucket and their sum.

    A quantile is exact to its bucket, whose upper bound is twice its lower one.
    """

    __slots__ = ("counts", "total")

    def __init__(self, counts: Iterable[int] = (), total: float = 0.0) -> None:
        self.counts = [*counts]
        self.counts += [0] * (_BUCKETS - len(self.counts))
        self.total = total

    def __bool__(self) -> bool:
        return any(self.counts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        return (self.counts, self.total) == (other.counts, other.total)

    __hash__ = None  # type: ignore[assignment] # it changes

    def __repr__(self) -> str:
        return f"<Histogram of {self.count}, {self.total:.3f} s>"

    @property
    def count(self) -> int:
        """How many durations it holds."""
        return sum(self.counts)

    def add(self, seconds: float) -> None:
        """Count one duration; a negative one, of two clocks that differ, as 0."""
        seconds = max(0.0, seconds)
        self.counts[bucket_of(seconds)] += 1
        self.total += seconds

    def merge(self, other: Histogram) -> None:
        """Count what ``other`` holds as well."""
        self.counts = list(map(add, self.counts, other.counts))
        self.total += other.total

    def quantile(self, q: float) -> float | None:
        """Return the duration that the share ``q`` (0 to 1) of all is not above.

        Interpolated inside its bucket; what lies beyond the last bound counts as that
        bound. None: it is empty.
        """
        rank, seen = q * self.count, 0
        for bucket, n in enumerate(self.counts):
            if n and seen + n >= rank:
                if bucket == len(BOUNDS):
                    return BOUNDS[-1]
                lower = BOUNDS[bucket - 1] if bucket else 0.0
                return lower + (BOUNDS[bucket] - lower) * max(0.0, rank - seen) / n
            seen += n
        return None

    def dump(self) -> str:
        """Return it as short text for a column; the sum to a microsecond."""
        used = len(self.counts)
        while used and not self.counts[used - 1]:
            used -= 1
        if not used:
            return ""
        return f"{round(self.total, 6)!r} {','.join(map(str, self.counts[:used]))}"

    def merge_dump(self, text: str) -> None:
        """Count what the histogram holds as well of which ``text`` is the :meth:`dump`."""
        total, _, counts = text.partition(" ")
        if counts:
            self.total += float(total)
            mine = self.counts
            for bucket, n in enumerate(counts.split(",")):
                if n != "0":
                    mine[bucket] += int(n)

    @classmethod
    def load(cls, text: str) -> Histogram:
        """Return what :meth:`dump` wrote."""
        histogram = cls()
        histogram.merge_dump(text)
        return histogram
