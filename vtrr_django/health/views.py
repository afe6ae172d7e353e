"""The check for monitors that speak HTTP."""

from __future__ import annotations

import logging
from typing import Any, Final

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from vtrr_django.connections import outside_transactions
from vtrr_django.health.check import check_health

VIEW_QUEUES: Final = "vtrr_django.view_queuestate"
"""The permission to read the findings of a report, which name queues and workers."""


logger = logging.getLogger("vtrr_django.health")


@outside_transactions
@login_not_required
@never_cache
@require_safe
def health(request: HttpRequest) -> JsonResponse:
    """Answer with the health of all queues as JSON; status 503 if one is critical, else 200.

    Everybody gets the status of the whole. Queues and findings are for signed-in staff who may
    view queues.
    """
    return answer(tells=_may_read(request))


def answer(*, tells: bool) -> JsonResponse:
    """Return the answer to who may read the findings, or to who may not."""
    report = check_health()
    told = report.as_dict() if tells else {"status": report.status}
    return JsonResponse(told, status=503 if report.status == "critical" else 200)


def _may_read(request: HttpRequest) -> bool:
    user: Any = getattr(request, "user", None)
    try:
        return bool(user and user.is_active and user.is_staff and user.has_perm(VIEW_QUEUES))
    except Exception as error:  # noqa: BLE001 - the sessions may be in the database that is down
        # Not its text, which may quote anything.
        logger.warning("who asks could not be found out (%s)", type(error).__name__)
        return False
