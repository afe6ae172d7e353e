"""Leasing and acking, and what a long backlog adds to a lease."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from statistics import median

from benchmarks.agents import Agent
from benchmarks.measuring import Bench, Figure, Target, rate

BATCHES = (1, 10, 100)
OTHERS = 50


def measure(bench: Bench) -> Iterator[Figure]:
    """Measure lease and ack per second, by batch size."""
    with bench.vtrr() as agent:
        agent.call("prepare")
        for batch in BATCHES:
            agent.call("fill", tenants=20, each=100 if bench.quick else 500)
            jobs, seconds, statements = agent.call(
                "cycle", batch=batch, seconds=1 if bench.quick else 4
            )
            yield Figure(
                database=bench.kind,
                what=f"lease and ack, {batch} a call",
                ours=rate(jobs / seconds),
                other=f"{statements} statements a call",
            )


def measure_backlog(bench: Bench) -> Iterator[Figure]:
    """Measure a lease while one tenant has very many ready jobs, beside one with 100 in all."""
    heavy = 20_000 if bench.quick else 100_000
    databases = {name: bench.databases.new(bench.kind) for name in ("default", "large")}
    queues = {name: {"DATABASE": name} for name in databases}
    with Agent("vtrr", databases, vtrr={"QUEUES": queues}) as agent:
        agent.call("prepare")
        agent.call("fill_beside", tenants=OTHERS, heavy=heavy)
        agent.call("lease_beside", rounds=10, n=1)  # warm up
        for n, share in ((1, 1), (10, 1), (1, OTHERS)):
            agent.call("set_heavy_share", share=share)
            rounds = [agent.call("lease_beside", rounds=20, n=n) for _ in bench.rounds(7, most=20)]
            small, large = ([spent[name] for spent in rounds] for name in databases)
            yield Figure(
                database=bench.kind,
                what=f"lease {n} of {heavy:,} ready, {OTHERS} others"
                + (", half of them the heavy one's" if share > 1 else ""),
                ours=_milliseconds(large),
                other=f"100 ready: {_milliseconds(small)}",
                ratios=[median(of) / median(to) for of, to in zip(large, small, strict=True)],
                target=Target(bound=1.5, at="most") if n == 1 else None,
                profile="profile_lease",
            )


def _milliseconds(rounds: list[list[float]]) -> str:
    return f"median {median(chain.from_iterable(rounds)) * 1000:.2f} ms"
