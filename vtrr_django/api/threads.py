"""gunicorn's worker with threads, none of which waits for what a client sends.

gunicorn gives a thread to a connection as soon as a byte has come, and has no limit for how long
the rest may take. Here the main loop of a process gathers each request first.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import selectors
import signal
import socket
import struct
import sys
import termios
import time
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from gunicorn.http.errors import ConfigurationProblem, InvalidHeader
from gunicorn.workers.base import Worker
from gunicorn.workers.gthread import ThreadWorker

from vtrr_django.api import polling
from vtrr_django.api.answers import Refused
from vtrr_django.api.gathering import PATIENCE, SILENCE, SLOWEST, Incoming, raw_answer

PIECE: Final = 256 * 1024
"""Bytes that are read at once."""

MOST_HELD: Final = 128 * 1024 * 1024
"""Bytes of requests that a process holds. If there are more, the largest that is not complete
is given up."""

SMALL: Final = 128 * 1024
"""Bytes of an answer that the system takes off a thread's hands at once, as long as the client
has read those before. All that strangers get is small."""

UNREAD: Final = 4096
"""Bytes of answers that a client has not even received; with more it is given no other yet."""

TAKING: Final = 15.0
"""Seconds that is waited for a client to receive its answers, and that a thread waits for it to
take more of a large one."""

LATE: Final = (
    f"expected the whole request within {PATIENCE:g} s, and a second for each {SLOWEST:,} bytes of "
    "its body, got part of one"
)

ENDING: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGQUIT})
"""With these the arbiter, or a terminal, ends a process."""

LINGER, LINGER_AT_END = 10.0, 2.0
"""Seconds in which what nobody wants is taken, so that its sender comes to read why; the second
while the server ends."""


class ThreadedWorker(ThreadWorker):  # type: ignore[misc]
    """Runs ``handle``, and what that calls, in threads, and all else in its main loop."""

    wsgi: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._gathering: dict[Any, Incoming] = {}
        self._taking: dict[Any, float] = {}
        self._leaving: dict[Any, float] = {}
        self._held = 0
        self._looks_at = 0.0

    def init_signals(self) -> None:
        super().init_signals()
        # Ctrl-C reaches all processes of the terminal: the arbiter passes on what it means.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)

    def load_wsgi(self) -> None:
        super().load_wsgi()
        self.wsgi = partial(_receive, self.wsgi)

    def handle_exit(self, sig: int, frame: Any) -> None:
        super().handle_exit(sig, frame)
        polling.waits.end()

    def is_parent_alive(self) -> bool:
        """Find out whether the arbiter lives; if not, end as on SIGTERM.

        Nobody is left who would send that, and until the listeners are closed no other server
        gets the port, and whoever connects waits for these processes in vain.
        """
        alive = bool(super().is_parent_alive())
        if not alive:
            self.handle_exit(signal.SIGTERM, None)
        return alive

    def handle_quit(self, sig: int, frame: Any) -> None:
        # Not gunicorn's own: it ends the pool, by a lock that the main loop may hold just now.
        # The pool ends with the process.
        Worker.handle_quit(self, sig, frame)

    def set_accept_enabled(self, enabled: bool) -> None:
        super().set_accept_enabled(enabled)
        if not enabled and not self.alive:
            # Else who connects while the last requests finish would wait for them, in vain.
            for listener in self.sockets:
                listener.close()

    # -- a request comes -----------------------------------------------------------

    def enqueue_req(self, conn: Any) -> None:
        """Serve the next request of a connection once it is there."""
        if not hasattr(conn, "incoming"):
            conn.incoming = Incoming()
            with contextlib.suppress(OSError):
                limit = struct.pack("ll", int(TAKING), 0)
                conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        conn.taken = 0
        conn.sock.setblocking(False)
        if _unread(conn.sock) > UNREAD:
            self._taking[conn] = time.monotonic()
        else:
            self._gather(conn)

    def _gather(self, conn: Any) -> None:
        conn.incoming.start()
        self._gathering[conn] = conn.incoming
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._read, conn))
        if conn.incoming:
            self._feed(conn, b"")
        else:
            self._read(conn)

    def _read(self, conn: Any, _: Any = None) -> None:
        if conn not in self._gathering:  # given up while others were read
            return
        try:
            piece = conn.sock.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if piece:
            self._feed(conn, piece)
        elif conn.incoming.began:
            self._turn_away(conn, 400, "expected a whole request, got part of one")
        else:
            self._drop(conn)

    def _feed(self, conn: Any, piece: bytes) -> None:
        incoming = conn.incoming
        self._held += len(piece)
        try:
            incoming.feed(piece)
        except Refused as refused:
            self._turn_away(conn, refused.status, refused.message)
            return
        if incoming.complete:
            self._forget(conn)
            super().enqueue_req(conn)
            return
        if incoming.wants_leave:
            incoming.wants_leave = False
            with contextlib.suppress(OSError):
                conn.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self._held > MOST_HELD:
            largest = max(self._gathering, key=lambda one: len(one.incoming))
            self._turn_away(largest, 503, "the server holds too much; try again")

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        """Do what there is to do, and give up clients that are late."""
        super().wait_for_and_dispatch_events(timeout=min(timeout, 1.0))
        now = time.monotonic()
        if now >= self._looks_at:
            self._looks_at = now + 0.5
            self._go_on(now)
            self._give_up(now)

    def _go_on(self, now: float) -> None:
        """Hear those who have received their answers, and not those who do not."""
        for conn, since in list(self._taking.items()):
            if _unread(conn.sock) <= UNREAD:
                del self._taking[conn]
                self._gather(conn)
            elif now > since + TAKING:
                del self._taking[conn]
                self._drop(conn)

    def _give_up(self, now: float) -> None:
        linger, silence = (LINGER, SILENCE) if self.alive else (LINGER_AT_END, LINGER_AT_END)
        if not self.alive:  # gunicorn before 27 would keep these as long as ever
            for conn in self.keepalived_conns:
                conn.timeout = min(conn.timeout, now + LINGER_AT_END)
        for conn in [one for one, since in self._leaving.items() if now > since + linger]:
            self._drop(conn)
        late = [one for one, held in self._gathering.items() if now > held.deadline(silence)]
        if self.nr_conns >= self.worker_connections:
            # Others want to be heard too: those who take longest go first.
            some = self.worker_connections // 10
            for conn in list(self._leaving)[:some]:
                self._drop(conn)
            late += list(self._gathering)[:some]
        for conn in dict.fromkeys(late):
            if conn.incoming.began:
                self._turn_away(conn, 408, LATE)
            else:
                self._drop(conn)

    # -- a connection ends ---------------------------------------------------------

    def finish_request(self, conn: Any, fs: Any) -> None:
        """Go on with a connection that was served, or end it."""
        self._held -= conn.taken
        kept = not fs.cancelled() and fs.exception() is None and fs.result()
        if not kept:
            self._linger(conn)
        elif conn.incoming:
            self.enqueue_req(conn)
        else:
            super().finish_request(conn, fs)

    def _turn_away(self, conn: Any, status: int, message: str) -> None:
        self._forget(conn)
        with contextlib.suppress(OSError):
            conn.sock.send(raw_answer(status, message))
        self._linger(conn)

    def _linger(self, conn: Any) -> None:
        """End a connection, but first take what still comes, until the client has read why."""
        self._held -= len(conn.incoming)
        conn.incoming = Incoming()
        try:
            conn.sock.setblocking(False)
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._drop(conn)
            return
        self._leaving[conn] = time.monotonic()
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._discard, conn))

    def _discard(self, conn: Any, _: Any) -> None:
        if conn not in self._leaving:
            return
        try:
            more = conn.sock.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            more = b""
        if not more:
            self._drop(conn)

    def _forget(self, conn: Any) -> None:
        """Read no more of a connection."""
        known = self._gathering.pop(conn, None) is not None
        if self._leaving.pop(conn, None) is not None or known:
            self.poller.unregister(conn.sock)

    def _drop(self, conn: Any) -> None:
        self._forget(conn)
        self._held -= len(conn.incoming)
        self.nr_conns -= 1
        conn.close()

    # -- in a thread ---------------------------------------------------------------

    def handle(self, conn: Any) -> Any:
        """Serve a request that is there."""
        conn.init()
        head, conn.body = conn.incoming.take()
        conn.taken = len(head) + len(conn.body)
        conn.parser.unreader.unread(head)
        return super().handle(conn)

    def handle_request(self, req: Any, conn: Any) -> Any:
        """Serve it, as gunicorn has understood its head."""
        req.body = io.BytesIO(conn.body)
        if not conn.incoming.whole:
            req.force_close()  # the rest is its body, and no request
        return super().handle_request(req, conn)

    def handle_error(self, req: Any, client: Any, addr: Any, exc: Exception) -> None:
        """Answer what is no HTTP: with gunicorn's status, but in the words of the API."""
        page = _Page()
        if isinstance(exc, ConfigurationProblem):
            # gunicorn's word for it, and a 500. But proxies choose by the path that they make of
            # an address ("//jobs/", "/x/../jobs/"), and pass it on as it came.
            exc = _OutsidePrefix(str(exc), req)
        super().handle_error(req, page, addr, exc)
        message = f"expected a request as HTTP has it: {exc}"[:300]
        if isinstance(exc, _OutsidePrefix):
            message = str(exc)[:300]
        elif page.status == HTTPStatus.NOT_IMPLEMENTED:
            message = f"expected Content-Length and no Transfer-Encoding: {exc}"[:300]
        elif page.status >= 500:
            message = "an error that nobody foresaw; the server's log has it"
        with contextlib.suppress(OSError):
            client.sendall(raw_answer(page.status, message))


class _OutsidePrefix(InvalidHeader):  # type: ignore[misc]
    """An address that is not below the path that the proxy says it serves."""

    def __str__(self) -> str:
        return (
            "expected an address that begins, as it is written, with the proxy's SCRIPT_NAME, "
            f"got another: {self.hdr}"
        )


class _Page:
    """Stands for the socket to which gunicorn writes an error as HTML."""

    def __init__(self) -> None:
        self.status = 400

    def gettimeout(self) -> float:
        """Return 0: there is nothing to wait for."""
        return 0.0

    def sendall(self, data: bytes) -> None:
        """Learn the status of a page."""
        self.status = int(data.split(b" ", 2)[1])


def _receive(app: Any, environ: dict[str, Any], start_response: Any) -> Any:
    """Have Django serve a request, all of which is there."""
    if not environ["PATH_INFO"].startswith("/"):
        # "*", and the address that CONNECT names: Django would answer as any site does.
        answer = Refused(400, "expected an address that begins with /").answer()
        start_response("400 Bad Request", list(answer.items()))
        return [answer.content]
    response = app(environ, start_response)
    _make_room(environ["gunicorn.socket"], len(getattr(response, "content", b"")))
    if environ["REQUEST_METHOD"] == "HEAD":  # not every release knows that it has no body
        response.close()
        return []
    return response


def _make_room(sock: socket.socket, size: int) -> None:
    """Have the system take a small answer at once. It begins with 16 KiB."""
    if UNREAD < size <= SMALL and sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) < SMALL:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)


def _unread(sock: socket.socket) -> int:
    """Return how many bytes of answers a client has not received, where that can be told."""
    try:
        return int.from_bytes(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    except OSError:
        return 0
