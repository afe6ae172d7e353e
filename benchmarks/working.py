"""Jobs from their enqueue to their end, with one worker process, beside django-tasks-db."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median, quantiles
from typing import Any

from benchmarks.agents import Agent
from benchmarks.measuring import Bench, Figure, Target, rate
from benchmarks.peers import PEER

TARGETS = {"sqlite": Target(bound=4), "postgres": Target(bound=5)}

# The light tenant asks for less than its half of the worker, so that it never waits for itself.
PAUSE, JOB_SECONDS = 0.01, 0.003


def measure(bench: Bench) -> Iterator[Figure]:
    """Measure no-op jobs end to end, and the memory of the worker.

    Each round enqueues as many jobs on either side, one call each, then runs the side's
    own worker command until nothing waits. Process start-up is in neither time.
    """
    if bench.peer is None:
        return
    with (
        bench.vtrr() as ours,
        bench.peer_on(bench.databases.new(bench.kind)) as peer,
    ):
        jobs = _warm_up(bench, ours, peer)
        pairs = []
        for number in bench.rounds(30, most=7):
            first, second = (ours, peer) if number % 2 else (peer, ours)
            spent = {side: side.call("end_to_end", n=jobs) for side in (first, second)}
            pairs.append((spent[ours], spent[peer]))
    yield Figure(
        database=bench.kind,
        what=f"work off {jobs:,} no-op jobs",
        ours=_rate(pairs, 0, "work", jobs),
        other=f"{PEER} {_rate(pairs, 1, 'work', jobs)}",
        ratios=[theirs["work"] / ours["work"] for ours, theirs in pairs],
        target=TARGETS.get(bench.kind),
        profile="profile_worker",
    )
    yield Figure(
        database=bench.kind,
        what="  enqueue them one by one",
        ours=_rate(pairs, 0, "enqueue", jobs),
        other=f"{PEER} {_rate(pairs, 1, 'enqueue', jobs)}",
        ratios=[theirs["enqueue"] / ours["enqueue"] for ours, theirs in pairs],
    )
    yield Figure(
        database=bench.kind,
        what="  memory of the process after it",
        ours=f"{pairs[-1][0]['megabytes']:.1f} MB",
        other=f"{PEER} {pairs[-1][1]['megabytes']:.1f} MB",
        ratios=[pairs[-1][0]["megabytes"] / (pairs[-1][1]["megabytes"] or 1)],
    )


def _warm_up(bench: Bench, ours: Agent, peer: Agent) -> int:
    """Run a few jobs on both sides; return how many a round can have in good time."""
    for agent in (ours, peer):
        agent.call("prepare")
        agent.call("end_to_end", n=50)
    per_second = 100 / peer.call("end_to_end", n=100)["work"]
    seconds, least = (0.7, 200) if bench.quick else (4, 500)
    return min(3000, max(least, round(int(per_second * seconds), -2)))


def _rate(pairs: list[Any], side: int, what: str, jobs: int) -> str:
    return rate(jobs / median(pair[side][what] for pair in pairs))


def measure_fairness(bench: Bench) -> Iterator[Figure]:
    """Measure how long a light tenant waits beside a heavy one, and under first-in first-out.

    Real jobs that sleep, a real worker, another process that enqueues the light tenant's
    jobs meanwhile.
    """
    if bench.peer is None:
        return
    heavy, light_jobs = (300, 60) if bench.quick else (800, 120)
    waits = {}
    for side, start in (("ours", bench.vtrr_on), ("peer", bench.peer_on)):
        database = bench.databases.new(bench.kind)
        with ExitStack() as stack:
            worker = stack.enter_context(start(database))
            worker.call("prepare")
            producer = stack.enter_context(start(database))
            producer.call("flood", n=heavy, seconds=JOB_SECONDS)
            worker.start("work_timed_jobs")
            producer.call("trickle", n=light_jobs, pause=PAUSE, seconds=JOB_SECONDS)
            worker.result()
            # What the light tenant sent last may have come when the worker had gone.
            waits[side] = worker.call("work_timed_jobs")["waits"]
    for what, percent in (("p50", 50), ("p99", 99)):
        light = {side: _percentile(waits[side]["light"], percent) for side in waits}
        yield Figure(
            database=bench.kind,
            what=f"light tenant's {what} wait behind {heavy} jobs",
            ours=f"{light['ours'] * 1000:,.0f} ms",
            other=f"{PEER} (FIFO) {light['peer'] * 1000:,.0f} ms",
            ratios=[light["ours"] / light["peer"]],
        )


def _percentile(values: list[float], percent: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1]
