"""The loop that leases and runs jobs. It knows no Django and no engine, only ``JobSource``."""

from vtrr_django.worker.context import MaxRetriesExceeded, TaskContext, TaskRequest
from vtrr_django.worker.process import WorkerError, replace_process
from vtrr_django.worker.source import JobSource, NoHooks, Runnable, WorkerHooks
from vtrr_django.worker.worker import Worker, WorkerSummary

__all__ = [
    "JobSource",
    "MaxRetriesExceeded",
    "NoHooks",
    "Runnable",
    "TaskContext",
    "TaskRequest",
    "Worker",
    "WorkerError",
    "WorkerHooks",
    "WorkerSummary",
    "replace_process",
]
