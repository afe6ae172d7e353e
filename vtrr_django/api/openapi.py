"""The OpenAPI document, made of the operations, so that it tells of what there is."""

from __future__ import annotations

from typing import Any, Final

from django.conf import settings

from vtrr_django import __version__
from vtrr_django.api.answers import JSON
from vtrr_django.api.auth import USER_NAME
from vtrr_django.api.body import LARGEST, ORDINARY
from vtrr_django.api.endpoint import Call, endpoint
from vtrr_django.api.given import GIVEN, RETRY_AFTER
from vtrr_django.api.operations import OPERATIONS, PATH_SCHEMAS, Operation
from vtrr_django.api.shapes import Schema, ref
from vtrr_django.api.taken import TAKEN
from vtrr_django.domain import signature

TEXT: Final = "text/plain"

_HEADERS: Final[dict[int, dict[str, Any]]] = {
    401: {"WWW-Authenticate": {"required": True, "schema": {"const": "VTRR"}}},
    503: {"Retry-After": {"schema": {"type": "integer"}}},
}

_HANDING_OUT: Final = ("Claimed", "Finished")

_SECURITY: Final[list[dict[str, list[str]]]] = [
    {"secret": []},
    {"signature": [], "timestamp": [], "nonce": []},
    {"session": []},
]


@endpoint(read=True, auth=False)
def openapi(call: Call) -> Any:
    """Return the document. It tells of the API, and nothing of the project."""
    return document(call.request.path.rpartition("/")[0])


def document(root: str = "") -> dict[str, Any]:
    """Return the OpenAPI document of an API whose paths begin with ``root``."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "vtrr-django",
            "version": __version__,
            "description": "Background jobs that are fair between tenants.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": root or "/"}],
        "paths": paths,
        "components": {"schemas": TAKEN | GIVEN, "securitySchemes": _security_schemes()},
    }


def _operation(one: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.summary,
        "security": _security(one),
        "responses": _responses(one),
    }
    if parameters := _parameters(one):
        described["parameters"] = parameters
    if one.takes is not None:
        described["requestBody"] = {"required": True, "content": {JSON: {"schema": one.takes}}}
    return described


def _security(one: Operation) -> list[dict[str, list[str]]]:
    if one.endpoint.auth:
        return _SECURITY
    # Everybody is answered; who is known is told more.
    return [{}, *_SECURITY]


def _parameters(one: Operation) -> list[dict[str, Any]]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name, schema in PATH_SCHEMAS.items()
        if f"{{{name}}}" in one.path
    ]
    in_query = [
        {"name": name, "in": "query", "required": name in one.required, "schema": schema}
        for name, schema in one.query.items()
    ]
    return in_path + in_query


def _responses(one: Operation) -> dict[str, Any]:
    refusals = {
        400: "Something in the request is wrong: it says what, and where.",
        # Too much for the server itself, wherever these URLs are mounted.
        408: "The request came too slowly.",
        414: "The address is too long.",
        431: "The headers are too long.",
    }
    if one.endpoint.auth:
        refusals[401] = "Nobody we know."
        refusals[403] = "Staff without the permission, or without CSRF token."
        refusals[503] = "The store does not answer; try again."
    if one.has_queue:
        refusals[404] = "No queue has that name."
    if one.takes is not None:
        refusals |= {
            411: "The length of the body is not said.",
            413: f"The body has more than {ORDINARY:,} bytes; more are taken, up to {LARGEST:,}, "
            "where MAX_PAYLOAD_BYTES of the queue makes that necessary.",
            415: "The body is not called JSON, or is compressed.",
        }
    refusals |= one.refusals
    responses = {str(status): _refusal(one, status, text) for status, text in refusals.items()}
    responses[str(one.status)] = _answer("As asked.", one)
    return dict(sorted(responses.items()))


def _refusal(one: Operation, status: int, description: str) -> dict[str, Any]:
    if status == 503 and one.name == "health":
        return _answer(description, one)
    told: dict[str, Any] = {
        "description": description,
        "content": {JSON: {"schema": ref("Error")}},
    }
    if status in _HEADERS:
        told["headers"] = _HEADERS[status]
    return told


def _answer(description: str, one: Operation) -> dict[str, Any]:
    content: dict[str, Schema] = {TEXT: {"schema": {"type": "string"}}}
    if one.gives:
        content = {JSON: {"schema": ref(one.gives)}}
    described: dict[str, Any] = {"description": description, "content": content}
    if one.gives in _HANDING_OUT:
        header = {"description": RETRY_AFTER, "schema": {"type": "integer"}}
        described["headers"] = {"Retry-After": header}
    return described


def _security_schemes() -> dict[str, Any]:
    return {
        "secret": {
            "type": "http",
            "scheme": "basic",
            "description": f"User name {USER_NAME!r}; the password is the secret.",
        },
        "signature": _header(
            signature.SIGNATURE,
            "HMAC-SHA256, in hexadecimal digits, with the secret as key, of five lines and the "
            "body: the method, the percent-encoded path, the query, the time, the nonce.",
        ),
        "timestamp": _header(
            signature.TIMESTAMP,
            f"Seconds since the epoch; at most {signature.WINDOW} from the server's time.",
        ),
        "nonce": _header(
            signature.NONCE, "16 to 64 of A-Z a-z 0-9 _ -, which have not been sent before."
        ),
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": settings.SESSION_COOKIE_NAME,
            "description": "Of staff who are signed in; writes need a CSRF token too.",
        },
    }


def _header(name: str, description: str) -> dict[str, Any]:
    return {"type": "apiKey", "in": "header", "name": name, "description": description}
