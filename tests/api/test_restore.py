"""What the README says of a SQLite file that is restored from a copy, such as Litestream's."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from django.db import connections

from tests.api.asking import Api
from tests.api.signing import SECRET, headers
from tests.contract.stores import Store
from tests.test_readme import section

TEXT = " ".join(section("HTTP").split())

pytestmark = pytest.mark.parametrize("store", ["sqlite"], indirect=True)

Copy = Callable[[], Callable[[], None]]


@pytest.fixture
def copy(api: Api) -> Iterator[Copy]:
    """Copy the file of the queue; what comes back restores it."""
    made = sqlite3.connect(":memory:")

    def take() -> Callable[[], None]:
        connections["default"].ensure_connection()
        file: sqlite3.Connection = connections["default"].connection
        file.backup(made)
        return lambda: made.backup(file)

    with closing(made):
        yield take


def test_jobs_that_ended_since_run_again(api: Api, queue: Any, store: Store, copy: Copy) -> None:
    assert "Jobs that ended since are there and **run again**" in TEXT
    assert (
        "are reclaimed when their leases have run out, which adds one to their `timeouts`" in TEXT
    )
    published = api.publish({}, {"id": "second"})
    [leased] = api.claim()
    restore = copy()
    [waiting] = api.claim()
    assert [api.ack(job).status for job in (leased, waiting)] == [200, 200]
    api.publish({"id": "third"})

    restore()
    [again] = api.claim()
    assert again["id"] == waiting["id"]
    assert api.claim() == []  # the third is gone, the first leased
    store.advance(queue.name, 3600)
    back = {job["id"]: job["timeouts"] for job in api.claim(2)}
    assert back == dict.fromkeys(published, 1)


def test_who_publishes_again_makes_no_second_job(api: Api, copy: Copy) -> None:
    assert "with the same `id` or `msg_id` makes no second one" in TEXT
    api.publish({"id": "first", "msg_id": "m"})
    restore = copy()
    api.publish({"id": "second"})
    restore()
    for _ in range(2):
        assert api.publish({"id": "second"}) == ["second"]
        assert api.publish({"msg_id": "m"}) == ["first"]
    assert {job["id"] for job in api.claim(10)} == {"first", "second"}


def test_a_request_that_was_captured_is_good_once_more(api: Api, settings: Any, copy: Copy) -> None:
    assert re.search("could be played once more until it is 300 s old, or 600 s", TEXT)
    settings.VTRR = {**settings.VTRR, "SECRET": SECRET}
    signed = headers("GET", f"/{api.name}/stats")
    told = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in signed.items()}

    def played() -> int:
        return api.send("GET", f"/{api.name}/stats", **told).status

    restore = copy()
    assert [played(), played()] == [200, 401]
    restore()
    assert [played(), played()] == [200, 401]


def test_the_nonces_are_where_the_readme_says(api: Api, settings: Any, store: Store) -> None:
    """The queue is not called "default", and is the first one."""
    assert "or, where no queue has that name, of the first one in `QUEUES`" in TEXT
    from vtrr_django.api import nonces

    other = {"DATABASE": "elsewhere"}
    for queues, place in (
        ({"b": store.settings(), "a": other}, "default"),
        ({"a": other, "b": store.settings()}, "elsewhere"),
        ({"a": other, "default": store.settings()}, "default"),
    ):
        settings.VTRR = {"QUEUES": queues}
        assert nonces._store().alias == place
