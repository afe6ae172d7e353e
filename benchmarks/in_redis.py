"""Queues in Redis: beside a bare round trip, vtrr-queue, and themselves with little to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import median
from typing import Any

from benchmarks.measuring import Bench, Figure, Target, rate
from benchmarks.peers import OLD, why_no_vtrr_queue

PREFETCH = 10
BULK = 10_000
PAYLOAD_BYTES = 78
MOST_BYTES = 450
MOST_MILLISECONDS = 50


def measure_lease(bench: Bench) -> Iterator[Figure]:
    """Measure jobs leased and acked by one client, beside its bare round trips."""
    with bench.in_redis() as agent:
        agent.call("prepare")
        for batch in (1, PREFETCH, 100):
            agent.call("cycle_beside_bare", batch=batch, blocks=2, size=100)  # warm up
            pairs: list[Sequence[float]] = []
            for _ in bench.rounds(12, most=10):
                pairs += agent.call("cycle_beside_bare", batch=batch, blocks=10, size=300)
            yield Figure(
                database=bench.kind,
                what=f"lease and ack, {batch} a call",
                ours=_rate(pairs, 0, 300),
                other=f"bare EVALSHA for each job {_rate(pairs, 1, 300)}",
                ratios=[bare / cycle for cycle, bare in pairs],
                target=Target(bound=0.85),
                profile="profile_redis_lease",
            )


def measure_enqueue(bench: Bench) -> Iterator[Figure]:
    """Measure enqueueing to a queue that Celery runs, beside vtrr-queue."""
    if (reason := why_no_vtrr_queue()) is not None:
        print(f"Without {OLD}: {reason}")
        return
    with bench.in_redis() as agent:
        agent.call("prepare")
        for waiting, broker in ((True, "full"), (False, "empty")):
            agent.call("enqueue_singly", blocks=2, size=50, waiting=waiting)  # warm up
            pairs: list[Sequence[float]] = []
            for _ in bench.rounds(8, most=10):
                pairs += agent.call("enqueue_singly", blocks=10, size=50, waiting=waiting)
            yield Figure(
                database=bench.kind,
                what=f"enqueue one job, {broker} broker",
                ours=_rate(pairs, 0, 50),
                other=f"{OLD} {_rate(pairs, 1, 50)}",
                ratios=[theirs / ours for ours, theirs in pairs],
                target=Target(bound=2) if waiting else None,
                profile="profile_redis_enqueue",
            )
        for waiting, broker in ((True, "full"), (False, "empty")):
            pairs = []
            for _ in bench.rounds(10, most=8):
                pairs += agent.call("enqueue_in_bulk", n=BULK, blocks=4, waiting=waiting)
            yield Figure(
                database=bench.kind,
                what=f"enqueue {BULK:,} jobs in one call, {broker} broker",
                ours=_rate(pairs, 0, BULK),
                other=f"{OLD} {_rate(pairs, 1, BULK)}",
                ratios=[theirs / ours for ours, theirs in pairs],
                target=Target(bound=1),
                profile="profile_redis_bulk",
            )


def measure_memory(bench: Bench) -> Iterator[Figure]:
    """Measure the memory that a waiting job takes."""
    jobs, partitions = (20_000 if bench.quick else 100_000), 100
    with bench.in_redis() as agent:
        agent.call("prepare")
        size: dict[str, Any] = {"n": jobs, "partitions": partitions}
        theirs = ""
        if why_no_vtrr_queue() is None:
            taken = agent.call("their_bytes_per_job", payload_bytes=PAYLOAD_BYTES, **size)
            theirs = f"{OLD} {taken:.0f} bytes"
        for bulk, how in ((min(1000, jobs // partitions), None), (1, "one by one")):
            taken = agent.call("bytes_per_job", bulk=bulk, payload_bytes=PAYLOAD_BYTES, **size)
            yield Figure(
                database=bench.kind,
                what=f"bytes a waiting job of {jobs:,}, {how or f'by {bulk:,}'}",
                ours=f"{taken:.0f} bytes",
                other=theirs,
                ratios=[taken],
                target=Target(bound=MOST_BYTES, at="most"),
            )


def measure_backlog(bench: Bench) -> Iterator[Figure]:
    """Measure a lease while very many jobs of very many tenants wait, beside one with few."""
    jobs, partitions = (100_000, 10_000) if bench.quick else (1_000_000, 100_000)
    with bench.in_redis() as agent:
        agent.call("prepare")
        agent.call("fill_beside", jobs=jobs, partitions=partitions)
        for n in (1, 10):
            agent.call("lease_beside", rounds=20, n=n)  # warm up
            rounds = [agent.call("lease_beside", rounds=50, n=n) for _ in bench.rounds(8, most=20)]
            small, large = ([spent[name] for spent in rounds] for name in ("default", "large"))
            yield Figure(
                database=bench.kind,
                what=f"lease {n} of {jobs:,} ready in {partitions:,} partitions",
                ours=_milliseconds(large),
                other=f"1,000 in 100: {_milliseconds(small)}",
                ratios=[median(of) / median(to) for of, to in zip(large, small, strict=True)],
                target=Target(bound=1.3, at="most"),
            )


def measure_blocking(bench: Bench) -> Iterator[Figure]:
    """Measure the longest command of calls that have very much to do.

    What Redis measures is the time on the clock, and who shares the machine may have taken
    it: the best of three counts.
    """
    part = 10 if bench.quick else 1
    calls = (
        ("block_by_enqueue", 100_000 // part, "one enqueue of {:,} jobs"),
        ("block_by_purge", 200_000 // part, "a purge of {:,} jobs"),
        ("block_by_due", 20_000 // part, "{:,} jobs falling due"),
    )
    with bench.in_redis() as agent:
        agent.call("prepare")
        for function, n, what in calls:
            took, name = min(agent.call(function, n=n) for _ in range(1 if bench.quick else 3))
            yield Figure(
                database=bench.kind,
                what="longest command of " + what.format(n),
                ours=f"{took:.1f} ms",
                other=name and f"a {name}",
                ratios=[took],
                target=Target(bound=MOST_MILLISECONDS, at="most"),
            )


def _rate(pairs: Sequence[Sequence[float]], side: int, jobs: int) -> str:
    return rate(jobs / median(pair[side] for pair in pairs))


def _milliseconds(rounds: list[list[float]]) -> str:
    return f"median {median(chain.from_iterable(rounds)) * 1000:.2f} ms"
