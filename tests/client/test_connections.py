"""The life of connections: threads, forks, event loops, and whoever forgets to close."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import httpx
import pytest

from tests.client.fakes import FakeApi
from vtrr_django.client.connections import Connections
from vtrr_django.client.remote import RemoteQueue

ROOT = Path(__file__).resolve().parents[2]


def connections_of(queue: RemoteQueue) -> Connections:
    return queue._transport._connections


# -- threads and forks -----------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_process_that_is_forked_during_the_first_use_has_connections_of_its_own() -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.client.forked"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    published = ["child of its end", "child of the first use", "first use", "parent"]
    assert ended.stdout == f"[0, 0] {published} 3\n", ended.stderr


# -- closing ---------------------------------------------------------------------------


def test_it_can_be_used_again_after_it_was_closed(api: FakeApi) -> None:
    with api.queue() as queue:
        queue.stats()
        client = connections_of(queue).of_threads()
    assert client.is_closed
    assert queue.stats()["queue"] == "default"
    queue.close()


def test_what_was_closed_is_let_go(api: FakeApi) -> None:
    queue = api.queue()
    clients = []
    for _ in range(20):
        with queue:
            queue.stats()
            clients.append(weakref.ref(connections_of(queue).of_threads()))
    gc.collect()
    assert [one() for one in clients] == [None] * 20


def test_a_queue_that_nobody_closed_closes_its_connections(api: FakeApi) -> None:
    queue = api.queue()
    queue.stats()
    client = connections_of(queue).of_threads()
    del queue
    gc.collect()
    assert client.is_closed


@pytest.mark.parametrize("how", ["sync", "async"])
def test_whoever_is_about_to_send_when_it_is_closed_opens_new_ones(
    api: FakeApi, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = api.queue(patience=0)
    to_close = [queue]
    send, asend = httpx.Client.send, httpx.AsyncClient.send

    def closed_first(self: httpx.Client, request: httpx.Request) -> httpx.Response:
        if to_close:
            to_close.pop().close()
        return send(self, request)

    async def aclosed_first(self: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
        if to_close:
            await to_close.pop().aclose()
        return await asend(self, request)

    monkeypatch.setattr(httpx.Client, "send", closed_first)
    monkeypatch.setattr(httpx.AsyncClient, "send", aclosed_first)
    jobs = queue.lease() if how == "sync" else asyncio.run(queue.alease())
    assert jobs == []
    assert not to_close
    assert len(api.seen) == 1


@pytest.mark.parametrize("how", ["sync", "async"])
def test_other_trouble_is_not_taken_for_that(how: str) -> None:
    def broken(request: httpx.Request) -> httpx.Response:
        raise RuntimeError("a fault of a transport")

    options = {"transport": httpx.MockTransport(broken)}
    queue = RemoteQueue(base_url="http://jobs.test", http_options=options)
    with pytest.raises(RuntimeError, match="a fault of a transport"):
        queue.stats() if how == "sync" else asyncio.run(queue.astats())


# -- event loops -----------------------------------------------------------------------


async def look(queue: RemoteQueue) -> httpx.AsyncClient:
    await asyncio.gather(queue.astats(), queue.astats())
    return await connections_of(queue).of_loop()


def test_each_event_loop_has_a_client_that_ends_with_it(api: FakeApi) -> None:
    queue = api.queue()
    one, other = asyncio.run(look(queue)), asyncio.run(look(queue))
    assert one is not other
    assert one.is_closed
    assert other.is_closed


@pytest.mark.parametrize("how", ["by the next loop", "by close()"])
def test_a_loop_that_was_closed_without_ado_is_let_go(api: FakeApi, how: str) -> None:
    queue = api.queue()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(queue.astats())
    loop.close()
    loop = weakref.ref(loop)
    if how == "by close()":
        queue.close()
    else:
        asyncio.run(queue.astats())
    gc.collect()
    assert loop() is None


def test_an_event_loop_may_close_what_is_its_own(api: FakeApi) -> None:
    async def main() -> None:
        async with api.queue() as queue:
            client = await look(queue)
            threads = connections_of(queue).of_threads()
        assert client.is_closed
        assert threads.is_closed
        assert (await queue.astats())["queue"] == "default"
        await queue.aclose()
        await queue.aclose()

    asyncio.run(main())


def test_a_queue_that_nobody_closed_closes_those_of_a_loop_that_goes_on(api: FakeApi) -> None:
    async def main() -> None:
        queue = api.queue()
        client = await look(queue)
        del queue
        gc.collect()
        async with asyncio.timeout(60):
            while not client.is_closed:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)

    asyncio.run(main())
