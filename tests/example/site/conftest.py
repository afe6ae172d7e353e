from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.test import Client
from PIL import Image

from example_project.uploads.models import Upload, original_path

AddUpload = Callable[..., Upload]


@pytest.fixture(autouse=True)
def media(settings: Any, tmp_path: Path) -> Path:
    settings.MEDIA_ROOT = tmp_path / "media"
    # The real hashers are slow on purpose.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return tmp_path / "media"


@pytest.fixture
def ann(db: None) -> User:
    return User.objects.create_user("ann", password="a password for ann")


@pytest.fixture
def bob(db: None) -> User:
    return User.objects.create_user("bob")


@pytest.fixture
def as_ann(ann: User) -> Client:
    client = Client()
    client.force_login(ann)
    return client


@pytest.fixture
def as_bob(bob: User) -> Client:
    client = Client()
    client.force_login(bob)
    return client


@pytest.fixture
def png() -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (640, 320)).save(content, format="PNG")
    return content.getvalue()


@pytest.fixture
def add_upload(ann: User) -> AddUpload:
    """Return a function that stores an upload without queueing a job."""

    def add_upload(content: bytes = b"one two\n", owner: User = ann, **values: Any) -> Upload:
        upload = Upload(owner=owner, original_name="file", size=len(content))
        upload.file = default_storage.save(original_path(upload), ContentFile(content))
        for name, value in values.items():
            setattr(upload, name, value)
        upload.save()
        return upload

    return add_upload
