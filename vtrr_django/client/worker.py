"""The worker of one queue behind HTTP: as any other, but it waits for jobs at the server."""

from __future__ import annotations

from typing import Any, Final, Protocol

from vtrr_django.worker.source import JobSource
from vtrr_django.worker.worker import Worker, WorkerSummary

DEFAULT_WAIT: Final = 2.0
"""Seconds that a claim of an idle worker waits at the server, unless it is told otherwise.

A claim on its way cannot be called back: the server may be giving it jobs, which nobody would
run before their leases have run out. So a worker that is told to stop waits for its answer,
and this bounds how long. Process managers kill after 10 s (Docker) or more.
"""


class WaitingSource(JobSource, Protocol):
    """A source behind HTTP, whose claims may wait for jobs."""

    wait: float

    def check_access(self) -> None:
        """Find out whether the server lets us in and has the queue."""


class RemoteWorker(Worker):
    """Runs the jobs of one queue behind HTTP.

    Args:
        source: the queue, for this worker alone.
        wait: seconds that a claim waits for jobs while there are none. A burst does not wait.
        options: the arguments of :class:`~vtrr_django.worker.worker.Worker`.
    """

    def __init__(self, source: WaitingSource, *, wait: float, **options: Any) -> None:
        super().__init__([source], **options)
        self._source = source
        self._wait = wait

    def run(self) -> WorkerSummary:
        """Run jobs until stopped, or until ``burst`` or ``max_jobs`` says it is enough.

        A server that is away is waited for.

        Raises:
            ConfigurationError: at the start, the server does not let us in, or has no such
                queue.
            WorkerError, KeyboardInterrupt: as any worker.
        """
        self._source.check_access()
        self._source.wait = 0.0 if self.burst else self._wait
        return super().run()

    def run_burst(self) -> WorkerSummary:
        """Run what is ready and what becomes ready meanwhile, then return."""
        self._source.check_access()
        self._source.wait = 0.0
        return super().run_burst()
