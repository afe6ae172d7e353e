"""How many claims of a process may wait at once: ``LONG_POLLS``, and what counts without it."""

from __future__ import annotations

import json
import select
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from types import FrameType, SimpleNamespace
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.db import connections

from tests.api.asking import Api
from tests.api.signing import SECRET, encoded
from tests.api.test_serve import Begun, Serve, Server, serve
from tests.races.waiting import PATIENCE, until
from vtrr_django.api import polling
from vtrr_django.api.polling import Waits, limit_waits, waits
from vtrr_django.conf import parse
from vtrr_django.exceptions import ConfigurationError
from vtrr_django.queue import Queue

__all__ = ["serve"]

WANTED = encoded({"worker_id": "w", "wait": 20})


class Quiet(WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def mounted(queue: Queue, settings: Any) -> Iterator[tuple[str, int]]:
    """The views of the project, by a server with one thread for all requests; its address."""
    settings.VTRR = {**settings.VTRR, "ALLOW_LOOPBACK": True}
    settings.ALLOWED_HOSTS = ["*"]
    server = WSGIServer(("127.0.0.1", 0), Quiet)
    server.set_app(WSGIHandler())

    def serve_all() -> None:
        server.serve_forever(0.01)
        connections.close_all()

    thread = threading.Thread(target=serve_all)
    thread.start()
    yield server.server_address[0], server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def sent(address: tuple[str, int], request: str, body: bytes = b"") -> socket.socket:
    client = socket.create_connection(address, timeout=PATIENCE)
    told = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": len(body)}
    head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    client.sendall(f"{request} HTTP/1.1\r\n{head}\r\n".encode() + body)
    return client


def received(client: socket.socket) -> tuple[bytes, Any]:
    with closing(client):
        raw = b"".join(iter(lambda: client.recv(65536), b""))
    head, _, body = raw.partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0], json.loads(body)


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_mounted_views_let_nobody_wait_who_would_keep_others_from_being_served(
    mounted: tuple[str, int], queue: Queue
) -> None:
    """There may be one thread for all, as here: nobody knows."""
    claim = sent(mounted, f"POST /{queue.name}/claim", WANTED)
    other = sent(mounted, "GET /openapi.json")
    assert received(claim)[1] == {"jobs": [], "retry_after": polling.COME_BACK}
    assert received(other)[1]["openapi"].startswith("3.1")


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_mounted_views_let_as_many_wait_as_settings_say(
    api: Api, settings: Any, queue: Queue
) -> None:
    settings.VTRR = {**settings.VTRR, "LONG_POLLS": 1}

    def claim() -> Any:
        try:
            return api.claim(wait=20)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(claim)
        until(lambda: waits.count == 1, "the first to wait")
        answer = api.post("claim", {"worker_id": "w", "wait": 20})
        assert answer.body == {"jobs": [], "retry_after": polling.COME_BACK}
        [job_id] = api.publish({})
        assert [job["id"] for job in first.result()] == [job_id]


# -- the server of our own ---------------------------------------------------------


def answered_at_once(server: Server, polls: int, stack: ExitStack, most: int) -> int:
    """Have some wait; return how many are answered, the others of whom get no thread."""
    begun = [Begun(server, "/default/claim", WANTED) for _ in range(polls)]
    for poll in begun:
        stack.enter_context(closing(poll.socket))
        poll.go_on()

    def answered() -> int:
        return len(select.select([poll.socket for poll in begun], [], [], 0)[0])

    until(lambda: answered() >= polls - most, f"all but {most} to be answered at once")
    assert server.signed("GET", "/queues").status == 200
    return answered()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("threads", "said", "most"), [(4, 1, 1), (4, 3, 3), (2, 50, 1), (2, 0, 0)])
def test_the_setting_counts_for_the_server_but_for_its_last_thread(
    serve: Serve, threads: int, said: int, most: int
) -> None:
    vtrr = {"SECRET": SECRET, "QUEUES": {"default": {}}, "LONG_POLLS": said}
    server = serve("--threads", str(threads), vtrr=vtrr)
    with ExitStack() as stack:
        assert answered_at_once(server, 4, stack, most) == 4 - most


@pytest.mark.parametrize(("threads", "most"), [(1, 0), (2, 1), (15, 7), (16, 8), (64, 8)])
def test_half_of_the_threads_without_the_setting(
    monkeypatch: pytest.MonkeyPatch, settings: Any, threads: int, most: int
) -> None:
    settings.VTRR = {}
    made = Waits(0)
    monkeypatch.setattr(polling, "waits", made)
    limit_waits(threads)
    assert made._allowed() == most


# -- the setting -------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, 0, 1, 1000])
def test_the_setting(value: int | None) -> None:
    assert parse({"LONG_POLLS": value}).long_polls == value
    assert parse({}).long_polls is None


@pytest.mark.parametrize("value", [-1, 1001, True, "8", 1.5])
def test_a_setting_that_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse({"LONG_POLLS": value})
    assert str(caught.value) == (
        f"VTRR['LONG_POLLS']: expected a whole number from 0 to 1000 or None, got {value!r}"
    )


# -- signals -----------------------------------------------------------------------


def ends_though_interrupted_anywhere(handle: Any, seconds: float = PATIENCE) -> bool:
    """Call a signal handler in a thread, and at every line of it once more, as signals come."""

    def run() -> None:
        def interrupt(frame: FrameType, event: str, _: Any) -> Any:
            if event == "line":
                sys.settrace(None)
                handle()
                sys.settrace(interrupt)
            return interrupt

        sys.settrace(interrupt)
        try:
            handle()
        finally:
            sys.settrace(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def test_a_second_signal_in_the_midst_of_the_first_finds_no_lock() -> None:
    made = Waits(1)
    assert ends_though_interrupted_anywhere(made.end)
    assert made.poll(list, 10) == ([], polling.COME_BACK)
    # As it would be seen if there were one.
    assert not ends_though_interrupted_anywhere(threading.Event().set, 0.5)


def test_a_process_that_is_to_end_at_once_takes_no_lock_of_its_pool() -> None:
    from vtrr_django.api.threads import ThreadedWorker

    def shut_down(**_: Any) -> None:
        raise AssertionError("the main loop may hold its lock")

    worker = ThreadedWorker.__new__(ThreadedWorker)
    worker.tpool = SimpleNamespace(shutdown=shut_down)
    worker.cfg = SimpleNamespace(worker_int=lambda _: None)
    with pytest.raises(SystemExit):
        worker.handle_quit(3, None)
