"""``store`` as in the contract, a queue in it with one handler, and a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands.importing.files import File, send_email
from tests.contract.conftest import pytest_collection_modifyitems, store
from tests.contract.stores import Store
from tests.races.conftest import make_crew
from vtrr_django import Queue, get_queue

__all__ = ["make_crew", "pytest_collection_modifyitems", "store"]

MakeQueue = Callable[..., Queue]


@pytest.fixture
def make_queue(store: Store, settings: Any) -> MakeQueue:
    """Return what declares a queue."""

    def make(**config: Any) -> Queue:
        name = store.new_name()
        settings.VTRR = {"QUEUES": {name: store.settings(**config)}}
        queue = get_queue(name)
        queue.handler(send_email)
        return queue

    return make


@pytest.fixture
def queue(make_queue: MakeQueue) -> Queue:
    return make_queue()


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path)
