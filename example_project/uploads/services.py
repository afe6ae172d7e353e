"""Taking files in: stored, recorded and queued together, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib.auth.models import AbstractBaseUser
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction

from example_project.uploads.models import Upload, original_path
from example_project.uploads.tasks import process_upload

MIB = 1024 * 1024


def weight_of(size: int) -> int:
    """Return what a file of ``size`` bytes costs its tenant: 1 for every begun MiB."""
    return max(1, -(-size // MIB))


def accept(owner: AbstractBaseUser, files: Sequence[UploadedFile]) -> list[Upload]:
    """Store ``files`` of ``owner`` and queue one job for each.

    When it fails there are neither rows nor files. In the database, rows and jobs are
    written in one transaction; Redis gets the jobs when the rows are committed.
    """
    uploads: list[Upload] = []
    try:
        # Before the transaction, so that it stays short: SQLite has one writer at a time.
        for file in files:
            uploads.append(_store(owner, file))
        with transaction.atomic():
            Upload.objects.bulk_create(uploads)
            process_upload.queue(
                partition_key=str(owner.pk),
                tasks=[{"args": [u.pk], "weight": weight_of(u.size)} for u in uploads],
            )
    except BaseException:
        _undo(uploads)
        raise
    return uploads


def _store(owner: AbstractBaseUser, file: UploadedFile) -> Upload:
    upload = Upload(owner=owner, original_name=_as_text(file.name), size=file.size or 0)
    upload.file = default_storage.save(original_path(upload), file)
    return upload


def _as_text(name: str | None) -> str:
    """Return a file name fit for display; it is never used as a path."""
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name or "")
    return printable[:255] or "unnamed"


def _undo(uploads: Sequence[Upload]) -> None:
    for upload in uploads:
        default_storage.delete(upload.file.name)
    if uploads and not transaction.get_connection().in_atomic_block:
        # A Redis that is down says so after the commit. Should it have got the jobs all the
        # same, they find no row and end.
        Upload.objects.filter(key__in=[upload.key for upload in uploads]).delete()
