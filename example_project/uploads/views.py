"""Pages for signed-in tenants; each sees only what is theirs."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.files.storage import default_storage
from django.db import transaction
from django.http import (
    FileResponse,
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    JsonResponse,
)
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from example_project.uploads import presentation, processing, services
from example_project.uploads.forms import UploadForm
from example_project.uploads.models import Upload


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@transaction.non_atomic_requests  # files are stored before services.accept() opens its own
def index(request: HttpRequest) -> HttpResponse:
    """The upload form and the list below it; answers POST in HTML or JSON, as asked."""
    if request.method != "POST":
        return _page(request, UploadForm())
    form = UploadForm(request.POST, request.FILES)
    wants_json = request.get_preferred_type(["text/html", "application/json"]) != "text/html"
    if not form.is_valid():
        if wants_json:
            return JsonResponse({"errors": form.errors["files"]}, status=400)
        return _page(request, form, status=400)
    uploads = services.accept(request.user, form.cleaned_data["files"])
    if wants_json:
        return JsonResponse({"created": [upload.pk for upload in uploads]}, status=201)
    count = "1 file was" if len(uploads) == 1 else f"{len(uploads)} files were"
    messages.success(request, f"{count} received.")
    return redirect("uploads:index")


def _page(request: HttpRequest, form: UploadForm, status: int = 200) -> HttpResponse:
    context = _list(request) | {
        "form": form,
        "empty_row": presentation.EMPTY_ROW,
        "max_files": settings.UPLOADS_MAX_FILES,
        "max_file_bytes": settings.UPLOADS_MAX_FILE_BYTES,
        "max_request_bytes": settings.UPLOADS_MAX_REQUEST_BYTES,
    }
    return render(request, "uploads/index.html", context, status=status)


def _list(request: HttpRequest) -> dict[str, Any]:
    uploads = Upload.objects.filter(owner=request.user)
    page = presentation.page_of(uploads, request.GET.get("page"))
    return {
        "page": page,
        "counts": presentation.counts_of(uploads),
        "rows": presentation.rows_of(uploads, list(page)),
    }


@login_required
@never_cache
@require_safe
def state(request: HttpRequest) -> JsonResponse:
    """One page of the list as JSON, for the page to poll."""
    shown = _list(request)
    page = shown["page"]
    return JsonResponse(
        {
            "counts": shown["counts"],
            "page": page.number,
            "pages": page.paginator.num_pages,
            "uploads": shown["rows"],
        }
    )


@login_required
@never_cache
@require_safe
def detail(request: HttpRequest, pk: int) -> HttpResponse:
    """Everything that is known about one upload."""
    upload = get_object_or_404(Upload, pk=pk, owner=request.user)
    large = presentation.thumbnail_url(upload, processing.LARGE_THUMBNAIL)
    context = {
        "upload": upload,
        "label": presentation.STATE_LABELS[Upload.State(upload.state)],
        "type_label": presentation.TYPE_LABELS.get(upload.content_type, upload.content_type),
        "thumbnail": large if upload.has_thumbnails else "",
    }
    return render(request, "uploads/detail.html", context)


@login_required
@require_safe
def thumbnail(request: HttpRequest, pk: int, size: int) -> HttpResponseBase:
    """A thumbnail, for the owner of the upload and nobody else."""
    upload = get_object_or_404(Upload, pk=pk, owner=request.user, has_thumbnails=True)
    if size not in processing.THUMBNAIL_SIZES:
        raise Http404
    try:
        file = default_storage.open(upload.thumbnail_name(size))
    except FileNotFoundError:
        raise Http404 from None
    return FileResponse(
        file,
        content_type="image/png",
        headers={
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "Cache-Control": "private, max-age=3600",
        },
    )
