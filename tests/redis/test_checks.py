"""The system checks of queues in Redis: what each finds, and that they are quiet otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks
from django.core.management import call_command
from django.test import override_settings

from tests.own_redis import OwnRedis
from tests.redis.test_client import DJANGO, DJANGO_REDIS, LOCMEM, given
from vtrr_django.engines.redis import checks

StartRedis = Callable[..., OwnRedis]

QUIET = {"socket_timeout": 5}


def found(*, deploy: bool = False, **options: Any) -> list[CheckMessage]:
    """Run the checks of this app on one queue."""
    queue = {"ENGINE": "redis", **options}
    with override_settings(VTRR={"QUEUES": {"q": queue}}):
        messages = run_checks(tags=["vtrr"], include_deployment_checks=deploy)
    for message in messages:
        assert message.hint
        assert str(message.obj).startswith("settings.VTRR['QUEUES']['q']")
    return messages


def ids(**options: Any) -> list[str]:
    return [str(message.id) for message in found(**options)]


def test_nothing_is_wrong() -> None:
    assert found(URL="redis://h/1") == []
    with given(url="redis://h/1", **QUIET):
        assert found(CACHE="jobs") == []


@pytest.mark.parametrize(
    "options",
    [{}, {"URL": "redis://h", "CACHE": "jobs"}, {"URL": "h:6379"}, {"CACHE": "job"}],
)
def test_e012_no_way_to_a_server(options: dict[str, str]) -> None:
    with given(**QUIET):
        (message,) = found(**options)
    assert message.id == "vtrr.E012"
    assert message.msg.startswith("VTRR['QUEUES']['q']")


def test_e012_a_cache_that_is_not_in_redis() -> None:
    with given(backend=LOCMEM, url=""):
        assert ids(CACHE="jobs") == ["vtrr.E012"]


def test_e003_without_redis_py(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("vtrr_django.engines.redis")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis", None)
    (message,) = found(URL="redis://h")
    assert message.id == "vtrr.E003"
    assert 'pip install "vtrr-django[redis]"' in message.msg


@pytest.mark.parametrize(
    ("backend", "options"),
    [
        (DJANGO_REDIS, {"CONNECTION_POOL_KWARGS": {"socket_timeout": None}}),
        (DJANGO, {"socket_timeout": None}),
    ],
)
def test_w007_a_cache_without_timeout(backend: str, options: dict[str, Any]) -> None:
    # Said aloud, for recent versions of redis-py have a timeout of their own.
    cache = {"BACKEND": backend, "LOCATION": "redis://no-timeout/1", "OPTIONS": options}
    with override_settings(CACHES={"default": {"BACKEND": LOCMEM}, "jobs": cache}):
        assert ids(CACHE="jobs") == ["vtrr.W007"]


def test_w008_the_default_cache() -> None:
    with given("default", url="redis://h/1", **QUIET):
        (message,) = found(CACHE="default")
    assert message.id == "vtrr.W008"
    assert "cache.clear() deletes them" in message.msg


@pytest.mark.parametrize(
    ("where", "wrong"),
    [
        ("redis://h/1", True),
        ("redis://h:6379/1", True),
        ("redis://h/1?socket_timeout=3", True),
        ("redis://h/2", False),
        ("redis://other/1", False),
        ("redis://h:6380/1", False),
    ],
)
def test_w008_another_cache_in_the_same_database(where: str, wrong: bool) -> None:
    with given("sessions", url="redis://h/1", **QUIET):
        assert ids(URL=where) == (["vtrr.W008"] if wrong else [])


@pytest.mark.parametrize(
    "options", [{"CACHE": "default"}, {"URL": "redis://h"}, {"HASH_TAG": True}]
)
def test_w009_settings_that_only_redis_reads(options: dict[str, Any]) -> None:
    assert ids(ENGINE="orm", **options) == ["vtrr.W009"]


def test_w009_is_quiet_about_what_is_switched_off() -> None:
    assert ids(ENGINE="orm", CACHE=None, URL=None, HASH_TAG=False) == []


# -- the server --------------------------------------------------------------------


def test_only_deploy_asks_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = "redis://127.0.0.1:1/0"
    assert ids(URL=nowhere) == []
    (message,) = found(deploy=True, URL=nowhere)
    assert message.id == "vtrr.W014"
    assert "refused" in message.msg
    with override_settings(VTRR={"QUEUES": {"q": {"ENGINE": "redis", "URL": nowhere}}}):
        call_command("check", "--deploy", "--tag=vtrr")
    assert "vtrr.W014" in capsys.readouterr().err


def test_w012_a_server_that_hangs_is_not_waited_for_for_long(own_redis: StartRedis) -> None:
    server = own_redis()
    server.freeze()
    assert ids(deploy=True, URL=f"{server.url()}?socket_timeout=0.2") == ["vtrr.W014"]


@pytest.mark.parametrize("query", ["", "?protocol=3"])
def test_a_server_that_is_fit(own_redis: StartRedis, query: str) -> None:
    server = own_redis({"appendonly": "yes", "maxmemory": "100mb"})
    assert ids(deploy=True, URL=f"{server.url()}{query}") == []
    with given(url=server.url(), connection_pool_kwargs={"decode_responses": True}, **QUIET):
        assert ids(deploy=True, CACHE="jobs") == []


def test_w011_no_append_only_file(own_redis: StartRedis) -> None:
    assert ids(deploy=True, URL=own_redis().url()) == ["vtrr.W011"]


@pytest.mark.parametrize(
    ("policy", "memory", "wrong"),
    [("allkeys-lru", "100mb", True), ("allkeys-lru", "0", False), ("volatile-lru", "9mb", False)],
)
def test_w010_eviction(own_redis: StartRedis, policy: str, memory: str, wrong: bool) -> None:
    server = own_redis({"appendonly": "yes", "maxmemory": memory, "maxmemory-policy": policy})
    assert ids(deploy=True, URL=server.url()) == (["vtrr.W010"] if wrong else [])


@pytest.mark.parametrize(
    ("version", "wrong"), [("6.0.20", True), ("5.0.7", True), ("6.2.0", False), ("10.0.0", False)]
)
def test_e013_too_old(version: str, wrong: bool) -> None:
    messages = list(checks._check_info({"redis_version": version}, "somewhere"))
    assert [message.id for message in messages] == (["vtrr.E013"] if wrong else [])


def test_a_user_who_may_not_ask_about_the_server(own_redis: StartRedis) -> None:
    acl = "user default off\nuser vtrr on >secret ~vtrr:* +@all -info\n"
    url = own_redis(acl=acl).url(user="vtrr", password="secret")
    assert ids(deploy=True, URL=url) == []
