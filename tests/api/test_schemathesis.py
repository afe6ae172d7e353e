"""All checks of schemathesis, on the views as a project mounts them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.db import connections

from tests.api.conftest import MakeQueue
from tests.api.making_up import STRESS, configured, expect_no_problem
from tests.api.signing import SECRET
from vtrr_django.queue import Queue

STORES = ("sqlite", "postgres", "mariadb", "fakeredis", "redis") if STRESS else ("sqlite",)


class Quiet(WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


def serve(request: Any, start_response: Any) -> Any:
    """Serve as Django does, and leave no connection of the thread open."""
    try:
        return WSGIHandler()(request, start_response)
    finally:
        connections.close_all()


@pytest.fixture
def address(settings: Any, queue: Queue) -> Iterator[str]:
    """The address of a server of the views, where nobody may wait for jobs."""
    settings.VTRR = {**settings.VTRR, "SECRET": SECRET}
    settings.ALLOWED_HOSTS = ["*"]
    server = ThreadedWSGIServer(("127.0.0.1", 0), Quiet)
    server.set_app(serve)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def queue(make_queue: MakeQueue) -> Queue:
    return make_queue(RECLAIM_INTERVAL=0.1)


@pytest.mark.parametrize("store", STORES, indirect=True)
@pytest.mark.parametrize("auth", [True, False])
def test_all_checks(address: str, queue: Queue, auth: bool) -> None:
    # Of a stranger's requests nearly all are refused alike, whatever is in them.
    expect_no_problem(address, configured(queue.name, auth=auth, small=not (auth or STRESS)))


@pytest.mark.parametrize("store", ["redis"], indirect=True)
def test_all_checks_in_redis(address: str, queue: Queue) -> None:
    """With the secret: who has none never gets as far as to a store."""
    expect_no_problem(address, configured(queue.name, auth=True, small=True))
