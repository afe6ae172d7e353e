"""Uploads as their owner sees them: the same rows for the page and for the JSON it polls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypedDict

from django.contrib.humanize.templatetags.humanize import intcomma
from django.core.paginator import Page, Paginator
from django.db.models import Count, QuerySet
from django.template.defaultfilters import filesizeformat
from django.urls import reverse

from example_project.uploads import processing
from example_project.uploads.models import Upload

PAGE_SIZE = 50
STATE_LABELS = {
    Upload.State.WAITING: "Waiting",
    Upload.State.PROCESSING: "Processing",
    Upload.State.DONE: "Done",
    Upload.State.FAILED: "Failed",
}
TYPE_LABELS = {
    processing.EMPTY: "Empty file",
    processing.TEXT: "Text",
    processing.UNKNOWN: "Unknown type",
    "image/png": "PNG image",
    "image/jpeg": "JPEG image",
    "image/gif": "GIF image",
    "image/webp": "WebP image",
    "image/bmp": "BMP image",
    "image/tiff": "TIFF image",
    "application/pdf": "PDF document",
    "application/zip": "ZIP archive",
    "application/gzip": "gzip archive",
}


class Row(TypedDict):
    """One upload in the list; every value is plain text, fit for ``textContent``."""

    id: int
    name: str
    state: str
    label: str
    facts: str
    url: str
    kind: str
    thumbnail: str
    thumbnail_2x: str


# What the page's <template> element is rendered with; its script fills in the rest.
EMPTY_ROW = Row(
    id=0, name="", state="", label="", facts="", url="", kind="", thumbnail="", thumbnail_2x=""
)


def page_of(uploads: QuerySet[Upload], number: str | int | None) -> Page[Upload]:
    """Return one page of uploads, the newest first; a number out of range is mended."""
    return Paginator(uploads.order_by("-pk"), PAGE_SIZE).get_page(number)


def counts_of(uploads: QuerySet[Upload]) -> dict[str, int]:
    """Return how many uploads are in each state, 0 included."""
    found = uploads.order_by().values_list("state").annotate(Count("pk"))
    return {state.value: 0 for state in Upload.State} | dict(found)


def rows_of(uploads: QuerySet[Upload], shown: Sequence[Upload]) -> list[Row]:
    """Return the rows of ``shown``, newest first; ``uploads`` are all of the same owner."""
    ahead = _ahead_of(uploads, shown)
    return [_row(upload, ahead.get(upload.pk, 0)) for upload in shown]


def _ahead_of(uploads: QuerySet[Upload], shown: Iterable[Upload]) -> dict[int, int]:
    """Return ``{pk of a waiting upload: how many of its owner's wait before it}``."""
    waiting = sorted(u.pk for u in shown if u.state == Upload.State.WAITING)
    if not waiting:
        return {}
    first = uploads.filter(state=Upload.State.WAITING, pk__lt=waiting[0]).count()
    return {pk: first + place for place, pk in enumerate(waiting)}


def _row(upload: Upload, ahead: int) -> Row:
    row = Row(
        id=upload.pk,
        name=upload.original_name,
        state=upload.state,
        label=STATE_LABELS[Upload.State(upload.state)],
        facts=" · ".join(facts_of(upload, ahead)),
        url=reverse("uploads:detail", args=[upload.pk]),
        kind=TYPE_LABELS.get(upload.content_type, "").partition(" ")[0],
        thumbnail="",
        thumbnail_2x="",
    )
    if upload.has_thumbnails:
        row["thumbnail"] = thumbnail_url(upload, processing.LIST_THUMBNAIL)
        row["thumbnail_2x"] = thumbnail_url(upload, processing.LIST_THUMBNAIL_2X)
    return row


def thumbnail_url(upload: Upload, size: int) -> str:
    return reverse("uploads:thumbnail", args=[upload.pk, size])


def facts_of(upload: Upload, ahead: int = 0) -> list[str]:
    """Return what is known about an upload as short phrases."""
    facts = []
    if upload.reason:
        facts.append(upload.reason)
    if upload.content_type:
        facts.append(TYPE_LABELS.get(upload.content_type, upload.content_type))
    if upload.width and upload.height:
        facts.append(f"{intcomma(upload.width)} × {intcomma(upload.height)} pixels")
    if upload.lines is not None and upload.content_type != processing.EMPTY:
        facts.append(_number(upload.lines, "line"))
        facts.append(_number(upload.words or 0, "word"))
    facts.append(filesizeformat(upload.size))
    if ahead:
        facts.append(f"{_number(ahead, 'file')} of yours before it")
    if upload.started_at and upload.finished_at:
        facts.append(f"waited {(upload.started_at - upload.created_at).total_seconds():.1f} s")
    return facts


def _number(value: int, noun: str) -> str:
    return f"{intcomma(value)} {noun}" if value == 1 else f"{intcomma(value)} {noun}s"
