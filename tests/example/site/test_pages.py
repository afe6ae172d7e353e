from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from example_project.uploads import presentation
from example_project.uploads.models import Upload
from example_project.uploads.tasks import process_upload

ROOT = Path(presentation.__file__).resolve().parent.parent
AddUpload = Callable[..., Upload]


@pytest.mark.parametrize("path", ["/", "/state/", "/uploads/1/", "/uploads/1/thumbnail-96.png"])
def test_strangers_are_sent_to_the_login(client: Client, db: None, path: str) -> None:
    response = client.get(path)

    assert response.status_code == 302
    assert response.url == f"/login/?next={path}"


def test_strangers_cannot_upload(client: Client, db: None) -> None:
    response = client.post("/", {"files": []})

    assert response.status_code == 302
    assert not Upload.objects.exists()


def test_signing_in_and_out(client: Client, ann: User) -> None:
    assert "correct username" in client.post("/login/", {"username": "ann", "password": "x"}).text

    signed_in = client.post("/login/", {"username": "ann", "password": "a password for ann"})
    assert signed_in.url == "/"
    assert "Your uploads" in client.get("/").text

    assert client.post("/logout/").url == "/login/"
    assert client.get("/").status_code == 302


def test_the_state_is_that_of_ones_own_files_only(
    as_ann: Client, as_bob: Client, bob: User, add_upload: AddUpload
) -> None:
    mine = add_upload()
    add_upload(owner=bob, original_name="bob's secret")

    state = as_ann.get("/state/").json()

    assert [row["id"] for row in state["uploads"]] == [mine.pk]
    assert state["counts"] == {"waiting": 1, "processing": 0, "done": 0, "failed": 0}
    assert "secret" not in as_ann.get("/").text
    assert "secret" in as_bob.get("/").text


def test_other_peoples_pages_and_pictures_do_not_exist(
    as_ann: Client, as_bob: Client, add_upload: AddUpload, png: bytes
) -> None:
    upload = add_upload(png)
    process_upload(upload.pk)

    for path in (f"/uploads/{upload.pk}/", f"/uploads/{upload.pk}/thumbnail-96.png"):
        response = as_ann.get(path)
        assert response.status_code == 200
        assert b"".join(response)  # read to its end, a file is closed
        assert as_bob.get(path).status_code == 404


def test_the_state_follows_the_job(as_ann: Client, add_upload: AddUpload, png: bytes) -> None:
    upload = add_upload(png)
    (waiting,) = as_ann.get("/state/").json()["uploads"]
    process_upload(upload.pk)
    (done,) = as_ann.get("/state/").json()["uploads"]

    assert (waiting["state"], waiting["label"], waiting["thumbnail"]) == ("waiting", "Waiting", "")
    assert (done["state"], done["label"]) == ("done", "Done")
    assert done["thumbnail"] == f"/uploads/{upload.pk}/thumbnail-96.png"
    assert done["facts"].startswith("PNG image · 640 × 320 pixels · ")


def test_waiting_files_say_how_many_are_before_them(as_ann: Client, add_upload: AddUpload) -> None:
    for state in ("waiting", "done", "waiting", "processing", "waiting"):
        add_upload(state=state)

    facts = [row["facts"] for row in as_ann.get("/state/").json()["uploads"]]

    assert ["before it" in fact for fact in facts] == [True, False, True, False, False]
    assert "2 files of yours before it" in facts[0]
    assert "1 file of yours before it" in facts[2]


def test_the_number_before_it_counts_what_is_on_other_pages(
    as_ann: Client, add_upload: AddUpload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presentation, "PAGE_SIZE", 2)
    for _ in range(5):
        add_upload()

    first = as_ann.get("/state/?page=1").json()
    last = as_ann.get("/state/?page=3").json()

    assert (first["page"], first["pages"]) == (1, 3)
    assert "4 files of yours before it" in first["uploads"][0]["facts"]
    assert len(last["uploads"]) == 1
    assert "before it" not in last["uploads"][0]["facts"]
    assert 'rel="next"' in as_ann.get("/?page=2").text


@pytest.mark.parametrize("page", ["0", "-1", "99", "x", ""])
def test_a_page_that_does_not_exist_is_mended(
    as_ann: Client, add_upload: AddUpload, page: str
) -> None:
    add_upload()

    assert as_ann.get(f"/state/?page={page}").json()["page"] == 1


def test_polling_takes_few_queries(
    as_ann: Client, add_upload: AddUpload, django_assert_max_num_queries: Callable[[int], object]
) -> None:
    for _ in range(60):
        add_upload()

    with django_assert_max_num_queries(6):
        as_ann.get("/state/")


def test_a_thumbnail_is_served_as_a_picture_and_nothing_else(
    as_ann: Client, add_upload: AddUpload, png: bytes
) -> None:
    upload = add_upload(png)
    process_upload(upload.pk)

    response = as_ann.get(f"/uploads/{upload.pk}/thumbnail-192.png")

    assert b"".join(response).startswith(b"\x89PNG")
    assert response["Content-Type"] == "image/png"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert response["Cache-Control"].startswith("private")


def test_thumbnails_that_are_not_there_are_not_found(
    as_ann: Client, add_upload: AddUpload, png: bytes
) -> None:
    text, upload = add_upload(), add_upload(png)
    process_upload(upload.pk)

    assert as_ann.get(f"/uploads/{text.pk}/thumbnail-96.png").status_code == 404
    assert as_ann.get(f"/uploads/{upload.pk}/thumbnail-97.png").status_code == 404
    Path(upload.thumbnail_paths()[96]).unlink()
    assert as_ann.get(f"/uploads/{upload.pk}/thumbnail-96.png").status_code == 404


def test_the_page_of_one_file_tells_all_about_it(as_ann: Client, add_upload: AddUpload) -> None:
    upload = add_upload(b"one two\nthree\n", original_name="<i>notes</i>")
    process_upload(upload.pk)

    text = as_ann.get(f"/uploads/{upload.pk}/").text

    upload.refresh_from_db()
    assert upload.sha256 in text
    assert "text/plain" in text
    assert "&lt;i&gt;notes&lt;/i&gt;" in text


@pytest.mark.parametrize("path", ["/", "/login/", "/state/", "/no-such-page/", "/admin/"])
def test_every_page_has_a_strict_policy(admin_client: Client, path: str) -> None:
    policy = admin_client.get(path)["Content-Security-Policy"]

    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_no_template_has_anything_inline_that_the_policy_forbids() -> None:
    for template in (ROOT / "templates").rglob("*.html"):
        source = template.read_text("utf-8")
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", source), template
        assert not re.search(r"<script(?![^>]*\ssrc=)", source), template


def test_static_files_are_served_with_debug_off(client: Client, db: None) -> None:
    response = client.get("/static/uploads/style.css")

    assert response.status_code == 200
    assert b":root" in b"".join(response)
    assert response["X-Content-Type-Options"] == "nosniff"
    assert client.get("/static/uploads/../../settings.py").status_code == 400
    assert client.get("/static/no-such-file.css").status_code == 404


def test_the_admin_shows_uploads_and_cannot_change_them(
    admin_client: Client, add_upload: AddUpload
) -> None:
    upload = add_upload(original_name="report.txt")

    assert "report.txt" in admin_client.get("/admin/uploads/upload/").text
    page = admin_client.get(f"/admin/uploads/upload/{upload.pk}/change/")
    assert "report.txt" in page.text
    assert 'name="_save"' not in page.text
    assert admin_client.get("/admin/uploads/upload/add/").status_code == 403


@pytest.mark.django_db(transaction=True)
def test_operators_see_the_queue_and_everybody_its_health(
    admin_client: Client, client: Client, ann: User
) -> None:
    process_upload.enqueue("7", partition_key="ann")

    assert "ann" in admin_client.get("/admin/vtrr_django/queuestate/uploads/").text
    told = client.get("/health/").json()
    assert told["status"] == "warning", "a job waits, and no worker was ever seen"
    assert "ann" not in str(told)


@pytest.mark.django_db(transaction=True)
def test_deleting_in_the_admin_removes_the_files(
    admin_client: Client, add_upload: AddUpload, png: bytes, media: Path
) -> None:
    upload = add_upload(png)
    process_upload(upload.pk)
    assert len([path for path in media.rglob("*") if path.is_file()]) == 4

    admin_client.post(f"/admin/uploads/upload/{upload.pk}/delete/", {"post": "yes"})

    assert not Upload.objects.exists()
    assert not [path for path in media.rglob("*") if path.is_file()]


def test_the_secret_key_is_made_once(tmp_path: Path) -> None:
    from example_project.secret_key import read_or_create

    path = tmp_path / "key"
    key = read_or_create(path)

    assert len(key) >= 50
    assert read_or_create(path) == key
    assert path.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == [path]
