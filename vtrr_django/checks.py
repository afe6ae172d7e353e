"""System checks: what is wrong in settings is said before a job meets it.

``manage.py check --tag vtrr`` runs these alone, except those that have to connect: those for
databases belong to ``manage.py check --database ALIAS``, the one for Redis to ``--deploy``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Tags
from django.db import DatabaseError, connections, router
from django.utils.module_loading import autodiscover_modules, import_string

from vtrr_django import conf, strays
from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.job import Stray
from vtrr_django.domain.secret import LONG_ENOUGH, weakness
from vtrr_django.engines.base import Engine
from vtrr_django.exceptions import ConfigurationError
from vtrr_django.models import Job
from vtrr_django.registry import get_queue
from vtrr_django.routers import VTRRRouter, queue_databases
from vtrr_django.tasks import Runnable

TAG = "vtrr"

SHORT_LEASE = 5.0
"""Seconds; a pause of a process or a store may well take a third of it, and then some."""

SHORT_VISIBILITY = 660.0
"""Seconds: the longest backoff of Celery's ``autoretry_for``, 600, and a minute more."""

OLDEST_SQLITE = (3, 35)
OLDEST_MARIADB = (10, 6)
OLDEST_MYSQL = (8, 0, 1)

_VENDORS = ("mysql", "postgresql", "sqlite")
_SECRET_PATH = "settings.VTRR['SECRET']"
_GOOD_SECRET = "Use 32 or more random characters, such as openssl rand -hex 32 prints."
_ROUTER = f"{VTRRRouter.__module__}.{VTRRRouter.__qualname__}"
_REDIS_KEYS = ("CACHE", "URL", "HASH_TAG")
_CELERY_KEYS = ("DRAIN_SECONDS", "RECLAIM_QUEUE")
_PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
_SETS_WAL = re.compile(r"journal_mode\s*=\s*['\"]?wal\b", re.IGNORECASE)


def register() -> None:
    """Register all checks; ``AppConfig.ready()`` calls it."""
    offline: tuple[Callable[..., list[CheckMessage]], ...] = (
        check_settings,
        check_secrets,
        check_engines,
        check_redis,
        check_unused,
        check_databases,
        check_router,
        check_leases,
        check_limits,
        check_celery_queues,
        check_celery_app,
        check_beat_scheduler,
        check_time_limits,
    )
    for check in offline:
        checks.register(check, TAG)
    checks.register(check_redis_servers, TAG, deploy=True)
    checks.register(check_loopback, TAG, deploy=True)
    checks.register(check_stores_for_strays, TAG, deploy=True)
    # Without TAG: Django 6.1 runs what is tagged "database" when one of its tags is asked for.
    checks.register(check_database_versions, Tags.database)
    checks.register(check_beat_rows, Tags.database)
    checks.register(check_databases_for_strays, Tags.database)


def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """E001: ``settings.VTRR`` is wrong."""
    try:
        conf.get_settings()
    except ConfigurationError as error:
        return [
            Error(
                str(error),
                hint="Every key and value of VTRR is checked. Correct this one, then check again.",
                obj="settings.VTRR",
                id="vtrr.E001",
            )
        ]
    return []


# -- who may use HTTP -----------------------------------------------------------------


def check_secrets(**kwargs: Any) -> list[CheckMessage]:
    """E016: a secret that is none; W016: one that could be better. None of it is shown."""
    secrets = _secrets()
    messages = [message for one in secrets for message in _check_secret(*one)]
    if len({secret for _, secret in secrets}) < len(secrets):
        messages.append(
            checks.Warning(
                "The two secrets are the same: nothing is changed by changing over to it.",
                hint="Put the new one beside the old one, and take the old one out later.",
                obj=_SECRET_PATH,
                id="vtrr.W016",
            )
        )
    return messages


def _check_secret(which: str, secret: str) -> Iterator[CheckMessage]:
    why = weakness(secret)
    if secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        why = "is Django's SECRET_KEY: who may publish jobs could forge sessions"
    if why is not None:
        yield Error(
            f"The secret {why}: whoever has it, or guesses it, may do everything over HTTP.",
            hint=_GOOD_SECRET,
            obj=which,
            id="vtrr.E016",
        )
    elif len(secret) < LONG_ENOUGH:
        yield checks.Warning(
            f"The secret has {len(secret)} characters: a signature that somebody has seen lets "
            "him try as many others as he has time for.",
            hint=_GOOD_SECRET,
            obj=which,
            id="vtrr.W016",
        )


def _secrets() -> list[tuple[str, str]]:
    """Return each secret with where it is; none when settings are wrong, which E001 says."""
    try:
        found = conf.get_settings().secret
    except ConfigurationError:
        return []
    if found is None or isinstance(found, str):
        return [(_SECRET_PATH, found)] if found else []
    return [(f"{_SECRET_PATH}[{index}]", one) for index, one in enumerate(found)]


def check_loopback(**kwargs: Any) -> list[CheckMessage]:
    """W017: HTTP is open to whoever is on this machine; only for ``--deploy``."""
    try:
        parsed = conf.get_settings()
    except ConfigurationError:
        return []
    if parsed.secret is not None or not parsed.allow_loopback:
        return []
    return [
        checks.Warning(
            "There is no SECRET, and ALLOW_LOOPBACK lets whoever is on this machine do everything "
            "over HTTP: so may the world, if a proxy leads here that adds no header.",
            hint=f"Set a SECRET and take ALLOW_LOOPBACK out. {_GOOD_SECRET}",
            obj="settings.VTRR['ALLOW_LOOPBACK']",
            id="vtrr.W017",
        )
    ]


# -- engines --------------------------------------------------------------------------


def check_engines(**kwargs: Any) -> list[CheckMessage]:
    """E003: an ``ENGINE`` that cannot be imported; E004: one that is no engine."""
    return [message for name, config in _queues() for message in _check_engine(name, config)]


def _check_engine(name: str, config: QueueConfig) -> Iterator[CheckMessage]:
    hint = (
        f"Use one of {', '.join(map(repr, sorted(conf.ENGINES)))}, or the dotted path of a "
        "subclass of vtrr_django.engines.base.Engine."
    )
    try:
        found = import_string(conf.ENGINES.get(config.engine, config.engine))
    except ImportError as error:
        yield Error(
            f"The engine {config.engine!r} cannot be imported: {error}",
            hint=hint,
            obj=_path(name, "ENGINE"),
            id="vtrr.E003",
        )
        return
    if not (isinstance(found, type) and issubclass(found, Engine)):
        yield Error(
            f"The engine {config.engine!r} is no subclass of Engine, but {found!r}.",
            hint=hint,
            obj=_path(name, "ENGINE"),
            id="vtrr.E004",
        )


# -- Redis ----------------------------------------------------------------------------


def check_redis(**kwargs: Any) -> list[CheckMessage]:
    """E012, W007 and W008: the way to Redis. It connects to none."""
    return _ask_redis("check_way")


def check_redis_servers(**kwargs: Any) -> list[CheckMessage]:
    """E013, W010, W011, W014: a server that is not fit. It connects: only for ``--deploy``."""
    return _ask_redis("check_server")


def _ask_redis(what: str) -> list[CheckMessage]:
    queues = [(name, config) for name, config in _queues() if config.engine == "redis"]
    if not queues or find_spec("redis") is None:
        return []  # E003 says so
    ask = getattr(import_module("vtrr_django.engines.redis.checks"), what)
    return [message for name, config in queues for message in ask(name, config)]


# -- what nothing reads ---------------------------------------------------------------


def check_unused(**kwargs: Any) -> list[CheckMessage]:
    """W009: settings that have no effect on a queue like this."""
    return [message for name, config in _queues() for message in _check_unused(name, config)]


def _check_unused(name: str, config: QueueConfig) -> Iterator[CheckMessage]:
    said = {**config.options, "RECLAIM_QUEUE": config.reclaim_queue}
    if config.engine == "orm":
        why, cure = "the engine of this queue is 'orm'", "Set ENGINE to 'redis', or leave it out."
        yield from (_unused(name, key, why, cure) for key in _REDIS_KEYS if said.get(key))
    if config.celery_queue is not None:
        return
    why = "this queue has no CELERY_QUEUE, so Celery does not run it"
    cure = "Set CELERY_QUEUE, or leave it out."
    yield from (_unused(name, key, why, cure) for key in _CELERY_KEYS if said.get(key))
    if config.max_concurrency != QueueConfig().max_concurrency and not config.reserve:
        yield _unused(
            name,
            "MAX_CONCURRENCY",
            "without a RESERVE it counts for Celery's triggers only",
            "Set RESERVE, or leave it out: vtrr_worker --concurrency says how many run at once.",
        )


def _unused(name: str, key: str, why: str, cure: str) -> CheckMessage:
    return checks.Warning(
        f"{key} has no effect: {why}.", hint=cure, obj=_path(name, key), id="vtrr.W009"
    )


# -- databases ------------------------------------------------------------------------


def check_databases(**kwargs: Any) -> list[CheckMessage]:
    """E002, E005 to E007 and W001: databases that cannot, or hardly, hold a queue.

    It reads ``DATABASES`` and connects to none.
    """
    messages: list[CheckMessage] = []
    known: dict[str, None] = {}
    for name, config in _queues():
        if config.database in connections:
            known[config.database] = None
        else:
            messages.append(_unknown_database(name, config.database))
    return [*messages, *(found for alias in known for found in _check_database(alias))]


def _unknown_database(name: str, alias: str) -> CheckMessage:
    return Error(
        f"There is no database {alias!r}.",
        hint=f"Use one of DATABASES: {', '.join(map(repr, sorted(connections)))}.",
        obj=_path(name, "DATABASE"),
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
    used = {config.database for _, config in _queues()}
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
    if not _queues():
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


# -- leases and limits ----------------------------------------------------------------


def check_leases(**kwargs: Any) -> list[CheckMessage]:
    """W002: leases too short to be renewed in time; W003: reclaimed long after they ran out."""
    messages: list[CheckMessage] = []
    for name, config in _queues():
        if config.heartbeat and config.lease_seconds < SHORT_LEASE:
            messages.append(
                checks.Warning(
                    f"A lease of {config.lease_seconds:g} s is renewed every "
                    f"{config.lease_seconds / 3:.1f} s: a short pause of the worker or of the "
                    "store makes a running job run a second time.",
                    hint=f"Use {SHORT_LEASE:g} seconds or more; 60 is the default.",
                    obj=_path(name, "LEASE_SECONDS"),
                    id="vtrr.W002",
                )
            )
        if config.reclaim_interval > config.lease_seconds:
            messages.append(
                checks.Warning(
                    f"A lease lasts {config.lease_seconds:g} s, but is looked for only every "
                    f"{config.reclaim_interval:g} s: the job of a worker that died waits up to "
                    f"{config.lease_seconds + config.reclaim_interval:g} s.",
                    hint="Use a RECLAIM_INTERVAL shorter than LEASE_SECONDS.",
                    obj=_path(name, "RECLAIM_INTERVAL"),
                    id="vtrr.W003",
                )
            )
    return messages


def check_limits(**kwargs: Any) -> list[CheckMessage]:
    """W004: a ``PARTITION_LIMIT`` that is never reached."""
    messages: list[CheckMessage] = []
    for name, config in _queues():
        limit, most = config.partition_limit, config.max_concurrency - config.reserve
        # Without a RESERVE it bounds no jobs: with Celery, it does the triggers that wait.
        if config.reserve and limit is not None and limit > most:
            messages.append(
                checks.Warning(
                    f"A partition never runs {limit} jobs at once: MAX_CONCURRENCY "
                    f"({config.max_concurrency}) less RESERVE ({config.reserve}) is {most}.",
                    hint=f"Use {most} or less, or change the other two.",
                    obj=_path(name, "PARTITION_LIMIT"),
                    id="vtrr.W004",
                )
            )
    return messages


def check_time_limits(**kwargs: Any) -> list[CheckMessage]:
    """E009: without heartbeat, a task that may outlive its lease and so run twice."""
    unrenewed = [(name, config) for name, config in _queues() if not config.heartbeat]
    if unrenewed:
        # Only then: a project's tasks modules may be slow to import, or not for this process.
        autodiscover_modules("tasks")
    return [
        _outlives(name, config, task, soft, hard)
        for name, config in unrenewed
        for task in get_queue(name).runnables.values()
        for hard, soft in [_limits(config, task)]
        if soft is None or hard is None or not soft < hard < config.lease_seconds
    ]


def _limits(config: QueueConfig, task: Runnable) -> tuple[float | None, float | None]:
    """Return the hard and the soft limit in force for a task, as far as settings say."""
    if config.celery_queue is None or find_spec("celery") is None:
        return task.time_limit, task.soft_time_limit
    found: tuple[float | None, float | None] = import_string(
        "vtrr_django.contrib.celery.facts.limits"
    )(task.options)
    return found


def _outlives(
    name: str, config: QueueConfig, task: Runnable, soft: float | None, hard: float | None
) -> CheckMessage:
    return Error(
        f"Task {task.name} may outlive its lease and then runs twice: expected "
        f"soft_time_limit < time_limit < LEASE_SECONDS, got {soft}, {hard}, "
        f"{config.lease_seconds:g}.",
        hint=(
            f"HEARTBEAT is False for queue {name!r}, so no lease is renewed. Give the task both "
            "limits, raise LEASE_SECONDS, or set HEARTBEAT to True."
        ),
        obj=_path(name, "HEARTBEAT"),
        id="vtrr.E009",
    )


def check_celery_queues(**kwargs: Any) -> list[CheckMessage]:
    """E010: two queues whose triggers would mix; E014: no Celery to send them with."""
    messages: list[CheckMessage] = []
    first_of: dict[str, str] = {}
    for name, config in _queues():
        celery_queue = config.celery_queue
        if celery_queue is None:
            continue
        if find_spec("celery") is None:
            messages.append(
                Error(
                    f"Queue {name!r} has a CELERY_QUEUE, but Celery is not installed.",
                    hint=(
                        "pip install 'vtrr-django[celery]', or set CELERY_QUEUE to None and run "
                        f"manage.py vtrr_worker --queue {name}."
                    ),
                    obj=_path(name, "CELERY_QUEUE"),
                    id="vtrr.E014",
                )
            )
        first = first_of.setdefault(celery_queue, name)
        if first != name:
            messages.append(
                Error(
                    f"Queues {first!r} and {name!r} share the Celery queue {celery_queue!r}, "
                    "where a trigger does not say which of them to lease from.",
                    hint="Give each queue a CELERY_QUEUE of its own.",
                    obj=_path(name, "CELERY_QUEUE"),
                    id="vtrr.E010",
                )
            )
    return messages


def check_celery_app(**kwargs: Any) -> list[CheckMessage]:
    """E015, W005, W012, W013: a Celery app that is not there, or does not suit the queues."""
    queues = {name: config for name, config in _queues() if config.celery_queue is not None}
    if not queues or find_spec("celery") is None:
        return []
    try:
        facts = import_string("vtrr_django.contrib.celery.facts.app_facts")()
    except Exception as error:  # noqa: BLE001 - whatever a broker's client lacks or refuses
        return [
            checks.Error(
                f"Celery cannot work with its broker settings: {type(error).__name__}: {error}",
                hint="Install what is missing, or correct CELERY_BROKER_URL and its options.",
                obj="settings.CELERY_BROKER_URL",
                id="vtrr.E015",
            )
        ]
    messages: list[CheckMessage] = []
    if facts.fallback:
        return [
            checks.Warning(
                "No Celery app is loaded here: triggers would go to the broker of Celery's "
                "fallback app, amqp://localhost.",
                hint=(
                    "Import your app in the __init__.py of the project's package: "
                    "from .celery import app as celery_app."
                ),
                obj="settings.VTRR['QUEUES']",
                id="vtrr.W005",
            )
        ]
    for name, config in queues.items():
        if config.celery_queue == facts.default_queue:
            messages.append(
                checks.Warning(
                    f"Queue {name!r} shares Celery's default queue {facts.default_queue!r}: other "
                    "tasks that wait there are counted as triggers, so too few may be sent.",
                    hint="Give it a CELERY_QUEUE of its own, and a worker with -Q for it.",
                    obj=_path(name, "CELERY_QUEUE"),
                    id="vtrr.W012",
                )
            )
        if facts.visibility_timeout is not None and facts.visibility_timeout < SHORT_VISIBILITY:
            messages.append(
                checks.Warning(
                    f"The broker delivers a message again after {facts.visibility_timeout:g} s: "
                    "retries that wait longer go through the store, and their jobs to the end "
                    "of the line.",
                    hint=(
                        "Raise visibility_timeout in CELERY_BROKER_TRANSPORT_OPTIONS above the "
                        "longest countdown of a retry; Redis has 3600 by default, SQS 1800."
                    ),
                    obj="settings.CELERY_BROKER_TRANSPORT_OPTIONS",
                    id="vtrr.W013",
                )
            )
    return messages


# -- beat -------------------------------------------------------------------------------


def check_beat_scheduler(**kwargs: Any) -> list[CheckMessage]:
    """W015: a scheduler that reads no rows, where django-celery-beat is installed."""
    if not apps.is_installed("django_celery_beat"):
        return []
    name = import_string("vtrr_django.contrib.beat.facts.other_scheduler")()
    if name is None:
        return []
    return [
        checks.Warning(
            f"Beat's scheduler is {name!r}, which does not read the rows of django-celery-beat: "
            "it reclaims as settings say, and what is edited in the admin has no effect.",
            hint=(
                "Set CELERY_BEAT_SCHEDULER to "
                "'django_celery_beat.schedulers:DatabaseScheduler', or take django_celery_beat "
                "out of INSTALLED_APPS."
            ),
            obj="settings.CELERY_BEAT_SCHEDULER",
            id="vtrr.W015",
        )
    ]


def check_beat_rows(*, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """W015: no row has beat look after a queue; it connects, so only when asked to."""
    if not databases or not _queues() or not apps.is_installed("django_celery_beat"):
        return []
    missing = import_string("vtrr_django.contrib.beat.facts.missing_tasks")(databases)
    if not missing:
        return []
    return [
        checks.Warning(
            f"No periodic task of django-celery-beat calls {', '.join(missing)}: beat does not "
            "look after these queues.",
            hint=(
                "Run manage.py vtrr_schedule, which migrate does at its end. One that is not "
                "wanted is disabled instead of deleted."
            ),
            obj="settings.VTRR['QUEUES']",
            id="vtrr.W015",
        )
    ]


# -- jobs that a rename left behind -----------------------------------------------------


def check_databases_for_strays(
    *, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """W018: jobs in a queue that settings do not declare; ``migrate`` asks for it too."""
    if not databases or not _queues():
        return []
    return _strays(strays.in_databases(filter(_is_migrated, databases)))


def check_stores_for_strays(**kwargs: Any) -> list[CheckMessage]:
    """W018: the same in Redis. It connects: only for ``--deploy``."""
    return _strays(strays.in_stores(map(get_queue, dict(_queues()))))


def _is_migrated(alias: str) -> bool:
    """Return whether a database has the tables: another of the project's need not."""
    try:
        return Job._meta.db_table in connections[alias].introspection.table_names()
    except DatabaseError:  # whoever migrates will see
        return False


def _strays(found: Sequence[Stray]) -> list[CheckMessage]:
    return [
        checks.Warning(
            sentence,
            hint="vtrr_stats and the admin's page of all queues say so too, until they are gone.",
            obj="settings.VTRR['QUEUES']",
            id="vtrr.W018",
        )
        for sentence in strays.told(found)
    ]


# -- what all of them need --------------------------------------------------------------


def _queues() -> list[tuple[str, QueueConfig]]:
    """Return what settings declare; nothing when they are wrong, which E001 says."""
    try:
        return list(conf.get_settings().queues.items())
    except ConfigurationError:
        return []


def _path(queue: str, key: str) -> str:
    return f"settings.VTRR['QUEUES'][{queue!r}][{key!r}]"


def _database_path(alias: str, *keys: str) -> str:
    return f"settings.DATABASES[{alias!r}]" + "".join(f"[{key!r}]" for key in keys)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
