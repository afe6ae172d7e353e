"""Enqueueing, beside what Django itself needs to insert the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.measuring import Bench, Figure, Target, rate

BULK = 10_000


def measure(bench: Bench) -> Iterator[Figure]:
    """Measure single and bulk enqueueing."""
    with bench.vtrr() as agent:
        agent.call("prepare")
        agent.call("enqueue_singly", blocks=2, size=20)  # warm up
        for idle, seconds in ((False, 12), (True, 5)):
            pairs: list[Sequence[float]] = []
            for _ in bench.rounds(seconds, most=10):
                pairs += agent.call("enqueue_singly", blocks=10, size=20, idle=idle)
            yield Figure(
                database=bench.kind,
                what="enqueue one job" + (" to an idle partition" if idle else ""),
                ours=_rate(pairs, 0, 20),
                other=f"create() {_rate(pairs, 1, 20)}",
                ratios=[created / enqueued for enqueued, created in pairs],
                target=None if idle else Target(bound=0.8),
                profile="profile_enqueue",
            )
        pairs = [
            agent.call("enqueue_in_bulk", n=BULK, ours_first=bool(number % 2))
            for number in bench.rounds(18, most=8)
        ]
        yield Figure(
            database=bench.kind,
            what=f"enqueue {BULK:,} jobs in one call",
            ours=_rate(pairs, 0, BULK),
            other=f"bulk_create() {_rate(pairs, 1, BULK)}",
            ratios=[created / enqueued for enqueued, created in pairs],
            target=Target(bound=0.7),
            profile="profile_bulk",
        )


def _rate(pairs: Sequence[Sequence[float]], side: int, jobs: int) -> str:
    return rate(jobs / median(pair[side] for pair in pairs))
