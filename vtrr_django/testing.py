"""For the tests of a project: run what its code enqueued, here and now.

A worker runs jobs in threads, which see nothing of the transaction a ``TestCase`` wraps
around each test. :func:`run_jobs` runs them in the calling thread, inside it.
"""

from __future__ import annotations

from vtrr_django.queue import Queue
from vtrr_django.worker.lanes import Lane, Lease
from vtrr_django.worker.limits import Watchdog
from vtrr_django.worker.process import default_worker_id
from vtrr_django.worker.run import Runner
from vtrr_django.worker.source import NoHooks
from vtrr_django.worker.worker import WorkerSummary, summarize

__all__ = ["run_jobs"]


def run_jobs(queue: Queue, *, max_jobs: int = 1000) -> WorkerSummary:
    """Run the jobs of ``queue`` that are ready, in fair order, until none is left.

    Jobs end as under a worker: retried, snoozed, completed or dead letters. Time limits
    are not enforced. Jobs that are due later stay.

    Args:
        queue: whose jobs.
        max_jobs: end after so many, should jobs enqueue jobs for ever.
    """
    worker_id, hooks = default_worker_id(), NoHooks()
    lane = Lane(queue, worker_id, hooks)
    runner = Runner(worker_id, Watchdog(_no_limits, hooks, worker_id), hooks)
    ended: list[Lease] = []
    for _ in range(max_jobs):
        leases = lane.exchange(ended, 1)
        ended = []
        if not leases:
            break
        [lease] = leases
        lease.outcome = runner.run(lease)
        if lease.outcome is None:
            lane.drop(lease, "died")
        else:
            ended = [lease]
    lane.exchange(ended, 0)
    return summarize(lane.tally, aborted=False)


def _no_limits(lease: Lease) -> None:
    """Do nothing: the thread that would call this is never started."""
