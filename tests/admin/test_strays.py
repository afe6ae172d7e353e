"""Jobs of a queue that settings do not declare any more: an operator finds out."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.admin.conftest import declare
from tests.admin.looking import address, look
from tests.contract.jobs import put, take
from tests.contract.redis_store import forget_all
from vtrr_django import Queue
from vtrr_django.engines.redis import strays as in_redis
from vtrr_django.models import Job


@pytest.fixture(autouse=True)
def _alone() -> None:
    forget_all()


def rename(settings: Any, queue: Queue, **more: Any) -> str:
    """Rename the queue in settings; return its new name."""
    new = f"{queue.name}-new"
    settings.VTRR = {"QUEUES": {new: {**settings.VTRR["QUEUES"][queue.name], **more}}}
    return new


def test_jobs_of_a_renamed_queue_are_told_of(settings: Any, queue: Queue, root: Client) -> None:
    put(queue.engine, "acme", "acme", "globex")
    put(queue.engine, "acme", delay=3600)
    take(queue.engine)
    left = f"Left behind in queue {queue.name}, in "
    assert left not in look(root, address("changelist")).text

    new = rename(settings, queue)

    text = look(root, address("changelist")).text
    assert left in text
    assert "2 ready, 1 scheduled, 1 leased. Settings declare no queue of that name" in text
    assert f"put '{queue.name}' back into VTRR['QUEUES']" in text
    assert f"manage.py vtrr_purge --queue {queue.name}" in text

    settings.VTRR = {"QUEUES": {queue.name: settings.VTRR["QUEUES"][new]}}
    queue.purge()
    rename(settings, queue)
    assert "1 leased. Settings declare" in look(root, address("changelist")).text


def test_an_empty_queue_leaves_nothing_behind(settings: Any, queue: Queue, root: Client) -> None:
    put(queue.engine, "acme")
    queue.pause("globex")
    queue.purge()
    rename(settings, queue)

    assert f"in queue {queue.name}," not in look(root, address("changelist")).text


def test_a_queue_that_moved_to_another_store_has_left_its_jobs(settings: Any, root: Client) -> None:
    queue = declare(settings, "sqlite")
    put(queue.engine, "acme")
    path = "tests.contract.redis_store.FakeRedisEngine"
    settings.VTRR = {"QUEUES": {queue.name: {"ENGINE": path}}}

    text = look(root, address("changelist")).text

    assert f"Left behind in queue {queue.name}, in database 'default': 1 ready." in text
    assert f"Have VTRR['QUEUES']['{queue.name}'] lead back there" in text


def test_of_many_such_queues_some_are_named(settings: Any, root: Client) -> None:
    queue = declare(settings, "sqlite")
    [job_id] = put(queue.engine, "acme")
    row = Job.objects.get(id=job_id)
    for n in range(15):
        row.pk, row.queue = None, f"old-{n:02}"
        row.save(force_insert=True)

    text = look(root, address("changelist")).text

    assert text.count("Left behind in queue old-") == 10
    assert "Jobs were left in 5 more such queues." in text


@pytest.mark.django_db(transaction=True)
def test_of_a_redis_only_so_many_keys_are_looked_through(
    settings: Any, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = declare(settings, "fakeredis")
    put(queue.engine, "acme")
    client = queue.engine.commands.client  # type: ignore[attr-defined]
    rename(settings, queue)
    client.set("vtrr:what-is-it:meta", "somebody else's")
    client.hset("vtrr:{half:meta", "a", "b")
    try:
        text = look(root, address("changelist")).text
        assert f"Left behind in queue {queue.name}, in the Redis database of queue" in text
        assert "what-is-it" not in text
        monkeypatch.setattr(in_redis, "_PAGES", 0)
        assert "Left behind" not in look(root, address("changelist")).text
    finally:
        client.delete("vtrr:what-is-it:meta", "vtrr:{half:meta")
