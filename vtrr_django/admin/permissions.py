"""Who may do what: Django's own permissions, some of them this app's."""

from __future__ import annotations

from typing import Any, Final

from django.contrib.admin import AdminSite
from django.db.models import Model
from django.http import HttpRequest

SEE_PAYLOADS: Final = "vtrr_django.see_payloads"
"""See arguments, error texts and tracebacks, which may quote arguments."""

STEER: Final = "vtrr_django.steer_queues"
"""Pause and resume, reclaim, set shares and limits."""

REQUEUE: Final = "vtrr_django.requeue_jobs"
"""Requeue, copy and discard dead letters."""

PURGE: Final = "vtrr_django.purge_queues"
"""Cancel and purge jobs that wait."""

VIEW_QUEUES: Final = "vtrr_django.view_queuestate"
"""See queues, tenants and waiting jobs, without their arguments."""


def may(request: HttpRequest, permission: str) -> bool:
    """Return whether the signed-in user has a permission.

    Who may enter the admin at all is for its site to say, which was asked before any of its pages.
    """
    user: Any = request.user
    return bool(user.has_perm(permission))


def may_view(request: HttpRequest, site: AdminSite, model: type[Model]) -> bool:
    """Return whether a site has pages of a model and, as its model admin says, for this user."""
    return site.is_registered(model) and site.get_model_admin(model).has_view_permission(request)
