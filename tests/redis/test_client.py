"""The way to Redis: what settings lead to, and what is said of those that lead nowhere."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import redis
from django.core.cache import caches
from django.test import override_settings

from tests import services
from tests.own_redis import OwnRedis
from tests.races.threads import together
from vtrr_django import ConfigurationError
from vtrr_django.engines.redis import client as module
from vtrr_django.engines.redis.client import connect

URL = services.SERVICES["redis"].url("redis")
StartRedis = Callable[..., OwnRedis]

DJANGO_REDIS = "django_redis.cache.RedisCache"
DJANGO = "django.core.cache.backends.redis.RedisCache"
LOCMEM = "django.core.cache.backends.locmem.LocMemCache"


def given(alias: str = "jobs", backend: str = DJANGO_REDIS, url: Any = URL, **options: Any) -> Any:
    """Return settings with one more cache; options are in small letters."""
    more = {key.upper(): value for key, value in options.items()}
    cache = {"BACKEND": backend, "LOCATION": url, "OPTIONS": more}
    return override_settings(CACHES={"default": {"BACKEND": LOCMEM}, alias: cache})


def refused(**options: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        connect(options, "q")
    assert str(caught.value).startswith("VTRR['QUEUES']['q']")
    return str(caught.value)


def timeouts(client: Any) -> dict[str, Any]:
    kwargs = client.connection_pool.connection_kwargs
    names = ("socket_timeout", "socket_connect_timeout", "health_check_interval")
    return {name: kwargs.get(name) for name in names}


# -- which of the two --------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"CACHE": None, "URL": None}, {"HASH_TAG": True}])
def test_one_of_the_two_is_needed(options: dict[str, Any]) -> None:
    assert "expected exactly one of CACHE" in refused(**options)
    assert "got neither" in refused(**options)


def test_both_are_one_too_many() -> None:
    assert "got both" in refused(CACHE="jobs", URL=URL)


# -- URL ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "got"),
    [
        ("localhost:6379", "got no scheme"),
        ("http://u:secret@localhost", "got http://"),
        ("redis+sentinel://u:secret@localhost", "Sentinel is reached through CACHE"),
        ("redis://u:secret@localhost:many/0", "Port could not be cast"),
        ("redis://localhost?socket_timeout=long", "'socket_timeout'"),
    ],
)
def test_a_url_that_leads_nowhere(url: str, got: str) -> None:
    message = refused(URL=url)
    assert message.startswith("VTRR['QUEUES']['q']['URL']: expected ")
    assert got in message
    assert "secret" not in message


def test_timeouts_are_bounded_and_the_url_may_say_otherwise() -> None:
    assert timeouts(connect({"URL": "redis://h"})) == {
        "socket_timeout": 5,
        "socket_connect_timeout": 3,
        "health_check_interval": None,
    }
    query = "socket_timeout=0.5&socket_connect_timeout=7&health_check_interval=9"
    assert timeouts(connect({"URL": f"redis://h?{query}"})) == {
        "socket_timeout": 0.5,
        "socket_connect_timeout": 7,
        "health_check_interval": 9,
    }


def test_tls() -> None:
    pool = connect({"URL": "rediss://h"}).connection_pool
    assert issubclass(pool.connection_class, redis.SSLConnection)
    assert pool.connection_kwargs["socket_timeout"] == 5


@pytest.mark.parametrize("query", ["", "protocol=2", "protocol=3"])
@pytest.mark.parametrize("way", ["tcp", "unix"])
def test_a_server_is_reached(own_redis: StartRedis, way: str, query: str) -> None:
    server = own_redis({"requirepass": "p@ss:word"})
    url = server.url(3)
    if way == "unix":
        url = f"unix://:p%40ss%3Aword@{server.socket}?db=3"
    client = connect({"URL": f"{url}{'&' if '?' in url else '?'}{query}" if query else url})
    assert client.eval("return {KEYS[1], ARGV[1]}", 1, "k", "v") == [b"k", b"v"]
    assert client.client_info()["db"] == 3


def test_a_user_with_an_acl(own_redis: StartRedis) -> None:
    server = own_redis(acl="user default off\nuser vtrr on >secret ~vtrr:* +@all\n")
    client = connect({"URL": server.url(user="vtrr", password="secret")})
    assert client.set("vtrr:q", "1")
    with pytest.raises(redis.exceptions.NoPermissionError):
        client.set("other", "1")


def test_who_is_refused_hears_it_at_once_and_who_comes_back_is_found_again(
    own_redis: StartRedis,
) -> None:
    server = own_redis()
    client = connect({"URL": server.url()})
    for end in (server.kill, server.stop):
        client.ping()
        end()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        server.start()
        assert client.ping()
    client.ping()
    server.stop()
    server.start()
    assert client.ping(), "a connection the server has closed is replaced"
    server.client().client_kill_filter(_type="normal", skipme=False)
    assert client.ping()


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_command_whose_answer_got_lost_is_not_repeated(
    own_redis: StartRedis, protocol: int
) -> None:
    server = own_redis()
    client = connect({"URL": f"{server.url()}?socket_timeout=0.2&protocol={protocol}"})
    client.incr("n")
    server.freeze()
    with pytest.raises(redis.TimeoutError):
        client.incr("n")
    server.thaw()
    assert client.incr("n") == 3


# -- CACHE -------------------------------------------------------------------------


def test_an_unknown_alias() -> None:
    with given("jobs"):
        message = refused(CACHE="job")
        assert message.startswith("VTRR['QUEUES']['q']['CACHE']: expected an alias of CACHES")
        assert "(default, jobs), got 'job'; did you mean 'jobs'?" in message
        assert "add it to CACHES" in refused(CACHE="elsewhere")


def test_a_cache_that_is_not_in_redis() -> None:
    with given(backend=LOCMEM, url=""):
        message = refused(CACHE="jobs")
    assert f"got '{LOCMEM}'" in message
    assert "give URL instead" in message


def test_a_cache_over_several_servers() -> None:
    with given(client_class="django_redis.client.ShardClient", url=[URL, URL]):
        assert "knows no single server" in refused(CACHE="jobs")


def test_without_django_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "django_redis"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "django_redis", None)
    with given():
        message = refused(CACHE="jobs")
    assert "CACHES['jobs'] cannot be used" in message
    assert 'pip install "vtrr-django[redis]"' in message


@pytest.mark.parametrize("backend", [DJANGO_REDIS, DJANGO])
@pytest.mark.parametrize("query", ["", "?protocol=2", "?protocol=3"])
def test_a_cache_leads_to_its_server(own_redis: StartRedis, backend: str, query: str) -> None:
    server = own_redis()
    with given(backend=backend, url=f"{server.url(2)}{query}"):
        client = connect({"CACHE": "jobs"})
        assert client.set("k", "v")
        assert client.client_info()["db"] == 2


@pytest.mark.parametrize("decode", [True, False])
def test_what_the_cache_decodes_is_left_to_it(own_redis: StartRedis, decode: bool) -> None:
    server = own_redis()
    with given(url=server.url(), connection_pool_kwargs={"decode_responses": decode}):
        assert connect({"CACHE": "jobs"}).echo("x") == ("x" if decode else b"x")


def test_replicas_are_not_written_to(own_redis: StartRedis) -> None:
    primary, replica = own_redis(), own_redis()
    with given(url=[primary.url(), replica.url()]):
        client = connect({"CACHE": "jobs"})
        assert {client.connection_pool.connection_kwargs["port"] for _ in range(5)} == {
            primary.port
        }


def test_sentinel(own_redis: StartRedis) -> None:
    server = own_redis()
    sentinel = own_redis(sentinel_of=server)
    with (
        given(
            url=f"redis://{sentinel.SENTINEL_NAME}/5",
            client_class="django_redis.client.SentinelClient",
            connection_factory="django_redis.pool.SentinelConnectionFactory",
            sentinels=[("127.0.0.1", sentinel.port)],
        ),
        override_settings(
            DJANGO_REDIS_CONNECTION_FACTORY="django_redis.pool.SentinelConnectionFactory"
        ),
    ):
        client = connect({"CACHE": "jobs"})
        assert client.set("k", "v")
        assert client.client_info()["db"] == 5
    assert server.client().info("keyspace")["db5"]["keys"] == 1


# -- one client --------------------------------------------------------------------


def test_it_is_one_per_process_and_setting() -> None:
    found = together(*[lambda: connect({"URL": "redis://h/1"}, "a")] * 8)
    assert len({id(client) for client in found}) == 1
    assert connect({"URL": "redis://h/1", "HASH_TAG": True}, "b") is found[0]
    assert connect({"URL": "redis://h/2"}) is not found[0]


def test_other_caches_lead_to_other_clients() -> None:
    with given(url="redis://one"):
        one = connect({"CACHE": "jobs"})
        assert connect({"CACHE": "jobs"}) is one
        caches["jobs"].close()
        assert connect({"CACHE": "jobs"}) is one
    with given(url="redis://two"):
        two = connect({"CACHE": "jobs"})
    hosts = [client.connection_pool.connection_kwargs["host"] for client in (one, two)]
    assert hosts == ["one", "two"]


def test_a_forked_process_has_connections_of_its_own(own_redis: StartRedis) -> None:
    client = connect({"URL": own_redis().url()})
    mine = client.client_id()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the other threads stay behind
        child = os.fork()
    if child == 0:
        try:
            os._exit(0 if client.client_id() != mine else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert client.client_id() == mine


def test_the_timeouts_fit_what_is_promised() -> None:
    # Away is said within seconds, and workers carry on within ten.
    assert module.CONNECT_TIMEOUT + module.SOCKET_TIMEOUT <= 10
