"""What went wrong before, of jobs that real Celery workers ran again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.celery.conftest import StartsSite, pairs
from tests.races.waiting import until

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")

WANTED = "tests.celery.project.tasks.Wanted"
QUEUES: dict[str, dict[str, Any]] = {
    "plain": {"LEASE_SECONDS": 60},
    "auto": {"LEASE_SECONDS": 60},
    "policy": {"RETRY": {"max_retries": 1, "base_delay": 0.1, "jitter": False}},
}
CASES: dict[str, tuple[str, list[Any], list[tuple[str, str]]]] = {
    "asks": ("plain", [["retry", 0], ["end"]], [("", "the job asked for a retry")]),
    "says why": ("plain", [["retry or raise"]], [(WANTED, "Wanted: says why")]),
    "by itself": ("auto", [["raise", "Wanted"]], [(WANTED, "Wanted: by itself")] * 2),
    "by policy": ("policy", [["raise", "Wanted"]], [(WANTED, "Wanted: by policy")]),
}


@pytest.mark.parametrize("pair", pairs)
def test_what_went_wrong_before(pair: str, open_site: StartsSite) -> None:
    site = open_site(pair, QUEUES)
    ids = {name: site.enqueue(queue, name, *steps) for name, (queue, steps, _) in CASES.items()}
    site.worker("-c", "1")
    for name, (queue, _, told) in CASES.items():
        figures, job_id = site.queue(queue).figures, ids[name]

        def all_told(figures: Any = figures, job_id: str = job_id, count: int = len(told)) -> Any:
            found = figures.attempts(job_id)
            return found if len(found) == count else None

        found = until(all_told, f"what went wrong with {name!r} to be told")
        assert [(one.error_class, one.reason) for one in found] == told
        assert all(one.worker_id for one in found)
