"""What every answer of the site passes through."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest, HttpResponse

GetResponse = Callable[[HttpRequest], HttpResponse]

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "report-uri /csp-report",
    ]
)


def fresh_content_types(get_response: GetResponse) -> GetResponse:
    """Forget content types: after each test the database is emptied behind this process's back."""

    def middleware(request: HttpRequest) -> HttpResponse:
        ContentType.objects.clear_cache()
        return get_response(request)

    return middleware


def strict_policy(get_response: GetResponse) -> GetResponse:
    """Allow the browser what comes from this site in files of its own, and nothing else."""
    answer = fresh_content_types(get_response)

    def middleware(request: HttpRequest) -> HttpResponse:
        response = answer(request)
        response["Content-Security-Policy"] = POLICY
        return response

    return middleware
