"""The admin and ``/metrics`` over much data. This module is the root of the addresses too."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client, override_settings
from django.urls import path
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser

import vtrr_django.contrib.prometheus
from benchmarks.sites import common
from benchmarks.sites.common import prepare
from benchmarks.sites.pages import data, figures, visiting, walking
from benchmarks.sites.pages.requeueing import requeue_all
from vtrr_django.models import FailedJob, QueueState

__all__ = ["prepare", "requeue_all"]

urlpatterns = [
    path("admin/", admin.site.urls),
    path("metrics/", vtrr_django.contrib.prometheus.metrics),
]

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
PARSE: Any = parser.text_string_to_metric_families
PARSE_STRICTLY: Any = openmetrics_parser.text_string_to_metric_families


def fill(scale: float) -> None:
    """Fill everything."""
    data.fill_live(scale)
    data.fill_history(scale)
    figures.fill_figures(scale)
    visiting.staff()
    letter = FailedJob.objects.earliest("seq")
    log = {walking.LARGEST: QueueState, f"{letter.queue}:{letter.id}": FailedJob}
    figures.fill_log(User.objects.get().pk, log, round(figures.ENTRIES * scale))
    common.gather_statistics()


def walk(scale: float, rounds: int, only: str) -> list[dict[str, Any]]:
    """Open every page with ``only`` in its name; return what each needed."""
    visitor = visiting.Visitor(visiting.staff(), rounds, only)
    walking.walk(visitor, data.tenants_of(walking.LARGEST, scale))
    return visitor.rows


def scrape(tenants: int) -> dict[str, Any]:
    """Get ``/metrics`` with so many tenants told apart; return its size, time and samples.

    Raises:
        ValueError: prometheus-client cannot read it.
    """
    client, taken, given = Client(), [], getattr(settings, "VTRR", {})
    with override_settings(VTRR={**given, "METRICS_TENANTS": tenants}):
        for _ in range(4):
            began = time.perf_counter()
            text = client.get("/metrics/").content
            taken.append((time.perf_counter() - began) * 1000)
        strict = client.get("/metrics/", headers={"accept": OPENMETRICS}).content
    read, strictly = (
        sum(len(family.samples) for family in parsed(answer.decode()))
        for parsed, answer in ((PARSE, text), (PARSE_STRICTLY, strict))
    )
    if read != strictly:
        raise ValueError(f"{read} samples as text, {strictly} as OpenMetrics")
    size = max(len(text), len(strict))
    ms, best = median(taken[1:]), min(taken)
    return {"bytes": size, "ms": ms, "best": best, "samples": read}
