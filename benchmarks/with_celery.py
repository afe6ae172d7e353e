"""No-op jobs through a prefork Celery worker of 2: plain Celery's tasks, ours, vtrr-queue's."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, Self

from benchmarks.agents import Agent, environment
from benchmarks.measuring import Bench, Figure, Target, rate
from benchmarks.peers import OLD, ROOT, why_no_vtrr_queue

PROCESSES = 2
MAX_CONCURRENCY = 8
TENANTS = 20
PATIENCE = 120.0
"""Seconds within which a round has to be over."""


@dataclass(slots=True)
class Spent:
    """What one round took.

    Attributes:
        enqueued: seconds until all jobs were enqueued, while the worker stood still.
        worked: seconds from then until the last job had ended.
        cpu: seconds of processor time of the worker's parent, its pool, and Redis.
        commands: what Redis was told for each job.
    """

    enqueued: float = 0.0
    worked: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    commands: str = ""


class Side:
    """Somebody's Celery worker, and the process that enqueues for it.

    The worker stands still (``SIGSTOP``) except while it is measured, so that the sides do
    not meet.

    Args:
        bench: of the run.
        name: ``plain``, ``ours`` or ``vtrr_queue``.
        db: number of its Redis database, of broker and store alike.
        drain: ``DRAIN_SECONDS``.
        profile: whether pool processes are profiled.
    """

    def __init__(
        self, bench: Bench, name: str, db: int, *, drain: float = 0.0, profile: bool = False
    ) -> None:
        self.name = name
        self._folder = Path(tempfile.mkdtemp(prefix="vtrr-bench-celery-"))
        url = str(bench.redis).rpartition("/")[0] + f"/{db}"
        ours = {
            "ENGINE": "redis",
            "URL": url,
            "CELERY_QUEUE": "ours",
            "MAX_CONCURRENCY": MAX_CONCURRENCY,
            "DRAIN_SECONDS": drain,
        }
        told: dict[str, Any] = {
            "vtrr": {"QUEUES": {"ours": ours}},
            "celery": {
                "broker_url": url,
                "broker_connection_retry_on_startup": True,
                "task_ignore_result": True,
            },
            "more": {"side": name, "tally": str(self._folder / "tally")},
        }
        if profile:
            told["more"]["profile"] = str(self._folder / "profile")
        databases = {"default": bench.databases.new("sqlite")}
        self._agent = Agent("with_celery", databases, **told)
        self._agent.call("prepare")
        with (self._folder / "log").open("wb") as log:
            self._worker = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [
                    *(sys.executable, "-m", "celery", "-A", "benchmarks.sites.with_celery"),
                    *("worker", "--concurrency", str(PROCESSES), "--queues", name),
                    *("--loglevel", "WARNING", "--without-gossip", "--without-mingle"),
                    *("--hostname", f"{name}-{drain:g}@benchmark"),
                ],
                cwd=ROOT,
                env=environment("with_celery", databases, **told),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._worker.pid, signal.SIGKILL)
        self._worker.wait()
        self._agent.__exit__(kind, error, traceback)
        if error is not None:
            print((self._folder / "log").read_text()[-2000:], file=sys.stderr)
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, jobs: int) -> Spent:
        """Enqueue so many jobs, then have the worker run them."""
        spent = Spent()
        began = time.perf_counter()
        self._agent.call("fill", n=jobs, tenants=TENANTS)
        spent.enqueued = time.perf_counter() - began
        before = self._cpu()
        began_at = time.time()
        os.killpg(self._worker.pid, signal.SIGCONT)
        try:
            spent.worked = self._agent.call("wait", n=jobs, patience=PATIENCE) - began_at
        finally:
            os.killpg(self._worker.pid, signal.SIGSTOP)
        spent.cpu = {name: used - before[name] for name, used in self._cpu().items()}
        spent.commands = self._agent.call("commands", n=jobs)
        return spent

    def _cpu(self) -> dict[str, float]:
        parent = self._worker.pid
        try:
            told = Path(f"/proc/{parent}/task/{parent}/children").read_text()
        except OSError:  # not Linux
            return {}
        return {
            "parent": _cpu_of(parent),
            "pool": sum(_cpu_of(int(child)) for child in told.split()),
            "Redis": _cpu_of(self._agent.call("server_pid")),
        }

    def profile(self, jobs: int) -> str:
        """Have the worker run so many jobs and end; return where the pool's time went."""
        self.run(jobs)
        os.killpg(self._worker.pid, signal.SIGCONT)
        self._worker.terminate()
        self._worker.wait(PATIENCE)
        return str(self._agent.call("read_profile", n=jobs))


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(bench: Bench) -> Iterator[Figure]:
    """Measure no-op jobs end to end: from the first enqueue to the end of the last job.

    A round enqueues the jobs while the worker stands still, then lets it run: the times add
    up to the end-to-end rate, and the worker's alone is a line of its own. Plain Celery's
    jobs are enqueued one by one, there is no other way; ours and vtrr-queue's in one call
    for each of 20 tenants.
    """
    jobs = 500 if bench.quick else 2000
    why_not = why_no_vtrr_queue()
    if why_not is not None:
        print(f"Without {OLD}: {why_not}")
    with contextlib.ExitStack() as stack:
        sides = {
            label: stack.enter_context(Side(bench, name, db, drain=drain))
            for db, (label, name, drain) in enumerate(
                [
                    ("plain", "plain", 0.0),
                    ("ours", "ours", 0.0),
                    ("drain", "ours", 1.0),
                    ("theirs", "vtrr_queue", 0.0),
                ]
            )
            if name != "vtrr_queue" or why_not is None
        }
        for side in sides.values():
            side.run(100)  # warm up
        rounds: list[dict[str, Spent]] = []
        for number in bench.rounds(90, most=7):
            turn = list(sides) if number % 2 else list(reversed(sides))
            rounds.append({label: sides[label].run(jobs) for label in turn})
    yield from _figures(bench.kind, jobs, rounds)


def _figures(kind: str, jobs: int, rounds: list[dict[str, Spent]]) -> Iterator[Figure]:
    names = {"ours": "vtrr-django", "drain": "DRAIN_SECONDS=1", "theirs": OLD}
    targets = {"ours": Target(bound=1), "drain": Target(bound=3)}
    for label in [name for name in names if name in rounds[0]]:
        total = {
            side: [one[side].enqueued + one[side].worked for one in rounds]
            for side in (label, "plain")
        }
        worked = {side: [one[side].worked for one in rounds] for side in (label, "plain")}
        for what, spent, target in (
            ("end to end", total, targets.get(label)),
            ("the worker alone", worked, None),
        ):
            yield Figure(
                database=kind,
                what=f"{jobs:,} no-op jobs, Celery, {names[label]}: {what}",
                ours=rate(jobs / median(spent[label])),
                other=f"plain Celery {rate(jobs / median(spent['plain']))}",
                ratios=[of / to for to, of in zip(spent[label], spent["plain"], strict=True)],
                target=target,
                profile="profile_celery" if label == "ours" and target else None,
            )
    for label in rounds[0]:
        cpu = {
            name: 1e6 * median(one[label].cpu[name] for one in rounds) / jobs
            for name in rounds[0][label].cpu
        }
        told = ", ".join(f"{name} {used:,.0f}" for name, used in cpu.items())
        print(f"  {names.get(label, 'plain Celery')}: CPU us per job: {told}")
        print(f"    {rounds[-1][label].commands}")


def profile(bench: Bench) -> str:
    """Return where the time of pool processes goes, without drain."""
    with Side(bench, "ours", 0, profile=True) as side:
        side.run(100)
        return side.profile(1000)
