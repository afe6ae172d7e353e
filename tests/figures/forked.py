"""A process that forks while it counts; prints what parent and child have counted, as JSON.

Run it with ``python -m tests.figures.forked``.
"""

from __future__ import annotations

import json
import os
import threading
import warnings

from tests.figures.jobs import LEASE_SECONDS, end, lease
from vtrr_django.figures.recorder import Recorder

# Python warns of just what is tried here.
warnings.simplefilter("ignore", DeprecationWarning)


def tell(who: str, recorder: Recorder) -> None:
    holding = recorder.holding()
    counted = recorder.take()
    told = {"who": who, "leases": counted.leases, "completed": counted.completed}
    os.write(1, json.dumps(told | {"holding": holding}).encode() + b"\n")


def main() -> None:
    recorder = Recorder()
    before = lease()
    recorder.leased([before], "parent", LEASE_SECONDS)
    locked, go_on = threading.Event(), threading.Event()

    def count_for_long() -> None:
        with recorder._lock:
            locked.set()
            go_on.wait()

    thread = threading.Thread(target=count_for_long)
    thread.start()
    locked.wait()
    child = os.fork()
    if child == 0:
        job = lease()
        recorder.leased([job], "child", LEASE_SECONDS)
        recorder.finished([end(job)], [True])
        tell("child", recorder)
        os._exit(0)
    os.waitpid(child, 0)
    go_on.set()
    thread.join()
    recorder.finished([end(before)], [True])
    tell("parent", recorder)


if __name__ == "__main__":
    main()
