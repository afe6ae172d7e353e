"""Where Django looks for the tables; they are defined beside the engine that owns them."""

from vtrr_django.engines.sql.models import (
    CompletedJob,
    FailedAttempt,
    FailedJob,
    ImportedJob,
    Job,
    Nonce,
    Partition,
    PartitionSample,
    QueueSample,
    QueueState,
    QueueTotals,
    RuntimeAverage,
    WorkerSighting,
)

__all__ = [
    "CompletedJob",
    "FailedAttempt",
    "FailedJob",
    "ImportedJob",
    "Job",
    "Nonce",
    "Partition",
    "PartitionSample",
    "QueueSample",
    "QueueState",
    "QueueTotals",
    "RuntimeAverage",
    "WorkerSighting",
]
