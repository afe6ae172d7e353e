"""``vtrr_worker``: run jobs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import connections
from django.utils import autoreload
from django.utils.module_loading import autodiscover_modules

from vtrr_django.conf import get_config
from vtrr_django.connections import DjangoHooks, pool_size
from vtrr_django.exceptions import UnknownQueueError
from vtrr_django.management.commands._base import (
    QueueCommand,
    add_queues_argument,
    chosen_queues,
    count,
    refuse_without_tables,
)
from vtrr_django.management.commands._logging import log_to_stderr
from vtrr_django.queue import Queue
from vtrr_django.registry import known_queues
from vtrr_django.worker import Worker, WorkerSummary, replace_process

LONGEST_POLL = 2.0
RELOAD_SECONDS = 5.0
"""How long a process that is reloaded waits until its leases are released."""

logger = logging.getLogger("vtrr_django.commands")


class Command(QueueCommand):
    """Run a worker in this process."""

    help = (
        "Run jobs. SIGTERM or Ctrl-C lets the running ones finish; a second one gives them back "
        "and ends at once. Tasks are looked for in the tasks module of every installed app."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        add_queues_argument(parser, "all that are declared and have no CELERY_QUEUE")
        parser.add_argument(
            "--concurrency",
            type=int,
            default=1,
            metavar="N",
            help="Jobs run at once, each in a thread. Default: 1.",
        )
        parser.add_argument(
            "--burst", action="store_true", help="End when nothing is ready and nothing runs."
        )
        parser.add_argument("--max-jobs", type=int, metavar="N", help="End after N jobs.")
        parser.add_argument(
            "--reload",
            action="store_true",
            help="Start anew when code changes, for development; running jobs are given back.",
        )
        parser.add_argument(
            "--poll-interval",
            type=float,
            default=0.5,
            metavar="SECONDS",
            help="Time between two looks at an idle queue. Default: 0.5; longer after a while.",
        )
        parser.add_argument(
            "--worker-id", metavar="ID", help="Who runs the jobs. Default: host:pid:random."
        )
        parser.add_argument(
            "--heartbeat-file",
            metavar="PATH",
            help="A file, written every 5 seconds while the worker makes progress and removed at "
            "its end: UNIX-TIME WORKER-ID. For liveness probes; each worker needs its own.",
        )

    def get_check_kwargs(self, options: Any) -> Any:
        """Check nothing yet: :meth:`_prepare` does, when the tasks are there to be checked."""
        return {"tags": set()}

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the worker, in this thread or under the reloader."""
        if options["reload"] and (options["burst"] or options["max_jobs"] is not None):
            raise CommandError("--reload never ends: expected it without --burst and --max-jobs")
        queues = _queues(options["queue"])
        worker = _worker(queues, options)
        with log_to_stderr(options["verbosity"]):
            if options["reload"]:
                self._work_and_reload(queues, worker, options)
                return
            self._prepare(queues, options)
            restore = worker.install_signal_handlers()
            try:
                self._work(worker, options)
            finally:
                restore()

    def _prepare(self, queues: Sequence[Queue], options: dict[str, Any]) -> None:
        autodiscover_modules("tasks")
        if not options["skip_checks"]:
            self.check()
        refuse_without_tables(queues)
        _say_what_is_known(queues)
        _say_what_pools_lack(queues, options["concurrency"])
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close()  # the worker's threads have their own

    def _work(self, worker: Worker, options: dict[str, Any]) -> None:
        summary = worker.run()
        self.say(_sentence(summary), options)

    def _work_and_reload(
        self, queues: Sequence[Queue], worker: Worker, options: dict[str, Any]
    ) -> None:
        began, ended = threading.Event(), threading.Event()

        def work() -> None:
            began.set()
            try:
                self._prepare(queues, options)
                self._work(worker, options)
            finally:
                ended.set()

        try:
            autoreload.run_with_reloader(work)
        finally:
            # A file has changed, or Ctrl-C: the process ends, in the midst of its jobs.
            worker.abort()
            if began.is_set():
                ended.wait(RELOAD_SECONDS)


def _worker(queues: Sequence[Queue], options: dict[str, Any]) -> Worker:
    return Worker(
        queues,
        worker_id=options["worker_id"],
        concurrency=options["concurrency"],
        poll_interval=options["poll_interval"],
        backoff_interval=max(LONGEST_POLL, options["poll_interval"]),
        burst=options["burst"],
        max_jobs=options["max_jobs"],
        hooks=DjangoHooks(),
        replace=replace_process,
        heartbeat_file=options["heartbeat_file"],
    )


def _queues(names: Sequence[str] | None) -> list[Queue]:
    queues = chosen_queues(names)
    if names is None:
        queues = [queue for queue in queues if queue.config.celery_queue is None]
    if not queues:
        raise CommandError(
            "every declared queue has a CELERY_QUEUE: expected --queue NAME to run one here"
        )
    return queues


def _say_what_pools_lack(queues: Sequence[Queue], concurrency: int) -> None:
    """Warn of connection pools in which a renewal may wait until its lease has run out."""
    stores = {(queue.config.place, queue.config.database) for queue in queues}
    for alias in sorted({alias for _, alias in stores}):
        # Each job may hold one, and so does each store's upkeep, and what renews and hands in.
        needed = concurrency + 2 + [history for _, history in stores].count(alias)
        size = pool_size(connections[alias])
        if size is not None and size < needed:
            logger.warning(
                "database %s: its connection pool has %d connections, a worker of concurrency %d "
                "needs %d, or leases of running jobs run out unrenewed; set OPTIONS['pool'] to "
                "{'max_size': %d} or more",
                *(alias, size, concurrency, needed, needed),
            )


def _say_what_is_known(queues: Sequence[Queue]) -> None:
    for queue in queues:
        names = sorted(queue.runnables)
        if names:
            logger.info("queue %s runs %s", queue.name, ", ".join(names))
        else:
            logger.warning(
                "queue %s: no task or handler is known, so its jobs are put back; define one in "
                "the tasks module of an installed app",
                queue.name,
            )
    for queue in known_queues():
        if queue.runnables:
            try:
                get_config(queue.name)
            except UnknownQueueError as error:
                logger.warning("tasks of queue %s cannot be enqueued: %s", queue.name, error)


def _sentence(summary: WorkerSummary) -> str:
    ends = [
        f"{getattr(summary, field.name):,} {field.name}"
        for field in fields(summary)
        if field.name not in {"jobs", "released", "aborted"} and getattr(summary, field.name)
    ]
    told = f"Ran {count(summary.jobs, 'job')}"
    told += f": {', '.join(ends)}." if ends else "."
    if summary.released:
        told += f" Gave back {count(summary.released, 'lease')}."
    return told
