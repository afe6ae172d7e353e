"""The dashboard: one page, complete in itself, that asks the API for all it shows.

It is put together from the files in ``page``. Everybody may have it: nothing of the project is
in it. Its policy lets run the one script, and hold the one style, whose digests it names, and
talk to nobody but the server it came from.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from importlib import resources
from typing import Final

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.utils.html import format_html
from django.views.decorators.csrf import csrf_exempt, ensure_csrf_cookie

from vtrr_django.api.answers import Refused
from vtrr_django.api.auth import Caller, authenticate
from vtrr_django.connections import outside_transactions

SCRIPTS: Final = (
    *("parts", "asking", "looking", "tables", "plots"),
    *("list", "dialogs", "queue", "start"),
)
"""In this order they make the script of the page."""

logger = logging.getLogger("vtrr_django.api")

_META: Final = '<meta name="vtrr">'


def _source(name: str) -> str:
    return resources.files("vtrr_django.api").joinpath("page", name).read_text("utf-8")


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


STYLE: Final = _source("dashboard.css")
SCRIPT: Final = "\n".join(_source(f"{name}.js") for name in SCRIPTS)
PAGE: Final = (
    _source("dashboard.html")
    .replace("<style></style>", f"<style>{STYLE}</style>")
    .replace("<script></script>", f"<script>{SCRIPT}</script>")
)

POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "connect-src 'self'",
        "img-src data:",  # the icon
        f"style-src {_digest(STYLE)}",
        f"script-src {_digest(SCRIPT)}",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # No text may become markup, even by a mistake in the script.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)

_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Django's check for CSRF wants the origin of what a page sends.
    "Referrer-Policy": "same-origin",
    # Who leaves it and comes back does not find it as it was, with the secret in it.
    "Cache-Control": "no-store",
}


def dashboard(request: HttpRequest) -> HttpResponse:
    """Return the page; GET and HEAD only.

    It learns whether the API lets whoever asks in without a secret, and if it is staff who
    may, the token without which no form of Django's is taken.
    """
    if request.method not in {"GET", "HEAD"}:
        message = f"expected GET, HEAD, got {request.method}"
        return Refused(405, message, headers={"Allow": "GET, HEAD"}).answer()
    caller = _caller(request)
    if caller is None:
        return _page(_META)
    if caller.user is None:
        return _page('<meta name="vtrr" data-open="yes">')
    return _page_for_staff(request)


# Who has only the secret has no user. And a POST is told that it is none of this page's methods.
dashboard = outside_transactions(login_not_required(csrf_exempt(dashboard)))


def _caller(request: HttpRequest) -> Caller | None:
    """Return whom the API lets in as this request comes; None: nobody, or it cannot say."""
    try:
        return authenticate(request, b"")
    except Refused:
        return None
    except Exception as error:  # noqa: BLE001 - the sessions may be in a database that is down
        logger.warning("who asks could not be found out (%s)", type(error).__name__)
        return None


@ensure_csrf_cookie
def _page_for_staff(request: HttpRequest) -> HttpResponse:
    header = settings.CSRF_HEADER_NAME.removeprefix("HTTP_").replace("_", "-")
    return _page(
        format_html(
            '<meta name="vtrr" data-open="yes" data-csrf="{}" data-csrf-header="{}">',
            get_token(request),
            header,
        )
    )


def _page(meta: str) -> HttpResponse:
    response = HttpResponse(PAGE.replace(_META, meta, 1))
    for name, value in _HEADERS.items():
        response[name] = value
    return response
