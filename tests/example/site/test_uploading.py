from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction
from django.test import Client

from example_project.uploads import services
from example_project.uploads.models import Upload
from vtrr_django import get_queue
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.models import Job

JSON = {"Accept": "application/json"}


def a_file(name: str = "notes.txt", content: bytes = b"one two\n") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content)


def stored(media: Path) -> list[Path]:
    return [path for path in media.rglob("*") if path.is_file()]


def errors(response: Any) -> str:
    return " ".join(response.json()["errors"])


def test_files_become_rows_files_and_jobs(as_ann: Client, ann: User, media: Path) -> None:
    files = [a_file("a.txt", b"a"), a_file("b.txt", b"bb"), a_file("c.txt", b"")]

    response = as_ann.post("/", {"files": files})

    assert response.status_code == 302
    uploads = list(Upload.objects.order_by("pk"))
    assert [u.original_name for u in uploads] == ["a.txt", "b.txt", "c.txt"]
    assert [u.size for u in uploads] == [1, 2, 0]
    assert {u.state for u in uploads} == {"waiting"}
    assert [Path(u.file.path).read_bytes() for u in uploads] == [b"a", b"bb", b""]
    jobs = list(Job.objects.order_by("seq"))
    assert {job.partition_key for job in jobs} == {str(ann.pk)}
    assert [f"[{u.pk}]" for u in uploads] == [
        re.search(r"\[\d+\]", job.payload).group() for job in jobs
    ]
    assert get_queue("uploads").stats()["ready"] == 3


def test_a_script_is_answered_in_json(as_ann: Client) -> None:
    response = as_ann.post("/", {"files": [a_file(), a_file()]}, headers=JSON)

    assert response.status_code == 201
    assert response.json() == {
        "created": list(Upload.objects.order_by("pk").values_list("pk", flat=True))
    }


def test_a_browser_is_told_how_many_files_came(as_ann: Client) -> None:
    response = as_ann.post("/", {"files": [a_file(), a_file()]}, follow=True)

    assert "2 files were received." in response.text


def test_a_large_file_weighs_more(as_ann: Client) -> None:
    as_ann.post("/", {"files": [a_file(content=b"x" * 2_500_000), a_file()]})

    assert list(Job.objects.order_by("seq").values_list("weight", flat=True)) == [3, 1]


@pytest.mark.parametrize(
    ("size", "weight"), [(0, 1), (1, 1), (2**20, 1), (2**20 + 1, 2), (10 * 2**20, 10)]
)
def test_weights(size: int, weight: int) -> None:
    assert services.weight_of(size) == weight


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "..\\..\\boot.ini", "/etc/passwd", "a/b/c.txt", "<b>&.txt"]
)
def test_a_name_is_kept_as_text_and_never_used_as_a_path(
    as_ann: Client, ann: User, media: Path, name: str
) -> None:
    as_ann.post("/", {"files": [a_file(name)]})

    upload = Upload.objects.get()
    assert stored(media) == [media / str(ann.pk) / "originals" / upload.key.hex]
    assert "/" not in upload.original_name
    assert "<b>" not in as_ann.get("/").text


def test_control_characters_in_a_name_are_replaced() -> None:
    assert services._as_text("a\u202egnp.exe\x00") == "a\ufffdgnp.exe\ufffd"
    assert services._as_text("") == "unnamed"
    assert len(services._as_text("x" * 1000)) == 255


def test_what_is_stored_is_for_the_servers_user_alone(as_ann: Client, media: Path) -> None:
    as_ann.post("/", {"files": [a_file()]})

    (path,) = stored(media)
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


def test_no_file_is_a_friendly_error(as_ann: Client) -> None:
    response = as_ann.post("/", {})

    assert response.status_code == 400
    assert "Please choose at least one file." in response.text
    assert errors(as_ann.post("/", {}, headers=JSON)) == "Please choose at least one file."


def test_too_many_files_are_refused_together(as_ann: Client, settings: Any, media: Path) -> None:
    settings.UPLOADS_MAX_FILES = 2

    response = as_ann.post("/", {"files": [a_file()] * 3}, headers=JSON)

    assert response.status_code == 400
    assert errors(response) == "These are 3 files. Please send at most 2 at a time."
    assert not Upload.objects.exists()
    assert not Job.objects.exists()
    assert not stored(media)


def test_each_file_that_is_too_large_is_named(as_ann: Client, settings: Any) -> None:
    settings.UPLOADS_MAX_FILE_BYTES = 10
    files = [a_file("x.bin", b"x" * 11), a_file("ok.bin", b"x" * 10), a_file("y.bin", b"y" * 12)]

    said = errors(as_ann.post("/", {"files": files}, headers=JSON))

    assert "x.bin" in said
    assert "y.bin" in said
    assert "ok.bin" not in said
    assert not Upload.objects.exists()


def test_too_much_together_is_refused(as_ann: Client, settings: Any) -> None:
    settings.UPLOADS_MAX_REQUEST_BYTES = 15
    files = [a_file(content=b"x" * 8), a_file(content=b"y" * 8)]

    said = errors(as_ann.post("/", {"files": files}, headers=JSON))

    assert said.startswith("Together these are 16")


def test_far_too_many_files_get_a_page_too(as_ann: Client, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_NUMBER_FILES = 2

    response = as_ann.post("/", {"files": [a_file()] * 3})

    assert response.status_code == 400
    assert "send fewer at a time" in response.text


def test_when_queueing_fails_nothing_is_left(
    as_ann: Client, media: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**kwargs: Any) -> None:
        assert Upload.objects.count() == 2
        raise RuntimeError("no queue today")

    monkeypatch.setattr(services.process_upload, "queue", fail)
    with pytest.raises(RuntimeError, match="no queue today"):
        as_ann.post("/", {"files": [a_file(), a_file()]})

    assert not Upload.objects.exists()
    assert not Job.objects.exists()
    assert not stored(media)


@pytest.mark.django_db(transaction=True)
def test_a_rollback_after_queueing_leaves_neither_rows_nor_jobs(
    as_ann: Client, ann: User, media: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = services.process_upload.queue

    def fail_late(**kwargs: Any) -> None:
        assert len(queue(**kwargs)) == 1
        assert Job.objects.count() == 1
        raise RuntimeError("too late")

    monkeypatch.setattr(services.process_upload, "queue", fail_late)
    with pytest.raises(RuntimeError, match="too late"):
        as_ann.post("/", {"files": [a_file()]})

    assert not Upload.objects.exists()
    assert not Job.objects.exists()
    assert not stored(media)


@pytest.mark.django_db(transaction=True)
def test_a_store_that_refuses_after_the_commit_leaves_nothing(
    as_ann: Client, media: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        assert Upload.objects.count() == 1
        raise StoreUnavailable("no Redis today")

    monkeypatch.setattr(
        services.process_upload, "queue", lambda **kwargs: transaction.on_commit(refuse)
    )
    with pytest.raises(StoreUnavailable):
        as_ann.post("/", {"files": [a_file()]})

    assert not Upload.objects.exists()
    assert not stored(media)


@pytest.mark.django_db(transaction=True)
def test_a_callers_rollback_takes_rows_and_jobs_along(ann: User) -> None:
    with transaction.atomic():
        services.accept(ann, [a_file()])
        assert Job.objects.count() == 1
        transaction.set_rollback(True)

    assert not Upload.objects.exists()
    assert not Job.objects.exists()


def test_a_disk_that_fails_half_way_leaves_nothing(
    as_ann: Client, media: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, calls = services.default_storage.save, []

    def fail_second(*args: Any) -> str:
        calls.append(args)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return save(*args)

    monkeypatch.setattr(services.default_storage, "save", fail_second, raising=False)
    with pytest.raises(OSError, match="No space"):
        as_ann.post("/", {"files": [a_file(), a_file()]})

    assert not Upload.objects.exists()
    assert not stored(media)


def test_a_post_without_a_token_is_refused_kindly(ann: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(ann)

    response = client.post("/", {"files": [a_file()]})

    assert response.status_code == 403
    assert "Please try again" in response.text
    assert not Upload.objects.exists()
