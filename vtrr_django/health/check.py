"""The check as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vtrr_django.domain.job import PartitionStats, QueueStats
from vtrr_django.exceptions import ConfigurationError
from vtrr_django.figures.reading import SeenWorker, Totals
from vtrr_django.health.judging import judge
from vtrr_django.health.looking import Look, Looker
from vtrr_django.health.report import Finding, HealthReport
from vtrr_django.health.workers import judge_workers
from vtrr_django.queue import Queue
from vtrr_django.registry import all_queues


def check_workers(
    queue: Queue,
    depth: QueueStats,
    totals: Totals,
    *,
    workers: Sequence[SeenWorker],
    partitions: Sequence[PartitionStats],
) -> Finding:
    """Judge the workers of one queue as :func:`check_health` does, by what is known already.

    Args:
        queue: which.
        depth: how it stands.
        totals: its figures.
        workers: those that are alive.
        partitions: those with the most ready jobs, up to 10,000.

    Raises:
        ConfigurationError: settings are wrong.
    """
    return judge_workers(Look.knowing(queue, depth, workers, partitions), depth, totals)


def check_health(queues: Iterable[Queue] | None = None) -> HealthReport:
    """Return how queues are: their stores, workers, backlogs, reclaims and beat.

    A store or a database that does not answer is a finding, never an exception. It waits for
    each of them once, for as long as its client does.

    Args:
        queues: which; None: all that settings declare.
    """
    try:
        chosen = all_queues() if queues is None else list(queues)
        looks = Looker().look_all(chosen)
    except ConfigurationError as error:
        wrong = Finding(id="settings", status="critical", sentence=str(error))
        return HealthReport(queues=(), findings=(wrong,))
    return HealthReport(queues=tuple(judge(look) for look in looks))
