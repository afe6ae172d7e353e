from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from example_project.accounts import ACCOUNTS, create_accounts
from example_project.uploads import processing
from example_project.uploads.models import Upload
from example_project.uploads.receivers import GIVEN_UP
from example_project.uploads.tasks import process_upload
from vtrr_django import get_queue
from vtrr_django.signals import job_finished, job_reclaimed

AddUpload = Callable[..., Upload]
queue = get_queue("uploads")


def results(upload: Upload) -> dict[str, Any]:
    row = Upload.objects.filter(pk=upload.pk).values().get()
    return {name: row[name] for name in row if name not in ("started_at", "finished_at", "job_id")}


def test_a_text_is_examined(add_upload: AddUpload) -> None:
    upload = add_upload(b"one two\nthree\n")

    process_upload(upload.pk)

    upload.refresh_from_db()
    assert upload.state == "done"
    assert upload.sha256 == hashlib.sha256(b"one two\nthree\n").hexdigest()
    assert (upload.content_type, upload.lines, upload.words) == ("text/plain", 2, 3)
    assert upload.created_at <= upload.started_at <= upload.finished_at


def test_an_image_is_examined(add_upload: AddUpload, png: bytes) -> None:
    upload = add_upload(png)

    process_upload(upload.pk)

    upload.refresh_from_db()
    assert (upload.width, upload.height, upload.has_thumbnails) == (640, 320, True)
    assert all(Path(path).exists() for path in upload.thumbnail_paths().values())


def test_an_empty_file_is_done(add_upload: AddUpload) -> None:
    upload = add_upload(b"")

    process_upload(upload.pk)

    upload.refresh_from_db()
    assert (upload.state, upload.content_type) == ("done", "application/x-empty")


def test_a_broken_image_fails_for_good_with_a_reason(add_upload: AddUpload, png: bytes) -> None:
    upload = add_upload(png[:60])

    process_upload(upload.pk)  # returns: a retry would not mend the file

    upload.refresh_from_db()
    assert (upload.state, upload.reason) == ("failed", processing.DAMAGED)
    assert upload.sha256
    assert upload.finished_at
    assert not upload.has_thumbnails


@pytest.mark.parametrize("content", [b"text\n", b"\x89PNG\r\n\x1a\nbroken", None])
def test_running_twice_gives_the_same(
    add_upload: AddUpload, png: bytes, content: bytes | None, media: Path
) -> None:
    upload = add_upload(png if content is None else content)

    process_upload(upload.pk)
    first = results(upload), {p: p.read_bytes() for p in media.rglob("*") if p.is_file()}
    process_upload(upload.pk)
    second = results(upload), {p: p.read_bytes() for p in media.rglob("*") if p.is_file()}

    assert first == second


def test_an_upload_deleted_meanwhile_is_no_error(add_upload: AddUpload, media: Path) -> None:
    upload = add_upload()
    pk = upload.pk
    upload.delete()

    process_upload(pk)


def test_an_upload_deleted_during_its_job_leaves_no_thumbnails(
    add_upload: AddUpload, png: bytes, media: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = add_upload(png)
    examine = processing.examine

    def examine_and_delete(*args: Any) -> processing.Findings:
        findings = examine(*args)
        Upload.objects.all().delete()
        return findings

    monkeypatch.setattr(processing, "examine", examine_and_delete)
    process_upload(upload.pk)

    assert not [path for path in media.rglob("*") if path.is_file()]


def test_a_failing_disk_is_left_to_the_queues_retry(
    add_upload: AddUpload, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = add_upload()

    def fail(*args: Any) -> None:
        upload.refresh_from_db()
        assert upload.state == "processing"
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(processing, "examine", fail)
    with pytest.raises(OSError, match="Input/output error"):
        process_upload(upload.pk)

    upload.refresh_from_db()
    assert upload.state == "waiting"


@pytest.mark.parametrize("state", ["waiting", "processing"])
def test_a_job_that_is_given_up_fails_its_upload(add_upload: AddUpload, state: str) -> None:
    upload, other = add_upload(state=state, job_id="j1"), add_upload(state=state, job_id="j2")

    job_finished.send(
        queue,
        queue=queue,
        job_id="j1",
        status="failed",
        reason="",
        error_class="",
    )

    upload.refresh_from_db()
    other.refresh_from_db()
    assert (upload.state, upload.reason) == ("failed", GIVEN_UP)
    assert other.state == state


@pytest.mark.parametrize(("dead", "state"), [(True, "failed"), (False, "processing")])
def test_a_job_whose_workers_died_too_often_fails_its_upload(
    add_upload: AddUpload, dead: bool, state: str
) -> None:
    upload = add_upload(state="processing", job_id="j1")

    job_reclaimed.send(
        queue,
        queue=queue,
        job_id="j1",
        partition_key="1",
        task_name="t",
        timeouts=5,
        dead=dead,
    )

    upload.refresh_from_db()
    assert upload.state == state


def test_a_finished_upload_stays_finished(add_upload: AddUpload) -> None:
    upload = add_upload(job_id="j1", state="done")

    for status in ("completed", "failed"):
        job_finished.send(queue, queue=queue, job_id="j1", status=status, reason="", error_class="")

    upload.refresh_from_db()
    assert upload.state == "done"


def test_accounts_are_created_once(db: None) -> None:
    create_accounts()
    operator = User.objects.get(username="operator")
    operator.set_password("changed")
    operator.save()
    create_accounts()

    assert User.objects.count() == len(ACCOUNTS)
    assert User.objects.get(username="operator").check_password("changed")
    assert not User.objects.get(username="bigcorp").is_staff
