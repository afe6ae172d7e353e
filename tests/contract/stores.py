"""The stores the contract is held against: how to make a queue in one, and how time passes.

To add an engine, add a store here; no test of the contract knows which one it runs on.
"""

from __future__ import annotations

import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from django.db import connections
from django.db.models import F

from tests.aging import age_history
from tests.own_redis import OwnRedis
from tests.races.faults import Server, database_server
from vtrr_django.domain.config import QueueConfig
from vtrr_django.engines.base import Engine
from vtrr_django.engines.orm.engine import OrmEngine
from vtrr_django.engines.sql.models import (
    CompletedJob,
    FailedJob,
    Job,
    Partition,
)
from vtrr_django.engines.sql.store import Store as Database

_numbers = itertools.count(1)


class Store(ABC):
    """One store under test."""

    name: str
    databases: tuple[str, ...] = ("default",)
    """Aliases of ``tests.settings`` that the tests use."""
    services: tuple[str, ...] = ()
    """Servers that must answer."""
    shared: bool = True
    """Whether other processes see what is in it."""
    history_alias: str = "default"
    """The database that what has ended is in."""
    joins: bool = True
    """Whether an enqueue is part of the caller's transaction, and so waits for those of others."""

    def new_name(self) -> str:
        """Return the name of a queue nobody has used."""
        return f"q{os.getpid()}-{next(_numbers)}"

    def engine(self, **config: Any) -> Engine:
        """Return an engine on an empty queue."""
        return self.engine_named(self.new_name(), **config)

    @abstractmethod
    def settings(self, **more: Any) -> dict[str, Any]:
        """Return the entry of ``VTRR["QUEUES"]`` for a queue in this store."""

    @abstractmethod
    def engine_named(self, name: str, **config: Any) -> Engine:
        """Return an engine on the queue of that name."""

    @abstractmethod
    def advance(self, queue: str, seconds: float) -> None:
        """Let time pass for a queue: everything in it happened so much earlier."""

    @abstractmethod
    def lapse(self, queue: str, worker_id: str) -> int:
        """Let the leases of one worker, and nobody else's, have run out; return how many."""

    @abstractmethod
    def history(self, queue: str) -> dict[str, list[dict[str, Any]]]:
        """Return the completed jobs and dead letters of a queue, the oldest first."""

    def age(self, queue: str) -> None:
        """Let so much time pass that what has ended in a queue is not spared any more."""
        self.history(queue)  # Redis hands it over
        age_history(queue, self.history_alias)

    @abstractmethod
    def live(self, queue: str) -> dict[str, dict[str, Any]]:
        """Return the live jobs by id: state, partition_key, delivery_count, timeouts."""

    @abstractmethod
    def remembered(self, queue: str) -> set[str]:
        """Return the partitions the store keeps anything about."""

    def move(self, own_server: Callable[[], OwnRedis]) -> None:  # noqa: B027 - most stay
        """Leave, before it is used, a server that others use too, so that tests may harm it."""

    def server(self) -> Server:
        """Return the server behind it, as somebody who may do it harm."""
        raise NotImplementedError(f"nobody has said how to harm the server of {self.name}")

    def close(self) -> None:
        """Check that the test left nothing open."""
        for connection in connections.all(initialized_only=True):
            assert not connection.in_atomic_block, "a test left a transaction open"


class OrmStore(Store):
    """The ORM engine in one database of ``tests.settings``."""

    def __init__(self, name: str, alias: str) -> None:
        self.name = name
        self.alias = self.history_alias = alias
        self.databases = tuple({"default", alias})
        self.services = () if alias == "default" else (alias,)

    def settings(self, **more: Any) -> dict[str, Any]:
        return {"ENGINE": "orm", "DATABASE": self.alias, **more}

    def engine_named(self, name: str, **config: Any) -> Engine:
        return OrmEngine(name, QueueConfig(database=self.alias, **config))

    def _rows(self, model: Any, queue: str) -> Any:
        return model.objects.using(self.alias).filter(queue=queue)

    def _set_back(self, rows: Any, seconds: float, *columns: str) -> int:
        """Do it as the engine does: workers are at these rows, and deadlocks are retried."""
        back = {column: F(column) - round(seconds * 1_000_000) for column in columns}
        return Database(self.alias).transact(lambda cursor: rows.update(**back))

    def advance(self, queue: str, seconds: float) -> None:
        columns = ("scheduled_at", "created_at", "claimed_at", "lease_expires_at")
        self._set_back(self._rows(Job, queue), seconds, *columns)

    def lapse(self, queue: str, worker_id: str) -> int:
        rows = self._rows(Job, queue).filter(claimed_by=worker_id)
        return self._set_back(rows, 3600, "lease_expires_at")

    def history(self, queue: str) -> dict[str, list[dict[str, Any]]]:
        return {
            "completed": list(self._rows(CompletedJob, queue).order_by("seq").values()),
            "failed": list(self._rows(FailedJob, queue).order_by("seq").values()),
        }

    def live(self, queue: str) -> dict[str, dict[str, Any]]:
        return {
            row["id"]: row | {"state": Job(state=row["state"]).get_state_display()}
            for row in self._rows(Job, queue).order_by("seq").values()
        }

    def server(self) -> Server:
        return database_server(self.alias)

    def remembered(self, queue: str) -> set[str]:
        return set(self._rows(Partition, queue).values_list("partition_key", flat=True))


def _redis(name: str) -> Store:
    from tests.contract import redis_store  # it needs this module

    return redis_store.RedisStore(name)


STORES = {
    "sqlite": lambda: OrmStore("sqlite", "default"),
    "postgres": lambda: OrmStore("postgres", "postgres"),
    "mariadb": lambda: OrmStore("mariadb", "mariadb"),
    "fakeredis": lambda: _redis("fakeredis"),
    "redis": lambda: _redis("redis"),
}

SQL_STORES = ("sqlite", "postgres", "mariadb")
"""Those whose live jobs are rows, for tests of statements."""
