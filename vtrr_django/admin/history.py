"""The admin's pages of completed and failed jobs: read-only, but for what queues do with them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ERROR_FLAG
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.module_loading import import_string
from django.utils.safestring import SafeString

from vtrr_django.admin import (
    bulk_ledger,
    bulk_page,
    bulk_views,
    history_filters,
    history_job,
    markup,
)
from vtrr_django.admin.bulk import ACTIONS, Action
from vtrr_django.admin.bulk import COPY as COPY_ACTION
from vtrr_django.admin.bulk import DISCARD as DISCARD_ACTION
from vtrr_django.admin.bulk import REQUEUE as REQUEUE_ACTION
from vtrr_django.admin.history_list import REASON_SHOWN, UNREADABLE, HistoryList, chosen_in
from vtrr_django.admin.history_outage import or_say_why
from vtrr_django.admin.history_search import lookups
from vtrr_django.admin.history_window import Place
from vtrr_django.admin.permissions import REQUEUE, SEE_PAYLOADS, may
from vtrr_django.connections import outside_transactions
from vtrr_django.models import CompletedJob, FailedJob

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
elif apps.is_installed("unfold"):
    # Its lists show the button of an action only for model admins of its own.
    _ModelAdmin = import_string("unfold.admin.ModelAdmin")
else:
    _ModelAdmin = admin.ModelAdmin


class HistoryAdmin(_ModelAdmin):
    """What the two have in common."""

    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    ordering = ("-seq",)
    search_fields = ("id", "msg_id", "partition_key", "task_name")
    search_help_text = "A whole id, msg_id or partition, or a part of the name of a task."

    # -- who may do what -----------------------------------------------------------

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may(request, f"{self.opts.app_label}.view_{self.opts.model_name}")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def lookup_allowed(self, lookup: str, value: str, request: Any = None) -> bool:
        return lookup in lookups(self.model)

    def get_urls(self) -> list[URLPattern]:
        urls: list[URLPattern] = super().get_urls()
        for url in urls:
            outside_transactions(url.callback)
        return urls

    # -- the list ------------------------------------------------------------------

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[HistoryList]:
        return HistoryList

    @admin.display(description="job")
    def job(self, row: Any) -> str:
        return str(row.id)

    @admin.display(description="queue")
    def queue_name(self, row: Any) -> str | SafeString:
        return markup.name(row.queue)

    @admin.display(description="task")
    def task(self, row: Any) -> str | SafeString:
        return markup.name(row.task_name)

    @admin.display(description="partition")
    def partition(self, row: Any) -> str | SafeString:
        return markup.key_name(row.partition_key)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the list, and say what "all" is where more match than are listed."""
        view = partial(super().changelist_view, request, extra_context)
        response = or_say_why(self, request, request.GET.get("queue"), view)
        context = getattr(response, "context_data", None) or {}
        if "cl" in context and context["cl"].older:
            beyond = f"{self.opts.verbose_name_plural} and the rest that match"
            context["module_name"] = beyond
            context["selection_note_all"] = "All that match selected"
        return response

    # -- one job -------------------------------------------------------------------

    def address_of(self, row: Any) -> str:
        """Return where one job's page is."""
        return history_job.address_of(self.admin_site, self.model, row.queue, row.id)

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        return history_job.find(self.model, object_id)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if not self.has_view_permission(request) or request.method not in ("GET", "HEAD"):
            raise PermissionDenied
        view = partial(self._job_page, request, object_id, extra_context or {})
        return or_say_why(self, request, history_job.queue_in(unquote(object_id)), view)

    def _job_page(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any]
    ) -> HttpResponse:
        site, key = self.admin_site, unquote(object_id)
        row = self.get_object(request, key)
        if row is None:
            return history_job.elsewhere(request, site, self.model, key)
        context = {
            **site.each_context(request),
            **history_job.page(request, site, row),
            "opts": self.opts,
            "list_url": reverse(
                f"admin:vtrr_django_{self.opts.model_name}_changelist", current_app=site.name
            ),
            "log_url": reverse(
                f"admin:vtrr_django_{self.opts.model_name}_history",
                args=[object_id],
                current_app=site.name,
            ),
            "actions": [ACTIONS[name] for name in self.get_actions(request) if name in ACTIONS],
            **extra_context,
        }
        request.current_app = site.name
        names = [f"admin/vtrr_django/{self.opts.model_name}/change_form.html"]
        return TemplateResponse(request, names, context)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show who did what with a job."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        view = partial(super().history_view, request, object_id, extra_context)
        response = or_say_why(self, request, history_job.queue_in(unquote(object_id)), view)
        for entry in (getattr(response, "context_data", None) or {}).get("action_list", ()):
            entry.change_message = bulk_ledger.for_people(entry.change_message)
        return response


@admin.register(CompletedJob)
class CompletedJobAdmin(HistoryAdmin):
    """Jobs that ran to their end."""

    date_hierarchy = "completed_at"
    list_display = ("job", "completed", "queue_name", "task", "partition", "worker", "ran")
    list_filter = (
        history_filters.QueueFilter,
        history_filters.TaskFilter,
        history_filters.PartitionFilter,
        history_filters.ParentFilter,
        ("completed_at", admin.DateFieldListFilter),
    )

    @admin.display(description="worker")
    def worker(self, row: CompletedJob) -> str | SafeString:
        return markup.name(row.worker_id)

    @admin.display(description="ran for")
    def ran(self, row: CompletedJob) -> str:
        return markup.duration(row.runtime)

    @admin.display(description="completed")
    def completed(self, row: CompletedJob) -> str | SafeString:
        return markup.when(row.completed_at)


@admin.register(FailedJob)
class FailedJobAdmin(HistoryAdmin):
    """Dead letters, and what can be done with them."""

    date_hierarchy = "failed_at"
    list_display = ("job", "failed", "queue_name", "task", "partition", "error_class_name")
    list_filter = (
        history_filters.QueueFilter,
        history_filters.TaskFilter,
        history_filters.ErrorClassFilter,
        history_filters.PartitionFilter,
        history_filters.ParentFilter,
        ("failed_at", admin.DateFieldListFilter),
    )
    actions = ["requeue", "copy", "discard"]

    def get_list_display(self, request: HttpRequest) -> Any:
        shown = list(self.list_display)
        if may(request, SEE_PAYLOADS):
            shown[shown.index("error_class_name")] = "error"
        return shown

    @admin.display(description="error class")
    def error_class_name(self, row: FailedJob) -> str | SafeString:
        return markup.name(row.error_class)

    @admin.display(description="error")
    def error(self, row: Any) -> SafeString:
        text = row.reason_begins
        shown = f"{text[:REASON_SHOWN]}…" if len(text) > REASON_SHOWN else text
        return format_html(
            '<div>{}<bdi dir="auto" class="vtrr-reason">{}</bdi></div>',
            markup.name(row.error_class),
            shown,
        )

    @admin.display(description="failed")
    def failed(self, row: FailedJob) -> str | SafeString:
        return markup.when(row.failed_at)

    # -- actions -------------------------------------------------------------------

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may requeue, copy and discard dead letters."""
        return self.has_view_permission(request) and may(request, REQUEUE)

    @admin.action(description=REQUEUE_ACTION.label, permissions=["requeue"])
    def requeue(self, request: HttpRequest, queryset: Any) -> HttpResponse:
        """Ask whether to requeue letters."""
        return self._ask(request, REQUEUE_ACTION)

    @admin.action(description=COPY_ACTION.label, permissions=["requeue"])
    def copy(self, request: HttpRequest, queryset: Any) -> HttpResponse:
        """Ask whether to requeue copies of letters."""
        return self._ask(request, COPY_ACTION)

    @admin.action(description=DISCARD_ACTION.label, permissions=["requeue"])
    def discard(self, request: HttpRequest, queryset: Any) -> HttpResponse:
        """Ask whether to discard letters."""
        return self._ask(request, DISCARD_ACTION)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the list, or ask about what is to be done with letters of it."""
        action = ACTIONS.get(_chosen_action(request)) if request.method == "POST" else None
        if action is not None:
            view = partial(self._ask, request, action)
            return or_say_why(self, request, request.GET.get("queue"), view)
        return super().changelist_view(request, extra_context)

    def _ask(self, request: HttpRequest, action: Action) -> HttpResponse:
        """Ask whether to do it with the rows chosen, or with all that match."""
        if not self.has_requeue_permission(request):
            raise PermissionDenied
        try:
            selection = chosen_in(FailedJob, request.GET.dict())
            if request.POST.get("select_across") != "1":
                selection = replace(selection, seqs=_chosen_rows(request))
            elif ERROR_FLAG in request.GET:
                messages.error(request, f"Nothing was done. {UNREADABLE}")
                return HttpResponseRedirect(request.path)
        except (IncorrectLookupParameters, ValueError) as error:
            raise BadRequest(str(error)) from error
        return bulk_views.ask(self, request, action, selection)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show a job; the admin's log leads here also for runs, which are shown then."""
        number = bulk_ledger.number_of(unquote(object_id))
        if number is not None:
            return HttpResponseRedirect(bulk_page.address_of(self, number))
        return super().change_view(request, object_id, form_url, extra_context)

    def get_urls(self) -> list[URLPattern]:
        begin = self.admin_site.admin_view(partial(bulk_views.start, self))
        show = self.admin_site.admin_view(partial(bulk_page.show, self))
        return [  # each batch is to last: in no transaction of a request, as all pages here
            path("run/", outside_transactions(begin), name="vtrr_django_failedjob_run"),
            path(
                "run/<int:number>/",
                outside_transactions(show),
                name="vtrr_django_failedjob_progress",
            ),
            *super().get_urls(),
        ]


def _chosen_action(request: HttpRequest) -> str:
    """Return the action of the button that was pressed; there may be two of them on a page."""
    given, index = request.POST.getlist("action"), request.POST.get("index", "0")
    number = int(index) if index.isascii() and index.isdecimal() else 0
    return given[number] if number < len(given) else ""


def _chosen_rows(request: HttpRequest) -> tuple[int, ...]:
    """Return the numbers of the rows whose boxes are ticked.

    Raises:
        ValueError: these are no numbers.
    """
    chosen = request.POST.getlist(ACTION_CHECKBOX_NAME)
    return tuple(sorted({Place.of(one).seq for one in chosen}))
