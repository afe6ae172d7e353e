"""A worker process for ``test_stopping``: says what happens on stdout, line by line.

Its jobs come from argv: ``quick``, ``long`` (runs until ``go`` is read from stdin),
``stuck`` (never ends, hard limit), ``deaf`` (never ends), ``astuck`` and ``adeaf`` (the same as
coroutines); ``unreplaced`` has the worker end where it would replace its process.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence

from tests.worker.fakes import MemorySource
from vtrr_django.domain.job import LeasedJob, Outcome
from vtrr_django.worker import TaskContext, Worker, coroutines, replace_process

go = threading.Event()


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Talking(MemorySource):
    def finish_and_lease(
        self, outcomes: Sequence[Outcome], n: int, *, worker_id: str
    ) -> tuple[list[bool], list[LeasedJob]]:
        for outcome in outcomes:
            say(outcome.kind.value, outcome.job_id)
        return super().finish_and_lease(outcomes, n, worker_id=worker_id)


def long(context: TaskContext) -> None:
    say("began", context.job.id)
    go.wait(120)


def deaf(context: TaskContext) -> None:
    say("began", context.job.id)
    while True:
        try:
            threading.Event().wait(120)
        except BaseException:  # noqa: BLE001 - nothing ends it
            say("ignored")


async def adeaf(context: TaskContext) -> None:
    say("began", context.job.id)
    while True:
        try:
            await asyncio.sleep(120)
        except BaseException:  # noqa: BLE001 - nothing ends it
            say("ignored")


class SayThatItStops(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if " stops:" in record.getMessage():
            say("stops")


def main() -> None:
    logger = logging.getLogger("vtrr_django.worker")
    logger.setLevel(logging.INFO)
    logger.addHandler(SayThatItStops())
    source = Talking()
    source.task(lambda context: say("ran", context.job.id), name="quick")
    source.task(long, name="long")
    source.task(deaf, name="deaf")
    source.task(deaf, name="stuck", time_limit=0.05)
    coroutine = functools.partial(coroutines.run, adeaf)
    source.task(coroutine, name="adeaf")
    source.task(coroutine, name="astuck", time_limit=0.05)
    options = set(sys.argv[1:])
    if "VTRR_TEST_GENERATION" in os.environ:
        say("replaced", os.getpid())
        options = {"quick"}
    os.environ["VTRR_TEST_GENERATION"] = "2"
    for name in ("quick", "long", "deaf", "stuck", "adeaf", "astuck"):
        if name in options:
            source.put(task=name, id=name)
    say("pid", os.getpid())
    replace = None if "unreplaced" in options else replace_process
    worker = Worker([source], concurrency=2, poll_interval=0.01, replace=replace)
    if "unhandled" in options:
        # A process that a shell started in the background inherits SIGINT ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    else:
        worker.install_signal_handlers()

    def read() -> None:
        for line in sys.stdin:
            if line.strip() == "go":
                go.set()

    threading.Thread(target=read, daemon=True).start()
    summary = worker.run()
    say("summary", summary.jobs, summary.aborted)


if __name__ == "__main__":
    main()
