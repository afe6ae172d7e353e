"""Where the pages are, and the buttons that lead to or do something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote, unquote
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from vtrr_django.admin.permissions import may_view

PREFIX: Final = "admin:vtrr_django_queuestate_"
"""What the names of the queue pages' URLs begin with."""

MOST_IN_ADDRESS: Final = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class Button:
    """Something to press.

    Attributes:
        label: what is on it.
        url: where it leads (``post=False``), or what does it.
        fields: what is sent along.
        css: a class that says how loud it is.
        about: what a screen reader says after the label.
    """

    label: str
    url: str
    fields: Mapping[str, str] = field(default_factory=dict)
    css: str = ""
    post: bool = True
    about: str = ""


class Links:
    """The addresses of one admin site, as the user of a request may follow them."""

    def __init__(self, request: HttpRequest, site: AdminSite) -> None:
        self._request = request
        self._site = site

    def to(self, page: str, *args: str, **query: str) -> str:
        """Return the address of one of the queue pages."""
        address = reverse(PREFIX + page, args=args, current_app=self._site.name)
        return with_query(address, query)

    def partition(self, queue: str, key: str) -> str:
        """Return the address of a partition's page."""
        return self.to("partition", queue, key=key)

    def jobs(self, queue: str, state: str, key: str | None = None) -> str:
        """Return the address of the jobs in one state, of one partition or of all."""
        return self.to("jobs", queue, state, **partition_query(key))

    def job(self, queue: str, job_id: str) -> str:
        """Return the address of a job's page."""
        return self.to("job", queue, quoted(job_id))

    def ended(self, model: type[Model], **query: str) -> str | None:
        """Return the address of the list of completed or of failed jobs.

        None: this site has no such list, or the user may not see it.
        """
        return self._model_page(model, "changelist", query)

    def ended_job(self, model: type[Model], key: str) -> str | None:
        """Return the address of one completed or failed job (``history_job.key_of``), or None."""
        return self._model_page(model, "change", {}, quote(key))

    def _model_page(
        self, model: type[Model], page: str, query: Mapping[str, str], *args: str
    ) -> str | None:
        if not may_view(self._request, self._site, model):
            return None
        name = f"admin:vtrr_django_{model._meta.model_name}_{page}"
        return with_query(reverse(name, args=args, current_app=self._site.name), query)


def with_query(address: str, query: Mapping[str, str]) -> str:
    """Return an address with a query string."""
    return f"{address}?{urlencode(query)}" if query else address


def partition_query(key: str | None) -> dict[str, str]:
    """Return what the query of a job list says of a partition; a form sends "" for all."""
    if key is None:
        return {}
    return {"partition": key} if key else {"none": "1"}


def quoted(job_id: str) -> str:
    """Return a job id as a step of a path.

    A browser would take ``.`` and ``..`` for steps of its own.
    """
    return quote(job_id).replace(".", "_2E")


def unquoted(step: str) -> str:
    """Undo :func:`quoted`; Django's ``unquote`` leaves ``_2E`` as it is."""
    return unquote(step.replace("_2E", "."))


def back(request: HttpRequest, otherwise: str) -> str:
    """Return the address on this site that a form names in ``next``, or ``otherwise``."""
    address = request.POST.get("next", "")
    good = len(address) <= MOST_IN_ADDRESS and url_has_allowed_host_and_scheme(
        address, {request.get_host()}, require_https=request.is_secure()
    )
    return address if good else otherwise
