"""The databases of one run: made for it, removed with it.

Where the servers are is what the tests are told: see ``tests/services.py``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import own_redis, services

KINDS = ("sqlite", "postgres", "mariadb", "redis")

# What Django's documentation advises for production. Both sides of every comparison get it.
_SQLITE: dict[str, Any] = {
    "ENGINE": "django.db.backends.sqlite3",
    "OPTIONS": {
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
    },
}


def why_missing(kind: str) -> str | None:
    """Return why databases of this kind cannot be used; None: they can."""
    if kind == "redis":
        return _why_no_redis()
    return None if kind == "sqlite" else services.why_missing(kind)


def _why_no_redis() -> str | None:
    for module in ("redis", "celery"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed; pip install --group dev"
    if shutil.which(own_redis.PROGRAM) is None:
        return f"no {own_redis.PROGRAM} on the PATH: a server of its own is started for it"
    return None


@contextlib.contextmanager
def redis_server() -> Iterator[str]:
    """Start a Redis that nobody else uses; give its URL. Nothing is written to disk."""
    server = own_redis.OwnRedis()
    try:
        yield server.url()
    finally:
        server.close()


class Databases:
    """Makes fresh databases and drops them all at the end.

    Connections are kept open (``CONN_MAX_AGE=None``), for both sides alike.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="vtrr-bench-"))
        self._made: list[tuple[str, str]] = []

    def new(self, kind: str) -> dict[str, Any]:
        """Return an entry for ``DATABASES``: an empty database of this kind.

        For ``redis`` one of SQLite, for the history.
        """
        kind = "sqlite" if kind == "redis" else kind
        name = f"vtrr_bench_{os.getpid()}_{len(self._made)}"
        self._made.append((kind, name))
        if kind == "sqlite":
            return _SQLITE | {"NAME": str(self._folder / f"{name}.sqlite3"), "CONN_MAX_AGE": None}
        charset = " CHARACTER SET utf8mb4" if kind == "mariadb" else ""
        _run_on_server(kind, f"CREATE DATABASE {name}{charset}")
        return services.SERVICES[kind].settings() | {"NAME": name, "CONN_MAX_AGE": None}

    def drop_all(self) -> None:
        """Drop everything that :meth:`new` made."""
        shutil.rmtree(self._folder, ignore_errors=True)
        for kind, name in self._made:
            if kind != "sqlite":
                force = " WITH (FORCE)" if kind == "postgres" else ""
                with contextlib.suppress(Exception):  # the others still have their turn
                    _run_on_server(kind, f"DROP DATABASE IF EXISTS {name}{force}")


@contextlib.contextmanager
def databases() -> Iterator[Databases]:
    """Give databases that are gone afterwards."""
    made = Databases()
    try:
        yield made
    finally:
        made.drop_all()


def _run_on_server(kind: str, sql: str) -> None:
    at = services.SERVICES[kind].settings()
    if kind == "postgres":
        import psycopg  # noqa: PLC0415 - only who measures PostgreSQL needs the driver

        connection = psycopg.connect(
            host=at["HOST"],
            port=at["PORT"],
            user=at["USER"],
            password=at["PASSWORD"] or None,
            dbname=at["NAME"],
            autocommit=True,
        )
    else:
        services.install_mysql_driver()
        import MySQLdb  # noqa: PLC0415 - likewise

        connection = MySQLdb.connect(
            host=at["HOST"], port=at["PORT"], user=at["USER"], password=at["PASSWORD"]
        )
    with contextlib.closing(connection), contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(sql)
