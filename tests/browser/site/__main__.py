"""The site as a process: says its port, and ends when nobody holds its input any more."""

from __future__ import annotations

import sys
import threading
from typing import Any

import django
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application

from tests.browser.site.choices import BATCH


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of each request."""


def main() -> None:
    """Serve until the test run ends, however it ends."""
    django.setup()
    from vtrr_django.admin import bulk_step

    # A few batches of a few letters, not several of thousands, make a long run.
    bulk_step.SECONDS, bulk_step.CHUNK = 0.0, BATCH  # type: ignore[misc]
    server = ThreadedWSGIServer(("127.0.0.1", 0), _Quiet)
    server.set_app(StaticFilesHandler(get_wsgi_application()))

    def end() -> None:
        sys.stdin.read()
        server.shutdown()

    threading.Thread(target=end, daemon=True).start()
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever(poll_interval=0.05)
    server.server_close()


if __name__ == "__main__":
    main()
