"""Endpoints that tell what they got, and one for each way to go wrong."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.urls import path, re_path

from vtrr_django import exceptions
from vtrr_django.api.endpoint import Call, Refused, endpoint, not_found, view

ERRORS: dict[str, Exception] = {
    "validation": exceptions.ValidationError("jobs[3].weight", "expected 1, got 2"),
    "whole": exceptions.ValidationError("", "expected a job"),
    "duplicate": exceptions.DuplicateJobError("another job has that id"),
    "store": exceptions.StoreUnavailable("redis at SECRETHOST is down"),
    "settings": exceptions.ConfigurationError("SECRETSETTING is wrong"),
    "queue": exceptions.UnknownQueueError("no such queue"),
    "operational": OperationalError("SECRETHOST"),
    "interface": InterfaceError("SECRETHOST"),
    "suspicious": SuspiciousOperation("SECRET"),
    "refused": Refused(409, "gone", more={"done": False}, headers={"x-more": "yes"}),
    "bug": ZeroDivisionError("a bug"),
}


@endpoint(read=False)
def echo(call: Call) -> dict[str, Any]:
    return {"body": dict(call.body), "user": call.user_name}


@endpoint(read=True, query=("n", "text"))
def who(call: Call, **path: str) -> dict[str, Any]:
    return {"user": call.user_name, "query": dict(call.query), **path}


@endpoint(read=False, query=("n",))
def remove(call: Call, **path: str) -> dict[str, Any]:
    return {"n": call.whole("n", 1, 10, default=1), "seconds": call.seconds_or_none("n"), **path}


@endpoint(read=False, permission="vtrr_django.requeue_jobs")
def named(call: Call) -> dict[str, Any]:
    return {"queue": call.queue.name}


@endpoint(read=True, auth=False)
def public(call: Call) -> dict[str, Any]:
    return {"user": call.user_name, "nothing": call.known_queue is None}


@endpoint(read=True, auth=False)
def fail(call: Call, name: str) -> dict[str, Any]:
    raise ERRORS[name]


urlpatterns = [
    path("echo", view(POST=echo, PATCH=echo)),
    path("who", view(GET=who, POST=echo)),
    path("public", view(GET=public)),
    path("fail/<str:name>", view(GET=fail)),
    path("<str:queue>/named", view(POST=named, PATCH=named)),
    path("jobs/<path:id>", view(GET=who, DELETE=remove)),
    re_path("", not_found),
]
