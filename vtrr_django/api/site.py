"""The URLs of ``vtrr_serve``: those of the API, and for all others a 404 in its words."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import include, path, re_path

from vtrr_django.api.answers import Refused
from vtrr_django.api.endpoint import not_found

urlpatterns = [path("", include("vtrr_django.api.urls")), re_path("", not_found)]


def handler400(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request that Django does not let through to any view."""
    return Refused(400, "expected a request as a browser or client makes it").answer()


def handler500(request: HttpRequest) -> HttpResponse:
    """Answer when nobody foresaw an error; Django has logged it."""
    return Refused(500, "an error that nobody foresaw; the server's log has it").answer()
