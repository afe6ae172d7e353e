"""The databases that queues live in: of what kind, how set up, and with which tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage, Error
from django.db import connections, router

from vtrr_django.checks.declared import declared_queues, queue_path
from vtrr_django.models import Job
from vtrr_django.routers import VTRRRouter, queue_databases

OLDEST_SQLITE = (3, 35)
OLDEST_MARIADB = (10, 6)
OLDEST_MYSQL = (8, 0, 1)

_VENDORS = ("mysql", "postgresql", "sqlite")
_ROUTER = f"{VTRRRouter.__module__}.{VTRRRouter.__qualname__}"
_PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
_SETS_WAL = re.compile(r"journal_mode\s*=\s*['\"]?wal\b", re.IGNORECASE)


def check_databases(**kwargs: Any) -> list[CheckMessage]:
    """E002, E005 to E007 and W001: databases that cannot, or hardly, hold a queue.

    It reads ``DATABASES`` and connects to none.
    """
    messages: list[CheckMessage] = []
    known: dict[str, None] = {}
    for name, config in declared_queues():
        if config.database in connections:
            known[config.database] = None
        else:
            messages.append(_unknown_database(name, config.database))
    return [*messages, *(found for alias in known for found in _check_database(alias))]


def _unknown_database(name: str, alias: str) -> CheckMessage:
    return Error(
        f"There is no database {alias!r}.",
        hint=f"Use one of DATABASES: {', '.join(map(repr, sorted(connections)))}.",
        obj=queue_path(name, "DATABASE"),
        id="vtrr.E002",
    )


def _check_database(alias: str) -> Iterator[CheckMessage]:
    connection = connections[alias]
    if connection.vendor not in _VENDORS:
        yield Error(
            f"Queues cannot live in a database of the kind {connection.vendor!r}.",
            hint="Give these queues a DATABASE that is SQLite, PostgreSQL, MariaDB or MySQL.",
            obj=_database_path(alias),
            id="vtrr.E005",
        )
    if not connection.settings_dict["AUTOCOMMIT"]:
        yield Error(
            "With AUTOCOMMIT off, what a worker writes is never committed.",
            hint="Remove 'AUTOCOMMIT': False, or give these queues a DATABASE of their own.",
            obj=_database_path(alias, "AUTOCOMMIT"),
            id="vtrr.E006",
        )
    if connection.vendor == "sqlite":
        version = connection.get_database_version()  # of the library: no connection is opened
        yield from _check_sqlite(alias, connection.settings_dict, version)


def _check_sqlite(
    alias: str, database: Mapping[str, Any], version: tuple[int, ...]
) -> Iterator[CheckMessage]:
    if version < OLDEST_SQLITE:
        yield Error(
            f"Python uses SQLite {_dotted(version)}; queues need {_dotted(OLDEST_SQLITE)} or "
            "newer, which knows RETURNING.",
            hint="Use a Python that is built with a newer SQLite, or another database.",
            obj=_database_path(alias),
            id="vtrr.E007",
        )
    missing = _missing_sqlite_options(database)
    if missing:
        yield checks.Warning(
            "With these OPTIONS of SQLite, workers and web requests wait for each other, and "
            "fail with 'database is locked'.",
            hint=f"Add to them: {missing!r}",
            obj=_database_path(alias, "OPTIONS"),
            id="vtrr.W001",
        )


def _missing_sqlite_options(database: Mapping[str, Any]) -> dict[str, str]:
    name, options = str(database["NAME"]), database["OPTIONS"]
    if name == ":memory:" or "mode=memory" in name:
        return {}  # of this process alone, as in many tests
    missing = {}
    commands = str(options.get("init_command") or "")
    if not _SETS_WAL.search(commands) and not _is_wal(Path(name)):
        missing["init_command"] = f"{_PRAGMAS} {commands}".strip()
    if str(options.get("transaction_mode")).upper() not in {"IMMEDIATE", "EXCLUSIVE"}:
        missing["transaction_mode"] = "IMMEDIATE"
    return missing


def _is_wal(path: Path) -> bool:
    """Return whether the file was switched to WAL by hand; its header remembers that."""
    try:
        with path.open("rb") as file:
            return file.read(20)[18:] == b"\x02\x02"
    except (OSError, ValueError):
        return False


def check_database_versions(
    *, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """E008: a server that cannot lease side by side; it connects, so only when asked to."""
    used = {config.database for _, config in declared_queues()}
    messages: list[CheckMessage] = []
    for alias in databases or ():
        if alias not in used or connections[alias].vendor != "mysql":
            continue
        connection: Any = connections[alias]
        mariadb = connection.mysql_is_mariadb
        title, oldest = ("MariaDB", OLDEST_MARIADB) if mariadb else ("MySQL", OLDEST_MYSQL)
        if connection.mysql_version < oldest:
            messages.append(
                Error(
                    f"The server is {title} {_dotted(connection.mysql_version)}; queues need "
                    f"{title} {_dotted(oldest)} or newer, which knows SKIP LOCKED.",
                    hint="Upgrade the server, or give these queues another DATABASE.",
                    obj=_database_path(alias),
                    id="vtrr.E008",
                )
            )
    return messages


def check_router(**kwargs: Any) -> list[CheckMessage]:
    """E011: tables that no migration creates where they are needed; W006: no router."""
    if not declared_queues():
        return []
    used = queue_databases() & set(connections)
    messages: list[CheckMessage] = [
        Error(
            f"DATABASE_ROUTERS keep the tables of vtrr_django out of database {alias!r}, where "
            "a queue needs them.",
            hint=f"Put {_ROUTER!r} first in DATABASE_ROUTERS.",
            obj="settings.DATABASE_ROUTERS",
            id="vtrr.E011",
        )
        for alias in sorted(used)
        if not router.allow_migrate_model(alias, Job)
    ]
    elsewhere = router.db_for_read(Job)
    if used and elsewhere not in used and not _is_routed():
        messages.append(
            checks.Warning(
                f"The tables of vtrr_django are created in and read from database {elsewhere!r}, "
                f"but the queues keep their jobs in {', '.join(map(repr, sorted(used)))}.",
                hint=(
                    f"Add DATABASE_ROUTERS = [{_ROUTER!r}] to settings, then run "
                    + " and ".join(
                        f"manage.py migrate --database={alias}" for alias in sorted(used)
                    )
                    + "."
                ),
                obj="settings.DATABASE_ROUTERS",
                id="vtrr.W006",
            )
        )
    return messages


def _is_routed() -> bool:
    return any(isinstance(one, VTRRRouter) for one in router.routers)


def _database_path(alias: str, *keys: str) -> str:
    return f"settings.DATABASES[{alias!r}]" + "".join(f"[{key!r}]" for key in keys)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
