"""A proxy before the API, as nginx is when nobody has told it anything."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from tests.client.fakes import FakeApi

LARGEST = 1024 * 1024
"""nginx's ``client_max_body_size``."""

PAGE = (
    "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n"
    "<hr><center>nginx/1.24.0</center>\r\n</body>\r\n</html>\r\n"
)


def page(title: str) -> bytes:
    """Return what nginx answers by itself, such as ``502 Bad Gateway``."""
    return PAGE.format(title).encode()


@contextmanager
def proxy_before(api: FakeApi) -> Iterator[str]:
    """Yield the address of a proxy, on a socket of its own, that hands requests to ``api``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            if length > LARGEST:
                self.answer(413, "text/html", page("413 Request Entity Too Large"))
                self.discard(length)  # as nginx does: it does not hang up on who still sends
                return
            asked = httpx.Request(
                "POST",
                f"http://jobs.test{self.path}",
                headers=self.headers.items(),
                content=self.rfile.read(length),
                extensions={"timeout": {"read": None}},
            )
            told = api.handle(asked)
            self.answer(told.status_code, "application/json", told.content)

        def answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            if status == 413:
                self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(body)

        def discard(self, length: int) -> None:
            self.wfile.flush()
            self.close_connection = True
            while length > 0 and (some := self.rfile.read(min(length, 65_536))):
                length -= len(some)

        def log_message(self, *arguments: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
