"""What the site keeps for the test to ask: reports of the browser, and its own log."""

from __future__ import annotations

import logging

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

_reports: list[str] = []
_logged: list[tuple[int, str]] = []


class Keeper(logging.Handler):
    """Keeps every record as ``(level, text with traceback)``."""

    def emit(self, record: logging.LogRecord) -> None:
        _logged.append((record.levelno, self.format(record)))


@csrf_exempt
def report(request: HttpRequest) -> HttpResponse:
    """Take what the browser says of a page that went against the policy."""
    _reports.append(request.body.decode())
    return HttpResponse(status=204)


def told(request: HttpRequest) -> JsonResponse:
    """Return what was kept, and forget it."""
    answer = {"reports": _reports[:], "logged": _logged[:]}
    _reports.clear()
    _logged.clear()
    return JsonResponse(answer)


def icon(request: HttpRequest) -> HttpResponse:
    """Browsers ask for it; were it missing, they would say so."""
    return HttpResponse(status=204)


def probe(request: HttpRequest) -> HttpResponse:
    """Return a page that does all that no page may do, so that one sees it noticed."""
    return HttpResponse(
        "<!doctype html><title>probe</title><script>document.title = 'ran'</script>"
        "<script src='/probe.js'></script><style>body { color: red }</style>"
    )


def dialog(request: HttpRequest) -> HttpResponse:
    """Return a script that opens a dialog."""
    script = "addEventListener('load', () => setTimeout(() => alert(1)))"
    return HttpResponse(script, content_type="text/javascript")
