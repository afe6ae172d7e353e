"""The whole way, with a real worker in this process: posted, queued, run, shown."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError
from django.test import Client

from example_project.processes import time_limit
from example_project.uploads import processing
from example_project.uploads.models import Upload
from example_project.uploads.receivers import GIVEN_UP
from vtrr_django import get_queue
from vtrr_django.models import CompletedJob, FailedJob

pytestmark = pytest.mark.django_db(transaction=True)


def work() -> None:
    get_queue("uploads").worker(concurrency=2, poll_interval=0.01).run_burst()


def test_what_is_posted_is_processed(as_ann: Client, ann: User, png: bytes) -> None:
    files = [
        SimpleUploadedFile("a.txt", b"one two\n"),
        SimpleUploadedFile("b.png", png),
        SimpleUploadedFile("c.png", png[:60]),
    ]
    as_ann.post("/", {"files": files})

    work()

    rows = as_ann.get("/state/").json()["uploads"]
    assert [(row["name"], row["state"]) for row in rows] == [
        ("c.png", "failed"),
        ("b.png", "done"),
        ("a.txt", "done"),
    ]
    jobs = CompletedJob.objects.filter(queue="uploads", partition_key=str(ann.pk))
    assert set(jobs.values_list("id", flat=True)) == set(
        Upload.objects.values_list("job_id", flat=True)
    )


def test_a_broken_file_is_not_tried_again(as_ann: Client, png: bytes) -> None:
    as_ann.post("/", {"files": [SimpleUploadedFile("c.png", png[:60])]})

    work()

    assert CompletedJob.objects.get().delivery_count == 0
    assert not FailedJob.objects.exists()


def test_a_job_that_raises_is_tried_again(
    as_ann: Client, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.VTRR = _with_retry(settings, {"max_retries": 3, "base_delay": 0.0, "jitter": False})
    examine, failures = processing.examine, [OperationalError("one"), OSError("two")]

    def examine_at_the_third_try(*args: Any) -> processing.Findings:
        if failures:
            raise failures.pop()
        return examine(*args)

    monkeypatch.setattr(processing, "examine", examine_at_the_third_try)
    as_ann.post("/", {"files": [SimpleUploadedFile("a.txt", b"one two\n")]})

    with time_limit(120):  # a retry is due in no time, which may be after the worker has left
        while Upload.objects.get().state == "waiting":
            work()

    assert Upload.objects.get().state == "done"
    assert CompletedJob.objects.get().delivery_count == 2


def test_a_job_that_is_given_up_says_so(
    as_ann: Client, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.VTRR = _with_retry(settings, None)

    def fail(*args: Any) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(processing, "examine", fail)
        as_ann.post("/", {"files": [SimpleUploadedFile("a.txt", b"one two\n")]})
        work()

    upload = Upload.objects.get()
    assert (upload.state, upload.reason) == ("failed", GIVEN_UP)
    assert "Input/output error" in FailedJob.objects.get().reason

    get_queue("uploads").requeue()
    work()
    upload.refresh_from_db()
    assert (upload.state, upload.reason) == ("done", "")


def _with_retry(settings: Any, retry: dict[str, Any] | None) -> dict[str, Any]:
    return {"QUEUES": {"uploads": settings.VTRR["QUEUES"]["uploads"] | {"RETRY": retry}}}
