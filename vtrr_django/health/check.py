"""The check as a whole."""

from __future__ import annotations

from collections.abc import Iterable

from vtrr_django.exceptions import ConfigurationError
from vtrr_django.health.judging import judge
from vtrr_django.health.looking import Looker
from vtrr_django.health.report import Finding, HealthReport
from vtrr_django.queue import Queue
from vtrr_django.registry import all_queues


def check_health(queues: Iterable[Queue] | None = None) -> HealthReport:
    """Return how queues are: their stores, workers, backlogs, reclaims and beat.

    A store or a database that does not answer is a finding, never an exception. It waits for
    each of them once, for as long as its client does.

    Args:
        queues: which; None: all that settings declare.
    """
    try:
        chosen = all_queues() if queues is None else list(queues)
        looker = Looker()
        looks = [looker.look(queue) for queue in chosen]
    except ConfigurationError as error:
        wrong = Finding(id="settings", status="critical", sentence=str(error))
        return HealthReport(queues=(), findings=(wrong,))
    return HealthReport(queues=tuple(judge(look) for look in looks))
