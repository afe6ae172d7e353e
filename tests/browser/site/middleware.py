"""What every answer of the site passes through."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest, HttpResponse

GetResponse = Callable[[HttpRequest], HttpResponse]

REPORTS = "report-uri /csp-report"

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
        REPORTS,
    ]
)


def fresh_content_types(get_response: GetResponse) -> GetResponse:
    """Forget content types: after each test the database is emptied behind this process's back."""

    def middleware(request: HttpRequest) -> HttpResponse:
        ContentType.objects.clear_cache()
        return get_response(request)

    return middleware


def strict_policy(get_response: GetResponse) -> GetResponse:
    """Allow the browser what comes from this site in files of its own, and nothing else.

    A page with a policy of its own keeps it; here the browser also reports what goes against it.
    """
    answer = fresh_content_types(get_response)

    def middleware(request: HttpRequest) -> HttpResponse:
        response = answer(request)
        own = response.get("Content-Security-Policy")
        response["Content-Security-Policy"] = f"{own}; {REPORTS}" if own else POLICY
        return response

    return middleware
