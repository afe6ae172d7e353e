"""What differs between pools, and what a trigger does besides running one job."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings

from tests.celery.conftest import PAIRS, StartsSite, pairs
from tests.celery.site import Site
from tests.races.waiting import until

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")

ONE_PAIR = [pair for pair in pairs if pair.values[0] == PAIRS[0]]
DRAIN: dict[str, Any] = {"DRAIN_SECONDS": 1}


@pytest.fixture(scope="module", params=["threads", "solo"])
def site(request: pytest.FixtureRequest, open_site: StartsSite) -> Site:
    queues = ("plain", "limits", "auto", "always", "async", "asyncauto", "asynclimits")
    site = open_site(PAIRS[0], {queue: {} for queue in queues})
    site.worker("-P", request.param, "-c", "2")
    return site


@pytest.mark.service("redis")
@pytest.mark.parametrize(
    ("queue", "steps", "starts", "end"),
    [
        ("plain", [["end"]], [(0, 0)], "completed"),
        ("plain", [["raise", "Unloadable"]], [(0, 0)], "Unloadable"),
        ("plain", [["retry", 0.1], ["end"]], [(0, 0), (1, 0)], "completed"),
        # Long enough for a second retry of the lease to be seen beside the first.
        ("plain", [["retry twice"], ["sleep", 1]], [(0, 0), (1, 0)], "completed"),
        ("auto", [["retry and raise"], ["sleep", 1]], [(0, 0), (1, 0)], "completed"),
        ("auto", [["raise", "Wanted"], ["end"]], [(0, 0), (1, 0)], "completed"),
        ("plain", [["raise", "SystemExit"], ["end"]], [(0, 0), (0, 1)], "completed"),
        ("limits", [["patient"]], [(0, 0)], "completed"),
        ("limits", [["sleep", 30]], [(0, 0)], "SoftTimeLimitExceeded"),
        ("async", [["raise", "Wanted"]], [(0, 0)], "Wanted"),
        ("async", [["retry and clean up"], ["end"]], [(0, 0), (1, 0)], "completed"),
        ("async", [["cancelled"]], [(0, 0)], "CancelledError"),
        ("asyncauto", [["raise", "Wanted"], ["end"]], [(0, 0), (1, 0)], "completed"),
        # What is written off is not retried by its message, beside the run of the reclaimed job.
        ("limits", [["stubborn retry"], ["end"]], [(0, 0), (0, 1)], "completed"),
        ("asynclimits", [["patient"]], [(0, 0)], "completed"),
        ("asynclimits", [["sleep", 600]], [(0, 0)], "SoftTimeLimitExceeded"),
    ],
)
def test_pool_in_one_process(
    site: Site, queue: str, steps: list[Any], starts: list[tuple[int, int]], end: str
) -> None:
    label = f"{queue} {steps}"
    job_id = site.enqueue(queue, label, *steps)
    assert site.end_of(queue, job_id).rpartition(".")[2] == end
    assert site.starts(label) == starts


@pytest.mark.service("redis")
@pytest.mark.parametrize("queue", ["plain", "auto"])
def test_max_retries_of_one_job_are_not_those_of_the_next(site: Site, queue: str) -> None:
    for most in (1, 3, 0):
        label = f"{queue} retries {most} times"
        job_id = site.enqueue(queue, label, ["retry or raise", most])
        assert site.end_of(queue, job_id).endswith("Wanted")
        assert len(site.starts(label)) == most + 1
    job_id = site.enqueue("auto", f"{queue} then auto", ["raise", "Wanted"])
    assert site.end_of("auto", job_id).endswith("Wanted")
    assert len(site.starts(f"{queue} then auto")) == 3


@pytest.mark.service("redis")
def test_a_wait_longer_than_the_brokers_is_no_failure_to_retry(site: Site) -> None:
    """It goes through the store, by an exception that ``autoretry_for`` does not see."""
    job_id = site.enqueue("always", "patient", ["retry", 99999])
    queue = site.queue("always")
    until(lambda: queue.engine.stats().scheduled == 1, "the retry to be stored")
    assert site.starts("patient") == [(0, 0)]
    assert queue.cancel(job_id) == [job_id]


@pytest.mark.service("redis")
def test_a_retry_that_vtrr_queue_has_sent_is_not_lost(site: Site) -> None:
    label, task = f"old {site.plan.run}", site.tasks["plain"]
    payload = {"task_name": task.name, "args": [label], "kwargs": {}}
    site.app.send_task(
        task.name, kwargs={"task_payload": payload}, queue=site.plan.name_of("plain")
    )
    site.heard("end", label)
    assert site.starts(label) == [(0, 0)]


CLEAN = (settings.LANGUAGE_CODE, settings.TIME_ZONE, "nobody")
"""The language, the time zone and the context variable of a job that has set none."""


def _leave_context_behind(site: Site, queue: str, other: str) -> None:
    """Run jobs that set it, and jobs that look, in turn: some of them in the same thread."""
    for turn in range(4):
        for one, step in ((queue, "set context"), (queue, "context"), (other, "context")):
            job_id = site.enqueue(one, f"{one} {step} {turn}", [step])
            assert site.end_of(one, job_id) == "completed"
    said = {words[1:] for words in site.journal.said("context")}
    assert said == {CLEAN}


@pytest.mark.service("redis")
@pytest.mark.parametrize("queue", ["plain", "async"])
def test_context_of_one_job_is_not_that_of_the_next(site: Site, queue: str) -> None:
    _leave_context_behind(site, queue, "auto")


@pytest.fixture(scope="module", params=ONE_PAIR)
def drained(request: pytest.FixtureRequest, open_site: StartsSite) -> Site:
    site = open_site(
        request.param,
        {
            "plain-drain": DRAIN,
            "limits-drain": DRAIN,
            "asynclimits-drain": DRAIN,
            "plain": {},
        },
    )
    site.worker("-P", "prefork", "-c", "1")
    return site


def test_drain_runs_many_jobs_a_trigger(drained: Site) -> None:
    blocked = drained.flag()
    drained.enqueue("plain", "blocker", ["wait", str(blocked)])
    drained.heard("start", "blocker")
    log = drained.folder / "worker.log"
    told = log.read_text().count("do_plain_drain")  # of other tests' jobs
    labels = [f"drained-{number}" for number in range(30)]
    drained.tasks["plain-drain"].queue(
        partition_key="a", tasks=[{"args": [label]} for label in labels]
    )
    before = drained.triggers("plain-drain")
    blocked.touch()
    for label in labels:
        drained.heard("end", label)
        assert drained.starts(label) == [(0, 0)]
    assert 1 <= before <= 8
    assert log.read_text().count("do_plain_drain") - told < 30


def test_drain_keeps_limits_per_job(drained: Site) -> None:
    # Together longer than the soft limit, in one trigger too; each alone by far not.
    ids = [drained.enqueue("limits-drain", f"slow-{n}", ["sleep", 0.3]) for n in range(6)]
    last = drained.enqueue("limits-drain", "too slow", ["sleep", 30])
    for job_id in ids:
        assert drained.end_of("limits-drain", job_id) == "completed"
    assert drained.end_of("limits-drain", last).endswith("SoftTimeLimitExceeded")


def test_drain_keeps_limits_of_coroutines(drained: Site) -> None:
    first = drained.enqueue("asynclimits-drain", "sleep", ["sleep", 600])
    last = drained.enqueue("asynclimits-drain", "patient", ["patient"])
    assert drained.end_of("asynclimits-drain", first).endswith("SoftTimeLimitExceeded")
    assert drained.end_of("asynclimits-drain", last) == "completed"
    assert drained.journal.said("cleaned") == [("sleep",)]


def test_drain_and_retry(drained: Site) -> None:
    jobs = [drained.enqueue("plain-drain", f"again-{n}", ["retry", 0.1], ["end"]) for n in range(3)]
    for number, job_id in enumerate(jobs):
        assert drained.end_of("plain-drain", job_id) == "completed"
        assert drained.starts(f"again-{number}") == [(0, 0), (1, 0)]


def _run_out_of_memory(site: Site) -> None:
    """Have a job do it; its worker must run those that come after it."""
    for turn in range(3):
        job_id = site.enqueue("plain", f"huge {turn}", ["raise", "MemoryError"])
        assert site.end_of("plain", job_id).endswith("MemoryError")
        job_id = site.enqueue("plain", f"behind {turn}", ["sleep", 0.3])
        assert site.end_of("plain", job_id) == "completed"
    assert site.all_up()


@pytest.mark.service("redis")
def test_a_job_without_memory_leaves_its_worker_alive(site: Site) -> None:
    _run_out_of_memory(site)


def test_a_job_without_memory_leaves_its_pool_alive(drained: Site) -> None:
    _run_out_of_memory(drained)


def test_drain_failure_is_told(drained: Site) -> None:
    job_id = drained.enqueue("plain-drain", "fails", ["raise", "Wanted"])
    assert drained.end_of("plain-drain", job_id).endswith("Wanted")
    log = drained.folder / "worker.log"
    until(lambda: "raised unexpected: Wanted('fails')" in log.read_text(), "Celery to hear of it")


def _queue_behind(site: Site, labels: list[str], step: str) -> None:
    """Enqueue jobs that one trigger drains: its process is busy until all are there."""
    blocked = site.flag()
    site.enqueue("plain", f"before {labels}", ["wait", str(blocked)])
    site.heard("start", f"before {labels}")
    site.tasks["plain-drain"].queue(
        partition_key="a", tasks=[{"args": [label, [step]]} for label in labels]
    )
    blocked.touch()
    for label in labels:
        site.heard("end", label)


def test_drain_leaves_nothing_on_the_request(drained: Site) -> None:
    labels = [f"leaves {number}" for number in range(5)]
    _queue_behind(drained, labels, "leave on the request")
    assert sorted(drained.journal.said("found")) == [(label, None, 0) for label in labels]


def test_drain_leaves_no_context(drained: Site) -> None:
    _queue_behind(drained, ["sets 0", "sets 1"], "set context")
    _leave_context_behind(drained, "plain-drain", "plain")
