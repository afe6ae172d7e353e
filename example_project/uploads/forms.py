"""The upload form: Django's documented multiple file field, with limits said kindly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.template.defaultfilters import filesizeformat


class MultipleFileInput(forms.ClearableFileInput):
    allow_multiple_selected = True


class MultipleFileField(forms.FileField):
    """One or more files; every complaint names the file it is about."""

    widget = MultipleFileInput

    def clean(
        self, data: Sequence[UploadedFile] | UploadedFile | None, initial: Any = None
    ) -> list[UploadedFile]:
        files = list(data) if isinstance(data, list | tuple) else [data]
        if not files:
            files = [None]  # FileField's own "this field is required"
        _check_number(len(files))
        problems: list[ValidationError] = []
        cleaned = []
        for file in files:
            try:
                cleaned.append(super().clean(file, initial))
                _check_size(file)
            except ValidationError as error:
                problems.append(error)
        if problems:
            raise ValidationError(problems)
        _check_total(sum(file.size or 0 for file in cleaned))
        return cleaned


def _check_number(number: int) -> None:
    if number > settings.UPLOADS_MAX_FILES:
        raise ValidationError(
            f"These are {number} files. Please send at most {settings.UPLOADS_MAX_FILES} at a time."
        )


def _check_size(file: UploadedFile | None) -> None:
    if file is not None and (file.size or 0) > settings.UPLOADS_MAX_FILE_BYTES:
        raise ValidationError(
            f"“{file.name}” is {filesizeformat(file.size)}. "
            f"A file may have at most {filesizeformat(settings.UPLOADS_MAX_FILE_BYTES)}."
        )


def _check_total(total: int) -> None:
    if total > settings.UPLOADS_MAX_REQUEST_BYTES:
        raise ValidationError(
            f"Together these are {filesizeformat(total)}. Please send at most "
            f"{filesizeformat(settings.UPLOADS_MAX_REQUEST_BYTES)} at a time."
        )


class UploadForm(forms.Form):
    files = MultipleFileField(
        label="Files",
        allow_empty_file=True,
        error_messages={"required": "Please choose at least one file."},
    )
