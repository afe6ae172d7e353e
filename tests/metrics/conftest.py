"""``store`` and ``make_queue`` as elsewhere, and looking at what a scraper would get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from django.test import RequestFactory
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Sample

from tests.contract.conftest import pytest_collection_modifyitems, store
from tests.races.conftest import make_queue
from vtrr_django.contrib.prometheus import metrics

__all__ = ["make_queue", "pytest_collection_modifyitems", "store"]

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class Scrape(NamedTuple):
    """What ``/metrics`` answered."""

    text: str
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float]

    def value(self, name: str, **labels: str) -> float:
        return self.samples[name, tuple(sorted(labels.items()))]

    def has(self, name: str) -> bool:
        return any(known == name for known, _ in self.samples)

    def by(self, label: str, name: str) -> dict[str, float]:
        """Return the values of a family by one label."""
        return {
            dict(labels)[label]: value
            for (known, labels), value in self.samples.items()
            if known == name
        }


def scrape() -> Scrape:
    """Get ``/metrics`` in both formats; both must be valid and say the same."""
    text = _get("")
    families = list(parse_text(text))
    assert all(family.documentation for family in families)
    samples = [sample for family in families for sample in family.samples]
    found = {_key(sample): sample.value for sample in samples}
    assert len(found) == len(samples), "a series is there twice"
    strict = [one for family in parse_openmetrics(_get(OPENMETRICS)) for one in family.samples]
    assert {_key(sample) for sample in strict} == set(found)
    return Scrape(text, found)


def _key(sample: Sample) -> tuple[str, tuple[tuple[str, str], ...]]:
    labels: Mapping[str, str] = sample.labels
    return sample.name, tuple(sorted(labels.items()))


def _get(accept: str) -> str:
    response = metrics(RequestFactory().get("/metrics/", headers={"accept": accept}))
    assert response.status_code == 200
    return response.content.decode()
