"""A threaded web server on the loopback interface: ``python -m example_project.webserver``.

It is made of what Django and Python bring, so that the example needs nothing else. Behind
a real site stands a real server: ``gunicorn example_project.wsgi`` and the like.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from django.core.servers.basehttp import (
    ThreadedWSGIServer,
    WSGIRequestHandler,
    get_internal_wsgi_application,
)

HOST = "127.0.0.1"


class Server(ThreadedWSGIServer):
    request_queue_size = 64


def bind(port: int, *, or_any: bool) -> Server:
    """Return a server that listens already; ``or_any``: on a free port if ``port`` is taken."""
    try:
        return Server((HOST, port), WSGIRequestHandler)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or not or_any:
            raise
    return Server((HOST, 0), WSGIRequestHandler)


def announce(address: str, path: Path) -> None:
    """Write ``address`` to ``path`` in one step, for the process that waits for it."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(address, "ascii")
    draft.replace(path)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m example_project.webserver")
    parser.add_argument("--port", type=int, default=0, help="default: any free port")
    parser.add_argument("--or-any", action="store_true", help="a free port if that one is taken")
    parser.add_argument("--announce", type=Path, help="file to write the address to")
    options = parser.parse_args(argv)

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
    signal.signal(signal.SIGTERM, _leave)
    application = get_internal_wsgi_application()
    with (
        contextlib.suppress(KeyboardInterrupt),
        bind(options.port, or_any=options.or_any) as server,
    ):
        server.set_app(application)
        address = f"http://{HOST}:{server.server_address[1]}/"
        if options.announce:
            announce(address, options.announce)
        else:
            print(f"Serving {address}", flush=True)
        server.serve_forever()
    return 0


def _leave(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
