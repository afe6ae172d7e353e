"""What ``vtrr_serve`` runs: gunicorn, with threads, serving the API and nothing else.

This is the one module that imports gunicorn; it is imported where the server starts.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.db import connections
from django.utils.module_loading import import_string
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.workers.gthread import ThreadWorker

from vtrr_django.api import polling, upkeep
from vtrr_django.api.body import LARGEST

PATIENCE: Final = 15.0
"""Seconds in which a client has to send its headers, or the next piece of its body, or to take
the next piece of its answer."""

PIECE: Final = 64 * 1024

GRACE: Final = 30
"""Seconds that requests have to end once the server is to stop."""

_MIDDLEWARE: Final = {
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
}

_LINGER, _LONGEST_LINGER = 10.0, 256 * 1024 * 1024
"""How long, and how much of, a body that nobody wants is taken, so that its sender comes to
read why."""


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
    with socket.socket(kind, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(found[0][4])


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
        # The other threads are for what does not wait.
        polling.limit_waits(min(polling.MOST_WAITING, self.serving.threads // 2))
        if worker.age == 1:
            self.serving.announce(_address(worker.sockets[0].getsockname()))

    def _end(self, arbiter: Any, worker: ThreadedWorker) -> None:
        if worker.pid == os.getpid():  # the arbiter says it too, of one that is gone
            upkeep.close()
            connections.close_all()


def _address(name: Any) -> str:
    host, port = name[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class _Arbiter(Arbiter):  # type: ignore[misc]
    """The process that keeps the workers alive."""

    def handle_int(self) -> None:
        """End as on SIGTERM: requests finish. A second Ctrl-C does not wait for them."""
        self.handle_term()


class ThreadedWorker(ThreadWorker):  # type: ignore[misc]
    """gunicorn's worker with threads, which a client that is slow does not occupy for long."""

    wsgi: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadlines = _Deadlines()

    def init_signals(self) -> None:
        super().init_signals()
        # Ctrl-C reaches all processes of the terminal: the arbiter passes on what it means.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def load_wsgi(self) -> None:
        super().load_wsgi()
        self.wsgi = partial(self._receive, self.wsgi)

    def handle_exit(self, sig: int, frame: Any) -> None:
        super().handle_exit(sig, frame)
        polling.waits.end()

    def set_accept_enabled(self, enabled: bool) -> None:
        super().set_accept_enabled(enabled)
        if not self.alive:
            # Else who connects while the last requests finish would wait for them, in vain.
            for listener in self.sockets:
                listener.close()

    def notify(self) -> None:
        """Be called about every second, by gunicorn."""
        super().notify()
        self._deadlines.enforce()

    def handle(self, conn: Any) -> Any:
        """Serve a connection that has something to say. Runs in a thread."""
        if not conn.initialized:
            _prepare(conn)
        with self._deadlines.of(conn.sock):
            return super().handle(conn)

    def _receive(self, app: Any, environ: dict[str, Any], start_response: Any) -> Any:
        """Take the whole body before Django sees the request."""
        sock, said = environ["gunicorn.socket"], environ.get("CONTENT_LENGTH", "")
        if said.isdecimal() and int(said) <= LARGEST:
            pieces = self._pieces(environ["wsgi.input"], int(said), sock)
            environ["wsgi.input"] = io.BytesIO(b"".join(pieces))
        self._deadlines.lift(sock)
        response = app(environ, start_response)
        if environ["REQUEST_METHOD"] == "HEAD":  # not every release knows that it has no body
            response.close()
            return []
        return response

    def handle_request(self, req: Any, conn: Any) -> Any:
        """Serve one request, and take what was not wanted of it."""
        answer = super().handle_request(req, conn)
        ends = time.monotonic() + _LINGER
        try:
            for _ in self._pieces(req.body, _LONGEST_LINGER, conn.sock):
                if time.monotonic() > ends:
                    break
        except Exception:  # noqa: BLE001 - whatever it is, it was not wanted
            return False
        return answer

    def _pieces(self, body: Any, length: int, sock: socket.socket) -> Iterator[bytes]:
        while length > 0:
            self._deadlines.set(sock)
            piece = body.read(min(length, PIECE))
            if not piece:
                return
            length -= len(piece)
            yield piece


def _prepare(conn: Any) -> None:
    """Limit what a new connection may keep a thread waiting for."""
    with contextlib.suppress(OSError):
        limit = struct.pack("ll", int(PATIENCE), 0)
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    wait = getattr(conn, "wait_for_data", None)
    if wait is not None:
        # Before it leaves that to the main loop, as older releases do at once.
        conn.wait_for_data = lambda seconds: wait(0)


class _Deadlines:
    """When each client must have sent something. Who has not is cut off."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_socket: dict[socket.socket, float] = {}

    @contextlib.contextmanager
    def of(self, sock: socket.socket) -> Iterator[None]:
        self.set(sock)
        try:
            yield
        finally:
            self.lift(sock)

    def set(self, sock: socket.socket) -> None:
        with self._lock:
            self._by_socket[sock] = time.monotonic() + PATIENCE

    def lift(self, sock: socket.socket) -> None:
        with self._lock:
            self._by_socket.pop(sock, None)

    def enforce(self) -> None:
        """Have the threads that wait for a late client read the end of what it sends."""
        now = time.monotonic()
        with self._lock:
            for sock, deadline in self._by_socket.items():
                if now > deadline:
                    with contextlib.suppress(OSError):
                        sock.shutdown(socket.SHUT_RD)
