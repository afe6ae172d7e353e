"""A site under test: its queues as the web process sees them, and its workers."""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kombu
import redis
from celery import Celery, _state

from tests.celery.project.plan import Plan
from tests.races.journal import Journal
from tests.races.waiting import PATIENCE, until
from vtrr_django import Queue, get_queue
from vtrr_django.models import CompletedJob, FailedJob

ROOT = Path(__file__).parents[2]


class Worker:
    """A ``celery worker`` process."""

    def __init__(self, plan: Plan, folder: Path, arguments: tuple[str, ...]) -> None:
        self.log = folder / "worker.log"
        environment = {
            **os.environ,
            **plan.environment(),
            "DJANGO_SETTINGS_MODULE": plan.settings,
            # Else a test process that starts coverage would be asked for by every worker.
            "PYTHONPATH": str(ROOT),
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "celery", "-A", "tests.celery.project", "worker"),
                    *("-Q", ",".join(plan.name_of(queue) for queue in plan.queues)),
                    *("-l", "INFO", "--without-gossip", "--without-mingle", *arguments),
                    *("-n", f"{plan.run}-{os.urandom(4).hex()}@test"),
                ],
                env=environment,
                cwd=ROOT,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def told(self, text: str) -> bool:
        """Return whether the log has a text."""
        return text in self.log.read_text()

    def wait_ready(self) -> None:
        until(lambda: self._is_up() and self.told(" ready."), "a worker to be ready")

    def _is_up(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        return True

    def stop(self) -> None:
        """Have it shut down warmly, and wait for that."""
        self.process.terminate()
        self.process.wait(PATIENCE)

    def kill(self) -> None:
        """SIGKILL it, with its pool."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(PATIENCE)


class Site:
    """The queues of one plan.

    Attributes:
        tasks: by the short name of their queue.
        app: the Celery app of this process.
        jobs: ids that a fixture enqueued, by label.
    """

    def __init__(self, plan: Plan, folder: Path, disable: Callable[[], None]) -> None:
        self.plan = plan
        self.folder = folder
        self._disable = disable
        self._workers: list[Worker] = []
        self._flags = itertools.count()
        self.jobs: dict[str, str] = {}
        self._current = _state._tls.current_app
        self.app = Celery("web", broker=plan.broker, set_as_current=True)
        self.app.conf.update(plan.celery)
        self.app.finalize()
        module = importlib.import_module("tests.celery.project.tasks")
        if module.plan.run != plan.run:
            module = importlib.reload(module)
        self.tasks: dict[str, Any] = module.TASKS
        self.journal = Journal(Path(plan.journal))

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()
        self._clear_servers()
        self.app.close()
        _state._tls.current_app = self._current
        self.journal.close()
        self._disable()

    def _clear_servers(self) -> None:
        """Leave nothing of this run in servers that outlive it."""
        with self.app.connection_for_write() as connection:
            if connection.transport.driver_type == "amqp":
                for queue in self.plan.queues:
                    connection.default_channel.queue_delete(self.plan.name_of(queue))
        for url in {self.plan.broker, self.plan.store.get("URL", "")}:
            if url.startswith("redis"):
                with redis.Redis.from_url(url) as client:
                    for pattern in (f"{self.plan.run}:*", f"vtrr:{self.plan.run}-*"):
                        for key in client.scan_iter(pattern, count=1000):
                            client.delete(key)

    def worker(self, *arguments: str) -> Worker:
        """Start a worker; it ends with the site."""
        worker = Worker(self.plan, self.folder, arguments)
        self._workers.append(worker)
        worker.wait_ready()
        return worker

    def all_up(self) -> bool:
        """Return whether every worker that was started is alive."""
        return all(worker.process.poll() is None for worker in self._workers)

    def queue(self, name: str) -> Queue:
        return get_queue(self.plan.name_of(name))

    def flag(self) -> Path:
        """Return the path of a file that is not there yet."""
        return self.folder / f"flag-{next(self._flags)}"

    def enqueue(self, queue: str, label: str, *steps: Any, **options: Any) -> str:
        options.setdefault("partition_key", "a")
        job_id: str = self.tasks[queue].enqueue(label, *steps, **options)
        return job_id

    # -- what became of it ---------------------------------------------------------

    def starts(self, label: str) -> list[tuple[int, int]]:
        """Return ``(retries, timeouts)`` of every start of a job."""
        return [(words[1], words[2]) for words in self.journal.said("start") if words[0] == label]

    def heard(self, what: str, *words: Any, count: int = 1) -> list[tuple[Any, ...]]:
        """Wait until something was said so often; return it."""

        def look() -> list[tuple[Any, ...]]:
            said = [one for one in self.journal.said(what) if one[: len(words)] == words]
            return said if len(said) >= count else []

        return until(look, f"{what} {words} to be said {count} times")

    def end_of(self, queue: str, job_id: str) -> str:
        """Wait until a job has ended; return ``"completed"``, or its dead letter's class."""

        def look() -> str | None:
            self.queue(queue).engine.archive()
            alias = self.queue(queue).config.database
            if CompletedJob.objects.using(alias).filter(id=job_id).exists():
                return "completed"
            failed = FailedJob.objects.using(alias).filter(id=job_id).first()
            return None if failed is None else (failed.error_class or failed.reason)

        return until(look, f"job {job_id} to end") or ""

    def counts(self, queue: str, job_id: str) -> tuple[int, int]:
        """Return the retries and timeouts that the history tells of a job that has ended."""
        alias = self.queue(queue).config.database
        for model in (CompletedJob, FailedJob):
            rows: Any = model._default_manager.using(alias).filter(id=job_id)
            for found in rows.values_list("delivery_count", "timeouts"):
                return tuple(found)  # type: ignore[return-value]
        raise AssertionError(f"job {job_id} is not in the history")

    def idle(self, queue: str) -> None:
        """Wait until a queue has no job, and no trigger waits."""

        def look() -> bool:
            stats = self.queue(queue).engine.stats()
            return not (stats.ready or stats.leased or stats.scheduled or self.triggers(queue))

        until(look, f"queue {queue} to be idle")

    def triggers(self, queue: str) -> int:
        """Return how many messages wait in the broker, counted by a connection of its own."""
        name = self.plan.name_of(queue)
        if self.plan.broker.startswith("redis"):
            lists = [name, *(f"{name}\x06\x16{step}" for step in (3, 6, 9))]
            with redis.Redis.from_url(self.plan.broker) as client:
                return sum(client.llen(f"{self.plan.run}:{one}") for one in lists)
        with kombu.Connection(self.plan.broker) as connection:
            try:
                declared = connection.channel().queue_declare(name, passive=True)
            except connection.channel_errors:
                return 0
            return int(declared.message_count)
