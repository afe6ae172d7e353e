"""What both sides do alike."""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.apps import apps
from django.core.management import call_command
from django.db import connections

waits: dict[str, list[float]] = {}
"""Seconds each tenant's jobs waited for their start in this process."""


def no_op() -> None:
    """Be the smallest job."""


def timed_job(tenant: str, sent_at: float, seconds: float) -> None:
    """Note how long this job waited, then take some time."""
    waits.setdefault(tenant, []).append(time.time() - sent_at)
    time.sleep(seconds)


def prepare() -> None:
    """Make the tables in every database of this process."""
    for alias in connections:
        call_command("migrate", database=alias, verbosity=0, interactive=False)


def empty_tables() -> None:
    """Empty every table of the app, and give the space back."""
    for alias in connections:
        connection = connections[alias]
        tables = [model._meta.db_table for model in apps.get_models()]
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute("TRUNCATE " + ", ".join(tables))
                continue
            for table in tables:
                verb = "DELETE FROM" if connection.vendor == "sqlite" else "TRUNCATE TABLE"
                cursor.execute(f"{verb} {table}")


def gather_statistics() -> None:
    """Have the database look at its tables, as one in use has done long since."""
    for alias in connections:
        connection = connections[alias]
        tables = [model._meta.db_table for model in apps.get_models()]
        with connection.cursor() as cursor:
            if connection.vendor == "mysql":
                cursor.execute("ANALYZE TABLE " + ", ".join(tables))
                cursor.fetchall()
            elif connection.vendor == "postgresql":
                cursor.execute("VACUUM ANALYZE")


def megabytes() -> float:
    """Return the memory of this process that is in RAM, in MB; 0 where it cannot be told."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


# -- profiles --------------------------------------------------------------------------


def profiled(work: Callable[[], object], jobs: int) -> str:
    """Return where the time of ``work`` goes, which handles so many jobs."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return top(pstats.Stats(profile), jobs)


def top(profile: pstats.Stats, jobs: int, functions: int = 22) -> str:
    """Return the functions with most time of their own, in microseconds per job."""
    stats: dict[Any, Any] = profile.stats  # type: ignore[attr-defined]
    rows = sorted(stats.items(), key=lambda row: -row[1][2])[:functions]
    total = sum(row[2] for row in stats.values())
    lines = [
        f"{total / jobs * 1e6:.0f} us per job, the profiler's own cost included",
        f"{'calls/job':>10}{'own us':>9}{'with callees':>14}  function",
    ]
    for (path, line, name), (_, calls, own, cumulative, _) in rows:
        where = name if path == "~" else f"{'/'.join(path.split('/')[-3:])}:{line} {name}"
        times = f"{own / jobs * 1e6:>9.1f}{cumulative / jobs * 1e6:>14.1f}"
        lines.append(f"{calls / jobs:>10.2f}{times}  {where}")
    return "\n".join(lines)


def commands_per_job(server: Any, jobs: int) -> str:
    """Return what Redis has done since its statistics were reset: calls and time per job."""
    told = {
        name.removeprefix("cmdstat_"): one
        for name, one in server.info("commandstats").items()
        if one["calls"] * 20 >= jobs
    }
    rows = sorted(told.items(), key=lambda row: -row[1]["usec"])
    return "Redis, calls and us per job: " + ", ".join(
        f"{name} {one['calls'] / jobs:.2f} {one['usec'] / jobs:.0f}" for name, one in rows
    )
