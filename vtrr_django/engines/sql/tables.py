"""Names of the tables and the column lists that several statements share."""

from __future__ import annotations

from vtrr_django.domain.states import State
from vtrr_django.engines.sql.models import (
    CompletedJob,
    FailedJob,
    Job,
    Partition,
    QueueState,
    RuntimeAverage,
)

JOB = Job._meta.db_table
PARTITION = Partition._meta.db_table
QUEUE = QueueState._meta.db_table
COMPLETED = CompletedJob._meta.db_table
FAILED = FailedJob._meta.db_table
AVERAGE = RuntimeAverage._meta.db_table

SCHEDULED, READY, LEASED = State.SCHEDULED.value, State.READY.value, State.LEASED.value

LINE = "precedence, scheduled_at, seq"
"""The order inside one partition: priority, then first in, first out."""

NOT_LEASED = (
    "token = NULL, claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL, charged = 0.0"
)
"""What a job that is no longer leased has lost."""
