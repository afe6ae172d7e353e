"""What went wrong with a job before, on the pages about it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from tests.admin.ended import page_of
from tests.admin.looking import address, look
from tests.contract.jobs import put
from vtrr_django import Queue
from vtrr_django.models import CompletedJob, FailedJob

HEADING = "Went wrong before"


def go_wrong(queue: Queue, *reasons: str) -> str:
    """Have a job fail so often; return its id."""
    [job_id] = put(queue.engine, "acme")
    for reason in reasons:
        [job] = queue.lease(worker_id="worker-1")
        queue.retry(job, reason=ValueError(reason))
    queue.measure()
    return job_id


def test_a_job_that_waits_for_its_next_attempt_says_why(queue: Queue, root: Client) -> None:
    job_id = go_wrong(queue, "no route", "no answer")

    page = look(root, address("job", queue.name, job_id))

    assert HEADING in page.text
    first, second = page.text.index("no answer"), page.text.index("no route")
    assert first < second, "the newest first"
    assert page.text.count("builtins.ValueError") == 2
    assert page.text.count("worker-1") == 2
    assert page.text.count("ago)") >= 2


@pytest.mark.parametrize("model", [FailedJob, CompletedJob])
def test_a_job_that_has_ended_says_what_came_before(
    queue: Queue, root: Client, model: type[FailedJob | CompletedJob]
) -> None:
    job_id = go_wrong(queue, "no route")
    [job] = queue.lease()
    assert queue.ack(job) if model is CompletedJob else queue.fail(job, "dead")
    queue.archive()

    for path in (address("job", queue.name, job_id), page_of(model, queue.name, job_id)):
        page = look(root, path)
        assert HEADING in page.text, path
        assert "no route" in page.text


def test_who_may_not_see_error_texts_sees_when_who_and_of_what_class(
    queue: Queue, staff: Callable[..., Client]
) -> None:
    job_id = go_wrong(queue, "CANARY")
    watcher = staff("view_queuestate")

    path = address("job", queue.name, job_id)
    page = look(watcher, path)

    assert "builtins.ValueError" in page.text
    assert "worker-1" in page.text
    assert "CANARY" not in watcher.get(path).content.decode()


def test_a_job_that_went_well_says_nothing(queue: Queue, root: Client) -> None:
    [job_id] = put(queue.engine, "acme")
    assert HEADING not in look(root, address("job", queue.name, job_id)).text
