"""A leased job as the message of its retry carries it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

from vtrr_django.domain.job import LeasedJob
from vtrr_django.domain.payload import load_payload
from vtrr_django.exceptions import ValidationError

RETRIED: Final = "vtrr_job"
"""The only argument a message of ours may have: the job that a retry runs again."""

OLD_RETRIED: Final = "task_payload"
"""What a retry's message of vtrr-queue 0.1 carries: a job that is nowhere else."""


def dump_job(job: LeasedJob) -> dict[str, Any]:
    """Return what a message needs to say about a job, as any serializer can carry it.

    Arguments travel as text: to Celery's JSON ``{"__type__": ..., "__value__": ...}`` is a type
    of its own, or an error, and others have their limits, as MessagePack for integers.
    """
    values = {field.name: getattr(job, field.name) for field in fields(job)}
    body = {"args": values.pop("args"), "kwargs": values.pop("kwargs")}
    return {
        "payload": json.dumps(body, separators=(",", ":")),
        **{
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in values.items()
        },
    }


def load_job(values: Mapping[str, Any]) -> LeasedJob:
    """Return the job that :func:`dump_job` wrote down.

    Raises:
        ValidationError: the message is not one of ours.
    """
    try:
        ready_at = values.get("ready_at")
        args, kwargs = load_payload(values["payload"])
        return LeasedJob(
            **{
                **{name: value for name, value in values.items() if name != "payload"},
                "args": args,
                "kwargs": kwargs,
                "enqueued_at": datetime.fromisoformat(values["enqueued_at"]),
                "lease_expires_at": datetime.fromisoformat(values["lease_expires_at"]),
                "ready_at": None if ready_at is None else datetime.fromisoformat(ready_at),
            }
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValidationError(RETRIED, f"expected a job, got {error}") from error
