"""Pausing and resuming, and bringing dead letters back."""

from __future__ import annotations

from typing import Any, Final

from vtrr_django.api.endpoint import REQUEUE, Call, endpoint
from vtrr_django.domain.values import check_partition_key
from vtrr_django.exceptions import ValidationError

MOST_REQUEUED: Final = 1000
"""In one request."""


@endpoint(read=False)
def pause(call: Call) -> Any:
    """Stop giving out jobs, of the queue or of one partition."""
    key = _partition_key(call)
    call.queue.pause(key)
    return {"done": True}


@endpoint(read=False)
def resume(call: Call) -> Any:
    """Undo a pause."""
    key = _partition_key(call)
    call.queue.resume(key)
    return {"done": True}


def _partition_key(call: Call) -> str | None:
    call.only("partition_key")
    if not call.has("partition_key"):
        return None
    return check_partition_key(call.values["partition_key"], "partition_key", required=False)


@endpoint(read=False, permission=REQUEUE)
def requeue(call: Call) -> Any:
    """Bring dead letters back: some, or the oldest."""
    call.only("ids", "limit")
    if call.has("ids") == call.has("limit"):
        both = "both" if call.has("ids") else "neither"
        raise ValidationError("ids", f"expected ids or limit, got {both}")
    if call.has("limit"):
        limit = call.whole("limit", 1, MOST_REQUEUED)
        return {"ids": call.queue.requeue(limit=limit)}
    ids = call.ids("ids", 1, MOST_REQUEUED)
    return {"ids": call.queue.requeue(ids)}
