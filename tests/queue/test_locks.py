"""A queue's engine, asked for by several threads at once and in forked processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.test import override_settings

from tests.races.waiting import PATIENCE
from vtrr_django.engines.base import Engine
from vtrr_django.engines.orm.engine import OrmEngine
from vtrr_django.queue import Queue

made: list[Engine] = []
pause = threading.Event()


class SlowEngine(OrmEngine):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        made.append(self)
        pause.wait(0.1)


def test_threads_that_come_at_once_share_an_engine() -> None:
    made.clear()
    queue, together = Queue("slow"), threading.Barrier(8)

    def ask(_: int) -> tuple[Engine, Any, Any]:
        together.wait(PATIENCE)
        engine = queue.engine
        return engine, engine.on_reclaimed, engine.shares_of

    engine_class = f"{__name__}.SlowEngine"
    with (
        override_settings(VTRR={"QUEUES": {"slow": {"ENGINE": engine_class}}}),
        ThreadPoolExecutor(8) as pool,
    ):
        found = list(pool.map(ask, range(8)))
    assert len(made) == 1
    assert {engine for engine, _, _ in found} == set(made)
    assert {hook for _, hook, _ in found} == {queue._on_reclaimed}
    assert {hook for _, _, hook in found} == {queue._declared_shares}


FORKING = """
import os, signal, sys, threading, time
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["vtrr_django"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    VTRR={"QUEUES": {"a": {"ENGINE": "orm"}, "b": {"CELERY_QUEUE": "c"}}},
)
django.setup()
from vtrr_django import get_queue
a, b = get_queue("a"), get_queue("b")
locks = [a._lock, b.dispatcher._lock]
held, go = threading.Event(), threading.Event()
def hold():
    with locks[0], locks[1]:
        held.set()
        go.wait()
threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if not child:
    a.engine
    with b.dispatcher._lock:
        os._exit(7)
deadline = time.monotonic() + 20
while time.monotonic() < deadline:
    pid, status = os.waitpid(child, os.WNOHANG)
    if pid:
        sys.exit(os.waitstatus_to_exitcode(status))
    time.sleep(0.01)
os.kill(child, signal.SIGKILL)
sys.exit("the child waits for a lock of its parent")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="it does not fork")
def test_a_forked_process_does_not_wait_for_a_thread_that_was_not_forked() -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 7, ended.stderr
