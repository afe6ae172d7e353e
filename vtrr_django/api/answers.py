"""What the API answers: JSON, whether it did as it was told or not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.http import HttpResponse

from vtrr_django.domain.transport import time_to_text

JSON: Final = "application/json"


class Refused(Exception):
    """A request is answered with an error.

    Args:
        status: from 400 on.
        message: a sentence for whoever wrote the client.
        path: the field to blame; "": none.
        headers: of the answer.
        more: further keys of the answer.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        path: str = "",
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        self.status = status
        self.message = message
        self.path = path
        self.headers = headers or {}
        self.more = more or {}
        super().__init__(message)

    def answer(self) -> HttpResponse:
        """Return it as what the client gets."""
        told = {"error": self.message, **self.more}
        if self.path:
            told["path"] = self.path
        response = answer(told, self.status)
        for name, value in self.headers.items():
            response[name] = value
        if self.status == 503:
            # Said already, and Django would mail it to ADMINS, for each request of an outage.
            response._has_been_logged = True  # type: ignore[attr-defined]
        return response


def answer(body: Mapping[str, Any] | list[Any], status: int = 200) -> HttpResponse:
    """Return a response; moments in it become RFC 3339 in UTC."""
    # ASCII only: what was stored by others may hold a lone surrogate, which UTF-8 cannot.
    text = json.dumps(body, allow_nan=False, separators=(",", ":"), default=_told)
    response = HttpResponse(text, content_type=JSON, status=status)
    response["Content-Length"] = str(len(response.content))
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _told(value: object) -> Any:
    if isinstance(value, datetime):
        return time_to_text(value)
    raise TypeError(f"expected JSON or datetimes, got {type(value).__name__}")
