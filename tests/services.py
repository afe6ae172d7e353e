"""What the tests need: servers, where they are and whether they let us in; programs; packages.

Environment:
    VTRR_TEST_POSTGRES, VTRR_TEST_MARIADB, VTRR_TEST_REDIS, VTRR_TEST_RABBITMQ: where the
        server is, as ``host:port`` or ``scheme://user:password@host:port/name``; ``off``
        leaves it out.
    CI: when set, a missing server, program or package fails the tests that need it instead of
        skipping them.
    VTRR_TEST_WITHOUT: packages, by the names that are imported, that may be missing all the same.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote, unquote, urlsplit

CONNECT_SECONDS = 3


@dataclass(frozen=True, kw_only=True)
class Service:
    """A server.

    Attributes:
        title: its name, for people.
        variable: the environment variable that says where it is.
        place: where it is, in the words of DATABASES, unless the variable says otherwise.
        log_in: connects, logs in and hangs up; raises when it cannot.
    """

    title: str
    variable: str
    place: dict[str, Any]
    log_in: Callable[[dict[str, Any]], None]

    def settings(self) -> dict[str, Any]:
        """Return the entry for DATABASES, if it is a database."""
        place = os.environ.get(self.variable, "")
        parts = urlsplit(place if "//" in place else f"//{place}")
        said = {
            "HOST": parts.hostname,
            "PORT": parts.port,
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "NAME": unquote(parts.path.strip("/")),
        }
        return self.place | {key: value for key, value in said.items() if value}

    def url(self, scheme: str) -> str:
        """Return where it is, as a URL."""
        at = self.settings()
        secret = quote(at["PASSWORD"], safe="")
        who = f"{quote(at['USER'], safe='')}:{secret}@" if at["USER"] or secret else ""
        return f"{scheme}://{who}{at['HOST']}:{at['PORT']}/{at['NAME']}"


def _log_in_to_postgres(at: dict[str, Any]) -> None:
    import psycopg

    psycopg.connect(
        host=at["HOST"],
        port=at["PORT"],
        user=at["USER"],
        password=at["PASSWORD"] or None,
        dbname=at["NAME"],
        connect_timeout=CONNECT_SECONDS,
    ).close()


def _log_in_to_mariadb(at: dict[str, Any]) -> None:
    install_mysql_driver()
    import MySQLdb

    MySQLdb.connect(
        host=at["HOST"],
        port=at["PORT"],
        user=at["USER"],
        password=at["PASSWORD"],
        database=at["NAME"],
        connect_timeout=CONNECT_SECONDS,
    ).close()


def _log_in_to_redis(at: dict[str, Any]) -> None:
    import redis

    client = redis.Redis.from_url(
        SERVICES["redis"].url("redis"),
        socket_timeout=CONNECT_SECONDS,
        socket_connect_timeout=CONNECT_SECONDS,
    )
    with client:
        client.ping()


def _log_in_to_rabbitmq(at: dict[str, Any]) -> None:
    import kombu

    with kombu.Connection(
        SERVICES["rabbitmq"].url("amqp"), connect_timeout=CONNECT_SECONDS
    ) as connection:
        connection.connect()


def install_mysql_driver() -> None:
    """Make ``import MySQLdb`` work: mysqlclient where it could be built, else PyMySQL."""
    try:
        import MySQLdb  # noqa: F401 - whether it can be imported is the question
    except ImportError:
        import pymysql

        pymysql.install_as_MySQLdb()


SERVICES = {
    "postgres": Service(
        title="PostgreSQL",
        variable="VTRR_TEST_POSTGRES",
        place={
            "ENGINE": "django.db.backends.postgresql",
            "HOST": "127.0.0.1",
            "PORT": 5432,
            "USER": "postgres",
            "PASSWORD": "",
            "NAME": "test",
            # No test pulls the plug of the machine; waiting for its disk tells nothing.
            "OPTIONS": {"options": "-c synchronous_commit=off"},
        },
        log_in=_log_in_to_postgres,
    ),
    "mariadb": Service(
        title="MariaDB",
        variable="VTRR_TEST_MARIADB",
        place={
            "ENGINE": "django.db.backends.mysql",
            "HOST": "127.0.0.1",
            "PORT": 3306,
            "USER": "root",
            "PASSWORD": "",
            "NAME": "test",
            "OPTIONS": {"charset": "utf8mb4"},
            # The worst a project may have: it takes "abc", "ABC" and "abc " for the same.
            "TEST": {"CHARSET": "utf8mb4", "COLLATION": "utf8mb4_general_ci"},
        },
        log_in=_log_in_to_mariadb,
    ),
    "redis": Service(
        title="Redis",
        variable="VTRR_TEST_REDIS",
        # Not 0, where people who try things out have theirs. Names of queues are new ones.
        place={"HOST": "127.0.0.1", "PORT": 6379, "USER": "", "PASSWORD": "", "NAME": "9"},
        log_in=_log_in_to_redis,
    ),
    "rabbitmq": Service(
        title="RabbitMQ",
        variable="VTRR_TEST_RABBITMQ",
        place={
            "HOST": "127.0.0.1",
            "PORT": 5672,
            "USER": "guest",
            "PASSWORD": "guest",
            "NAME": "",
        },
        log_in=_log_in_to_rabbitmq,
    ),
}

DATABASES = ("postgres", "mariadb")
"""Those of them that are databases: ``DATABASES`` has them by these names."""


@cache
def why_missing(alias: str) -> str | None:
    """Return why the server cannot be used; None when it answered and let us in."""
    service = SERVICES[alias]
    if os.environ.get(service.variable) == "off":
        return f"{service.title} is switched off by {service.variable}"
    at = service.settings()
    try:
        socket.create_connection((at["HOST"], at["PORT"]), CONNECT_SECONDS).close()
        service.log_in(at)
    except Exception as error:  # noqa: BLE001 - whatever the driver raises is the reason
        return (
            f"no {service.title} at {at['HOST']}:{at['PORT']} ({error});"
            f" start one or say where it is with {service.variable}"
        )
    return None


def in_ci() -> bool:
    """Return whether this is a run that promises every server."""
    return os.environ.get("CI", "").lower() not in {"", "0", "false"}


def need(alias: str) -> None:
    """Skip the running test without this server; in CI fail it."""
    _need(why_missing(alias))


def is_there(alias: str) -> bool:
    """Return whether there is this server, for tests of all that there are; in CI fail without."""
    reason = why_missing(alias)
    if reason and in_ci():
        _need(reason)
    return reason is None


def need_program(name: str) -> None:
    """Skip the running test if a program is not installed; in CI fail it."""
    _need(None if shutil.which(name) else f"no {name} in PATH; install it")


def need_package(name: str) -> Any:
    """Import a package; skip the running test, or module, if it is not installed; in CI fail it."""
    if find_spec(name) is None:
        reason = f"no package {name}; the dependency group dev has it"
        _need(reason, optional=name in os.environ.get("VTRR_TEST_WITHOUT", "").split())
    return import_module(name)


def _need(reason: str | None, *, optional: bool = False) -> None:
    import pytest

    if reason and in_ci() and not optional:
        pytest.fail(f"CI is set, so this may not be skipped: {reason}", pytrace=False)
    if reason:
        pytest.skip(reason, allow_module_level=True)
