"""What ``vtrr_serve`` runs: gunicorn, with threads, serving the API and nothing else.

This module and ``threads`` import gunicorn; they are imported where the server starts.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.db import connections
from django.utils.module_loading import import_string
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter

from vtrr_django.api import polling, upkeep
from vtrr_django.api.threads import ENDING, ThreadedWorker
from vtrr_django.connections import KeptConnections

GRACE: Final = 30
"""Seconds that requests have to end once the server is to stop."""

_PORT_PATIENCE, _PORT_PAUSE = 3.0, 0.1
"""Seconds that is waited for a port that is taken, and between two tries: the processes of a server
that was killed take a second to see that it is gone."""

_MIDDLEWARE: Final = {
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """How to serve.

    Attributes:
        host: name or address to listen on.
        port: 0: one that is free.
        workers: processes.
        threads: requests each of them serves at once.
        verbose: whether requests are logged.
        announce: is called with the server's address once it answers.
    """

    host: str
    port: int
    workers: int
    threads: int
    verbose: bool
    announce: Callable[[str], None]


def serve(serving: Serving) -> None:
    """Serve until SIGTERM or SIGINT; then the process ends.

    Raises:
        OSError, UnicodeError: the address is not to be had, or is none.
        SystemExit: it has ended.
    """
    _try(serving.host, serving.port)  # gunicorn would try for long, and say less
    connections.close_all()  # the processes that are forked have their own
    _Server(serving).run()


def _try(host: str, port: int) -> None:
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.getaddrinfo(host, port, kind, socket.SOCK_STREAM)
    ends = time.monotonic() + _PORT_PATIENCE
    while True:
        try:
            _bind(kind, found[0][4])
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() >= ends:
                raise
            time.sleep(_PORT_PAUSE)
        else:
            return


def _bind(kind: socket.AddressFamily, address: Any) -> None:
    with socket.socket(kind, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)


def make_handler() -> WSGIHandler:
    """Return Django's handler for the API alone, whatever else the project serves.

    Of the project's middleware it has sessions and authentication, for signed-in staff.
    """
    settings.ROOT_URLCONF = "vtrr_django.api.site"
    settings.MIDDLEWARE = [path for path in settings.MIDDLEWARE if _is_wanted(path)]
    return WSGIHandler()


def _is_wanted(path: str) -> bool:
    try:
        found = import_string(path)
    except ImportError:
        return False
    # By name: a project without these apps must not import what belongs to them.
    bases = found.__mro__ if isinstance(found, type) else ()
    return any(f"{one.__module__}.{one.__qualname__}" in _MIDDLEWARE for one in bases)


class _Server(BaseApplication):  # type: ignore[misc]
    """gunicorn's configuration, and what starts it."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self._kept = KeptConnections()
        super().__init__()

    def load_config(self) -> None:
        serving = self.serving
        host = f"[{serving.host}]" if ":" in serving.host else serving.host
        wanted = {
            "bind": f"{host}:{serving.port}",
            "workers": serving.workers,
            "threads": serving.threads,
            "worker_class": ThreadedWorker,
            "proc_name": "vtrr_serve",
            # Of the worker's main loop, which serves no request: a long poll does not count.
            "timeout": 60,
            "graceful_timeout": GRACE,
            # Workers that poll keep their connection; an idle one occupies no thread.
            "keepalive": 30,
            "limit_request_line": 8190,
            "limit_request_fields": 64,
            "limit_request_field_size": 8190,
            # By a proxy on this machine. PATH_INFO, the other default, nobody needs.
            "forwarder_headers": "SCRIPT_NAME",
            "loglevel": "info" if serving.verbose else "warning",
            "accesslog": "-" if serving.verbose else None,
            "control_socket_disable": True,
            "post_worker_init": self._begin,
            "worker_exit": self._end,
        }
        for name, value in wanted.items():
            if name in self.cfg.settings:  # not every release has them all
                self.cfg.set(name, value)

    def load(self) -> WSGIHandler:
        return make_handler()

    def run(self) -> None:
        _Arbiter(self).run()

    def _begin(self, worker: ThreadedWorker) -> None:
        polling.limit_waits(self.serving.threads)
        self._kept.begin()
        if worker.age == 1:
            self.serving.announce(_address(worker.sockets[0].getsockname()))

    def _end(self, arbiter: Any, worker: ThreadedWorker) -> None:
        if worker.pid == os.getpid():  # the arbiter says it too, of one that is gone
            upkeep.close()
            if worker.tpool is not None:
                # Python waits for these threads anyway, but would leave their connections open.
                worker.tpool.shutdown(wait=True)
            self._kept.close()
            connections.close_all()


def _address(name: Any) -> str:
    host, port = name[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class _Arbiter(Arbiter):  # type: ignore[misc]
    """The process that keeps the workers alive."""

    def spawn_worker(self) -> Any:
        """Fork a worker that misses no signal.

        Until it has its own handlers it would take one for the arbiter's, and forget it: told to
        end, it would serve on until it is killed. So signals wait until the worker takes them.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            return super().spawn_worker()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)

    def handle_int(self) -> None:
        """End as on SIGTERM: requests finish. A second Ctrl-C does not wait for them."""
        self.handle_term()
