"""What is told and written down when a store fails half way, or at a look after the act."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.admin.ended import asked, runs, to_the_end
from tests.admin.looking import address, look, messages
from tests.admin.test_queues_actions import dead, logged, of
from tests.contract.jobs import put
from vtrr_django import Queue
from vtrr_django.admin import queue_actions
from vtrr_django.engines.orm import engine as orm
from vtrr_django.engines.orm.partitions import Partitions
from vtrr_django.engines.redis import engine as redis
from vtrr_django.engines.redis.commands import Commands
from vtrr_django.engines.redis.outbox import Outbox
from vtrr_django.exceptions import StoreUnavailable, VTRRError, so_far
from vtrr_django.models import FailedJob

WHY = "the store went away"


def fail_at(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int, *, script: str = ""
) -> None:
    """Let a method work until it is called for the n-th time; ``script``: with that one."""
    works, calls = getattr(owner, name), 0

    def fail(self: Any, *args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += not script or args[0] == script
        if calls == call and (not script or args[0] == script):
            raise StoreUnavailable(WHY)
        return works(self, *args, **options)

    monkeypatch.setattr(owner, name, fail)


@pytest.fixture
def in_twos(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have engines work in steps of two jobs; return what lets a verb's second step fail."""
    monkeypatch.setattr(orm, "_CANCEL_CHUNK", 2)
    monkeypatch.setattr(redis, "_CHUNK", 2)

    def spoil(verb: str) -> None:
        if queue.config.engine == "orm":
            methods = {"requeue": "_requeue", "cancel": "_remove", "purge": "_remove"}
            fail_at(monkeypatch, orm.OrmEngine, methods[verb], 2)
        elif verb == "requeue":
            fail_at(monkeypatch, Outbox, "requeue", 2)
        else:
            fail_at(monkeypatch, Commands, "run", 2, script=verb)

    return spoil


def press(root: Client, queue: Queue, verb: str, **fields: Any) -> str:
    path = address("purge", queue.name) if verb == "purge" else address("do", queue.name, verb)
    return messages(look(root, root.post(path, fields).headers["Location"]))


STOPPED = f"Then it was stopped: {WHY}"


def test_all_are_requeued_until_a_store_fails(
    queue: Queue, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead(queue, 5)
    monkeypatch.setattr(queue_actions, "REQUEUE_BATCH", 2)
    fail_at(monkeypatch, Queue, "requeue", 2)

    told = press(root, queue, "requeue")

    assert f"Queue {queue.name}: 2 dead letters requeued; 3 are left. {STOPPED}" in told
    assert "Nothing was done" not in told
    assert queue.depth().ready == 2
    assert logged() == ["Requeued 2 dead letters, and was then stopped by an error."]


@pytest.mark.parametrize("by_id", [True, False])
def test_requeueing_tells_the_steps_before_one_that_failed(
    queue: Queue, root: Client, in_twos: Callable[[str], None], by_id: bool
) -> None:
    dead(queue, 5)
    ids = list(FailedJob.objects.values_list("id", flat=True)) if by_id else []
    in_twos("requeue")

    told = press(root, queue, "requeue", id=ids)

    what = "job" if by_id else "dead letter"
    assert f"2 {what}s requeued" in told
    assert STOPPED in told
    assert queue.depth().ready == 2
    assert logged() == [f"Requeued 2 {what}s, and was then stopped by an error."]


@pytest.mark.parametrize("verb", ["cancel", "purge"])
@pytest.mark.parametrize("key", ["acme", None])
def test_removing_tells_the_steps_before_one_that_failed(
    queue: Queue, root: Client, in_twos: Callable[[str], None], verb: str, key: str | None
) -> None:
    ids = put(queue.engine, *["acme"] * 5)
    in_twos(verb)
    of_key = {} if key is None else {"partition": key}

    told = press(root, queue, verb, id=ids, seen="5", **of_key)

    assert STOPPED in told
    assert "Nothing was done" not in told
    assert queue.depth().ready == 3
    [entry] = logged()
    assert entry.startswith("Purged 2 waiting jobs" if verb == "purge" else "Cancelled 2 jobs")
    assert entry.endswith(", and was then stopped by an error.")


def test_an_error_before_the_first_step_did_nothing(
    queue: Queue, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead(queue, 2)
    fail_at(monkeypatch, Queue, "requeue", 1)

    assert f"Nothing was done: {WHY}" in press(root, queue, "requeue")
    assert logged() == []


def test_discarding_counts_the_steps_before_one_that_failed(
    queue: Queue, in_twos: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    dead(queue, 5)
    ids = list(FailedJob.objects.values_list("id", flat=True))
    if queue.config.engine == "orm":
        fail_at(monkeypatch, type(queue.engine._history), "discard", 2)  # type: ignore[attr-defined]
    else:
        fail_at(monkeypatch, Outbox, "discard", 2)

    with pytest.raises(StoreUnavailable) as caught:
        queue.discard(ids)

    assert caught.value.done == 2
    assert FailedJob.objects.count() == 3


def test_leases_that_came_back_are_told_though_the_sweep_failed(
    queue: Queue, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(queue.engine, *["acme"] * 3)
    queue.engine.lease(3, worker_id="w", lease_seconds=0.0)
    if queue.config.engine == "orm":
        fail_at(monkeypatch, Partitions, "sweep", 1)
    else:
        monkeypatch.setattr(redis, "_RETURNS", 2)
        fail_at(monkeypatch, Commands, "run", 2, script="reclaim")

    told = press(root, queue, "reclaim")

    n = 3 if queue.config.engine == "orm" else 2
    assert f"{n} leases that had run out came back. {STOPPED}" in told
    assert logged() == [
        f"Reclaimed: {n} leases that had run out came back, and was then stopped by an error."
    ]


@pytest.mark.parametrize("verb", ["pause", "share", "limit"])
def test_a_setting_holds_though_what_follows_it_failed(
    queue: Queue, root: Client, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    if queue.config.engine != "orm":
        pytest.skip("there it is one script")
    put(queue.engine, "acme")
    fail_at(monkeypatch, Partitions, "refresh", 1)

    told = press(root, queue, verb, partition="acme", share="3", limit="4")

    assert STOPPED in told
    found = of(queue, "acme")
    assert (found.paused, found.share, found.limit) == {
        "pause": (True, 1, None),
        "share": (False, 3, None),
        "limit": (False, 1, 4),
    }[verb]
    [entry] = logged()
    assert entry.endswith("(partition acme), and was then stopped by an error.")


# -- looks after the act -----------------------------------------------------------


def test_a_count_that_fails_afterwards_undoes_no_news(
    queue: Queue, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead(queue, 3)
    counts, calls = queue_actions._failed, []

    def once(*args: Any) -> int:
        calls.append(args)
        if len(calls) > 1:
            raise StoreUnavailable(WHY)
        return counts(*args)

    monkeypatch.setattr(queue_actions, "_failed", once)

    told = press(root, queue, "requeue")

    assert f"Queue {queue.name}: 3 dead letters requeued." in told
    assert WHY not in told
    assert logged() == ["Requeued 3 dead letters."]


def test_a_look_that_fails_afterwards_undoes_no_setting(
    queue: Queue, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(queue.engine, "acme")
    with monkeypatch.context() as patch:
        fail_at(patch, Queue, "partitions", 2)
        told = press(root, queue, "share", partition="acme", share="3")

    assert f"Partition acme of queue {queue.name} has the share 3." in told
    assert of(queue, "acme").share == 3
    assert logged() == ["Gave it the share 3 (partition acme)."]


# -- runs with many ----------------------------------------------------------------


@pytest.mark.parametrize("action", ["requeue", "discard"])
def test_a_run_counts_what_was_done_before_an_error(
    queue: Queue, root: Client, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead(queue, 3)
    does = getattr(Queue, action)
    calls = []

    def do_and_fail(self: Queue, ids: Any) -> Any:
        calls.append(ids)
        done = does(self, ids[:2] if len(calls) == 1 else ids)
        if len(calls) > 1:
            return done
        error = StoreUnavailable(WHY)
        error.done = len(done)
        raise error

    monkeypatch.setattr(Queue, action, do_and_fail)

    told = to_the_end(root, asked(root, action))

    assert f"3 failed jobs {action}" in told
    assert "gone when the run came to" not in told
    assert "Done: 3" in runs().get().change_message


def test_errors_add_up_what_was_done() -> None:
    with pytest.raises(VTRRError) as caught, so_far(lambda: 2), so_far(lambda: 1):
        raise VTRRError("no")
    assert caught.value.done == 3
