"""Requests as bytes: jobs and ends of leases as JSON, a bounded number of them in one body."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from vtrr_django.domain.job import NewJob
from vtrr_django.domain.parts import packed
from vtrr_django.domain.transport import time_to_text
from vtrr_django.exceptions import ValidationError

MOST_JOBS: Final = 500
MOST_OUTCOMES: Final = 100
MOST_RENEWALS: Final = 1_000
MOST_CLAIMED: Final = 100
"""What the API takes in one request, and gives out."""

LONGEST_LEASE: Final = 86_400
LONGEST_WAIT: Final = 20.0
"""Seconds; what the API allows."""

MOST_BYTES: Final = 900_000
"""Bytes after which a body takes no more: proxies let less pass than the API's 4 MiB.

nginx takes 1 MiB unless it is told otherwise. One item that is larger goes alone.
"""

LARGEST_PAYLOAD: Final = 15 * 1024 * 1024
"""Bytes of one job's arguments; how many of them a queue takes is for the server to say."""

_PLACE = re.compile(r"jobs\[([0-9]{1,9})\]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """One request that enqueues jobs.

    Attributes:
        body: of the request.
        count: how many jobs.
        first: place of the first one in the list that the caller gave.
        path: of that list, for errors; "": the caller gave one job.
    """

    body: bytes
    count: int
    first: int
    path: str

    def told_to_caller(self, error: ValidationError) -> ValidationError:
        """Return what the server found wrong, with the path that the caller knows."""
        match = _PLACE.match(error.path)
        if match is None or not self.path:
            return error
        place = f"{self.path}[{self.first + int(match[1])}]"
        return ValidationError(place + error.path[match.end() :], error.problem)


def publications(jobs: Sequence[NewJob], path: str) -> Iterator[Publication]:
    """Yield the requests that enqueue jobs; ``path`` is that of the caller's list of them."""
    if not path:
        for first, job in enumerate(jobs):
            yield Publication(body=_dump_job(job), count=1, first=first, path="")
        return
    first = 0
    for batch in batches(map(_dump_job, jobs), MOST_JOBS):
        yield Publication(body=dump_list("jobs", batch), count=len(batch), first=first, path=path)
        first += len(batch)


def batches(items: Iterable[bytes], most: int) -> Iterator[list[bytes]]:
    """Yield items in order, as many together as fit into one request, at least one."""
    return packed(items, len, largest=MOST_BYTES, most=most)


def dump(body: object) -> bytes:
    """Return JSON in UTF-8."""
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode()


def dump_list(name: str, items: Iterable[bytes], more: Mapping[str, Any] | None = None) -> bytes:
    """Return the JSON object ``{name: [items], **more}`` of items that are JSON already."""
    rest = b"," + dump(more)[1:] if more else b"}"
    return b'{"' + name.encode() + b'":[' + b",".join(items) + b"]" + rest


def _dump_job(job: NewJob) -> bytes:
    told: dict[str, Any] = {"id": job.id, "task": job.task_name, "weight": job.weight}
    more = {
        "partition_key": job.partition_key,
        "priority": job.priority,
        "delay": job.delay,
        "scheduled_at": time_to_text(job.due_at),
        "msg_id": job.msg_id,
        "parent_id": job.parent_id,
    }
    told |= {name: value for name, value in more.items() if value}
    # The payload is the text of an object, {"args": [...], "kwargs": {...}}, checked already.
    return job.payload[:-1].encode() + b"," + dump(told)[1:]
