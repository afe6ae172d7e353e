"""Metrics for Prometheus: a collector for any registry, and a view.

Counters and histograms come from what was counted since the queue exists, never from a
table that is pruned, so they never go back. Gauges are asked of the store at each scrape.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from vtrr_django.conf import MOST_METRICS_TENANTS, get_settings
from vtrr_django.connections import outside_transactions
from vtrr_django.domain.histogram import BOUNDS, Histogram
from vtrr_django.domain.job import QueueStats
from vtrr_django.figures.reading import Totals
from vtrr_django.health.looking import Look, Looker
from vtrr_django.queue import Queue
from vtrr_django.registry import all_queues

GAUGES: Final = {
    "vtrr_store_up": "1 if the store of the queue answers, else 0.",
    "vtrr_figures_up": "1 if the database of the queue's counters answers, else 0.",
    "vtrr_queue_paused": "1 if the queue is paused, else 0.",
    "vtrr_jobs_ready": "Jobs that wait for a worker.",
    "vtrr_jobs_scheduled": "Jobs that are not due yet.",
    "vtrr_jobs_leased": "Jobs that run.",
    "vtrr_partitions_waiting": "Tenants that have ready jobs.",
    "vtrr_oldest_wait_seconds": "How long the oldest ready job has waited; 0 if none is ready.",
    "vtrr_outbox_jobs": "Ended jobs in Redis that are not in the database yet.",
    "vtrr_outbox_oldest_seconds": "How long the oldest of them has been there; 0 if none is.",
    "vtrr_workers_alive": "Workers seen within the last minute.",
}

UP: Final = ("vtrr_store_up", "vtrr_figures_up")
"""In the order of ``Look.problems``."""

COUNTERS: Final = {
    "vtrr_leases_total": ("leases", "Leases given to workers."),
    "vtrr_jobs_completed_total": ("completed", "Jobs completed: acks."),
    "vtrr_jobs_failed_total": ("failed", "Jobs that became dead letters."),
    "vtrr_jobs_retried_total": ("retried", "Runs that ended in a retry."),
    "vtrr_jobs_snoozed_total": ("snoozed", "Runs put back without using an attempt."),
    "vtrr_leases_released_total": ("released", "Leases given back before the job ended."),
    "vtrr_leases_reclaimed_total": ("reclaimed", "Leases that ran out and were reclaimed."),
    "vtrr_acks_refused_total": ("refused", "Ends of leases refused: the lease was gone."),
}
"""Families, with the counters of ``figures.recorder.COUNTERS`` they show."""

HISTOGRAMS: Final = {
    "vtrr_job_wait_seconds": "Time from when a job was ready to its lease.",
    "vtrr_job_run_seconds": "Time from the start of a run to its end.",
}

PARTITION_GAUGES: Final = {
    "vtrr_partition_ready": "Ready jobs of a tenant.",
    "vtrr_partition_leased": "Running jobs of a tenant.",
    "vtrr_partition_worker_seconds": "Worker time of a tenant in about the last hour.",
}

OTHER: Final = "_other"
"""Label of all tenants that are not told apart."""

NONE: Final = "_none"
"""Label of the partition ``""``: to Prometheus an empty label is none."""

LONGEST_LABEL: Final = 64

_RESERVED = re.compile(r"_+(other|none)")
_LE = [*map(floatToGoString, BOUNDS), "+Inf"]


class VTRRCollector(Collector):
    """Shows how queues stand and what has happened on them, at each scrape anew.

    A store or a database that does not answer is shown as 0 in ``vtrr_store_up`` or
    ``vtrr_figures_up``; what it would have told is left out.

    Args:
        queues: which; None: all that settings declare.
        tenants: how many tenants of each queue, those with the most ready jobs, have series of
            their own, up to 100; None: as ``VTRR["METRICS_TENANTS"]`` says.

    Raises:
        ValueError: ``tenants`` is no such number.
    """

    def __init__(
        self, queues: Sequence[Queue] | None = None, *, tenants: int | None = None
    ) -> None:
        if tenants is not None and (
            type(tenants) is not int or not 0 <= tenants <= MOST_METRICS_TENANTS
        ):
            raise ValueError(
                f"expected tenants to be a whole number from 0 to {MOST_METRICS_TENANTS} or None, "
                f"got {tenants!r}"
            )
        self._queues = queues
        self._tenants = tenants

    def describe(self) -> Iterable[Metric]:
        """Return the families without samples: registering asks no store."""
        return Families(tenants=1)

    def collect(self) -> Iterable[Metric]:
        """Ask the stores, and return all families."""
        tenants = get_settings().metrics_tenants if self._tenants is None else self._tenants
        families = Families(tenants)
        for look in Looker().look_all(all_queues() if self._queues is None else self._queues):
            families.add(look)
        return families


class Families:
    """The families of one scrape, and how they are filled.

    Args:
        tenants: how many tenants of each queue have series of their own.
    """

    def __init__(self, tenants: int) -> None:
        self._tenants = tenants
        partitions = PARTITION_GAUGES if tenants else {}
        self._gauges = {name: _gauge(name, text) for name, text in GAUGES.items()}
        self._partitions = {
            name: _gauge(name, text, "partition") for name, text in partitions.items()
        }
        self._counters = {
            name: CounterMetricFamily(name, text, labels=["queue"])
            for name, (_, text) in COUNTERS.items()
        }
        self._histograms = {
            name: HistogramMetricFamily(name, text, labels=["queue"])
            for name, text in HISTOGRAMS.items()
        }

    def __iter__(self) -> Iterator[Metric]:
        yield from self._gauges.values()
        yield from self._counters.values()
        yield from self._histograms.values()
        yield from self._partitions.values()

    def add(self, look: Look) -> None:
        """Add the samples of one queue."""
        queue, depth, totals = look.queue.name, look.depth, look.totals
        if depth is not None:
            self._add_depth(queue, depth)
            if self._tenants:
                self._add_partitions(look, depth)
        if totals is not None:
            self._add_totals(queue, totals)
            alive = len(look.workers)
            if not look.problems[1]:
                self._set("vtrr_workers_alive", queue, alive)
        # Last: a place may have gone away in the midst.
        for name, problem in zip(UP, look.problems, strict=True):
            self._set(name, queue, not problem)

    def _set(self, name: str, queue: str, value: float) -> None:
        self._gauges[name].add_metric([queue], value)

    def _add_depth(self, queue: str, depth: QueueStats) -> None:
        self._set("vtrr_queue_paused", queue, depth.paused)
        self._set("vtrr_jobs_ready", queue, depth.ready)
        self._set("vtrr_jobs_scheduled", queue, depth.scheduled)
        self._set("vtrr_jobs_leased", queue, depth.leased)
        self._set("vtrr_partitions_waiting", queue, depth.partitions_waiting)
        self._set("vtrr_oldest_wait_seconds", queue, depth.oldest_wait_seconds)
        if depth.outbox is not None:
            self._set("vtrr_outbox_jobs", queue, depth.outbox)
            self._set("vtrr_outbox_oldest_seconds", queue, depth.outbox_seconds)

    def _add_totals(self, queue: str, totals: Totals) -> None:
        for name, (counter, _) in COUNTERS.items():
            self._counters[name].add_metric([queue], totals.counts[counter])
        for name, histogram in zip(HISTOGRAMS, (totals.waits, totals.runs), strict=True):
            self._histograms[name].add_metric([queue], _buckets(histogram), histogram.total)

    def _add_partitions(self, look: Look, depth: QueueStats) -> None:
        first = look.partitions(self._tenants)
        if look.problems[0]:
            return
        ready, leased, seconds = self._partitions.values()
        queue = look.queue.name
        _add_each(ready, queue, {one.partition_key: one.ready for one in first}, depth.ready)
        _add_each(leased, queue, {one.partition_key: one.leased for one in first}, depth.leased)
        each, total = look.worker_seconds([one.partition_key for one in first])
        if not look.problems[1]:
            mine = {one.partition_key: each.get(one.partition_key, 0.0) for one in first}
            _add_each(seconds, queue, mine, total)


def _gauge(name: str, text: str, *more: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=["queue", *more])


def _add_each(
    family: GaugeMetricFamily, queue: str, values: dict[str, float], total: float
) -> None:
    """Add the values of tenants, and what all others have of ``total``."""
    labelled: dict[str, float] = {}
    for key, value in values.items():
        label = label_of(key)
        labelled[label] = labelled.get(label, 0) + value
    # What was asked one after the other may not add up.
    labelled[OTHER] = max(0, total - sum(values.values()))
    for label, value in labelled.items():
        family.add_metric([queue, label], value)


def label_of(partition_key: str) -> str:
    """Return the label of a tenant: its name, unless that is reserved, empty or very long."""
    if not partition_key:
        return NONE
    if len(partition_key) > LONGEST_LABEL:
        digest = hashlib.sha256(partition_key.encode()).hexdigest()[:16]
        return f"{partition_key[:LONGEST_LABEL]}~{digest}"
    return f"_{partition_key}" if _RESERVED.fullmatch(partition_key) else partition_key


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    buckets, seen = [], 0
    for bound, count in zip(_LE, histogram.counts, strict=True):
        seen += count
        buckets.append((bound, float(seen)))
    return buckets


@login_not_required
@outside_transactions
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer with the metrics of all queues, in the format that the scraper asks for.

    Anybody who can reach it may read it; keep it where only Prometheus does.
    """
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(VTRRCollector()), content_type=content_type)
