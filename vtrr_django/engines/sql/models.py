"""The tables. Live rows belong to the engine: steer them through a queue, never by hand."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from vtrr_django.domain import job as limits
from vtrr_django.domain.signature import NONCE_LENGTH
from vtrr_django.domain.states import State
from vtrr_django.engines.sql.fields import ExactTextField, InstantField, KeyField


class QueueState(models.Model):
    """What a queue itself remembers: its pause, and which busy period it is in."""

    queue = KeyField(max_length=limits.MAX_QUEUE_NAME_LENGTH, primary_key=True)
    paused = models.BooleanField(default=False)
    period = models.BigIntegerField(
        default=1, help_text="Number of the busy period; a new one makes all partitions even."
    )

    class Meta:
        verbose_name = "queue"
        permissions: ClassVar = [
            ("see_payloads", "Can see arguments and error texts of jobs"),
            ("steer_queues", "Can pause and resume, reclaim, and set shares and limits"),
            ("requeue_jobs", "Can requeue, copy and discard dead letters"),
            ("enqueue_jobs", "Can enqueue jobs over HTTP"),
            ("purge_queues", "Can cancel and purge jobs that wait"),
        ]

    def __str__(self) -> str:
        return str(self.queue)


class Partition(models.Model):
    """One tenant of one queue: its virtual time, its settings, its place among candidates."""

    queue = KeyField(max_length=limits.MAX_QUEUE_NAME_LENGTH)
    partition_key = KeyField(max_length=limits.MAX_PARTITION_KEY_LENGTH, blank=True)
    share = models.FloatField(null=True, blank=True, help_text="Set by an operator.")
    declared_share = models.FloatField(default=1.0, help_text="What SHARES says.")
    in_flight_limit = models.IntegerField(null=True, blank=True)
    paused = models.BooleanField(default=False)
    period = models.BigIntegerField(default=0, help_text="Busy period its times belong to.")
    virtual_time = models.FloatField(default=0.0)
    leased_tag = models.FloatField(default=0.0, help_text="Largest start tag leased.")
    eligible = models.BooleanField(default=False, help_text="Whether it is a candidate.")
    at_limit = models.BooleanField(default=False)
    head_id = KeyField(max_length=limits.MAX_ID_LENGTH, default="", blank=True)
    head_precedence = models.SmallIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["queue", "partition_key"], name="vtrr_partition_key"),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["queue", "eligible", "virtual_time", "head_id"], name="vtrr_partition_next"
            ),
            models.Index(fields=["queue", "period", "leased_tag"], name="vtrr_partition_tag"),
        ]

    def __str__(self) -> str:
        return f"{self.queue}: {self.partition_key or '(none)'}"


class RuntimeAverage(models.Model):
    """Running average of a task's run time for one partition (``COST="runtime"``)."""

    queue = KeyField(max_length=limits.MAX_QUEUE_NAME_LENGTH)
    partition_key = KeyField(max_length=limits.MAX_PARTITION_KEY_LENGTH, blank=True)
    task_name = KeyField(max_length=limits.MAX_TASK_NAME_LENGTH)
    seconds = models.FloatField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["queue", "partition_key", "task_name"], name="vtrr_average_key"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.queue}: {self.partition_key} {self.task_name} {self.seconds:.3f} s"


class JobFields(models.Model):
    """What a job carries through its whole life."""

    seq = models.BigAutoField(primary_key=True)
    id = KeyField(max_length=limits.MAX_ID_LENGTH)
    queue = KeyField(max_length=limits.MAX_QUEUE_NAME_LENGTH)
    partition_key = KeyField(max_length=limits.MAX_PARTITION_KEY_LENGTH, blank=True)
    task_name = KeyField(max_length=limits.MAX_TASK_NAME_LENGTH)
    payload = ExactTextField()
    weight = models.IntegerField(default=1)
    delivery_count = models.IntegerField(default=0)
    timeouts = models.IntegerField(default=0)
    msg_id = KeyField(max_length=limits.MAX_MSG_ID_LENGTH, null=True, blank=True)
    parent_id = KeyField(max_length=limits.MAX_ID_LENGTH, null=True, blank=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.task_name} {self.id}"


class Job(JobFields):
    """A live job: scheduled, ready or leased.

    ``scheduled_at`` is when a scheduled job is due; for a ready one, when it took its
    place at the end of its partition's line. ``precedence`` is minus the priority, so
    that one ascending index serves databases without descending ones (MariaDB < 10.8).
    """

    state = models.SmallIntegerField(
        choices=[(s.value, s.name.lower()) for s in (State.SCHEDULED, State.READY, State.LEASED)]
    )
    precedence = models.SmallIntegerField(default=0)
    scheduled_at = InstantField()
    created_at = InstantField()
    claimed_by = KeyField(max_length=limits.MAX_WORKER_ID_LENGTH, null=True, blank=True)
    claimed_at = InstantField(null=True, blank=True)
    lease_expires_at = InstantField(null=True, blank=True)
    token = KeyField(max_length=64, null=True, blank=True)
    charged = models.FloatField(default=0.0, help_text="Seconds charged to the partition so far.")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["queue", "id"], name="vtrr_job_id"),
            models.UniqueConstraint(fields=["queue", "msg_id"], name="vtrr_job_msg_id"),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["queue", "state", "partition_key", "precedence", "scheduled_at", "seq"],
                name="vtrr_job_line",
            ),
            models.Index(fields=["queue", "state", "scheduled_at"], name="vtrr_job_due"),
            models.Index(fields=["queue", "lease_expires_at"], name="vtrr_job_lease"),
        ]


class EndedJobFields(JobFields):
    """What is kept of a job when it has ended."""

    priority = models.SmallIntegerField(default=0)
    worker_id = KeyField(max_length=limits.MAX_WORKER_ID_LENGTH, blank=True)
    created_at = models.DateTimeField()
    ready_at = models.DateTimeField(help_text="When it joined the line it was leased from.")
    claimed_at = models.DateTimeField(null=True, blank=True)
    runtime = models.FloatField(null=True, blank=True, help_text="Seconds.")

    class Meta:
        abstract = True


class CompletedJob(EndedJobFields):
    """A job that ran to its end. Both engines keep their history here."""

    completed_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["queue", "id"], name="vtrr_completed_id"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["queue", "completed_at"], name="vtrr_completed_at"),
            models.Index(fields=["queue", "partition_key"], name="vtrr_completed_partition"),
            models.Index(fields=["queue", "parent_id"], name="vtrr_completed_parent"),
            models.Index(fields=["queue", "msg_id"], name="vtrr_completed_msg_id"),
        ]


class FailedJob(EndedJobFields):
    """A dead letter: it will not run again unless somebody requeues it."""

    failed_at = models.DateTimeField()
    reason = ExactTextField(blank=True)
    error_class = KeyField(max_length=255, blank=True)
    traceback = ExactTextField(blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["queue", "id"], name="vtrr_failed_id"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["queue", "failed_at"], name="vtrr_failed_at"),
            models.Index(fields=["queue", "partition_key"], name="vtrr_failed_partition"),
            models.Index(fields=["queue", "parent_id"], name="vtrr_failed_parent"),
            models.Index(fields=["queue", "msg_id"], name="vtrr_failed_msg_id"),
        ]


class QueueTotals(models.Model):
    """What has happened on a queue since it exists: counters that only grow, and last times.

    Processes add to it every few seconds, so one that is killed takes its last ones along.
    """

    queue = KeyField(max_length=limits.MAX_QUEUE_NAME_LENGTH, primary_key=True)
    leases = models.BigIntegerField(default=0)
    completed = models.BigIntegerField(default=0)
    failed = models.BigIntegerField(default=0, help_text="Became dead letters.")
    retried = models.BigIntegerField(default=0)
    snoozed = models.BigIntegerField(default=0)
    released = models.BigIntegerField(default=0)
    reclaimed = models.BigIntegerField(default=0, help_text="Leases that ran out.")
    refused = models.BigIntegerField(default=0, help_text="Ends of leases that were gone.")
    waits = models.TextField(blank=True, help_text="Histogram of waits before a lease.")
    runs = models.TextField(blank=True, help_text="Histogram of run times.")
    leased_at = InstantField(null=True, help_text="The last lease.")
    reclaimed_at = InstantField(null=True, help_text="The last look for leases that ran out.")
    beat_at = InstantField(null=True, help_text="The last one that beat asked for.")
    unknown_at = InstantField(null=True, help_text="The last job whose worker had no such task.")
    resumed_at = InstantField(null=True, help_text="The last time waiting jobs were let go on.")
    sampled_at = InstantField(null=True, help_text="The minute whose gauges were taken last.")

    class Meta:
        verbose_name_plural = "queue totals"

    def __str__(self) -> str:
        return str(self.queue)


class QueueSample(models.Model):
    """One minute of one queue: what happened in it, and how the queue stood."""

    queue = KeyField(max_length=limits.MAX_QUEUE_NAME_LENGTH)
    at = InstantField(help_text="When the minute began.")
    leases = models.IntegerField(default=0)
    completed = models.IntegerField(default=0)
    failed = models.IntegerField(default=0)
    reclaimed = models.IntegerField(default=0)
    ready = models.IntegerField(null=True, help_text="None: nobody looked in this minute.")
    scheduled = models.IntegerField(null=True)
    leased = models.IntegerField(null=True)
    oldest_wait = models.FloatField(null=True, help_text="Seconds.")
    waiting = ExactTextField(blank=True, help_text="JSON: ready jobs of the longest lines.")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["queue", "at"], name="vtrr_queue_sample_at"),
        ]

    def __str__(self) -> str:
        return f"{self.queue} {self.at}"


class PartitionSample(models.Model):
    """Five minutes of one tenant of one queue."""

    queue = KeyField(max_length=limits.MAX_QUEUE_NAME_LENGTH)
    at = InstantField(help_text="When the five minutes began.")
    partition_key = KeyField(max_length=limits.MAX_PARTITION_KEY_LENGTH, blank=True)
    leases = models.IntegerField(default=0)
    completed = models.IntegerField(default=0)
    failed = models.IntegerField(default=0)
    worker_seconds = models.FloatField(default=0.0)
    waits = models.TextField(blank=True, help_text="Histogram of waits before a lease.")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["queue", "at", "partition_key"], name="vtrr_partition_sample_at"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.queue}: {self.partition_key} {self.at}"


class WorkerSighting(models.Model):
    """When a worker was last seen, and when it last got something to do."""

    queue = KeyField(max_length=limits.MAX_QUEUE_NAME_LENGTH)
    worker_id = KeyField(max_length=limits.MAX_WORKER_ID_LENGTH)
    started_at = InstantField(help_text="When it was seen first.")
    seen_at = InstantField()
    leased_at = InstantField(null=True, help_text="Its last lease.")
    jobs = models.BigIntegerField(default=0, help_text="Leases it got.")
    holding = models.IntegerField(default=0, help_text="Leases it held when last seen.")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["queue", "worker_id"], name="vtrr_worker_id"),
        ]

    def __str__(self) -> str:
        return f"{self.queue}: {self.worker_id}"


class FailedAttempt(models.Model):
    """An attempt that went wrong of a job that was to run again: what an operator asks about."""

    queue = KeyField(max_length=limits.MAX_QUEUE_NAME_LENGTH)
    job_id = KeyField(max_length=limits.MAX_ID_LENGTH)
    at = InstantField()
    worker_id = KeyField(max_length=limits.MAX_WORKER_ID_LENGTH, help_text='"": unknown.')
    error_class = KeyField(max_length=255)
    reason = ExactTextField()

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["queue", "job_id"], name="vtrr_attempt_job"),
            models.Index(fields=["queue", "at"], name="vtrr_attempt_at"),
        ]

    def __str__(self) -> str:
        return f"{self.queue}: {self.job_id} {self.at}"


class Nonce(models.Model):
    """What a signed request to the HTTP API used up, so that it works once."""

    nonce = KeyField(max_length=NONCE_LENGTH, primary_key=True)
    seen_at = InstantField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["seen_at"], name="vtrr_nonce_seen_at")]

    def __str__(self) -> str:
        return str(self.nonce)


class ImportedJob(models.Model):
    """A job that was taken over from a liteworks file: once, whatever became of it since.

    Attributes:
        mark: tells it from a job of another file that has its id; "": that is not known.
    """

    queue = KeyField(max_length=limits.MAX_QUEUE_NAME_LENGTH)
    job_id = KeyField(max_length=limits.MAX_ID_LENGTH)
    mark = models.CharField(max_length=32, default="")
    imported_at = InstantField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["queue", "job_id"], name="vtrr_imported_id"),
        ]

    def __str__(self) -> str:
        return f"{self.queue}: {self.job_id}"
