"""The time, where a test makes it pass."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Clock:
    """Stands for the module ``time``: it stands still, unless somebody sleeps or moves it.

    Attributes:
        now: what it shows, in seconds.
        pauses: how long each sleep was.
    """

    now: float = 1000.0
    pauses: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
