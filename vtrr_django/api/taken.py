"""What the API takes."""

from __future__ import annotations

from typing import Final

from vtrr_django.api.claiming import (
    ACTIONS,
    LONGEST_LEASE,
    MOST_BYTES,
    MOST_CLAIMED,
    MOST_OUTCOMES,
    MOST_RENEWED,
    SHORTEST_LEASE,
)
from vtrr_django.api.fields import LONGEST_TEXT
from vtrr_django.api.polling import LONGEST_WAIT
from vtrr_django.api.publishing import MOST_JOBS
from vtrr_django.api.shapes import (
    JOB_ID,
    MOMENT,
    MSG_ID,
    PARTITION_KEY,
    TASK,
    TOKEN,
    Schema,
    asked,
    items,
    name,
    ref,
    seconds,
    whole,
)
from vtrr_django.api.steering import MOST_REQUEUED
from vtrr_django.domain import job as limits
from vtrr_django.domain.transport import KINDS
from vtrr_django.domain.values import MAX_DUE_YEAR, MIN_DUE_YEAR

_NO_NUL: Final = r"^[^\u0000]*$"

_WORKER_ID = name(limits.MAX_WORKER_ID_LENGTH)
_TEXT = {"type": "string", "maxLength": LONGEST_TEXT}
_VISIBILITY = seconds(
    SHORTEST_LEASE, LONGEST_LEASE, description="How long the lease lasts; LEASE_SECONDS."
)
_YEARS = "^(19[7-9][0-9]|20[0-9][0-9]|21[0-9][0-9])-"

_JOB: Final = asked(
    "task",
    task=TASK,
    args={"type": "array", "items": ref("Value"), "description": "Positional arguments; none."},
    kwargs=ref("Arguments"),
    partition_key=PARTITION_KEY,
    weight=whole(limits.MIN_WEIGHT, limits.MAX_WEIGHT, description="What it costs its tenant; 1."),
    priority=whole(
        limits.MIN_PRIORITY, limits.MAX_PRIORITY, description="Before others of its tenant; 0."
    ),
    delay=seconds(description="Until it is due. Not together with scheduled_at."),
    scheduled_at={
        **MOMENT,
        "pattern": _YEARS,
        "description": f"When it is due, of the years {MIN_DUE_YEAR} to {MAX_DUE_YEAR}.",
    },
    msg_id=MSG_ID
    | {"description": "Idempotency key: of a second job with it, the first one's id is returned."},
    parent_id=JOB_ID,
    id=JOB_ID,
) | {
    # Python's JSON knows no "either"; both may be null.
    "not": {
        "required": ["delay", "scheduled_at"],
        "properties": {"delay": {"type": "number"}, "scheduled_at": {"type": "string"}},
    }
}

_END: Final[Schema] = {
    "token": TOKEN,
    "delay": seconds(description="Until the job runs again, of a retry or a snooze; 0."),
    "reason": _TEXT,
    "error_class": _TEXT,
    "traceback": _TEXT,
    "runtime": seconds(description="How long it ran; since it was claimed."),
}


def _action(action: str) -> Schema:
    extra = {"visibility_timeout": _VISIBILITY, **_END}
    return asked(
        *("action", "token"),
        action={"const": action},
        token=TOKEN,
        runtime=_END["runtime"],
        **{key: extra[key] for key in ACTIONS[action]},
    )


TAKEN: Final[dict[str, Schema]] = {
    "Value": {
        "description": "JSON without NUL, nested at most 30 deep.",
        "anyOf": [
            {"type": ["null", "boolean", "number"]},
            {"type": "string", "pattern": _NO_NUL},
            {"type": "array", "items": ref("Value")},
            ref("Arguments"),
        ],
    },
    "Arguments": {
        "type": "object",
        "propertyNames": {"pattern": _NO_NUL},
        "additionalProperties": ref("Value"),
    },
    "Job": _JOB,
    "Jobs": asked("jobs", jobs=items(ref("Job"), 1, MOST_JOBS)),
    "Claim": asked(
        "worker_id",
        worker_id=_WORKER_ID,
        limit=whole(
            1,
            MOST_CLAIMED,
            description=f"Most jobs; 1. Never more than fit into {MOST_BYTES:,} bytes, were each "
            "as large as MAX_PAYLOAD_BYTES.",
        ),
        visibility_timeout=_VISIBILITY,
        wait=seconds(0, LONGEST_WAIT, description="For a job, if there is none; 0."),
    ),
    "Outcome": asked(*("kind", "id", "token"), kind={"enum": list(KINDS)}, id=JOB_ID, **_END),
    "Finish": asked(
        "outcomes", outcomes=items(ref("Outcome"), 0, MOST_OUTCOMES), claim=ref("Claim")
    ),
    "Fail": asked(
        *("id", "token"), id=JOB_ID, **{key: _END[key] for key in _END if key != "delay"}
    ),
    "Change": {"oneOf": [_action(action) for action in ACTIONS]},
    "Renew": asked(
        "leases",
        leases=items(
            asked(*("id", "token"), id=JOB_ID, token=TOKEN, runtime=_END["runtime"]),
            *(1, MOST_RENEWED),
        ),
        visibility_timeout=_VISIBILITY,
        worker_id=_WORKER_ID | {"description": "Who holds them, and is alive."},
    ),
    "Partition": asked(partition_key=PARTITION_KEY),
    "Requeue": {
        "oneOf": [
            asked("ids", ids=items(JOB_ID, 1, MOST_REQUEUED), limit={"type": "null"}),
            asked("limit", limit=whole(1, MOST_REQUEUED), ids={"type": "null"}),
        ]
    },
}
