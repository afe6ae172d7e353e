"""What was uploaded, and what the job found out about it."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.core.files.storage import default_storage
from django.db import models
from django.utils import timezone

from example_project.uploads.processing import THUMBNAIL_SIZES


def original_path(upload: Upload, _filename: str = "") -> str:
    """Return where the file goes: nothing of it comes from the user."""
    return f"{upload.owner_id}/originals/{upload.key.hex}"


class Upload(models.Model):
    """One file of one tenant."""

    class State(models.TextChoices):
        WAITING = "waiting"
        PROCESSING = "processing"
        DONE = "done"
        FAILED = "failed"

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="uploads"
    )
    file = models.FileField(upload_to=original_path)
    original_name = models.CharField(max_length=255)
    size = models.PositiveBigIntegerField()
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    reason = models.CharField(max_length=200, blank=True, default="")
    job_id = models.CharField(max_length=64, blank=True, default="", db_index=True)
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    sha256 = models.CharField("SHA-256", max_length=64, blank=True, default="")
    content_type = models.CharField(max_length=100, blank=True, default="")
    lines = models.PositiveBigIntegerField(null=True, blank=True)
    words = models.PositiveBigIntegerField(null=True, blank=True)
    width = models.PositiveIntegerField(null=True, blank=True)
    height = models.PositiveIntegerField(null=True, blank=True)
    has_thumbnails = models.BooleanField(default=False)

    class Meta:
        ordering = ["-pk"]
        indexes = [
            models.Index(fields=["owner", "-id"], name="uploads_of_owner"),
            models.Index(fields=["owner", "state", "id"], name="uploads_of_owner_in_state"),
        ]

    def __str__(self) -> str:
        return self.original_name

    def thumbnail_name(self, size: int) -> str:
        """Return the storage name of the thumbnail that fits ``size`` × ``size`` pixels."""
        return f"{self.owner_id}/thumbnails/{self.key.hex}-{size}.png"

    def thumbnail_paths(self) -> dict[int, str]:
        """Return ``{size: path on disk}`` of all thumbnails, whether they exist or not."""
        return {size: default_storage.path(self.thumbnail_name(size)) for size in THUMBNAIL_SIZES}

    def delete_files(self) -> None:
        """Remove the file and its thumbnails; what is gone already is no error."""
        default_storage.delete(self.file.name)
        for size in THUMBNAIL_SIZES:
            default_storage.delete(self.thumbnail_name(size))

    def set_state(self, state: State, **values: Any) -> bool:
        """Write ``state`` and ``values`` in one statement; False when the row is gone."""
        return bool(type(self).objects.filter(pk=self.pk).update(state=state, **values))
