"""Everything the API can do, once: the URLs and the OpenAPI document are made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from django.utils.module_loading import import_string

from vtrr_django.api import claiming, looking, publishing, steering
from vtrr_django.api.auth import may_read
from vtrr_django.api.endpoint import VIEW, Call, Endpoint, Refused, endpoint
from vtrr_django.api.looking import MOST_PARTITIONS, PARTITIONS
from vtrr_django.api.shapes import (
    JOB_ID,
    PARTITION_KEY,
    QUEUE_NAME,
    TOKEN,
    Schema,
    ref,
    seconds,
    whole,
)
from vtrr_django.health.views import answer

METRICS: Final = "vtrr_django.contrib.prometheus.metrics"


@endpoint(read=True, auth=False)
def health(call: Call) -> Any:
    """Return how all queues are; everybody may know whether they are well, as any monitor has to.

    Queues and findings are for those who may read the rest.
    """
    return answer(tells=may_read(call.request, VIEW))


@endpoint(read=True)
def metrics(call: Call) -> Any:
    """Return the metrics of all queues, if prometheus-client is there to tell them."""
    try:
        show = import_string(METRICS)
    except ImportError as error:
        raise Refused(
            404,
            "expected prometheus-client to be installed on the server; "
            "pip install 'vtrr-django[metrics]'",
        ) from error
    return show(call.request)


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One method of one path.

    Attributes:
        method: in capitals.
        path: with ``{queue}`` and ``{id}``.
        name: of the operation, and of its URL.
        endpoint: what does it.
        summary: a sentence.
        takes: schema of the body; None: it has none.
        gives: name of the schema of the answer; "": it is no JSON.
        status: of the answer.
        query: schemas of the query's values, by name.
        required: which of them are.
        refusals: what else the answer may be: descriptions by status.
    """

    method: str
    path: str
    name: str
    endpoint: Endpoint
    summary: str
    takes: Schema | None = None
    gives: str = ""
    status: int = 200
    query: dict[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    refusals: dict[int, str] = field(default_factory=dict)

    @property
    def has_queue(self) -> bool:
        """Whether the path names a queue."""
        return "{queue}" in self.path


_NOT_YOURS: Final = {409: "The lease is not yours any more: drop the job."}

PATH_SCHEMAS: Final[dict[str, Schema]] = {"queue": QUEUE_NAME, "id": JOB_ID}

OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/{queue}/jobs",
        name="publish",
        endpoint=publishing.publish,
        summary="Publish one job, or a list of jobs: all or none.",
        takes={"oneOf": [ref("Job"), ref("Jobs")]},
        gives="Ids",
        status=201,
        refusals={409: "An id belongs to a different job."},
    ),
    Operation(
        method="POST",
        path="/{queue}/claim",
        name="claim",
        endpoint=claiming.claim,
        summary="Lease jobs, in fair order; wait for one if asked to.",
        takes=ref("Claim"),
        gives="Claimed",
    ),
    Operation(
        method="DELETE",
        path="/{queue}/jobs/{id}",
        name="ack",
        endpoint=claiming.ack,
        summary="End a lease: the job is completed.",
        gives="Done",
        query={"token": TOKEN, "runtime": seconds()},
        required=("token",),
        refusals=_NOT_YOURS,
    ),
    Operation(
        method="PATCH",
        path="/{queue}/jobs/{id}",
        name="change",
        endpoint=claiming.change,
        summary="Snooze, retry or release a job, or renew its lease.",
        takes=ref("Change"),
        gives="Done",
        refusals=_NOT_YOURS,
    ),
    Operation(
        method="POST",
        path="/{queue}/fail",
        name="fail",
        endpoint=claiming.fail,
        summary="End a lease: the job is a dead letter.",
        takes=ref("Fail"),
        gives="Done",
        refusals=_NOT_YOURS,
    ),
    Operation(
        method="POST",
        path="/{queue}/finish",
        name="finish",
        endpoint=claiming.finish,
        summary="End leases and lease more, in one transaction.",
        takes=ref("Finish"),
        gives="Finished",
    ),
    Operation(
        method="POST",
        path="/{queue}/renew",
        name="renew",
        endpoint=claiming.renew,
        summary="Renew leases.",
        takes=ref("Renew"),
        gives="DoneEach",
    ),
    Operation(
        method="GET",
        path="/{queue}/stats",
        name="stats",
        endpoint=looking.stats,
        summary="Counts of a queue, its most recent runs and failures.",
        gives="Stats",
    ),
    Operation(
        method="GET",
        path="/{queue}/partitions",
        name="partitions",
        endpoint=looking.partitions,
        summary="The tenants of a queue, most ready jobs first.",
        gives="Partitions",
        query={
            "partition_key": PARTITION_KEY,
            "limit": whole(1, MOST_PARTITIONS, default=PARTITIONS),
        },
    ),
    Operation(
        method="GET",
        path="/{queue}/minutes",
        name="minutes",
        endpoint=looking.minutes,
        summary="What happened on a queue in each minute of the last hour.",
        gives="Minutes",
    ),
    Operation(
        method="POST",
        path="/{queue}/pause",
        name="pause",
        endpoint=steering.pause,
        summary="Stop giving out jobs, of a queue or of one tenant. Nothing is lost.",
        takes=ref("Partition"),
        gives="Done",
    ),
    Operation(
        method="POST",
        path="/{queue}/resume",
        name="resume",
        endpoint=steering.resume,
        summary="Undo a pause.",
        takes=ref("Partition"),
        gives="Done",
    ),
    Operation(
        method="POST",
        path="/{queue}/requeue",
        name="requeue",
        endpoint=steering.requeue,
        summary="Bring dead letters back, with a fresh attempt budget.",
        takes=ref("Requeue"),
        gives="Ids",
    ),
    Operation(
        method="GET",
        path="/queues",
        name="queues",
        endpoint=looking.queues,
        summary="All queues.",
        gives="Queues",
    ),
    Operation(
        method="GET",
        path="/metrics",
        name="metrics",
        endpoint=metrics,
        summary="Metrics of all queues, for Prometheus.",
        refusals={404: "prometheus-client is not installed."},
    ),
    Operation(
        method="GET",
        path="/health",
        name="health",
        endpoint=health,
        summary="Whether queues are served; who is not let in is told the status alone.",
        gives="Health",
        refusals={503: "At least one queue is not."},
    ),
)
