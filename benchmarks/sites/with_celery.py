"""Jobs that Celery runs: plain tasks, ours, and vtrr-queue's, each with a worker of its own.

``celery -A benchmarks.sites.with_celery`` is the worker; ``settings.MORE`` says whose it is.
"""

from __future__ import annotations

import cProfile
import glob
import mmap
import pstats
import struct
import time
from pathlib import Path
from typing import Any

import django
import redis
from billiard.process import current_process
from celery import Celery, signals
from django.conf import settings

from benchmarks.sites import common
from benchmarks.sites.common import prepare

__all__ = ["app", "prepare"]

django.setup()
app = Celery("benchmark")
app.config_from_object("django.conf:settings", namespace="CELERY")

SIDE: str = settings.MORE["side"]
"""``plain``, ``ours``, or ``vtrr_queue``; also the name of its queues."""

_SLOT = struct.Struct("=Qd")
_SLOTS = 64


class Tally:
    """How many jobs each process of a pool has run, and when its last one ended.

    In a file that all of them map: what a job pays for being counted is a microsecond.
    """

    def __init__(self, path: str) -> None:
        file = Path(path)
        if not file.exists():
            file.write_bytes(bytes(_SLOTS * _SLOT.size))
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), 0)
        self._slot: int | None = None

    def add(self) -> None:
        """Count one job of this process."""
        if self._slot is None:
            self._slot = getattr(current_process(), "index", 0) * _SLOT.size
        count, _ = _SLOT.unpack_from(self._map, self._slot)
        _SLOT.pack_into(self._map, self._slot, count + 1, time.time())

    def clear(self) -> None:
        """Begin anew."""
        self._map[:] = bytes(len(self._map))

    def read(self) -> tuple[int, float]:
        """Return how many jobs all have run, and when the last one ended."""
        slots = list(_SLOT.iter_unpack(self._map))
        return sum(count for count, _ in slots), max(ended for _, ended in slots)


tally = Tally(settings.MORE["tally"])
store = redis.Redis.from_url(settings.CELERY_BROKER_URL)


def _no_op(self: Any) -> None:
    """Do nothing."""
    tally.add()


if SIDE == "plain":
    no_op = app.task(_no_op, name="no_op", bind=True, ignore_result=True)
elif SIDE == "ours":
    from vtrr_django import get_queue

    no_op = get_queue("ours").task(_no_op)
else:
    from vtrr_queue import VTRRQueue

    theirs = VTRRQueue(
        store,
        app,
        name=SIDE,
        celery_queue=SIDE,
        max_concurrency=settings.VTRR["QUEUES"]["ours"]["MAX_CONCURRENCY"],
    )
    no_op = theirs.task(_no_op)


def fill(n: int, tenants: int) -> None:
    """Enqueue ``n`` jobs, as many for each tenant."""
    tally.clear()
    store.config_resetstat()
    if SIDE == "plain":
        for _ in range(n):
            no_op.apply_async(queue=SIDE)
        return
    for tenant in range(tenants):
        no_op.queue(
            partition_key=f"tenant {tenant}", tasks=[{"args": []} for _ in range(n // tenants)]
        )


def wait(n: int, patience: float) -> float:
    """Wait until ``n`` jobs have run; return when the last one ended.

    Raises:
        TimeoutError: they have not.
    """
    deadline = time.monotonic() + patience
    while (told := tally.read())[0] < n:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{told[0]:,} of {n:,} jobs of {SIDE} ran in {patience:.0f} s")
        time.sleep(0.01)
    while store.llen(SIDE) and time.monotonic() < deadline:
        time.sleep(0.01)  # triggers that find nothing
    return told[1]


def commands(n: int) -> str:
    """Return what Redis did since :func:`fill` for each of ``n`` jobs."""
    return common.commands_per_job(store, n)


def server_pid() -> int:
    """Return the process of the Redis server, which runs on this machine."""
    told: Any = store.info("server")
    return int(told["process_id"])


# -- profile ---------------------------------------------------------------------------


@signals.worker_process_init.connect
def _profile_process(**kwargs: object) -> None:
    """Have a pool process note where its time goes, if ``settings.MORE`` asks for it."""
    path = settings.MORE.get("profile")
    if not path:
        return
    # Not the time on the clock: the process stands still while others are measured.
    profile = cProfile.Profile(time.process_time)

    def dump(**kwargs: object) -> None:
        profile.disable()
        profile.dump_stats(f"{path}.{getattr(current_process(), 'index', 0)}")

    signals.worker_process_shutdown.connect(dump, weak=False)
    profile.enable()


def read_profile(n: int) -> str:
    """Return where the processor time of the pool went, for each of ``n`` jobs."""
    profile = pstats.Stats(*glob.glob(settings.MORE["profile"] + ".*"))
    return f"{common.top(profile, n, functions=40)}\n{commands(n)}"
