"""Queues in the admin: the list of all, each one's page, its partitions and its jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import unquote
from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.urls import URLPattern, path

from vtrr_django.admin import job_list, job_page, partition_page, queue_actions, queue_pages
from vtrr_django.admin.permissions import VIEW_QUEUES, may
from vtrr_django.admin.visit import Visit, declared
from vtrr_django.connections import outside_transactions
from vtrr_django.models import QueueState

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[QueueState]
else:
    _ModelAdmin = admin.ModelAdmin


@admin.register(QueueState)
class QueueStateAdmin(_ModelAdmin):
    """The queues that settings declare. There are no rows to edit: pages read, buttons steer."""

    # -- who may see it --------------------------------------------------------------

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: QueueState | None = None) -> bool:
        return may(request, VIEW_QUEUES)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: QueueState | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: QueueState | None = None) -> bool:
        return False

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> QueueState | None:
        """Return a queue for the page of its history; it may have no row.

        What was done with a queue stays to be read when settings do not declare it any more.
        """
        kind = ContentType.objects.get_for_model(QueueState)
        if not LogEntry.objects.filter(content_type=kind, object_id=object_id).exists():
            declared(object_id)
        return QueueState(queue=object_id)

    # -- pages -----------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        """Return the addresses of the queue pages, and of no others."""
        pages: list[tuple[str, Callable[..., HttpResponseBase], str]] = [
            ("", self.changelist_view, "changelist"),
            ("<slug:name>/", queue_pages.detail, "detail"),
            ("<slug:name>/partition/", partition_page.partition, "partition"),
            ("<slug:name>/jobs/<slug:state>/", job_list.jobs, "jobs"),
            ("<slug:name>/job/<str:quoted_id>/", job_page.job, "job"),
            ("<slug:name>/purge/", queue_actions.purge, "purge"),
            ("<slug:name>/do/<slug:verb>/", queue_actions.do, "do"),
            ("<slug:object_id>/history/", self.history_view, "history"),
            ("<slug:quoted_name>/change/", self.change_redirect, "change"),
        ]
        return [
            path(route, self._wrapped(view), name=f"vtrr_django_queuestate_{name}")
            for route, view, name in pages
        ]

    def _wrapped(self, view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        """Return a view behind the log-in page, and outside any transaction of the request's.

        In one around all that a page asks, a store that does not answer would break the page
        that is to say so.
        """
        bound = view if hasattr(view, "__self__") else self._with_self(view)
        wrapped: Any = self.admin_site.admin_view(bound)
        return outside_transactions(wrapped)  # type: ignore[no-any-return]

    def _with_self(self, view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        def bound(request: HttpRequest, **arguments: str) -> HttpResponseBase:
            return view(self, request, **arguments)

        return bound

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show all queues."""
        return queue_pages.overview(Visit(self, request), extra_context or {})

    def change_redirect(self, request: HttpRequest, quoted_name: str) -> HttpResponseRedirect:
        """Lead from the admin's log to the queue's page."""
        visit = Visit(self, request, unquote(quoted_name))
        return HttpResponseRedirect(visit.links.to("detail", visit.queue.name))
