from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest

from example_project.uploads.models import Upload


@admin.register(Upload)
class UploadAdmin(admin.ModelAdmin):
    """Uploads are looked at and deleted here; only the job changes them."""

    list_display = ["original_name", "owner", "state", "content_type", "size", "created_at"]
    list_filter = ["state", "content_type", "owner"]
    list_select_related = ["owner"]
    search_fields = ["original_name", "sha256", "owner__username"]
    date_hierarchy = "created_at"
    exclude = ["file"]  # it has no address: only its thumbnails are served

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Upload | None = None) -> bool:
        return False
