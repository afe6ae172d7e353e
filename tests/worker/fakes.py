"""Doubles for the worker's tests: a queue in memory, tasks, and waiting with a deadline."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.job import LeasedJob, Outcome, OutcomeKind, Renewal
from vtrr_django.worker import TaskContext, Worker, WorkerSummary

PATIENCE = 120.0


def wait_until(condition: Callable[[], object], what: str = "") -> None:
    deadline = time.monotonic() + PATIENCE
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"still waiting for {what or condition}"
        pause.wait(0.002)


class Call(NamedTuple):
    """One call of ``finish_and_lease``."""

    outcomes: tuple[Outcome, ...]
    n: int
    found: int
    thread: str

    @property
    def kinds(self) -> list[OutcomeKind]:
        return [outcome.kind for outcome in self.outcomes]


class FakeTask:
    def __init__(
        self,
        function: Callable[..., object],
        name: str = "task",
        *,
        time_limit: float | None = None,
        soft_time_limit: float | None = None,
        max_retries: int | None = 3,
        retry_delay: Callable[[BaseException, LeasedJob], float | None] | float | None = None,
    ) -> None:
        self.function = function
        self.name = name
        self.time_limit = time_limit
        self.soft_time_limit = soft_time_limit
        self.max_retries = max_retries
        self.default_retry_delay = 180.0
        self._retry_delay = retry_delay

    def run(self, context: TaskContext, job: LeasedJob) -> object:
        return self.function(context, *job.args, **job.kwargs)

    def retry_delay(self, exc: BaseException, job: LeasedJob) -> float | None:
        return self._retry_delay(exc, job) if callable(self._retry_delay) else self._retry_delay


class MemorySource:
    """A first-in first-out queue in memory.

    ``down`` is raised by every verb while it is set; an outcome of a job in ``poison``
    cannot be stored. Jobs put back with a delay stay in ``put_back``.
    """

    _numbers = itertools.count(1)

    def __init__(self, name: str = "memory", **config: Any) -> None:
        self.name = name
        self.config = QueueConfig(**config)
        self.tasks: dict[str, FakeTask] = {}
        self.ready: deque[LeasedJob] = deque()
        self.places: dict[str, int] = {}
        self.leased: dict[str, LeasedJob] = {}
        self.put_back: list[Outcome] = []
        self.outcomes: list[Outcome] = []
        self.refused: list[Outcome] = []
        self.calls: list[Call] = []
        self.renewals: list[Renewal] = []
        self.started: list[str] = []
        self.reclaims = self.archives = self.prunes = 0
        self.measures: list[str] = []
        self.down: BaseException | None = None
        self.failed_calls = 0
        self.renewals_down: BaseException | None = None
        self.poison: set[str] = set()
        self._lock = threading.RLock()

    # -- for tests -----------------------------------------------------------------

    def task(self, function: Callable[..., object], **options: Any) -> FakeTask:
        task = FakeTask(function, **options)
        self.tasks[task.name] = task
        return task

    def put(self, *args: Any, task: str = "task", **fields: Any) -> str:
        number = next(self._numbers)
        values: dict[str, Any] = {
            "id": f"job-{number}",
            "queue": self.name,
            "task_name": task,
            "args": list(args),
            "kwargs": {},
            "partition_key": "tenant",
            "weight": 1,
            "priority": 0,
            "token": f"token-{number}",
            "delivery_count": 0,
            "timeouts": 0,
            "enqueued_at": datetime.now(UTC),
            "lease_expires_at": datetime.now(UTC),
        }
        job = LeasedJob(**(values | fields))
        with self._lock:
            self.places[job.id] = number
            self.ready.append(job)
        return job.id

    def steal(self, job_id: str) -> None:
        """Take a lease away, as a reclaim by somebody else does."""
        with self._lock:
            self.leased = {t: job for t, job in self.leased.items() if job.id != job_id}

    def kinds_of(self, job_id: str) -> list[OutcomeKind]:
        return [outcome.kind for outcome in self.outcomes if outcome.job_id == job_id]

    # -- JobSource -----------------------------------------------------------------

    def finish_and_lease(
        self, outcomes: Sequence[Outcome], n: int, *, worker_id: str
    ) -> tuple[list[bool], list[LeasedJob]]:
        with self._lock:
            if self.down is not None or any(o.job_id in self.poison for o in outcomes):
                self.failed_calls += 1
                raise self.down or ValueError("this outcome cannot be stored")
            done = [self._finish(outcome) for outcome in outcomes]
            jobs = [self.ready.popleft() for _ in range(min(n, len(self.ready)))]
            self.leased.update({job.token: job for job in jobs})
            self.calls.append(Call(tuple(outcomes), n, len(jobs), threading.current_thread().name))
            return done, jobs

    def _finish(self, outcome: Outcome) -> bool:
        job = self.leased.pop(outcome.token, None)
        if job is None:
            self.refused.append(outcome)
            return False
        self.outcomes.append(outcome)
        if outcome.kind is OutcomeKind.RELEASE:
            self.ready = deque(sorted([*self.ready, job], key=lambda job: self.places[job.id]))
        elif outcome.kind in {OutcomeKind.RETRY, OutcomeKind.SNOOZE}:
            if outcome.delay == 0:
                self.ready.append(job)
            else:
                self.put_back.append(outcome)
        return True

    def renew_many(self, renewals: Sequence[Renewal]) -> list[bool]:
        with self._lock:
            down = self.down or self.renewals_down
            if down is not None:
                self.failed_calls += 1
                raise down
            self.renewals.extend(renewals)
            return [renewal.token in self.leased for renewal in renewals]

    def reclaim(self) -> int:
        self.reclaims += 1
        if self.down is not None:
            raise self.down
        return 0

    def archive(self) -> object:
        self.archives += 1
        return 0

    def prune(self) -> object:
        self.prunes += 1
        return {}

    def measure(self, worker_id: str) -> object:
        self.measures.append(worker_id)
        return None

    def resolve(self, task_name: str) -> FakeTask | None:
        return self.tasks.get(task_name)

    def job_started(self, job: LeasedJob, worker_id: str) -> None:
        self.started.append(job.id)


class Hanging(MemorySource):
    """Some of its verbs do not return from ``hang.set()`` until ``go.set()``."""

    def __init__(self, *verbs: str, name: str = "memory", **config: Any) -> None:
        super().__init__(name, **config)
        self.hang, self.hung, self.go = threading.Event(), threading.Event(), threading.Event()
        for verb in verbs:
            setattr(self, verb, self._hanging(getattr(self, verb)))

    def _hanging(self, do: Callable[..., Any]) -> Callable[..., Any]:
        def verb(*args: Any, **options: Any) -> Any:
            if self.hang.is_set() and not self.go.is_set():
                self.hung.set()
                self.go.wait(60)
            return do(*args, **options)

        return verb


class Running:
    """A worker in a thread of its own."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.summary: WorkerSummary | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="test-worker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.summary = self.worker.run()
        except BaseException as exc:  # noqa: BLE001 - for the test to look at
            self.error = exc

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def end(self) -> WorkerSummary:
        self._thread.join(PATIENCE)
        assert self.ended, "the worker does not end"
        if self.error is not None:
            raise self.error
        assert self.summary is not None
        return self.summary


@contextmanager
def running(sources: Sequence[MemorySource], **options: Any) -> Iterator[Running]:
    """Run a worker that polls often; stop it at the end, whatever the test did."""
    options = {"poll_interval": 0.005, "backoff_interval": 0.01} | options
    run = Running(Worker(sources, **options))
    try:
        yield run
    finally:
        run.worker.stop()
        run._thread.join(PATIENCE)
        assert run.ended


def burst(*sources: MemorySource, **options: Any) -> WorkerSummary:
    return Worker(sources, **({"poll_interval": 0.005} | options)).run_burst()
