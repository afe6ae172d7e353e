"""Fixtures of the client's tests: the API in memory, and servers in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.fakes import FakeApi
from tests.client.processes import Server
from tests.races.conftest import (
    make_queue,
    pytest_collection_modifyitems,
    redis_to_harm,
    store,
)
from vtrr_django.client import transport

__all__ = ["make_queue", "pytest_collection_modifyitems", "redis_to_harm", "store"]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """The API in memory; between two tries almost no time passes."""
    monkeypatch.setattr(transport, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(transport, "LONGEST_PAUSE", 0.002)
    return FakeApi()


@pytest.fixture
def start_server(tmp_path: Path, settings: Any) -> Iterator[Callable[[], Server]]:
    """Return what starts ``vtrr_serve`` with the settings of the test; it ends with the test."""
    servers: list[Server] = []

    def start() -> Server:
        servers.append(Server(tmp_path, settings.VTRR))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.close()
