"""Jobs and outcomes as JSON, for the HTTP API and its client. Times are RFC 3339 in UTC."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from vtrr_django.domain.job import LeasedJob, Outcome, OutcomeKind

_JOB_FIELDS: Final = (
    *("id", "queue", "args", "kwargs", "partition_key", "weight", "priority", "token"),
    *("delivery_count", "timeouts", "parent_id", "msg_id"),
)
_JOB_TIMES: Final = ("enqueued_at", "lease_expires_at", "ready_at")


def time_to_text(moment: datetime | None) -> str | None:
    """Return a moment as ``2026-11-30T12:00:00.000000Z``, or None."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def time_from_text(text: str | None) -> datetime | None:
    """Return the moment of a text with an offset; None for None.

    Raises:
        ValueError: it is not one.
    """
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    if moment.utcoffset() is None:
        raise ValueError(f"expected a time with an offset, such as Z, got {text!r}")
    return moment.astimezone(UTC)


def job_to_json(job: LeasedJob, token: str) -> dict[str, Any]:
    """Return a leased job as JSON, under the token by which its holder ends the lease."""
    told = {name: getattr(job, name) for name in _JOB_FIELDS}
    times = {name: time_to_text(getattr(job, name)) for name in _JOB_TIMES}
    return {**told, "task": job.task_name, "token": token, **times}


def job_from_json(body: Mapping[str, Any]) -> LeasedJob:
    """Undo :func:`job_to_json`.

    Raises:
        KeyError, TypeError, ValueError: it is no job.
    """
    fields = {name: body[name] for name in _JOB_FIELDS}
    times: dict[str, Any] = {name: time_from_text(body[name]) for name in _JOB_TIMES}
    return LeasedJob(task_name=body["task"], **fields, **times)


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """Return the end of a lease as JSON; what is at its default is left out."""
    told: dict[str, Any] = {
        "kind": outcome.kind.value,
        "id": outcome.job_id,
        "token": outcome.token,
    }
    for name in ("delay", "reason", "error_class", "traceback", "runtime"):
        value = getattr(outcome, name)
        if value:
            told[name] = value
    return told


KINDS: Final = tuple(kind.value for kind in OutcomeKind)
"""What an outcome's ``kind`` may be."""
