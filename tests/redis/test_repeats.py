"""Clients may repeat a command whose answer got lost: no job that lives is stored twice by that."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.contract.jobs import ack_all, drain, job, put, take
from tests.contract.redis_store import RedisStore
from tests.redis.engines import intercept, let_go, once
from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.job import NewJob
from vtrr_django.engines.redis.engine import RedisEngine
from vtrr_django.exceptions import StoreUnavailable

pytestmark = [
    pytest.mark.service("redis"),
    pytest.mark.django_db(transaction=True, available_apps=["vtrr_django"]),
]

JOBS: dict[str, Callable[[], list[NewJob]]] = {
    "one": lambda: [job("a")],
    "one with a parent": lambda: [job("a", parent_id="p")],
    "some": lambda: [job("a"), job("b", priority=3), job("a", delay=0.0)],
    "some with names": lambda: [job("a", msg_id=f"m{number}") for number in range(5)],
    "a bulk": lambda: [job("ab"[number % 2]) for number in range(200)],
    "a row": lambda: [job("a") for _ in range(32)],
    "a long row": lambda: [job("a") for _ in range(250)],
    "later": lambda: [job("a", delay=60.0)],
    "many": lambda: [job(f"{number % 3}") for number in range(600)],
    "many rows": lambda: [job("a") for _ in range(2500)],
}


@pytest.mark.parametrize("jobs", JOBS)
@pytest.mark.parametrize("leased", [False, True])
def test_a_script_that_is_sent_twice(store: RedisStore, jobs: str, leased: bool) -> None:
    engine = store.engine()

    def twice(name: str, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        run()
        if leased:
            RedisEngine.lease(other, 1, worker_id="w", lease_seconds=60.0)
        return run()

    other = store.engine_named(engine.name)
    intercept(engine, twice)
    ids = engine.enqueue(JOBS[jobs](), {})
    let_go(engine)
    stats = engine.stats()
    assert stats.ready + stats.scheduled + stats.leased == len(ids)
    store.advance(engine.name, 3600)
    engine.reclaim()
    assert sorted(one.id for one in drain(engine, 50)) == sorted(ids)
    assert engine.stats().ready == 0
    assert put(engine, "a") == [one.id for one in drain(engine)]


@pytest.mark.parametrize("count", [32, 100, 101, 250, 999])
@pytest.mark.parametrize("ended", [1, 32])
def test_a_row_that_is_sent_again_when_jobs_of_it_have_ended(
    store: RedisStore, count: int, ended: int
) -> None:
    engine = store.engine()
    other = store.engine_named(engine.name)

    def again(run: Callable[[], Any]) -> Any:
        run()
        assert all(ack_all(other, take(other, ended)))
        return run()

    once(engine, "append", again)
    ids = put(engine, *["a"] * count)
    assert engine.stats().ready == count - ended
    assert [one.id for one in drain(engine, 50)] == ids[ended:]
    keys = engine.commands.keys
    assert [engine.commands.call("HLEN", keys[key]) for key in ("task", "meta", "staged")] == [
        0
    ] * 3


@pytest.mark.parametrize("jobs", ["many", "many rows"])
@pytest.mark.parametrize("lost", [False, True])
def test_a_decision_that_is_sent_again_when_others_have_stored_all(
    store: RedisStore, jobs: str, lost: bool
) -> None:
    """And one whose answer is lost for good, after which the enqueuer would withdraw."""
    engine = store.engine()
    other = store.engine_named(engine.name)

    def again(run: Callable[[], Any]) -> Any:
        run()
        other.reclaim()
        assert other.stats().ready > 0
        if lost:
            raise StoreUnavailable("the answer got lost")
        return run()

    once(engine, "commit", again)
    ids = engine.enqueue(JOBS[jobs](), {})
    assert sorted(one.id for one in drain(engine, 50)) == sorted(ids)


# -- on the wire -------------------------------------------------------------------


class Cutter:
    """Stands before Redis and, told to, hangs up instead of passing on one answer."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.mark: bytes | None = None
        self.cut = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            upstream = socket.create_connection(self._upstream)
            doomed = threading.Event()
            for source, target, back in ((client, upstream, False), (upstream, client, True)):
                args = (source, target, back, doomed)
                threading.Thread(target=self._pass_on, args=args, daemon=True).start()

    def _pass_on(
        self, source: socket.socket, target: socket.socket, back: bool, doomed: threading.Event
    ) -> None:
        tail = b""
        try:
            while data := source.recv(1 << 20):
                if back and doomed.is_set():
                    self.cut += 1
                    break
                tail = (tail + data)[-len(data) - 100 :]
                if not back and self.mark is not None and self.mark in tail:
                    self.mark = None
                    doomed.set()
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            hang_up(one)

    def close(self) -> None:
        self._server.close()


def hang_up(one: socket.socket) -> None:
    """Close a connection in both directions."""
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


@pytest.fixture
def cutter(store: RedisStore) -> Iterator[Cutter]:
    client, _ = store._client(store.new_name())
    at = client.connection_pool.connection_kwargs
    made = Cutter(at["host"], at["port"])
    yield made
    made.close()


def test_a_client_that_repeats_what_got_no_answer(store: RedisStore, cutter: Cutter) -> None:
    """As those of django-redis do with redis-py 6, and before with ``retry_on_timeout``."""
    name = store.new_name()
    plain, _ = store._client(name)
    client = redis.Redis(
        host="127.0.0.1",
        port=cutter.port,
        db=plain.connection_pool.connection_kwargs["db"],
        retry=Retry(NoBackoff(), 3),
        retry_on_error=[redis.ConnectionError],
    )
    engine = RedisEngine(name, QueueConfig(), client)
    assert engine.depth().ready == 0
    ids = []
    for count in (1, 5, 32, 250, 2500):
        cutter.mark = b"only here"
        payload = '{"args": ["only here"], "kwargs": {}}'
        ids += put(engine, *["a"] * count, payload=payload)
        others = [put(engine, f"other{number}")[0] for number in range(3)]
        ids += others
    assert cutter.cut == 5
    assert engine.depth().ready == len(ids)
    assert sorted(one.id for one in drain(engine, 100)) == sorted(ids)
    client.close()
