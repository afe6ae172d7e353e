"""``store`` much as in the contract; a queue in it, and processes that work on that queue."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import services
from tests.contract.conftest import pytest_collection_modifyitems
from tests.contract.stores import STORES, Store
from tests.own_redis import PROGRAM, OwnRedis
from tests.races.processes import Crew
from tests.races.stores import shared
from vtrr_django import get_queue
from vtrr_django.queue import Queue

__all__ = ["pytest_collection_modifyitems"]

MakeQueue = Callable[..., Queue]


@pytest.fixture(scope="session")
def size() -> Callable[[int, int], int]:
    """Choose between an everyday size and the one for ``VTRR_STRESS=1``."""
    stress = os.environ.get("VTRR_STRESS", "") not in {"", "0"}
    return lambda everyday, big: big if stress else everyday


@pytest.fixture(scope="session")
def redis_to_harm() -> Iterator[Callable[[], OwnRedis]]:
    """Return what starts a Redis for these tests, the first time; it writes down all it does."""
    servers: list[OwnRedis] = []

    def get() -> OwnRedis:
        services.need_program(PROGRAM)
        if not servers:
            servers.append(OwnRedis({"appendonly": "yes"}))
        return servers[0]

    yield get
    for server in servers:
        server.close()


@pytest.fixture(params=shared)
def store(
    request: pytest.FixtureRequest,
    transactional_db: None,
    redis_to_harm: Callable[[], OwnRedis],
) -> Iterator[Store]:
    """Each store in turn that processes share, on servers that a test may harm."""
    made = STORES[request.param]()
    made.move(redis_to_harm)
    yield made
    made.close()


@pytest.fixture
def make_queue(store: Store, settings: Any) -> MakeQueue:
    """Declare a queue in the store and return it."""

    def make(**config: Any) -> Queue:
        name = store.new_name()
        settings.VTRR = {"QUEUES": {name: store.settings(**config)}}
        return get_queue(name)

    return make


@pytest.fixture
def make_crew(settings: Any, tmp_path: Path) -> Iterator[Callable[[Queue], Crew]]:
    """Return what hires processes for a queue; they end with the test."""
    crews: list[Crew] = []

    def make(queue: Queue) -> Crew:
        folder = tmp_path / f"crew{len(crews)}"
        folder.mkdir()
        crews.append(Crew(folder, settings.VTRR, queue.name))
        return crews[-1]

    yield make
    for crew in crews:
        crew.close()
