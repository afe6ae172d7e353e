"""When the database of a history does not answer: a page that says which one, and no traceback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib import messages
from django.db import DatabaseError, InterfaceError
from django.db.utils import DataError, IntegrityError, NotSupportedError, ProgrammingError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.connection import ConnectionDoesNotExist
from django.utils.text import capfirst

from vtrr_django.admin.history_search import database_of
from vtrr_django.engines.sql.store import is_missing_table
from vtrr_django.exceptions import ConfigurationError, StoreUnavailable

_OURS = (DataError, IntegrityError, NotSupportedError, ProgrammingError)


@contextmanager
def answering(alias: str) -> Iterator[None]:
    """Turn what Django raises when a database is down into the error that names the database.

    Raises:
        StoreUnavailable: it did not answer, is not there, or lacks the tables.
    """
    try:
        yield
    except ConnectionDoesNotExist as error:
        raise StoreUnavailable(f"settings.DATABASES has no database {alias!r}") from error
    except (DatabaseError, InterfaceError) as error:
        if is_missing_table(error):
            raise StoreUnavailable(
                f"database {alias!r} lacks tables of vtrr_django; run "
                f"manage.py migrate --database {alias} ({error})"
            ) from error
        if isinstance(error, _OURS):  # a statement of ours is wrong
            raise
        raise StoreUnavailable(f"database {alias!r} did not answer: {error}") from error


def or_say_why(
    model_admin: Any, request: HttpRequest, queue: str | None, view: Callable[[], HttpResponse]
) -> HttpResponse:
    """Return what a view of a queue's history returns, or a page that says why it cannot."""
    try:
        with answering(database_of(queue)):
            return view()
    except StoreUnavailable as error:
        return no_answer(model_admin, request, str(error))
    except ConfigurationError as error:
        messages.error(request, str(error))
        site = model_admin.admin_site.name
        return HttpResponseRedirect(reverse("admin:index", current_app=site))


def no_answer(model_admin: Any, request: HttpRequest, trouble: str) -> HttpResponse:
    """Return a page that says what does not answer."""
    site = model_admin.admin_site
    request.current_app = site.name
    context = {
        **site.each_context(request),
        "opts": model_admin.opts,
        "title": capfirst(model_admin.opts.verbose_name_plural),
        "trouble": trouble,
        "nothing_done": request.method == "POST",
        "here": request.get_full_path(),
    }
    template = "vtrr_django/admin/history_outage.html"
    return TemplateResponse(request, template, context, status=503)
