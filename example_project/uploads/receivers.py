"""What must happen when a job is given up, and when an upload is deleted."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models.signals import post_delete
from django.utils import timezone

from example_project.uploads.models import Upload
from vtrr_django.signals import job_finished, job_reclaimed

GIVEN_UP = "This file could not be processed. Please ask the operator to try it again."


def connect() -> None:
    """Connect the receivers; calling it again changes nothing."""
    job_finished.connect(on_finished, dispatch_uid="uploads.on_finished")
    job_reclaimed.connect(on_reclaimed, dispatch_uid="uploads.on_reclaimed")
    post_delete.connect(on_deleted, sender=Upload, dispatch_uid="uploads.on_deleted")


def on_finished(job_id: str, status: str, **kwargs: Any) -> None:
    """A job whose attempts are used up will not end its upload any more."""
    if status == "failed":
        _give_up(job_id)


def on_reclaimed(job_id: str, dead: bool, **kwargs: Any) -> None:
    """So it is for a job whose workers died once too often."""
    if dead:
        _give_up(job_id)


def _give_up(job_id: str) -> None:
    unfinished = Upload.objects.filter(
        job_id=job_id, state__in=[Upload.State.WAITING, Upload.State.PROCESSING]
    )
    unfinished.update(state=Upload.State.FAILED, finished_at=timezone.now(), reason=GIVEN_UP)


def on_deleted(instance: Upload, using: str, **kwargs: Any) -> None:
    """Without its row nobody would ever find the file again."""
    transaction.on_commit(instance.delete_files, using=using)
