"""Dead letters looked at, discarded and copied; and since when a leased job has been ready."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections

from tests.contract.jobs import drain, end, haunt, job, put, take
from tests.contract.stores import Store
from tests.races.waiting import until
from vtrr_django.domain.job import LeasedJob, OutcomeKind
from vtrr_django.engines.base import Engine
from vtrr_django.engines.sql.models import FailedJob
from vtrr_django.engines.sql.tables import COMPLETED, FAILED

SHORT = 0.05
AT_LEAST = timedelta(seconds=SHORT - 0.001)


def kill(engine: Engine, *partition_keys: str, **fields: Any) -> list[str]:
    """Make dead letters; return their ids."""
    ids = put(engine, *partition_keys, **fields)
    for one in take(engine, len(ids)):
        assert end(engine, one, OutcomeKind.FAIL, reason="r")
    return ids


# -- discarding --------------------------------------------------------------------


def test_discarded_letters_are_gone_and_the_others_stay(store: Store) -> None:
    engine = store.engine()
    ids = kill(engine, *"aabbc")
    other = store.engine()
    [foreign] = kill(other, "a")
    live, done = put(engine, "d", "e")
    [leased] = [one for one in take(engine, 2) if one.id == done]
    assert end(engine, leased)
    asked = [ids[3], "nobody", ids[0], foreign, live, done]
    assert engine.discard(asked) == [ids[3], ids[0]]
    assert engine.discard(asked) == []
    left = {ids[1], ids[2], ids[4]}
    assert {row["id"] for row in store.history(engine.name)["failed"]} == left
    assert len(store.history(engine.name)["completed"]) == 1
    assert len(store.history(other.name)["failed"]) == 1
    assert engine.stats().failed == 3
    assert set(engine.requeue()) == left


def test_more_letters_than_one_statement_takes(store: Store) -> None:
    engine = store.engine()
    ids: list[str] = []
    for _ in range(11):
        ids += kill(engine, *["a"] * 100)
    assert [one.id for one in engine.dead_letters(ids[::-1])] == ids[::-1]
    assert engine.discard(ids[::-1]) == ids[::-1]
    assert engine.stats().failed == 0


def test_the_names_of_a_discarded_letter_are_free_again(store: Store) -> None:
    engine = store.engine()
    new = job("a", id="own", given_id=True, msg_id="m")
    engine.enqueue([new], {})
    assert end(engine, take(engine)[0], OutcomeKind.FAIL, reason="r")
    other = job("b", msg_id="m")
    assert engine.enqueue([other], {}) == ["own"]
    assert engine.discard(["own"]) == ["own"]
    assert engine.known([new, other]) == [None, None]
    assert engine.enqueue([other], {}) == [other.id]
    again = job("c", id="own", given_id=True)
    assert engine.enqueue([again], {}) == ["own"]
    assert sorted(one.id for one in drain(engine)) == sorted([other.id, "own"])


# -- looking at them ---------------------------------------------------------------


def test_letters_come_as_the_jobs_they_were_in_the_order_asked_for(store: Store) -> None:
    engine = store.engine()
    fields = {"weight": 3, "priority": -5, "payload": '{"args":["ü"],"kwargs":{}}'}
    first, second = kill(engine, "ten ant", "", msg_id=None, parent_id="p", **fields)
    letters = engine.dead_letters([second, "nobody", first])
    assert [one.id for one in letters] == [second, first]
    assert [one.partition_key for one in letters] == ["", "ten ant"]
    for one in letters:
        assert (one.task_name, one.weight, one.priority) == ("tests.task", 3, -5)
        assert (one.payload, one.delay, one.due_at) == (fields["payload"], None, None)
    assert engine.stats().failed == 2
    put(engine, "a")
    assert engine.dead_letters([take(engine)[0].id]) == []


def test_a_requeued_letter_is_the_job_it_was(store: Store) -> None:
    engine = store.engine()
    payload = '{"args":["ü",[]],"kwargs":{"k":1.5}}'
    [job_id] = kill(engine, "ten ant", weight=3, priority=-5, payload=payload)
    assert engine.requeue([job_id]) == [job_id]
    [again] = take(engine)
    assert (again.id, again.partition_key, again.task_name) == (job_id, "ten ant", "tests.task")
    assert (again.weight, again.priority) == (3, -5)
    assert (again.args, again.kwargs) == (["ü", []], {"k": 1.5})


# -- since when --------------------------------------------------------------------


def soon(engine: Engine) -> LeasedJob:
    """Lease the one job that is about to be ready."""
    [leased] = until(lambda: take(engine), "a job that is ready soon")
    return leased


def ready_at(leased: LeasedJob) -> Any:
    assert leased.ready_at is not None
    return leased.ready_at


def test_a_job_is_ready_since_it_came(store: Store) -> None:
    engine = store.engine()
    put(engine, *["a"] * 40)
    put(engine, "a")
    leased = take(engine, 41)
    for one in leased:
        assert abs(ready_at(one) - one.enqueued_at) < timedelta(milliseconds=1)
    assert [one.ready_at for one in leased] == sorted(ready_at(one) for one in leased)


def test_a_delayed_job_is_ready_since_it_was_due(store: Store) -> None:
    engine = store.engine()
    put(engine, "a", delay=SHORT)
    leased = soon(engine)
    assert ready_at(leased) - leased.enqueued_at >= AT_LEAST


@pytest.mark.parametrize("kind", [OutcomeKind.RETRY, OutcomeKind.SNOOZE])
def test_a_job_that_was_put_off_is_ready_since_it_was_due_again(
    store: Store, kind: OutcomeKind
) -> None:
    engine = store.engine()
    put(engine, "a")
    [first] = take(engine)
    assert end(engine, first, kind, delay=SHORT)
    again = soon(engine)
    assert (again.id, again.enqueued_at) == (first.id, first.enqueued_at)
    assert ready_at(again) - ready_at(first) >= AT_LEAST


def test_a_reclaimed_job_is_ready_since_it_came_back(store: Store) -> None:
    engine = store.engine()
    put(engine, "a")
    [first] = engine.lease(1, worker_id="w", lease_seconds=SHORT)
    again = soon(engine)
    assert (again.id, again.timeouts) == (first.id, 1)
    assert ready_at(again) - ready_at(first) >= AT_LEAST


def test_a_released_job_keeps_the_time_of_its_place(store: Store) -> None:
    engine = store.engine()
    put(engine, "a")
    [first] = take(engine)
    [second] = put(engine, "a")
    assert end(engine, first, OutcomeKind.RELEASE)
    again, other = take(engine, 2)
    assert (again.id, again.ready_at) == (first.id, first.ready_at)
    assert other.id == second
    assert ready_at(other) > ready_at(again)


def test_a_requeued_job_is_ready_since_then(store: Store) -> None:
    engine = store.engine()
    put(engine, "a")
    [first] = take(engine)
    assert end(engine, first, OutcomeKind.FAIL, reason="r")
    assert engine.requeue() == [first.id]
    [again] = take(engine)
    assert ready_at(again) > ready_at(first)


def test_a_partition_comes_back_with_the_share_declared_for_it(store: Store) -> None:
    engine = store.engine()
    [first] = kill(engine, "a")
    [second] = kill(engine, "b")
    assert engine.requeue([first], shares={"a": 3.0, "b": 9.0}) == [first]
    assert [one.share for one in engine.partitions(partition_key="a")] == [3.0]
    assert engine.requeue(shares={"b": 2.0}) == [second]
    assert [one.share for one in engine.partitions(partition_key="b")] == [2.0]


def test_more_letters_are_requeued_than_one_transaction_takes(store: Store) -> None:
    engine = store.engine()
    ids: list[str] = []
    for _ in range(21):
        ids += kill(engine, *["a"] * 100)
    assert [one.id for one in engine.dead_letters(limit=150)] == ids[:150]
    assert engine.requeue(limit=2050) == ids[:2050]
    assert [one.id for one in engine.dead_letters()] == ids[2050:]
    assert engine.depth().ready == 2050


# -- letters that were taken over --------------------------------------------------


def rewrite(store: Store, engine: Engine, job_id: str, **columns: str) -> None:
    """Make a dead letter one that was taken over, whose ids nobody has compared with others."""
    store.history(engine.name)  # Redis hands it over
    letters = FailedJob.objects.using(store.history_alias).filter(queue=engine.name, id=job_id)
    assert letters.update(**columns) == 1


def msg_ids(engine: Engine) -> dict[str, str | None]:
    return {one.id: one.msg_id for one in take(engine, 100)}


def test_a_letter_with_the_msg_id_of_a_live_job_comes_back_without_it(store: Store) -> None:
    engine = store.engine()
    first, second, third = kill(engine, "a", "b", "b")
    rewrite(store, engine, first, msg_id="other")
    [live] = put(engine, "a", msg_id="m")
    rewrite(store, engine, second, msg_id="m")
    assert engine.requeue() == [first, second, third]
    assert engine.dead_letters() == []
    assert msg_ids(engine) == {live: "m", first: "other", second: None, third: None}


def test_of_two_letters_with_one_msg_id_the_older_one_keeps_it(store: Store) -> None:
    engine = store.engine()
    ids = kill(engine, "a", "b", "c")
    for job_id in ids[1:]:
        rewrite(store, engine, job_id, msg_id="m")
    assert engine.requeue(ids) == ids
    assert msg_ids(engine) == {ids[0]: None, ids[1]: "m", ids[2]: None}


def test_a_letter_that_is_none_any_more_keeps_its_msg_id_from_no_other(store: Store) -> None:
    engine = store.engine()
    ids = kill(engine, *"abc")
    [live] = put(engine, "d")
    rewrite(store, engine, ids[0], id=live, msg_id="m")
    for job_id in ids[1:]:
        rewrite(store, engine, job_id, msg_id="m")
    assert engine.requeue() == ids[1:]
    assert msg_ids(engine) == {live: None, ids[1]: "m", ids[2]: None}


def test_letters_requeued_one_after_the_other_share_no_msg_id_while_they_live(
    store: Store,
) -> None:
    engine = store.engine()
    ids = kill(engine, *"abcd")
    for job_id in ids:
        rewrite(store, engine, job_id, msg_id="m")
    assert engine.requeue([ids[3]]) == [ids[3]]
    assert engine.requeue([ids[0], ids[2]]) == [ids[0], ids[2]]
    assert engine.enqueue([job("z", msg_id="m")], {}) == [ids[3]]
    leased = take(engine, 10)
    assert {one.id: one.msg_id for one in leased} == {ids[3]: "m", ids[0]: None, ids[2]: None}
    assert engine.requeue([ids[1]]) == [ids[1]]
    assert msg_ids(engine) == {ids[1]: None}, "a job that runs is a live one"


@pytest.mark.parametrize("kind", [OutcomeKind.ACK, OutcomeKind.FAIL])
def test_a_job_that_has_ended_lets_its_msg_id_go(store: Store, kind: OutcomeKind) -> None:
    engine = store.engine()
    first, second = kill(engine, "a", "b")
    for job_id in (first, second):
        rewrite(store, engine, job_id, msg_id="m")
    assert engine.requeue([first]) == [first]
    [leased] = take(engine)
    assert end(engine, leased, kind, reason="r")
    assert engine.requeue([second]) == [second]
    assert engine.enqueue([job("z", msg_id="m")], {}) == [second]
    assert msg_ids(engine) == {second: "m"}


def test_letters_behind_chunks_of_live_ones_are_requeued_too(store: Store) -> None:
    engine = store.engine()
    ids = kill(engine, *"aaa")
    live = put(engine, *["c"] * 1001)
    haunt(store, engine, ids[0], live)
    assert engine.requeue(limit=2) == ids[:2]
    assert engine.requeue() == ids[2:]
    assert engine.requeue() == engine.dead_letters() == []
    assert (engine.depth().ready, engine.stats().failed) == (1004, 0)


def test_a_limit_counts_those_that_are_back(store: Store) -> None:
    engine = store.engine()
    ids = kill(engine, *"aaa")
    live = put(engine, *"dddd")
    haunt(store, engine, ids[0], live)
    assert engine.requeue(limit=2) == ids[:2]
    assert [one.id for one in engine.dead_letters()] == ids[2:]


def test_a_letter_whose_job_is_live_is_a_letter_no_more(store: Store) -> None:
    engine = store.engine()
    ids: list[str] = []
    for _ in range(11):
        ids += kill(engine, *["a"] * 100)
    [live] = put(engine, "a", id="live", given_id=True)
    rewrite(store, engine, ids[0], id=live)
    # More than one transaction takes, of which the first has one less to bring back.
    assert engine.requeue(limit=2000) == ids[1:]
    assert engine.dead_letters() == []
    assert engine.depth().ready == 1100


# -- how many ----------------------------------------------------------------------


def test_depth_counts_what_lives_and_nothing_else(store: Store) -> None:
    engine = store.engine()
    assert engine.depth().oldest_ready_at is None
    assert (engine.depth().ready, engine.depth().partitions_waiting) == (0, 0)
    kill(engine, "a", "b")
    put(engine, *["a"] * 50, *["b"] * 2, "")
    put(engine, "c", "c", delay=60.0)
    leased = take(engine, 4)
    assert end(engine, leased[0])
    depth, stats = engine.depth(), engine.stats()
    assert (depth.ready, depth.scheduled, depth.leased) == (49, 2, 3)
    assert (depth.completed, depth.failed, depth.recent_runs, depth.recent_failures) == (
        *(0, 0),
        *([], []),
    )
    assert (stats.completed, stats.failed) == (1, 2)
    for name in ("paused", "ready", "scheduled", "leased", "partitions_waiting", "oldest_ready_at"):
        assert getattr(depth, name) == getattr(stats, name), name
    assert depth.now is not None
    assert depth.oldest_ready_at is not None
    assert timedelta() < depth.now - depth.oldest_ready_at < timedelta(seconds=300)
    assert engine.waiting() == 49
    engine.pause()
    assert engine.depth().paused
    assert (engine.depth().ready, engine.waiting()) == (49, 0)


def test_depths_of_several_queues_are_told_apart(store: Store) -> None:
    first, second, third = store.engine(), store.engine(), store.engine()
    put(first, "a", "a", "b")
    put(third, "a")
    put(third, "a", delay=60.0)
    take(third)
    third.pause()
    found = type(first).depths([first, second, third])
    alone = [engine.depth() for engine in (first, second, third)]
    assert [replace(one, now=None) for one in found] == [replace(one, now=None) for one in alone]
    assert [(one.ready, one.scheduled, one.leased, one.paused) for one in found] == [
        (3, 0, 0, False),
        (0, 0, 0, False),
        (0, 1, 1, True),
    ]
    assert [one.partitions_waiting for one in found] == [2, 0, 0]


def test_what_keeps_jobs_waiting_is_known(store: Store) -> None:
    idle, held, free, late, full = engines = [store.engine() for _ in range(5)]
    put(held, "a", "a", "b")
    put(free, "a", "b")
    for engine in (held, free):
        engine.pause("a")
    held.pause("b")
    put(late, "a", delay=60.0)
    put(full, "a", "a", "b")
    for key in ("a", "b"):
        full.set_partition(key, limit=1)
    assert len(take(full, 3)) == 2

    def dues() -> list[tuple[bool, bool]]:
        found = type(idle).dues(engines, [engine.depth() for engine in engines])
        assert found == [engine.due(engine.depth()) for engine in engines]
        return [(one.held, one.overdue) for one in found]

    nothing, waits = (False, False), (True, False)
    assert dues() == [nothing, waits, nothing, nothing, waits]
    store.advance(late.name, 120)
    held.resume("a")
    full.set_partition("a", limit=2)
    assert dues() == [nothing, nothing, nothing, (False, True), nothing]


def test_depth_asks_nothing_about_ended_jobs(store: Store) -> None:
    engine = store.engine()
    kill(engine, "a")
    said: list[str] = []

    def note(execute: Any, sql: str, *args: Any) -> Any:
        said.append(sql)
        return execute(sql, *args)

    with contextlib.ExitStack() as stack:
        for alias in store.databases:
            stack.enter_context(connections[alias].execute_wrapper(note))
        engine.depth()
        engine.waiting()
        assert not [sql for sql in said if COMPLETED in sql or FAILED in sql]
        engine.stats()
        assert [sql for sql in said if FAILED in sql]
