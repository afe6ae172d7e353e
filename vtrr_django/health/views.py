"""The check for monitors that speak HTTP."""

from __future__ import annotations

from typing import Any, Final

from django.db.transaction import non_atomic_requests
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from vtrr_django.health.check import check_health

VIEW_QUEUES: Final = "vtrr_django.view_queuestate"
"""The permission to read the sentences of a report, which name workers."""


# Neither may a database that is down keep the view from saying so.
@non_atomic_requests
@never_cache
@require_safe
def health(request: HttpRequest) -> JsonResponse:
    """Answer with the health of all queues as JSON; status 503 if one is critical, else 200.

    Everybody gets the status of each queue and finding. The sentences are for signed-in
    staff who may view queues.
    """
    report = check_health()
    return JsonResponse(
        report.as_dict(sentences=_may_read(request)),
        status=503 if report.status == "critical" else 200,
    )


def _may_read(request: HttpRequest) -> bool:
    user: Any = getattr(request, "user", None)
    try:
        return bool(user and user.is_active and user.is_staff and user.has_perm(VIEW_QUEUES))
    except Exception:  # noqa: BLE001 - the sessions may be in the database that is down
        return False
