"""Requests made up from the OpenAPI document, and answers held against it: all checks."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.db import connections

from tests.api.conftest import MakeQueue
from vtrr_django.api.polling import waits
from vtrr_django.queue import Queue

schemathesis = pytest.importorskip("schemathesis")

SECRET = "correct horse battery staple"
STRESS = os.environ.get("VTRR_STRESS", "") not in {"", "0"}
STORES = ("sqlite", "postgres", "mariadb", "fakeredis", "redis") if STRESS else ("sqlite",)
EXAMPLES = 40 if STRESS else 10
REFUSALS = (400, 401, 403, 404, 405, 409, 411, 413, 415)


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
def address(settings: Any, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server of the API, which waits for no jobs."""
    settings.VTRR = {**settings.VTRR, "SECRET": SECRET}
    settings.ALLOWED_HOSTS = ["*"]
    monkeypatch.setattr(waits, "most", 0)
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


def problems(url: str, queue: Queue, *, auth: bool) -> Iterator[str]:
    """Run everything there is; yield what it finds wrong."""
    from schemathesis.engine import events, from_schema

    config = {
        "workers": 1,
        "seed": None if STRESS else 1,
        "parameters": {"path.queue": queue.name},
        "generation": {
            "max-examples": EXAMPLES,
            "database": "none",
            # With made-up signatures all would be refused.
            "with-security-parameters": False,
        },
        # Besides the usual ones: a request whose body is missing does not say its length.
        "checks": {"negative_data_rejection": {"expected-statuses": list(REFUSALS)}},
        "phases": {"stateful": {"max-steps": 6}},
    }
    if auth:
        config["auth"] = {"basic": {"username": "vtrr", "password": SECRET}}
    told = {name: value for name, value in config.items() if value is not None}
    schema = schemathesis.openapi.from_url(
        f"{url}/openapi.json", config=schemathesis.Config.from_dict(told)
    )
    for event in from_schema(schema).execute():
        if isinstance(event, (events.NonFatalError, events.FatalError)):
            yield str(getattr(event, "info", None) or getattr(event, "exception", event))
        elif isinstance(event, events.ScenarioFinished):
            for checks in event.recorder.checks.values():
                for check in checks:
                    if check.failure_info is not None:
                        info = check.failure_info
                        yield f"{check.name}: {info.failure}\n{info.code_sample}"


@pytest.mark.parametrize("store", STORES, indirect=True)
@pytest.mark.parametrize("auth", [True, False])
def test_all_checks(address: str, queue: Queue, auth: bool) -> None:
    found = list(problems(address, queue, auth=auth))
    assert not found, f"{len(found)} problems\n" + "\n\n".join(one[:2000] for one in found[:5])
