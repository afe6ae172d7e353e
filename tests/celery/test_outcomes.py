"""How a job's run under a real ``celery worker`` decides how its lease ends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.celery.conftest import StartsSite, pairs
from tests.celery.site import Site
from tests.races.waiting import until
from vtrr_django.domain.ids import new_job_id
from vtrr_django.domain.job import NewJob

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")

QUEUES: dict[str, dict[str, Any]] = {
    "plain": {},
    # Retries have to begin before the lease that is kept for them runs out, however long the
    # others of this list keep the pool busy.
    "plain-kept": {"LEASE_SECONDS": 60},
    # So have theirs; and then the lease of the retry has to run out.
    "plain-killed": {"LEASE_SECONDS": 20},
    "late-killed": {"LEASE_SECONDS": 20},
    "auto": {"LEASE_SECONDS": 60},
    "always": {},
    "async": {"LEASE_SECONDS": 60},
    "asyncauto": {"LEASE_SECONDS": 60},
    "asynclimits": {},
    "limits": {},
    "woven": {},
    "late": {},
    "policy": {"RETRY": {"max_retries": 1, "base_delay": 0.1, "jitter": False}},
    "never": {"RETRY": {"max_retries": 1, "base_delay": 0.1, "jitter": False}},
}


@pytest.fixture(scope="module", params=pairs)
def site(request: pytest.FixtureRequest, open_site: StartsSite) -> Site:
    """All cases at once: most of the time each would wait for a lease to run out."""
    site = open_site(request.param, QUEUES)
    for name, (queue, steps, _, _) in CASES.items():
        site.jobs[name] = site.enqueue(queue, name, *steps)
    site.worker("-P", "prefork", "-c", "2")
    return site


ONCE = [(0, 0)]
TWICE = [(0, 0), (1, 0)]
CASES: dict[str, tuple[str, list[Any], list[tuple[int, int]], str]] = {
    "returns": ("plain", [["end"]], ONCE, "completed"),
    "raises": ("plain", [["raise", "Wanted"]], ONCE, "Wanted"),
    "raises what no process can load": ("plain", [["raise", "Unloadable"]], ONCE, "Unloadable"),
    "discards": ("plain", [["raise", "Discard"]], ONCE, "Discard"),
    "ignores": ("plain", [["raise", "Ignore"]], ONCE, "completed"),
    "rejects": ("plain", [["raise", "Reject"]], ONCE, "Reject"),
    "retries": ("plain-kept", [["retry", 0.1], ["end"]], [(0, 0), (1, 0)], "completed"),
    "retries and returns": (
        "plain-kept",
        [["retry", 0.1, False], ["end"]],
        [(0, 0), (1, 0)],
        "completed",
    ),
    "retries too often": ("plain-kept", [["retry or raise"]], [(0, 0), (1, 0)], "Wanted"),
    "retries by itself": ("auto", [["raise", "Wanted"]], [(0, 0), (1, 0), (2, 0)], "Wanted"),
    "retries by itself and ends": (
        "auto",
        [["raise", "Wanted"], ["end"]],
        [(0, 0), (1, 0)],
        "completed",
    ),
    "discards, retried for everything": ("always", [["raise", "Discard"]], ONCE, "Discard"),
    "rejects, retried for everything": ("always", [["raise", "Reject"]], ONCE, "Reject"),
    "is invalid, retried for everything": (
        "always",
        [["raise", "ValidationError"]],
        ONCE,
        "ValidationError",
    ),
    "exits, retried for everything": (
        "always",
        [["raise", "SystemExit"], ["end"]],
        [(0, 0), (0, 1)],
        "completed",
    ),
    "retries by policy": ("policy", [["raise", "Wanted"]], [(0, 0), (1, 0)], "Wanted"),
    "is not retried by policy": ("never", [["raise", "Wanted"]], ONCE, "Wanted"),
    "exits": ("plain", [["raise", "SystemExit"], ["end"]], [(0, 0), (0, 1)], "completed"),
    "is killed": ("plain", [["kill"], ["end"]], [(0, 0), (0, 1)], "completed"),
    "is killed with a late ack": ("late", [["kill"], ["end"]], [(0, 0), (0, 1)], "completed"),
    "is killed in its retry": (
        "plain-killed",
        [["retry", 0], ["kill"], ["end"]],
        [(0, 0), (1, 0), (1, 1)],
        "completed",
    ),
    "is killed in its retry with a late ack": (
        "late-killed",
        [["retry", 0], ["kill"], ["end"]],
        [(0, 0), (1, 0), (1, 1)],
        "completed",
    ),
    "is killed in its retry, which comes twice": (
        "plain-killed",
        [["retry twice"], ["kill"], ["end"]],
        [(0, 0), (1, 0), (1, 1)],
        "completed",
    ),
    "catches its soft limit": ("limits", [["patient"]], ONCE, "completed"),
    "passes its soft limit": ("limits", [["sleep", 30]], ONCE, "SoftTimeLimitExceeded"),
    "passes its hard limit": ("limits", [["stubborn"], ["end"]], [(0, 0), (0, 1)], "completed"),
    "coroutine returns": ("async", [["end"]], ONCE, "completed"),
    "coroutine raises": ("async", [["raise", "Wanted"]], ONCE, "Wanted"),
    "coroutine discards": ("async", [["raise", "Discard"]], ONCE, "Discard"),
    "coroutine is cancelled": ("async", [["cancelled"]], ONCE, "CancelledError"),
    "coroutine retries": ("async", [["retry and clean up"], ["end"]], TWICE, "completed"),
    "coroutine retries and returns": (
        "async",
        [["retry", 0.1, False], ["end"]],
        TWICE,
        "completed",
    ),
    "coroutine retries twice": ("async", [["retry twice"], ["sleep", 1]], TWICE, "completed"),
    "coroutine retries and raises": (
        "asyncauto",
        [["retry and raise"], ["sleep", 1]],
        TWICE,
        "completed",
    ),
    "coroutine retries too often": ("async", [["retry or raise"]], TWICE, "Wanted"),
    "coroutine retries by itself": (
        "asyncauto",
        [["raise", "Wanted"], ["end"]],
        TWICE,
        "completed",
    ),
    "coroutine catches its soft limit": ("asynclimits", [["patient"]], ONCE, "completed"),
    "coroutine passes its soft limit": (
        "asynclimits",
        [["sleep", 600]],
        ONCE,
        "SoftTimeLimitExceeded",
    ),
    "coroutine passes its hard limit": (
        "asynclimits",
        [["stubborn"], ["end"]],
        [(0, 0), (0, 1)],
        "completed",
    ),
    "runs for two leases": ("plain", [["sleep", 4.5]], ONCE, "completed"),
    "exits after it asked for a retry": (
        "plain",
        [["retry and exit"], ["end"]],
        [(0, 0), (0, 1)],
        "completed",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_end(site: Site, name: str) -> None:
    queue, _, starts, end = CASES[name]
    assert site.end_of(queue, site.jobs[name]).rpartition(".")[2] == end
    assert site.starts(name) == starts
    assert site.counts(queue, site.jobs[name]) == starts[-1], "what its last run was told is kept"


@pytest.mark.parametrize("queue", ["plain", "always", "async"])
def test_snoozed(site: Site, queue: str) -> None:
    label = f"{queue} snoozed"
    job_id = site.enqueue(queue, label, ["snooze once", str(site.flag())])
    assert site.end_of(queue, job_id) == "completed"
    assert site.starts(label) == [(0, 0), (0, 0)]


def test_coroutine_knows_its_job(site: Site) -> None:
    job_id = site.enqueue("async", "looks", ["request"])
    assert site.end_of("async", job_id) == "completed"
    assert site.heard("seen", "looks") == [("looks", [job_id], 2)]


def test_coroutine_cleans_up_at_its_soft_limit(site: Site) -> None:
    job_id = site.enqueue("asynclimits", "long", ["sleep", 600])
    assert site.end_of("asynclimits", job_id).endswith("SoftTimeLimitExceeded")
    assert ("long",) in site.journal.said("cleaned"), "or it goes on beside its retry"


def test_unknown_task(site: Site) -> None:
    """It is put back, and uses no attempt."""
    queue = site.queue("plain")
    job = NewJob(id=new_job_id(), task_name="not.here", payload='{"args": [], "kwargs": {}}')
    queue.engine.enqueue([job], {})
    queue.reclaim_and_dispatch()
    until(lambda: queue.engine.stats().scheduled == 1, "an unknown task to be put back")
    assert queue.cancel(job.id) == [job.id]


def test_base_class_is_woven_in(site: Site) -> None:
    job_id = site.enqueue("woven", "woven", ["raise", "Wanted"])
    assert site.end_of("woven", job_id).endswith("Wanted")
    assert site.heard("called", "woven") == [("woven", ["raise", "Wanted"])]
    assert site.heard("hook") == [("Wanted", ["woven", ["raise", "Wanted"]])]


def test_soft_limit_has_both_names(site: Site) -> None:
    job_id = site.enqueue("limits", "both", ["patient"])
    assert site.end_of("limits", job_id) == "completed"
    assert site.heard("soft", "both") == [("both", True)]


def test_many_jobs_run_once_each(site: Site) -> None:
    labels = [f"many-{number}" for number in range(100)]
    ids = site.tasks["plain"].queue(
        partition_key="many", tasks=[{"args": [label]} for label in labels]
    )
    for job_id in ids:
        assert site.end_of("plain", job_id) == "completed"
    for label in labels:
        assert site.starts(label) == ONCE
    site.idle("plain")
