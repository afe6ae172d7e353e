"""Queues and processes as in the races; asking how they are; letting figures grow old."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.db.models import F

from tests.contract.conftest import pytest_collection_modifyitems
from tests.races.conftest import make_crew, make_queue, redis_to_harm, store
from vtrr_django.engines.sql.models import QueueTotals, WorkerSighting
from vtrr_django.engines.sql.store import Store as Database
from vtrr_django.health import Finding, check_health
from vtrr_django.queue import Queue

__all__ = ["make_crew", "make_queue", "pytest_collection_modifyitems", "redis_to_harm", "store"]


def findings(queue: Queue) -> dict[str, Finding]:
    """Return what a check finds of a queue, by what was looked at."""
    [health] = check_health([queue]).queues
    assert health.queue == queue.name
    return {finding.id: finding for finding in health.findings}


def status(queue: Queue, name: str) -> str:
    return findings(queue)[name].status


def age(queue: Queue, seconds: float, *, totals: bool = True, workers: bool = True) -> None:
    """Let what was written down about a queue, and its workers, be so much older."""
    for model, columns, wanted in (
        (QueueTotals, ("leased_at", "reclaimed_at", "beat_at", "unknown_at"), totals),
        (WorkerSighting, ("started_at", "seen_at", "leased_at"), workers),
    ):
        if wanted:
            _set_back(queue, model, seconds, *columns)


def idle(queue: Queue, seconds: float) -> None:
    """Let workers have taken nothing for so long, and be seen all the same."""
    _set_back(queue, WorkerSighting, seconds, "started_at", "leased_at")


def resumed(queue: Queue, seconds: float) -> None:
    """Let the last time that jobs were let go on be so much longer ago."""
    _set_back(queue, QueueTotals, seconds, "resumed_at")


def _set_back(queue: Queue, model: Any, seconds: float, *columns: str) -> None:
    alias = queue.config.database
    rows = model.objects.using(alias).filter(queue=queue.name)
    back = {column: F(column) - round(seconds * 1_000_000) for column in columns}
    Database(alias).transact(lambda cursor: rows.update(**back))


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have jobs that wait for a moment have waited for too long."""
    monkeypatch.setattr("vtrr_django.health.workers.STALL_SECONDS", 0.001)
    monkeypatch.setattr("vtrr_django.health.reclaiming.SHORTEST_LIMIT", 0.001)


@pytest.fixture
def broken(tmp_path: Path, transactional_db: None) -> Iterator[str]:
    """An alias of a database that cannot be opened."""
    with database("broken", tmp_path / "missing" / "db.sqlite3"):
        yield "broken"


@pytest.fixture
def unmigrated(tmp_path: Path, transactional_db: None) -> Iterator[str]:
    """An alias of a database without tables."""
    with database("unmigrated", tmp_path / "db.sqlite3"):
        yield "unmigrated"


@contextmanager
def database(alias: str, path: Path) -> Iterator[None]:
    """Have an SQLite file for this thread that the tests' own care for databases overlooks."""
    like = connections["default"]
    connections[alias] = type(like)({**like.settings_dict, "NAME": path}, alias)
    try:
        yield
    finally:
        connections[alias].close()
        del connections[alias]
