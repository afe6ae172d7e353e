"""Measure speed, memory and fairness beside named peers, in one run.

Names of databases mean queues in them; ``redis`` means queues in a Redis server that is
started for this run, with a history in SQLite, and its measurements have names of their own:

- ``redis-lease``: lease and ack by one client, beside bare round trips of that client
- ``redis-enqueue``: to a queue that Celery runs, beside vtrr-queue 0.1.0's ``.queue()``
- ``redis-memory``: bytes of Redis for a waiting job
- ``redis-backlog``: a lease while 1,000,000 jobs wait, beside one with 1,000
- ``redis-blocking``: the longest command of the slow log
- ``celery``: no-op jobs through a prefork worker of 2, beside plain Celery's

``pages`` opens every page of the admin over 1,000,000 completed and 50,000 failed jobs and
10,000 partitions, gets ``/metrics``, and requeues all that failed: it needs 3 GB of disk, and
``--scale`` makes it smaller.

Every ratio is the median of pairs of runs that take turns. No ratio fails the run: the
status is 0 whenever everything could be measured, and the summary says what fell short;
a profile then shows where the time goes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import django

from benchmarks import (
    databases,
    enqueueing,
    in_redis,
    leasing,
    pages,
    peers,
    with_celery,
    working,
)
from benchmarks.agents import AgentFailed
from benchmarks.measuring import Bench, Figure, table

Measurement = Callable[[Bench], Iterator[Figure]]

MEASUREMENTS: dict[str, Measurement] = {
    "enqueue": enqueueing.measure,
    "lease": leasing.measure,
    "backlog": leasing.measure_backlog,
    "work": working.measure,
    "fairness": working.measure_fairness,
    "pages": pages.measure,
    "redis-lease": in_redis.measure_lease,
    "redis-enqueue": in_redis.measure_enqueue,
    "redis-memory": in_redis.measure_memory,
    "redis-backlog": in_redis.measure_backlog,
    "redis-blocking": in_redis.measure_blocking,
    "celery": with_celery.measure,
}
OF_DATABASES = {"enqueue", "lease", "backlog"}
OF_REDIS = {name for name in MEASUREMENTS if name.startswith("redis-")} | {"celery"}
NEED_PEER = {"work", "fairness"}

PROFILES = {
    "profile_enqueue": 500,
    "profile_bulk": 10_000,
    "profile_lease": 500,
    "profile_worker": 2000,
}
"""Profiling functions of ``benchmarks.sites.vtrr``, and with how many jobs."""

REDIS_PROFILES = {
    "profile_redis_lease": 1000,
    "profile_redis_enqueue": 1000,
    "profile_redis_bulk": 10_000,
}
"""Those of ``benchmarks.sites.in_redis``."""

CELERY_PROFILE = "profile_celery"


def main() -> int:
    """Measure, print, and return the exit status."""
    options = _parse()
    signal.signal(signal.SIGTERM, _end)
    began = time.monotonic()
    kinds = _usable(options.database)
    names = [name for name in options.names if name != "profile"]
    peer = _peer() if NEED_PEER.intersection(names) else None
    figures: list[Figure] = []
    failed: list[str] = []
    print(
        f"Python {platform.python_version()}, Django {django.__version__}, "
        f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    with databases.databases() as made:
        for kind in kinds:
            for name in names:
                if name in (OF_DATABASES if kind == "redis" else OF_REDIS):
                    continue
                print(f"{kind}: {name} ...", flush=True)
                try:
                    with _bench(kind, made, options, peer) as bench:
                        figures += MEASUREMENTS[name](bench)
                except AgentFailed as error:  # the figures of the others are worth printing
                    failed.append(f"{kind}: {name}: {error}")
                    print(f"Failed: {failed[-1]}", flush=True)
        if figures:
            print(f"\n{table(figures)}\n\n{_summary(figures, time.monotonic() - began)}")
        _profile(options, kinds, figures, made)
    return 1 if failed else 0


@contextlib.contextmanager
def _bench(
    kind: str, made: databases.Databases, options: argparse.Namespace, peer: Path | None
) -> Iterator[Bench]:
    """Give one measurement what it needs: in Redis, a server that is as good as new."""
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(databases.redis_server()) if kind == "redis" else None
        yield Bench(
            kind=kind,
            databases=made,
            quick=options.quick,
            peer=peer,
            redis=url,
            scale=options.scale,
            page=options.page,
        )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="name",
        help=f"what to measure: {', '.join(MEASUREMENTS)} (all by default), or profile",
    )
    parser.add_argument("--quick", action="store_true", help="roughly, in under two minutes")
    parser.add_argument(
        "--database",
        type=lambda text: text.split(","),
        default=list(databases.KINDS),
        help="some of sqlite,postgres,mariadb,redis; all that answer by default",
    )
    parser.add_argument(
        "--scale",
        type=float,
        help="over how much of the 1,000,000 jobs the pages are opened; 1, or 0.01 if --quick",
    )
    parser.add_argument("--page", default="", help="open only pages with this in their names")
    options = parser.parse_args()
    if options.scale is None:
        options.scale = 0.01 if options.quick else 1.0
    known = [*MEASUREMENTS, "profile"]
    for given, allowed in ((options.names, known), (options.database, databases.KINDS)):
        wrong = [one for one in given if one not in allowed]
        if wrong:
            parser.error(f"expected some of {', '.join(allowed)}, got {wrong[0]!r}")
    options.names = options.names or list(MEASUREMENTS)
    return options


def _usable(kinds: Sequence[str]) -> list[str]:
    usable = []
    for kind in kinds:
        reason = databases.why_missing(kind)
        if reason is None:
            usable.append(kind)
        else:
            print(f"Without {kind}: {reason}")
    return usable


def _peer() -> Path | None:
    try:
        return peers.python()
    except peers.PeerMissing as error:
        print(f"Without {', '.join(sorted(NEED_PEER))}: {error}")
        return None


def _summary(figures: Sequence[Figure], seconds: float) -> str:
    judged = [figure for figure in figures if figure.verdict]
    short = [figure for figure in judged if figure.verdict != "met"]
    lines = [f"{len(judged) - len(short)} of {len(judged)} targets met in {seconds:.0f} s."]
    lines += [
        f"Short: {figure.what} on {figure.database}: {figure.ratio:.2f}, target {figure.target}"
        for figure in short
    ]
    return "\n".join(lines)


def _profile(
    options: argparse.Namespace,
    kinds: Sequence[str],
    figures: Sequence[Figure],
    made: databases.Databases,
) -> None:
    """Print the profiles asked for, or else those of what fell short."""
    wanted = {(f.database, f.profile) for f in figures if f.verdict == "SHORT" and f.profile}
    if "profile" in options.names:
        wanted |= {(kind, name) for kind in kinds for name in _profiles_of(kind)}
    for kind, name in sorted(wanted):
        with _bench(kind, made, options, None) as bench:
            print(f"\n{kind}, {name}:\n{_profile_one(bench, name)}", flush=True)


def _profiles_of(kind: str) -> list[str]:
    return [*REDIS_PROFILES, CELERY_PROFILE] if kind == "redis" else list(PROFILES)


def _profile_one(bench: Bench, name: str) -> str:
    if name == CELERY_PROFILE:
        return with_celery.profile(bench)
    with bench.in_redis() if name in REDIS_PROFILES else bench.vtrr() as agent:
        agent.call("prepare")
        return str(agent.call(name, n=(PROFILES | REDIS_PROFILES)[name]))


def _end(*args: object) -> NoReturn:
    sys.exit(143)  # through every ``finally``: databases are dropped


if __name__ == "__main__":
    sys.exit(main())
