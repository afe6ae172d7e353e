"""The same requests on every store, and whether they get the same answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests import services
from tests.api.asking import Api
from tests.contract.stores import STORES

ALIASES = ("default", *services.DATABASES)


def on_each_store(settings: Any, **config: Any) -> Iterator[tuple[str, Api]]:
    """Yield each store that answers, in CI all, with who asks about a new queue in it."""
    settings.ROOT_URLCONF = "vtrr_django.api.urls"
    settings.MIDDLEWARE = []
    for store_name, make in STORES.items():
        store = make()
        if not all(services.is_there(service) for service in store.services):
            continue
        name = store.new_name()
        settings.VTRR = {"QUEUES": {name: store.settings(**config)}}
        try:
            yield store_name, Api(name)
        finally:
            store.close()


def same_everywhere(
    settings: Any, scenario: Callable[[Api], dict[str, Any]], **config: Any
) -> dict[str, Any]:
    """Return the answers to a scenario, by what was asked; they are the same on every store."""
    first: dict[str, str] = {}
    for store_name, api in on_each_store(settings, **config):
        found = scenario(api)
        told = {name: json.dumps(one).replace(api.name, "Q") for name, one in found.items()}
        first = first or told
        apart = {name: (told[name], one) for name, one in first.items() if one != told[name]}
        assert not apart, store_name
        assert found.keys() == first.keys()
    return {name: json.loads(one) for name, one in first.items()}


every_store = pytest.mark.django_db(
    transaction=True,
    databases=[alias for alias in ALIASES if alias == "default" or not services.why_missing(alias)],
    available_apps=["vtrr_django"],
)
"""Tests in which all stores take part."""
