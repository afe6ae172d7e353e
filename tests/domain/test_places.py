"""What hangs together: the server of an address, and which failures are its silence."""

from __future__ import annotations

import ssl

import pytest

from vtrr_django.domain.places import Place, server_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("redis://h/1", "redis://h:6379/2"),
        ("redis://H:6380/1?a=b", "redis://user:p%40ss@h:6380"),
        ("rediss://[::1]:1/1", "rediss://:x@[::1]:1/2"),
        ("unix:///run/redis.sock?db=1", "unix://user:pw@/run/redis.sock?db=2"),
    ],
)
def test_databases_and_credentials_do_not_tell_servers_apart(one: str, other: str) -> None:
    assert server_of([one]) == server_of([other]) is not None


def test_what_tells_servers_apart() -> None:
    addresses = [
        *("redis://h/1", "redis://h:6380/1", "redis://g/1", "rediss://h/1"),
        *("unix:///run/a.sock", "unix:///run/b.sock"),
    ]
    assert len({server_of([one]) for one in addresses}) == len(addresses)
    assert server_of(["redis://a", "redis://b"]) != server_of(["redis://a"])


@pytest.mark.parametrize(
    "address", ["", "redis://h:port/1", "redis://[/1", "somewhere", "redis://"]
)
def test_what_is_no_address_is_no_server(address: str) -> None:
    assert server_of([address]) is None
    assert server_of([]) is None


def test_who_is_silent_is_silent_to_all_and_who_refuses_is_not() -> None:
    place = Place(store="one database", server="all of them")
    silent = RuntimeError()
    silent.__cause__ = ValueError()
    silent.__cause__.__context__ = TimeoutError()
    assert place.lost(silent) == "all of them"
    assert place.lost(RuntimeError()) == "one database"
    assert place.lost(ssl.SSLError()) == "one database"
    assert place.known({"all of them": "gone"}) == "gone"
    assert place.known({"another": "gone"}) is None
