"""Asking the API, in the process of the test, as somebody on the same machine does."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from django.test import Client


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: Any

    @property
    def told(self) -> tuple[int, Any]:
        """What the client is told, without the headers."""
        return self.status, self.body


class Api:
    """One queue, over HTTP.

    Args:
        name: of the queue.
        headers: of all requests.
    """

    def __init__(self, name: str, **headers: str) -> None:
        self.name = name
        self.headers = headers
        self.client = Client(HTTP_HOST="localhost")

    def send(
        self,
        method: str,
        address: str,
        body: bytes | None = None,
        *,
        kind: str = "application/json",
        **headers: str,
    ) -> Answer:
        """Send a body as it is to an address that is encoded."""
        if body is not None:  # Django's client tells nothing of an empty one
            headers |= {"CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": kind}
        response = self.client.generic(method, address, body or b"", kind, **headers)
        found: Any = response.content
        if found and response["Content-Type"] == "application/json":
            found = json.loads(found)
        return Answer(response.status_code, found, response.headers)

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Answer:
        """Ask about the queue; ``body`` becomes JSON."""
        address = f"/{self.name}/{path}" + (f"?{urlencode(query)}" if query else "")
        raw = None if body is None else json.dumps(body).encode()
        return self.send(method, address, raw)

    def get(self, path: str, **query: Any) -> Answer:
        return self.ask("GET", path, **query)

    def post(self, path: str, body: Any) -> Answer:
        return self.ask("POST", path, body)

    # -- what is done all the time -------------------------------------------------

    def publish(self, *jobs: dict[str, Any], task: str = "t") -> list[str]:
        found = self.post("jobs", {"jobs": [{"task": task, **job} for job in jobs]})
        assert found.status == 201, found
        ids: list[str] = found.body["ids"]
        return ids

    def claim(self, limit: int = 1, worker_id: str = "w", **more: Any) -> list[dict[str, Any]]:
        found = self.post("claim", {"worker_id": worker_id, "limit": limit, **more})
        assert found.status == 200, found
        jobs: list[dict[str, Any]] = found.body["jobs"]
        return jobs

    def ack(self, job: dict[str, Any], **more: Any) -> Answer:
        return self.ask("DELETE", self.path_of(job), token=job["token"], **more)

    def change(self, job: dict[str, Any], action: str, **more: Any) -> Answer:
        body = {"action": action, "token": job["token"], **more}
        return self.ask("PATCH", self.path_of(job), body)

    @staticmethod
    def path_of(job: dict[str, Any]) -> str:
        return f"jobs/{quote(job['id'], safe='')}"
