"""One Celery worker for many tests: for each store with each broker that answers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from tests import services
from tests.celery.project.plan import Plan
from tests.celery.site import Site

STORES: dict[str, tuple[str | None, dict[str, Any]]] = {
    "sqlite": (None, {"ENGINE": "orm"}),
    "postgres": ("postgres", {"ENGINE": "orm", "DATABASE": "postgres"}),
    "redis": ("redis", {"ENGINE": "redis", "URL": services.SERVICES["redis"].url("redis")}),
}
BROKERS = {"redis": "redis", "rabbitmq": "amqp"}
PAIRS = ["sqlite-redis", "postgres-rabbitmq", "redis-redis"]
"""What a project may have, and not everything with everything."""

pairs = [
    pytest.param(
        pair,
        marks=[
            pytest.mark.service(name)
            for name in {STORES[pair.partition("-")[0]][0], pair.partition("-")[2]}
            if name
        ],
    )
    for pair in PAIRS
]

StartsSite = Callable[..., Site]


@pytest.fixture
def _django_db_helper() -> None:
    """Neither roll back nor flush what pytest-django would: the workers are in there.

    The tests are marked for their databases to be made; queues have names of their own.
    """


@pytest.fixture(scope="module")
def open_site(
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[StartsSite]:
    """Return what opens a site: a plan, its app and, on demand, its workers."""
    sites: list[Site] = []
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:

        def start(
            pair: str,
            queues: dict[str, dict[str, Any]],
            *,
            settings: str = "tests.celery.project.settings",
            **celery: Any,
        ) -> Site:
            store, _, broker = pair.partition("-")
            folder = tmp_path_factory.mktemp("celery")
            run = f"t{uuid.uuid4().hex[:10]}"
            if broker == "redis":
                # Prefixes keep the lists that brokers have besides queues apart.
                celery["broker_transport_options"] = {
                    "global_keyprefix": f"{run}:",
                    **celery.get("broker_transport_options", {}),
                }
            else:
                # Else a trigger may still be on its way when another connection counts them.
                celery["broker_transport_options"] = {
                    "confirm_publish": True,
                    **celery.get("broker_transport_options", {}),
                }
            plan = Plan(
                run=run,
                broker=services.SERVICES[broker].url(BROKERS[broker]),
                store=STORES[store][1],
                journal=str(folder / "journal"),
                queues=queues,
                celery=celery,
                settings=settings,
            )
            for name, value in plan.environment().items():
                patch.setenv(name, value)
            override = override_settings(VTRR=plan.vtrr())
            override.enable()
            sites.append(Site(plan, folder, override.disable))
            return sites[-1]

        yield start
        for site in reversed(sites):  # each puts back the settings it found
            site.close()
