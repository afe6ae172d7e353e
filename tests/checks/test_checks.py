"""Every system check: what it finds, what it says, and that it is quiet otherwise."""

from __future__ import annotations

import copy
import itertools
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, run_checks
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connection
from django.db.utils import ConnectionHandler, ConnectionRouter
from django.test import override_settings

import tests.app.tasks  # noqa: F401 - not first while settings lack its queue
import vtrr_django.checks
from tests import services
from tests.contract.redis_store import forget_all
from tests.contract.stores import STORES
from tests.races.roles import Note
from vtrr_django import get_queue

_numbers = itertools.count(1)
GOOD_SQLITE = {
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    "transaction_mode": "IMMEDIATE",
}


def found(databases: list[str] | None = None) -> list[CheckMessage]:
    """Run the checks; with ``databases`` also the one that connects."""
    messages = run_checks(tags=["vtrr"])
    if databases is not None:
        messages += vtrr_django.checks.check_database_versions(databases=databases)
    return sorted(messages, key=lambda one: str(one.id))


def ids(databases: list[str] | None = None) -> list[str]:
    return [str(one.id) for one in found(databases)]


def only(databases: list[str] | None = None) -> CheckMessage:
    (message,) = found(databases)
    assert message.hint
    assert message.obj
    return message


def queue(**options: Any) -> Any:
    return override_settings(VTRR={"QUEUES": {"q": options}})


@pytest.fixture
def databases(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that sets DATABASES, for the checks alone."""

    def set_them(**more: Any) -> None:
        default = {"ENGINE": "django.db.backends.sqlite3", "NAME": "x", "OPTIONS": GOOD_SQLITE}
        handler = ConnectionHandler(copy.deepcopy({DEFAULT_DB_ALIAS: default, **more}))
        monkeypatch.setattr(vtrr_django.checks.databases, "connections", handler)

    return set_them


def sqlite(name: str | Path = "x", **options: Any) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": name, "OPTIONS": options}


def test_without_settings_nothing_is_wrong() -> None:
    assert not hasattr(django_settings, "VTRR")
    assert found() == []


def test_they_run_with_all_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    with queue(LEASE_SECONDS=0):
        assert "vtrr.E001" in [message.id for message in run_checks()]


def test_the_tag(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("check", "--tag=vtrr")
    assert "no issues" in capsys.readouterr().out


# -- E001 to E004: VTRR itself -----------------------------------------------------------


def test_e001_settings_are_wrong() -> None:
    with queue(LEASE_SECOND=5):
        message = only()
    assert message.id == "vtrr.E001"
    assert "did you mean 'LEASE_SECONDS'" in message.msg
    assert str(message).startswith("settings.VTRR: (vtrr.E001) VTRR['QUEUES']['q']")


@pytest.mark.parametrize("vtrr", [None, {"QUEUES": {}}, {"QUEUES": {"a b": {}}}, {"SECRET": 1}])
def test_e001_stands_alone(vtrr: Any) -> None:
    with override_settings(VTRR=vtrr):
        assert ids(databases=["default"]) == ["vtrr.E001"]


def test_e001_reserve() -> None:
    with queue(RESERVE=8):
        assert "less than MAX_CONCURRENCY" in only().msg


def test_e002_unknown_database() -> None:
    with queue(DATABASE="defautl"):
        message = only()
    assert message.id == "vtrr.E002"
    assert "'defautl'" in message.msg
    assert "'default'" in str(message.hint)
    assert message.obj == "settings.VTRR['QUEUES']['q']['DATABASE']"


@pytest.mark.parametrize("path", ["nowhere.Engine", "vtrr_django.engines.base.Motor"])
def test_e003_engine_that_cannot_be_imported(path: str) -> None:
    with queue(ENGINE=path):
        message = only()
    assert message.id == "vtrr.E003"
    assert path in message.msg
    assert "'orm'" in str(message.hint)


@pytest.mark.parametrize("path", ["vtrr_django.engines.base.UNSET", "vtrr_django.queue.Queue"])
def test_e004_engine_that_is_none(path: str) -> None:
    with queue(ENGINE=path):
        message = only()
    assert message.id == "vtrr.E004"
    assert path in message.msg


def test_an_engine_of_ones_own() -> None:
    with queue(ENGINE="vtrr_django.engines.orm.engine.OrmEngine"):
        assert found() == []


# -- E005 to E008, W001: databases ---------------------------------------------------------


def test_e005_a_kind_of_database_that_no_engine_speaks(databases: Any) -> None:
    databases(other={"ENGINE": "django.db.backends.dummy"})
    with queue(DATABASE="other"):
        (message,) = (message for message in found() if message.id == "vtrr.E005")
    assert message.obj == "settings.DATABASES['other']"
    with queue():
        assert found() == [], "no queue uses it"


def test_e006_autocommit_off(databases: Any) -> None:
    databases(default=sqlite(**GOOD_SQLITE) | {"AUTOCOMMIT": False})
    with queue():
        message = only()
    assert message.id == "vtrr.E006"
    assert message.obj == "settings.DATABASES['default']['AUTOCOMMIT']"


def test_e007_sqlite_too_old(databases: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    databases()
    monkeypatch.setattr(sqlite3.dbapi2, "sqlite_version_info", (3, 34, 1))
    with queue():
        message = only()
    assert message.id == "vtrr.E007"
    assert "3.34.1" in message.msg
    monkeypatch.setattr(sqlite3.dbapi2, "sqlite_version_info", (3, 35, 0))
    with queue():
        assert found() == []


@pytest.mark.parametrize(
    ("mariadb", "version", "ok"),
    [
        (True, (10, 5, 22), False),
        (True, (10, 6, 0), True),
        (True, (11, 4, 2), True),
        (False, (5, 7, 44), False),
        (False, (8, 0, 0), False),
        (False, (8, 0, 36), True),
    ],
)
def test_e008_server_too_old(
    monkeypatch: pytest.MonkeyPatch, mariadb: bool, version: tuple[int, ...], ok: bool
) -> None:
    server = SimpleNamespace(
        vendor="mysql",
        mysql_is_mariadb=mariadb,
        mysql_version=version,
        settings_dict={"AUTOCOMMIT": True},
    )
    monkeypatch.setattr(vtrr_django.checks.databases, "connections", {"default": server})
    with queue():
        assert found() == [], "not without --database"
        assert found(databases=[]) == []
        if ok:
            assert found(databases=["default"]) == []
            return
        message = only(databases=["default"])
    assert message.id == "vtrr.E008"
    assert ".".join(map(str, version)) in message.msg
    assert ("MariaDB" if mariadb else "MySQL") in message.msg


class Closed(SimpleNamespace):
    """A server that nobody may connect to."""

    @property
    def mysql_is_mariadb(self) -> bool:
        raise AssertionError("connected")


@pytest.mark.django_db
def test_e008_connects_only_when_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = Closed(vendor="mysql", settings_dict={"AUTOCOMMIT": True})
    monkeypatch.setattr(vtrr_django.checks.databases, "connections", {"default": closed})
    with queue():
        call_command("check")
        call_command("check", "--tag=vtrr")
        with pytest.raises(AssertionError, match="connected"):
            run_checks(tags=["database"], databases=["default"])


def test_e008_looks_only_at_databases_of_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    good = SimpleNamespace(vendor="postgresql", settings_dict={"AUTOCOMMIT": True})
    handler = {"default": good, "other": Closed(vendor="mysql")}
    monkeypatch.setattr(vtrr_django.checks.databases, "connections", handler)
    with queue():
        assert found(databases=["default", "other"]) == []


@pytest.mark.service("mariadb")
@pytest.mark.django_db(databases=["default", "mariadb"])
def test_e008_is_quiet_about_the_server_of_the_tests() -> None:
    with queue(DATABASE="mariadb"):
        assert "vtrr.E008" not in ids(databases=["mariadb"])


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({}, GOOD_SQLITE),
        ({"timeout": 20}, GOOD_SQLITE),
        ({"transaction_mode": "IMMEDIATE"}, {"init_command": GOOD_SQLITE["init_command"]}),
        (
            {"init_command": "PRAGMA journal_mode=WAL;", "transaction_mode": "DEFERRED"},
            {"transaction_mode": "IMMEDIATE"},
        ),
        (
            {"init_command": "PRAGMA cache_size=2000;", "transaction_mode": "exclusive"},
            {"init_command": f"{GOOD_SQLITE['init_command']} PRAGMA cache_size=2000;"},
        ),
    ],
    ids=["none", "others", "no WAL", "deferred", "another command"],
)
def test_w001_names_the_options_that_sqlite_lacks(
    databases: Any, options: dict[str, Any], hint: dict[str, str]
) -> None:
    databases(default=sqlite(**options))
    with queue():
        message = only()
    assert message.id == "vtrr.W001"
    assert str(message.hint).endswith(repr(hint))
    databases(default=sqlite(**{**options, **hint}))
    with queue():
        assert found() == [], "the hint is right"


@pytest.mark.parametrize(
    "command",
    ["PRAGMA journal_mode=WAL", "pragma Journal_Mode = 'wal';", 'PRAGMA journal_mode="wal"'],
)
def test_w001_reads_sql(databases: Any, command: str) -> None:
    databases(default=sqlite(init_command=command, transaction_mode="immediate"))
    with queue():
        assert found() == []


def test_w001_sees_a_file_that_was_switched_by_hand(databases: Any, tmp_path: Path) -> None:
    path = tmp_path / "db.sqlite3"
    databases(default=sqlite(path, transaction_mode="IMMEDIATE"))
    for mode, expected in (("delete", ["vtrr.W001"]), ("wal", [])):
        connection = sqlite3.connect(path)
        connection.execute("create table if not exists t (x)")
        connection.execute(f"pragma journal_mode={mode}")
        connection.close()
        with queue():
            assert ids() == expected


@pytest.mark.parametrize("name", [":memory:", "file:memorydb_default?mode=memory&cache=shared"])
def test_w001_is_quiet_about_memory(databases: Any, name: str) -> None:
    databases(default=sqlite(name))
    with queue():
        assert found() == []


def test_databases_are_checked_once_and_only_if_a_queue_uses_them(databases: Any) -> None:
    databases(default=sqlite("x"), other=sqlite("y"))
    with override_settings(VTRR={"QUEUES": {"a": {}, "b": {}}}):
        assert only().obj == "settings.DATABASES['default']['OPTIONS']"


# -- E009, W002 to W004: leases and limits -----------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "ok"),
    [
        ({"soft_time_limit": 20, "time_limit": 29}, True),
        ({"soft_time_limit": 20, "time_limit": 30}, False),
        ({"soft_time_limit": 20}, False),
        ({"time_limit": 20}, False),
        ({}, False),
    ],
)
def test_e009_without_heartbeat_a_task_ends_within_its_lease(
    limits: dict[str, Any], ok: bool
) -> None:
    name = f"checks-{os.getpid()}-{next(_numbers)}"
    with override_settings(VTRR={"QUEUES": {name: {"LEASE_SECONDS": 30, "HEARTBEAT": False}}}):

        @get_queue(name).task(**limits)
        def work(self: Any) -> None: ...

        if ok:
            assert found() == []
            return
        message = only()
    assert message.id == "vtrr.E009"
    assert work.name in message.msg
    assert "LEASE_SECONDS" in message.msg
    with override_settings(VTRR={"QUEUES": {name: {"LEASE_SECONDS": 30}}}):
        assert found() == [], "a lease that is renewed lasts"


@pytest.mark.parametrize(
    ("conf", "own", "runner", "ok"),
    [
        ({"hard": 29, "soft": 20}, {}, "celery", True),
        ({"hard": 29, "soft": 20}, {"base": True}, "celery", False),
        ({"hard": 29}, {"soft_time_limit": 20}, "celery", True),
        ({"hard": 29}, {}, "celery", False),
        ({"hard": 29, "soft": 20}, {"time_limit": 31}, "celery", False),
        ({"hard": 20}, {"soft_time_limit": 25}, "celery", False),
        ({"hard": 29, "soft": 20}, {}, "vtrr_worker", False),
    ],
    ids=str,
)
def test_e009_knows_the_limits_of_celery_s_settings(
    conf: dict[str, Any],
    own: dict[str, Any],
    runner: str,
    ok: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    celery = services.need_package("celery")
    app = celery.Celery(broker="memory://", set_as_current=False)
    app.conf.task_time_limit, app.conf.task_soft_time_limit = conf["hard"], conf.get("soft")
    if own.get("base"):
        own = {"base": type("Slow", (celery.Task,), {"abstract": True, "time_limit": 31})}
    name = f"checks-{os.getpid()}-{next(_numbers)}"
    where = f"c-{name}" if runner == "celery" else None
    options = {"LEASE_SECONDS": 30, "HEARTBEAT": False, "CELERY_QUEUE": where}
    monkeypatch.setattr("celery._state._tls.current_app", app)
    with override_settings(VTRR={"QUEUES": {name: options}}):

        @get_queue(name).task(**own)
        def work(self: Any) -> None: ...

        assert ("vtrr.E009" not in ids()) == ok


def test_e009_looks_for_tasks_where_a_worker_does(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr(vtrr_django.checks.leases, "autodiscover_modules", looked.append)
    with queue():
        assert found() == []
    assert looked == [], "not for nothing"
    with override_settings(VTRR={"QUEUES": {"unheard-of": {"HEARTBEAT": False}}}):
        assert found() == []
    assert looked == ["tasks"]


@pytest.mark.parametrize(("seconds", "expected"), [(4.9, ["vtrr.W002"]), (5, [])])
def test_w002_short_lease(seconds: float, expected: list[str]) -> None:
    with queue(LEASE_SECONDS=seconds, RECLAIM_INTERVAL=1):
        assert ids() == expected
    with override_settings(
        VTRR={"QUEUES": {"unheard-of": {"LEASE_SECONDS": seconds, "HEARTBEAT": False}}}
    ):
        assert "vtrr.W002" not in ids()


@pytest.mark.parametrize(("interval", "expected"), [(31, ["vtrr.W003"]), (30, [])])
def test_w003_reclaimed_late(interval: float, expected: list[str]) -> None:
    with queue(LEASE_SECONDS=30, RECLAIM_INTERVAL=interval):
        assert ids() == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"RESERVE": 2, "PARTITION_LIMIT": 7}, ["vtrr.W004"]),
        ({"RESERVE": 2, "PARTITION_LIMIT": 6}, []),
        ({"RESERVE": 2}, []),
        # vtrr_worker runs as many jobs as it is told to.
        ({"PARTITION_LIMIT": 20}, []),
        # So do processes of Celery: without a RESERVE it bounds the triggers that wait.
        ({"PARTITION_LIMIT": 20, "CELERY_QUEUE": "c"}, []),
        ({"PARTITION_LIMIT": 20, "CELERY_QUEUE": "c", "RESERVE": 1}, ["vtrr.W004"]),
    ],
)
def test_w004_limit_that_is_never_reached(
    options: dict[str, Any], expected: list[str], celery_app: Callable[..., None]
) -> None:
    with queue(MAX_CONCURRENCY=8, **options):
        assert ids() == expected


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"DRAIN_SECONDS": 1}, "DRAIN_SECONDS"),
        ({"RECLAIM_QUEUE": "r"}, "RECLAIM_QUEUE"),
        ({"MAX_CONCURRENCY": 20}, "MAX_CONCURRENCY"),
        ({"DRAIN_SECONDS": 0, "RECLAIM_QUEUE": None, "MAX_CONCURRENCY": 8}, None),
        ({"MAX_CONCURRENCY": 20, "RESERVE": 2}, None),
        (
            {
                "CELERY_QUEUE": "c",
                "DRAIN_SECONDS": 1,
                "RECLAIM_QUEUE": "r",
                "MAX_CONCURRENCY": 20,
            },
            None,
        ),
    ],
    ids=str,
)
def test_w009_settings_without_effect(
    options: dict[str, Any], key: str | None, celery_app: Callable[..., None]
) -> None:
    with queue(**options):
        if key is None:
            assert found() == []
            return
        message = only()
    assert message.id == "vtrr.W009"
    assert message.obj == f"settings.VTRR['QUEUES']['q']['{key}']"
    assert message.msg.startswith(f"{key} has no effect: ")


# -- E010, E014, W005, W012, W013: Celery -----------------------------------------------------


def test_e010_two_queues_on_one_celery_queue() -> None:
    queues = {name: {"CELERY_QUEUE": where} for name, where in zip("abc", "xyx", strict=True)}
    with override_settings(VTRR={"QUEUES": queues}):
        messages = [message for message in found() if message.id == "vtrr.E010"]
    (message,) = messages
    assert "'a' and 'c'" in message.msg
    assert message.obj == "settings.VTRR['QUEUES']['c']['CELERY_QUEUE']"
    assert message.hint


@pytest.fixture
def celery_app(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that says what Celery app is loaded, whatever other tests loaded."""
    services.need_package("celery")

    def load(**facts: Any) -> None:
        good = {"fallback": False, "default_queue": "celery", "visibility_timeout": 3600.0}
        found = app_facts.AppFacts(**{**good, **facts})
        monkeypatch.setattr(app_facts, "app_facts", lambda: found)

    from vtrr_django.contrib.celery import facts as app_facts

    load()
    return load


def test_e014_celery_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vtrr_django.checks.celery, "find_spec", lambda name: None)
    with queue(CELERY_QUEUE="c"):
        message = only()
    assert message.id == "vtrr.E014"
    assert "vtrr_worker --queue q" in str(message.hint)


def test_e015_a_broker_whose_client_is_not_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    services.need_package("celery")
    from vtrr_django.contrib.celery import facts

    def broken() -> None:
        raise ModuleNotFoundError("No module named 'packaging'")

    monkeypatch.setattr(facts, "app_facts", broken)
    with queue(CELERY_QUEUE="c"):
        message = only()
    assert message.id == "vtrr.E015"
    assert "No module named 'packaging'" in message.msg
    assert message.hint


def test_w005_no_celery_app(celery_app: Callable[..., None]) -> None:
    celery_app(fallback=True)
    with queue(CELERY_QUEUE="c"):
        assert only().id == "vtrr.W005"
    with queue():
        assert found() == []


def test_w012_the_default_queue_of_celery(celery_app: Callable[..., None]) -> None:
    with queue(CELERY_QUEUE="celery"):
        assert only().id == "vtrr.W012"


@pytest.mark.parametrize(("seconds", "expected"), [(600.0, True), (3600.0, False), (None, False)])
def test_w013_short_visibility_timeout(
    celery_app: Callable[..., None], seconds: float | None, expected: bool
) -> None:
    celery_app(visibility_timeout=seconds)
    with queue(CELERY_QUEUE="c"):
        assert ids() == (["vtrr.W013"] if expected else [])


# -- E011, W006: routers -----------------------------------------------------------------------


class Nowhere:
    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if app_label == "vtrr_django" else None


class Elsewhere:
    """A router of the project's own that does what VTRRRouter does."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "other" if model._meta.app_label == "vtrr_django" else None


@pytest.fixture
def routed(monkeypatch: pytest.MonkeyPatch, databases: Any) -> Any:
    """A function that sets DATABASE_ROUTERS, beside two databases."""

    def set_them(*routers: str) -> None:
        databases(other=sqlite("y", **GOOD_SQLITE), third=sqlite("z", **GOOD_SQLITE))
        monkeypatch.setattr(vtrr_django.checks.databases, "router", ConnectionRouter(list(routers)))

    return set_them


OURS = "vtrr_django.routers.VTRRRouter"


def test_e011_a_router_keeps_the_tables_away(routed: Any) -> None:
    routed(f"{__name__}.Nowhere")
    with queue():
        message = only()
    assert message.id == "vtrr.E011"
    assert "'default'" in message.msg
    routed(OURS, f"{__name__}.Nowhere")
    with queue():
        assert found() == [], "the hint is right"


def test_w006_no_router(routed: Any) -> None:
    routed()
    with queue(DATABASE="other"):
        message = only()
    assert message.id == "vtrr.W006"
    assert f"DATABASE_ROUTERS = ['{OURS}']" in str(message.hint)
    assert "manage.py migrate --database=other" in str(message.hint)


@pytest.mark.parametrize("router_path", [OURS, f"{__name__}.Elsewhere"])
def test_w006_with_a_router(routed: Any, router_path: str) -> None:
    routed(router_path)
    with queue(DATABASE="other"):
        assert found() == []


def test_w006_several_databases(routed: Any) -> None:
    vtrr = {"QUEUES": {"a": {"DATABASE": "other"}, "b": {"DATABASE": "third"}}}
    routed()
    with override_settings(VTRR=vtrr):
        assert "--database=other and manage.py migrate --database=third" in str(only().hint)
    routed(OURS)
    with override_settings(VTRR=vtrr):
        assert found() == []


def test_w006_is_quiet_where_the_default_database_is_used_too(routed: Any) -> None:
    routed()
    with override_settings(VTRR={"QUEUES": {"a": {}, "b": {"DATABASE": "other"}}}):
        assert found() == []


# -- who may use HTTP --------------------------------------------------------------

GOOD_SECRET = "9f2c1e7ab05d4836b7e0aa41c3d98f62"


def secret(value: Any, **more: Any) -> Any:
    return override_settings(VTRR={"SECRET": value, **more})


@pytest.mark.parametrize(
    "value",
    [
        None,
        GOOD_SECRET,
        [GOOD_SECRET],
        [GOOD_SECRET, GOOD_SECRET[::-1]],
        "Zm9vYmFyIGJheiBxdXV4IHF1dXogY29yZ2U",
        "my test of a key: 51 lamps over nine rivers",
        "дом под синей горой, где живёт филин",
    ],
)
def test_a_secret_that_is_long_and_random_is_one(value: Any) -> None:
    with secret(value):
        assert found() == []


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("x8Kq", "has 4 characters"),
        (GOOD_SECRET[:15], "has 15 characters"),
        (GOOD_SECRET + "\n", "begins or ends with white space"),
        (" " + GOOD_SECRET, "begins or ends with white space"),
        ("\N{NO-BREAK SPACE}" + GOOD_SECRET, "begins or ends with white space"),
        ("a" * 64, "1 different characters"),
        ("abcab" * 10, "3 different characters"),
        ("abcdefghijklmnopqrstuvwxyz0123456789", "row of neighbours"),
        ("changeme-changeme-changeme-changeme", "words that everybody tries"),
        ("Your_Secret_Key_Goes_Here_1234567890", "words that everybody tries"),
        ("correct horse battery staple", "words that everybody tries"),
        (django_settings.SECRET_KEY, "is Django's SECRET_KEY"),
    ],
)
def test_a_secret_that_is_none_is_an_error_which_does_not_tell_it(value: str, why: str) -> None:
    with secret([GOOD_SECRET, value]):
        message = only()
    assert (message.id, message.obj) == ("vtrr.E016", "settings.VTRR['SECRET'][1]")
    assert why in message.msg
    assert value not in f"{message} {message.hint}"


def test_a_secret_that_once_was_the_secret_key_is_none() -> None:
    with override_settings(SECRET_KEY_FALLBACKS=[GOOD_SECRET]), secret(GOOD_SECRET):
        message = only()
    assert (message.id, message.obj) == ("vtrr.E016", "settings.VTRR['SECRET']")
    assert "SECRET_KEY" in message.msg


@pytest.mark.parametrize("value", [GOOD_SECRET[:16], GOOD_SECRET[:31]])
def test_a_short_secret_is_warned_of(value: str) -> None:
    with secret(value):
        message = only()
    assert (message.id, message.level) == ("vtrr.W016", 30)
    assert f"has {len(value)} characters" in message.msg
    assert value not in f"{message} {message.hint}"


def test_two_secrets_that_are_one_are_warned_of() -> None:
    with secret([GOOD_SECRET, GOOD_SECRET]):
        message = only()
    assert message.id == "vtrr.W016"
    assert "are the same" in message.msg


@pytest.mark.parametrize(
    ("vtrr", "expected"),
    [
        ({}, []),
        ({"ALLOW_LOOPBACK": False}, []),
        ({"ALLOW_LOOPBACK": True}, ["vtrr.W017"]),
        ({"ALLOW_LOOPBACK": True, "SECRET": GOOD_SECRET}, []),
        ({"ALLOW_LOOPBACK": 1}, ["vtrr.E001"]),
    ],
)
def test_an_api_that_is_open_to_this_machine_is_no_deployment(
    vtrr: dict[str, Any], expected: list[str]
) -> None:
    with override_settings(VTRR=vtrr):
        assert [one.id for one in run_checks(tags=["vtrr"], include_deployment_checks=True)] == (
            expected
        )
        assert "vtrr.W017" not in ids()


# -- W018 -------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("store", ["sqlite", "fakeredis"])
def test_jobs_of_a_queue_that_was_renamed_are_told_of(store: str) -> None:
    forget_all()
    made = STORES[store]()
    name = made.new_name()
    how: dict[str, Any] = {"databases": [], "include_deployment_checks": True}
    if store == "sqlite":
        how = {"databases": ["default"], "tags": ["database"]}
    with override_settings(VTRR={"QUEUES": {name: made.settings()}}):
        get_queue(name).publish(Note(), partition_key="acme")
    with override_settings(VTRR={"QUEUES": {f"{name}-new": made.settings()}}):
        (message,) = [
            one for one in run_checks(**how) if one.id == "vtrr.W018" and f"{name}," in one.msg
        ]
        assert f"Left behind in queue {name}, in " in message.msg
        assert f"put '{name}' back into VTRR['QUEUES']" in message.msg
        run_checks(databases=None)


@pytest.mark.django_db
def test_a_database_without_our_tables_holds_no_such_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection.introspection, "table_names", lambda *args: ["auth_user"])
    monkeypatch.setattr("vtrr_django.strays.Store", None)
    assert vtrr_django.checks.check_databases_for_strays(databases=["default"]) == []
