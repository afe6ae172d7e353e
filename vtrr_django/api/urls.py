"""The URLs of the API and its dashboard: ``path("jobs/", include("vtrr_django.api.urls"))``."""

from __future__ import annotations

from itertools import groupby

from django.urls import URLPattern, path, register_converter
from django.urls.converters import PathConverter

from vtrr_django.api.dashboard import dashboard
from vtrr_django.api.endpoint import view
from vtrr_django.api.openapi import openapi
from vtrr_django.api.operations import OPERATIONS, Operation

app_name = "vtrr_api"


class AnyConverter(PathConverter):
    """The rest of a path, whatever it holds: an id may have a slash, and a refused one more."""

    regex = "(?s:.+)"


register_converter(AnyConverter, "vtrr_any")


def _routes() -> list[URLPattern]:
    """Return one route for each path."""
    by_path = groupby(OPERATIONS, key=lambda operation: operation.path)
    return [_route(which, list(operations)) for which, operations in by_path]


def _route(which: str, operations: list[Operation]) -> URLPattern:
    route = which.removeprefix("/").replace("{queue}", "<str:queue>")
    serve = view(**{one.method: one.endpoint for one in operations})
    return path(route.replace("{id}", "<vtrr_any:job_id>"), serve, name=operations[0].name)


urlpatterns = [
    path("", dashboard, name="dashboard"),
    path("openapi.json", view(GET=openapi), name="openapi"),
    *_routes(),
]
