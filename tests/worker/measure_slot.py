"""Print how many no-op jobs one slot runs in a second from a source that costs nothing.

Run it with ``python -m tests.worker.measure_slot [jobs]``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from tests.worker.fakes import FakeTask, MemorySource
from vtrr_django.domain.job import LeasedJob, Outcome
from vtrr_django.worker import Worker


class FreeSource(MemorySource):
    """Hands out jobs made beforehand and keeps no books."""

    def finish_and_lease(
        self, outcomes: Sequence[Outcome], n: int, *, worker_id: str
    ) -> tuple[list[bool], list[LeasedJob]]:
        ready = self.ready
        jobs = [ready.popleft() for _ in range(min(n, len(ready)))]
        return [True] * len(outcomes), jobs

    def resolve(self, task_name: str) -> FakeTask | None:
        return self.tasks[task_name]

    def job_started(self, job: LeasedJob, worker_id: str) -> None:
        pass


def measure(jobs: int, prefetch: int, **options: float) -> float:
    source = FreeSource(prefetch=prefetch)
    source.task(lambda context: None, **options)
    for _ in range(jobs):
        source.put()
    began = time.perf_counter()
    summary = Worker([source], poll_interval=0.01).run_burst()
    seconds = time.perf_counter() - began
    assert summary.succeeded == jobs, summary
    return jobs / seconds


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    for prefetch in (1, 10, 100):
        sys.stdout.write(f"prefetch {prefetch:>3}: {measure(jobs, prefetch):>9,.0f} jobs/s\n")
    limited = measure(jobs, 10, time_limit=60.0, soft_time_limit=30.0)
    sys.stdout.write(f"prefetch  10, with time limits: {limited:,.0f} jobs/s\n")


if __name__ == "__main__":
    main()
