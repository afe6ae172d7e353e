"""The job: examine one upload."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Any

from django.utils import timezone

from example_project.uploads import processing
from example_project.uploads.models import Upload
from vtrr_django import get_queue

logger = logging.getLogger(__name__)
uploads = get_queue("uploads")


@uploads.task(soft_time_limit=60, time_limit=90)
def process_upload(self: Any, upload_id: int) -> None:
    """Write what is in the file into its row.

    A job may run twice: a second run writes the same values again. What is wrong with
    the file itself is a result, not an exception, since another attempt would not help.
    """
    upload = Upload.objects.filter(pk=upload_id).first()
    if upload is None:
        logger.info("upload %s was deleted before its job ran", upload_id)
        return
    upload.set_state(
        Upload.State.PROCESSING,
        job_id=self.request.vtrr_job.id,
        started_at=timezone.now(),
        reason="",
    )
    try:
        findings = processing.examine(upload.file.path, upload.thumbnail_paths())
    except Exception:  # the queue tries again, or gives up and tells receivers.py
        upload.set_state(Upload.State.WAITING)
        raise
    results = asdict(findings)
    problem = results.pop("problem")
    state = Upload.State.FAILED if problem else Upload.State.DONE
    if not upload.set_state(state, finished_at=timezone.now(), reason=problem, **results):
        upload.delete_files()
