"""The HTTP API in memory, as ``httpx.MockTransport`` wants it, with faults on order."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import httpx

from vtrr_django.client.remote import RemoteQueue
from vtrr_django.domain import signature

SECRET = "open sesame"
MOMENT = "2026-11-30T12:00:00.000000Z"

Answer = Callable[[], httpx.Response]
Fault = Callable[[Answer], httpx.Response]


def lost(answer: Answer) -> httpx.Response:
    """Do what was asked; the answer gets lost."""
    answer()
    raise httpx.ReadError("connection reset")


def silent(answer: Answer) -> httpx.Response:
    raise httpx.ReadTimeout("timed out")


def unsent(answer: Answer) -> httpx.Response:
    raise httpx.ConnectError("connection refused")


def says(status: int, body: Any = None, **headers: str) -> Fault:
    """Answer that, whatever was asked; ``body`` is JSON, or bytes as they are."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda answer: httpx.Response(status, content=raw, headers=told)


async def no_thread(*arguments: Any, **options: Any) -> None:
    """Stand for ``sync_to_async`` where an event loop needs none."""
    raise AssertionError("a thread was asked to do what an event loop can")


@dataclass
class Seen:
    """One request as it came."""

    method: str
    path: str
    headers: httpx.Headers
    body: Any
    read_timeout: float


@dataclass
class FakeApi:
    """One queue, first-in first-out. Each of ``faults`` befalls one request, in order."""

    secret: str | None = SECRET
    prefix: str = ""
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    ready: deque[str] = field(default_factory=deque)
    leases: dict[str, str] = field(default_factory=dict)
    outcomes: list[dict[str, Any]] = field(default_factory=list)
    renewals: list[dict[str, Any]] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    faults: deque[Fault] = field(default_factory=deque)
    nonces: set[str] = field(default_factory=set)

    def queue(self, name: str = "default", **options: Any) -> RemoteQueue:
        options = {"base_url": f"http://jobs.test{self.prefix}", "secret": self.secret} | options
        transport = httpx.MockTransport(self.handle)
        return RemoteQueue(name, http_options={"transport": transport}, **options)

    def handle(self, request: httpx.Request) -> httpx.Response:
        raw_path = request.url.raw_path.decode()
        self.seen.append(
            Seen(
                request.method,
                raw_path,
                request.headers,
                json.loads(request.content or b"null"),
                request.extensions["timeout"]["read"],
            )
        )
        fault = self.faults.popleft() if self.faults else None
        return self.answer(request) if fault is None else fault(lambda: self.answer(request))

    def answer(self, request: httpx.Request) -> httpx.Response:
        if not self._lets_in(request):
            return httpx.Response(401, json={"error": "unauthorized"})
        path = unquote(request.url.raw_path.decode()).removeprefix(self.prefix)
        _, queue, what = path.split("/")
        body = json.loads(request.content or b"null")
        return httpx.Response(200, json=getattr(self, f"_{what}")(queue, body))

    def _lets_in(self, request: httpx.Request) -> bool:
        if self.secret is None:
            return signature.SIGNATURE not in request.headers
        nonce = request.headers[signature.NONCE]
        if nonce in self.nonces:
            return False
        self.nonces.add(nonce)
        path, _, query = request.url.raw_path.decode().partition("?")
        message = signature.canonical(
            request.method,
            unquote(path),
            query,
            timestamp=request.headers[signature.TIMESTAMP],
            nonce=nonce,
            body=request.content,
        )
        given = request.headers[signature.SIGNATURE].encode()
        return signature.verify(given, [self.secret], message)

    # -- the API -------------------------------------------------------------------

    def _jobs(self, queue: str, body: Any) -> Any:
        jobs = body.get("jobs", [body])
        for job in jobs:
            if self.jobs.setdefault(job["id"], job) is job:
                self.ready.append(job["id"])
        return {"ids": [job["id"] for job in jobs]}

    def _claim(self, queue: str, body: Any) -> Any:
        count = min(body["limit"], len(self.ready))
        return {"jobs": [self._leased(queue, self.ready.popleft()) for _ in range(count)]}

    def _leased(self, queue: str, job_id: str) -> dict[str, Any]:
        job = self.jobs[job_id]
        token = f"token {len(self.seen)} {job_id}"
        self.leases[token] = job_id
        return {
            "id": job_id,
            "queue": queue,
            "task": job["task"],
            "args": job["args"],
            "kwargs": job["kwargs"],
            "partition_key": job.get("partition_key", ""),
            "weight": job.get("weight", 1),
            "priority": job.get("priority", 0),
            "token": token,
            "delivery_count": 0,
            "timeouts": 0,
            "parent_id": job.get("parent_id"),
            "msg_id": job.get("msg_id"),
            "enqueued_at": MOMENT,
            "ready_at": MOMENT,
            "lease_expires_at": MOMENT,
            "of a later version": 1,
        }

    def _finish(self, queue: str, body: Any) -> Any:
        done = [self._end(outcome) for outcome in body["outcomes"]]
        jobs = self._claim(queue, body["claim"])["jobs"] if body["claim"] else []
        return {"done": done, "jobs": jobs}

    def _end(self, outcome: dict[str, Any]) -> bool:
        if self.leases.pop(outcome["token"], None) != outcome["id"]:
            return False
        self.outcomes.append(outcome)
        return True

    def _renew(self, queue: str, body: Any) -> Any:
        self.renewals.append(body)
        return {"done": [lease["token"] in self.leases for lease in body["leases"]]}

    def _stats(self, queue: str, body: Any) -> Any:
        return {
            "queue": queue,
            "ready": len(self.ready),
            "claimed": len(self.leases),
            **dict.fromkeys(("scheduled", "failed", "completed"), 0),
            "oldest_ready_at": MOMENT,
            "recent_runs": [{"id": "x", "completed_at": MOMENT}],
            "recent_failures": [],
        }
