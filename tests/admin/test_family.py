"""Parents and children in whichever queue they are: only what is found is linked."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.admin.ended import add, page_of
from tests.admin.looking import address, look
from tests.contract.jobs import job, put
from tests.contract.stores import STORES
from vtrr_django import Queue, get_queue
from vtrr_django.engines.redis.engine import RedisEngine
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.models import CompletedJob, FailedJob


@pytest.fixture
def other(queue: Queue, settings: Any) -> Queue:
    """A second queue in the same store."""
    made = STORES["sqlite" if queue.config.engine == "orm" else "fakeredis"]()
    name = made.new_name()
    settings.VTRR = {"QUEUES": {**settings.VTRR["QUEUES"], name: made.settings()}}
    return get_queue(name)


@pytest.mark.parametrize("model", [FailedJob, CompletedJob])
def test_the_parent_of_a_live_job_is_found_in_another_queue(
    queue: Queue, other: Queue, root: Client, model: Any
) -> None:
    [parent] = add(model, "default", other.name)
    child = job("acme", parent_id=parent.id)
    queue.engine.enqueue([child], {})

    page = look(root, address("job", queue.name, child.id))

    assert page.links[parent.id] == address("job", other.name, parent.id)
    assert f"Made by Job Queue Task State {parent.id} {other.name} shop.tasks.upload" in page.text
    look(root, page.links[parent.id])


def test_a_live_parent_is_found_in_another_queue(queue: Queue, other: Queue, root: Client) -> None:
    [parent] = put(other.engine, "acme")
    child = job("acme", parent_id=parent)
    queue.engine.enqueue([child], {})
    [dead] = add(FailedJob, "default", queue.name, parent_id=parent)

    for path in (
        address("job", queue.name, child.id),
        address("job", queue.name, dead.id),
        page_of(FailedJob, queue.name, dead.id),
    ):
        page = look(root, path)
        assert page.links[parent] == address("job", other.name, parent), path
        assert f"{parent} {other.name} tests.task ready" in page.text


def test_children_are_found_in_other_queues(queue: Queue, other: Queue, root: Client) -> None:
    [parent] = put(queue.engine, "acme")
    [dead] = add(FailedJob, "default", other.name, parent_id=parent)
    [done] = add(CompletedJob, "default", queue.name, parent_id=parent)
    [gone] = add(CompletedJob, "default", "undeclared", parent_id=parent)

    page = look(root, address("job", queue.name, parent))

    assert page.links[dead.id] == address("job", other.name, dead.id)
    assert page.links[done.id] == address("job", queue.name, done.id)
    assert page.links[gone.id] == page_of(CompletedJob, "undeclared", gone.id)
    for child in (dead, done, gone):
        assert parent in look(root, page_of(type(child), child.queue, child.id)).links


def test_a_parent_of_which_nothing_is_kept_is_no_link(
    queue: Queue, other: Queue, root: Client
) -> None:
    child = job("acme", parent_id="long-gone")
    queue.engine.enqueue([child], {})

    page = look(root, address("job", queue.name, child.id))

    assert "Made by long-gone (nothing is kept of it)" in page.text
    assert "long-gone" not in page.links


def test_an_id_that_several_queues_have_is_that_of_the_own_queue(
    queue: Queue, other: Queue, root: Client
) -> None:
    for one in (other, queue):
        one.engine.enqueue([job("acme", id="invoice-1", given_id=True)], {})
    child = job("acme", parent_id="invoice-1")
    queue.engine.enqueue([child], {})
    [dead] = add(FailedJob, "default", other.name, parent_id="invoice-1")

    page = look(root, address("job", queue.name, child.id))
    assert page.links["invoice-1"] == address("job", queue.name, "invoice-1")
    page = look(root, address("job", other.name, dead.id))
    assert page.links["invoice-1"] == address("job", other.name, "invoice-1")


def test_another_store_that_does_not_answer_hides_no_page_and_is_asked_once(
    queue: Queue, settings: Any, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = {"ENGINE": "redis", "URL": "redis://127.0.0.1:1/0"}
    absent = {"ENGINE": "orm", "DATABASE": "nowhere"}
    more = {"broken": place, "broken-too": place, "absent": absent}
    settings.VTRR = {"QUEUES": {**settings.VTRR["QUEUES"], **more}}
    asked, find = [], RedisEngine.job

    def hang(self: RedisEngine, job_id: str) -> Any:
        if self.name.startswith("broken"):
            asked.append(self.name)
            raise StoreUnavailable("Redis did not answer")
        return find(self, job_id)

    monkeypatch.setattr(RedisEngine, "job", hang)
    child = job("acme", parent_id="long-gone")
    queue.engine.enqueue([child], {})

    page = look(root, address("job", queue.name, child.id))

    assert "Made by long-gone (nothing is kept of it)" in page.text
    assert asked == ["broken"]


@pytest.mark.parametrize("state", ["live", "ended"])
def test_pages_of_jobs_take_few_queries_however_many_queues_there_are(
    queue: Queue,
    settings: Any,
    staff: Any,
    django_assert_max_num_queries: Any,
    state: str,
) -> None:
    settings.VTRR = {"QUEUES": {**settings.VTRR["QUEUES"], **{f"q-{n}": {} for n in range(90)}}}
    [parent] = put(get_queue("q-50").engine, "acme")
    child = job("acme", parent_id=parent)
    queue.engine.enqueue([child], {})
    [dead] = add(FailedJob, "default", queue.name, parent_id=parent)
    job_id = child.id if state == "live" else dead.id
    add(FailedJob, "default", "q-51", 30, parent_id=job_id)
    client = staff("view_queuestate", "view_failedjob", "view_completedjob", "requeue_jobs")

    with django_assert_max_num_queries(15):
        page = look(client, address("job", queue.name, job_id))

    assert parent in page.links
