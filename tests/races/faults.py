"""What is done to a store behind the engine's back: the server goes away.

One class for each kind of store, so that no test asks which one it runs on.
"""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator

from django.db import connections
from django.db.utils import DatabaseError

from tests.own_redis import OwnRedis


def be_impatient() -> None:
    """Have this process hear at once that a store is away, where it would wait for long."""
    for settings in connections.settings.values():
        if settings["ENGINE"].endswith("sqlite3"):
            settings["OPTIONS"]["timeout"] = 0.05


class Server(ABC):
    """The server of a store, as somebody who may do it harm."""

    @contextlib.contextmanager
    @abstractmethod
    def away(self) -> Iterator[None]:
        """Answer nobody until the block ends, except perhaps what this thread asks."""


class DatabaseServer(Server):
    """The server of a database; the connection of this thread is spared."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    def _run(self, sql: str, *params: object) -> list[tuple[object, ...]]:
        with connections[self.alias].cursor() as cursor:
            cursor.execute(sql, params)
            return list(cursor.fetchall()) if cursor.description else []


class SqliteFile(DatabaseServer):
    """There is no server: who holds the file's lock keeps all others from writing."""

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        path = connections[self.alias].settings_dict["NAME"]
        holder = sqlite3.connect(path, timeout=60, isolation_level=None)
        try:
            holder.execute("BEGIN EXCLUSIVE")
            yield
        finally:
            holder.close()


class Postgres(DatabaseServer):
    """Ends all sessions and lets nobody in."""

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        connection = connections[self.alias]
        name = connection.settings_dict["NAME"]
        (spared,) = self._run("SELECT pg_backend_pid()")
        allow = f"ALTER DATABASE {connection.ops.quote_name(name)} ALLOW_CONNECTIONS "
        # Nobody can do it from inside.
        with connection._nodb_cursor() as outside:
            outside.execute(allow + "false")
            try:
                outside.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = %s AND pid <> %s",
                    [name, *spared],
                )
                yield
            finally:
                outside.execute(allow + "true")


class MariaDB(DatabaseServer):
    """Kills whoever is in, again and again: one database cannot be closed to its users."""

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        back = threading.Event()
        spared = {row[0] for row in self._run("SELECT CONNECTION_ID()")}
        killer = threading.Thread(target=self._kill, args=(spared, back))
        killer.start()
        try:
            yield
        finally:
            back.set()
            killer.join()

    def _kill(self, spared: set[object], back: threading.Event) -> None:
        try:
            spared |= {row[0] for row in self._run("SELECT CONNECTION_ID()")}
            while not back.wait(0.002):
                for (number,) in self._run(
                    "SELECT id FROM information_schema.processlist WHERE db = DATABASE()"
                ):
                    if number not in spared:
                        with contextlib.suppress(DatabaseError):  # it has gone by itself
                            self._run("KILL CONNECTION %s", number)
        finally:
            connections.close_all()


_DATABASES: dict[str, type[DatabaseServer]] = {
    "sqlite": SqliteFile,
    "postgresql": Postgres,
    "mysql": MariaDB,
}


def database_server(alias: str) -> Server:
    """Return the server behind an alias of DATABASES."""
    return _DATABASES[connections[alias].vendor](alias)


class RedisServer(Server):
    """Kills a Redis of this run's own, which starts again with its file, or stops it for a while.

    The two take turns. What is sent to one that is stopped it does when it goes on, though
    nobody waits for the answer any more.
    """

    def __init__(self, own: OwnRedis) -> None:
        self._own = own
        self._ways = itertools.cycle([self.killed, self.frozen])

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        with next(self._ways)():
            yield

    @contextlib.contextmanager
    def killed(self) -> Iterator[None]:
        """Do not be there."""
        self._own.kill()
        try:
            yield
        finally:
            self._own.start()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Take connections and answer none."""
        self._own.freeze()
        try:
            yield
        finally:
            self._own.thaw()

    def cut(self) -> None:
        """End every connection."""
        self._own.client().client_kill_filter(_type="normal")
