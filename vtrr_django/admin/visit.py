"""One request for one of the queue pages: who asks, about which queue, and the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from vtrr_django.admin.links import Links
from vtrr_django.admin.permissions import VIEW_QUEUES, may
from vtrr_django.exceptions import ConfigurationError
from vtrr_django.models import QueueState
from vtrr_django.queue import Queue
from vtrr_django.registry import all_queues

if TYPE_CHECKING:
    from vtrr_django.admin.queues import QueueStateAdmin

TEMPLATES: Final = "admin/vtrr_django/queuestate/"


class Visit:
    """A request, checked: its user may see queues and do what it is about; the queue is declared.

    Raises:
        PermissionDenied: the user may not.
        Http404: settings declare no queue of that name.
    """

    def __init__(
        self,
        model_admin: QueueStateAdmin,
        request: HttpRequest,
        queue_name: str | None = None,
        permission: str = VIEW_QUEUES,
    ) -> None:
        self.model_admin = model_admin
        self.request = request
        self.need(VIEW_QUEUES)
        self.need(permission)
        site = model_admin.admin_site
        request.current_app = site.name
        self.links = Links(request, site)
        self._queue = None if queue_name is None else declared(queue_name)

    @property
    def queue(self) -> Queue:
        """The queue it is about.

        Raises:
            LookupError: it is about none.
        """
        if self._queue is None:
            raise LookupError("expected a request about one queue, got one about all")
        return self._queue

    def need(self, permission: str) -> None:
        """Refuse a user who lacks the permission."""
        if not self.may(permission):
            raise PermissionDenied

    def may(self, permission: str) -> bool:
        """Return whether the user has the permission; that to view is the model admin's to give."""
        if permission == VIEW_QUEUES:
            return bool(self.model_admin.has_view_permission(self.request))
        return may(self.request, permission)

    @property
    def here(self) -> str:
        """The address of the page, to come back to."""
        return self.request.get_full_path()

    def render(
        self, template: str, title: str, context: dict[str, Any], *, status: int = 200
    ) -> HttpResponse:
        """Return a page."""
        request, site = self.request, self.model_admin.admin_site
        whole = {
            **site.each_context(request),
            "opts": self.model_admin.opts,
            "title": title,
            "here": self.here,
            "queues_url": self.links.to("changelist"),
            **self._about_queue(),
            **context,
        }
        return TemplateResponse(request, TEMPLATES + template, whole, status=status)

    def _about_queue(self) -> dict[str, Any]:
        if self._queue is None:
            return {}
        name = self._queue.name
        return {
            "queue": self._queue,
            "queue_url": self.links.to("detail", name),
            "log_url": self.links.to("history", quote(name)),
        }

    def log(self, text: str) -> None:
        """Write down in the admin's log what the user has changed."""
        row = QueueState(queue=self.queue.name)
        self.model_admin.log_change(self.request, row, text)


def declared(name: str) -> Queue:
    """Return a queue that settings declare.

    Raises:
        Http404: they do not.
    """
    try:
        queues = all_queues()
    except ConfigurationError as error:
        raise Http404(str(error)) from error
    for queue in queues:
        if queue.name == name:
            return queue
    raise Http404(f"settings declare no queue {name!r}")
