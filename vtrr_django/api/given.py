"""What the API gives."""

from __future__ import annotations

from typing import Final

from vtrr_django.api.shapes import (
    COUNT,
    FLAG,
    JOB_ID,
    MOMENT,
    MSG_ID,
    PARTITION_KEY,
    QUEUE_NAME,
    TASK,
    TOKEN,
    Schema,
    nullable,
    ref,
    told,
)
from vtrr_django.health import STATUSES

RETRY_AFTER: Final = (
    "Only where a claim that wanted to wait was not let, because as many do as may, and found no "
    "job: seconds after which to ask again."
)

_NUMBER: Final[Schema] = {"type": "number"}

_STATUS: Final[Schema] = {"enum": list(STATUSES)}

_FINDINGS: Final[Schema] = {"type": "array", "items": ref("Finding")}


def _ended(**more: Schema) -> Schema:
    return told(
        id=JOB_ID,
        task_name={"type": "string"},
        partition_key=PARTITION_KEY,
        worker_id={"type": "string"},
        delivery_count=COUNT,
        **more,
    )


def _handed_out(**more: Schema) -> Schema:
    described = told(**more, jobs={"type": "array", "items": ref("LeasedJob")})
    described["properties"]["retry_after"] = COUNT | {"description": RETRY_AFTER}
    return described


GIVEN: Final[dict[str, Schema]] = {
    "Error": {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {"type": "string", "description": "What was expected, and what came."},
            "path": {"type": "string", "description": "The field to blame: jobs[3].weight."},
            "done": {
                "anyOf": [{"const": False}, {"type": "integer", "minimum": 1}],
                "description": "False: of a lease that is not yours any more. A number: so many "
                "jobs were requeued before the store stopped it, or 1 queue or partition paused "
                "or resumed; it stays done.",
            },
        },
    },
    "Ids": told(ids={"type": "array", "items": JOB_ID}),
    "Done": told(done={"const": True}),
    "DoneEach": told(done={"type": "array", "items": FLAG}),
    "LeasedJob": told(
        id=JOB_ID,
        queue=QUEUE_NAME,
        task=TASK,
        args={"type": "array"},
        kwargs={"type": "object"},
        partition_key=PARTITION_KEY,
        weight=COUNT,
        priority={"type": "integer"},
        token=TOKEN,
        delivery_count=COUNT,
        timeouts=COUNT,
        parent_id=nullable(JOB_ID),
        msg_id=nullable(MSG_ID),
        enqueued_at=MOMENT,
        lease_expires_at=MOMENT,
        ready_at=nullable(MOMENT),
    ),
    "Claimed": _handed_out(),
    "Finished": _handed_out(done={"type": "array", "items": FLAG}),
    "Queue": told(
        queue=QUEUE_NAME,
        engine={"type": "string"},
        celery_queue=nullable({"type": "string"}),
        paused=nullable(FLAG),
        ready=nullable(COUNT),
        claimed=nullable(COUNT),
        scheduled=nullable(COUNT),
        partitions_waiting=nullable(COUNT),
        oldest_wait_seconds=nullable(_NUMBER),
        failed=nullable(COUNT),
        completed=nullable(COUNT),
        workers=nullable(COUNT | {"description": "Seen within the last minute."}),
        trouble=nullable({"type": "string", "description": "Why something is unknown."}),
    ),
    "Queues": told(queues={"type": "array", "items": ref("Queue")}),
    "Stats": told(
        queue=QUEUE_NAME,
        engine={"type": "string"},
        paused=FLAG,
        ready=COUNT,
        claimed=COUNT,
        scheduled=COUNT,
        failed=COUNT,
        completed=COUNT,
        partitions_waiting=COUNT,
        oldest_ready_at=nullable(MOMENT),
        oldest_wait_seconds=_NUMBER,
        recent_failures={"type": "array", "items": ref("Failure")},
        recent_runs={"type": "array", "items": ref("Run")},
    ),
    "Failure": _ended(failed_at=MOMENT, reason={"type": "string"}),
    "Run": _ended(completed_at=MOMENT, runtime=nullable(_NUMBER)),
    "PartitionStats": told(
        partition_key=PARTITION_KEY,
        ready=COUNT,
        scheduled=COUNT,
        leased=COUNT,
        share=_NUMBER,
        limit=nullable(COUNT),
        paused=FLAG,
        oldest_ready_at=nullable(MOMENT),
        virtual_time=_NUMBER,
        lag=_NUMBER,
        candidate=FLAG,
    ),
    "Partitions": told(partitions={"type": "array", "items": ref("PartitionStats")}),
    "Minute": told(
        at=MOMENT,
        leases=COUNT,
        completed=COUNT,
        failed=COUNT,
        ready=nullable(COUNT),
        leased=nullable(COUNT),
        scheduled=nullable(COUNT),
        oldest_wait=nullable(_NUMBER),
        waiting={"type": "object", "additionalProperties": COUNT},
    ),
    "Minutes": told(minutes={"type": "array", "items": ref("Minute")}),
    "Finding": told(
        id={"type": "string", "description": "What was looked at."},
        status=_STATUS,
        sentence={"type": "string"},
        facts={
            "type": "object",
            "description": "Its numbers and moments by name; durations in seconds.",
            "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
        },
    ),
    "QueueHealth": told(queue=QUEUE_NAME, status=_STATUS, findings=_FINDINGS),
    "Health": {
        "type": "object",
        "description": "Who is not let in is told the status alone.",
        "required": ["status"],
        "properties": {
            "status": _STATUS,
            "findings": _FINDINGS,
            "queues": {"type": "array", "items": ref("QueueHealth")},
        },
    },
}
