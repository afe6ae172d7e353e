"""Ended jobs on their way to the database, and back: exactly once, whatever comes between."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connections, transaction

from tests.aging import age_history
from tests.contract.jobs import ack_all, drain, end, job, outcome, put, take
from tests.contract.redis_store import RedisStore
from tests.races.threads import Background, together
from tests.redis.engines import intercept, once
from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.ids import new_job_id
from vtrr_django.domain.job import NewJob, OutcomeKind
from vtrr_django.engines.redis import commands, outbox
from vtrr_django.engines.redis.engine import RedisEngine
from vtrr_django.engines.sql.history import History
from vtrr_django.engines.sql.models import CompletedJob, FailedJob
from vtrr_django.engines.sql.store import Conflict
from vtrr_django.exceptions import DuplicateJobError, StoreUnavailable

FAIL = OutcomeKind.FAIL
ENDS = {"is done": OutcomeKind.ACK, "failed": FAIL}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "database" in metafunc.fixturenames:
        postgres = pytest.param("postgres", marks=pytest.mark.service("postgres"))
        metafunc.parametrize("database", ["default", postgres])


pytestmark = [
    pytest.mark.service("redis"),
    pytest.mark.django_db(
        transaction=True,
        available_apps=["vtrr_django"],
        databases=["default", "postgres"] if "postgres" in connections else ["default"],
    ),
]


class Dies(BaseException):
    """The process does not live to see what comes next."""


class Box:
    """A queue whose history is in one of the databases."""

    def __init__(self, store: RedisStore, database: str) -> None:
        self._store = store
        self.database = database
        self.name = store.new_name()

    def engine(self, **config: Any) -> RedisEngine:
        client, _ = self._store._client(self.name)
        return RedisEngine(self.name, QueueConfig(database=self.database, **config), client)

    def rows(self, model: Any) -> list[str]:
        rows = model.objects.using(self.database).filter(queue=self.name).order_by("seq")
        return list(rows.values_list("id", flat=True))

    def completed(self) -> list[str]:
        return self.rows(CompletedJob)

    def failed(self) -> list[str]:
        return self.rows(FailedJob)

    def waiting(self, which: str) -> int:
        client, keys = self._store._client(self.name)
        return int(client.xlen(keys[f"outbox_{which}"]))

    def live(self) -> dict[str, dict[str, Any]]:
        return self._store.live(self.name)


@pytest.fixture
def box(store: RedisStore, database: str) -> Iterator[Box]:
    return Box(store, database)  # type: ignore[return-value]


def dies_before(engine: RedisEngine, script: str, *, after: bool = False) -> None:
    """Let the engine's process die when it comes to a script, before or after it acts."""

    def die(run: Callable[[], Any]) -> Any:
        if after:
            run()
        raise Dies

    once(engine, script, die)


def end_some(engine: RedisEngine, count: int = 20) -> tuple[list[str], list[str]]:
    """Let jobs end; return those that completed and those that failed."""
    put(engine, *["a"] * count)
    jobs = take(engine, count)
    for one in jobs[::4]:
        assert end(engine, one, FAIL, reason="r")
    completed = [one for number, one in enumerate(jobs) if number % 4]
    assert all(ack_all(engine, completed))
    return [one.id for one in completed], [one.id for one in jobs[::4]]


# -- there -------------------------------------------------------------------------


def test_what_was_written_and_not_taken_off_is_not_written_twice(box: Box) -> None:
    engine = box.engine()
    completed, failed = end_some(engine)
    dies_before(engine, "moved")
    with pytest.raises(Dies):
        engine.archive()
    assert (box.completed(), box.failed()) == (completed, failed)
    assert (box.waiting("completed"), box.waiting("failed")) == (15, 5)
    other = box.engine()
    more = end_some(other)
    other.archive()
    assert box.completed() == completed + more[0]
    assert box.failed() == failed + more[1]
    assert (box.waiting("completed"), box.waiting("failed")) == (0, 0)
    assert other.stats().completed == 30
    assert other.stats().failed == 10


def test_what_was_not_committed_stays_on_the_outbox(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = box.engine()
    completed, failed = end_some(engine)

    def dies(*args: Any) -> None:
        raise Dies

    with monkeypatch.context() as patch:
        patch.setattr(engine._history, "drop_earlier_deaths", dies)
        with pytest.raises(Dies):
            engine.archive()
    assert (box.completed(), box.waiting("completed")) == ([], 15)
    engine.archive()
    assert (box.completed(), box.failed()) == (completed, failed)


def test_two_movers_at_once(box: Box) -> None:
    engines = [box.engine(completed_retention=None) for _ in range(3)]
    ended: list[list[str]] = [[], []]
    stop = threading.Event()

    def produce() -> None:
        for _ in range(12):
            completed, failed = end_some(engines[2], 60)
            ended[0].extend(completed)
            ended[1].extend(failed)
        stop.set()

    def move(engine: RedisEngine) -> None:
        while not stop.is_set():
            engine.archive()
        engine.archive()

    together(produce, lambda: move(engines[0]), lambda: move(engines[1]))
    assert Counter(box.completed()) == Counter(ended[0])
    assert Counter(box.failed()) == Counter(ended[1])
    assert (box.waiting("completed"), box.waiting("failed")) == (0, 0)


def test_a_database_that_is_away_keeps_nobody_from_working(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = box.engine()

    def away(*args: Any) -> Any:
        raise StoreUnavailable("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr(type(engine.store), "transact", away)
        patch.setattr(type(engine.store), "persist", away)
        completed, failed = end_some(engine)
        [job_id] = put(engine, "a")
        [held] = take(engine)
        assert held.id == job_id
        assert engine.reclaim() == []
        assert end(engine, held, OutcomeKind.RELEASE)
        engine.pause("a")
        engine.resume("a")
        put(engine, *["b"] * 1500)
        assert engine.purge("b") == 1500
        assert [one.partition_key for one in engine.partitions()] == ["a"]
        with pytest.raises(StoreUnavailable):
            engine.archive()
        with pytest.raises(StoreUnavailable):
            put(engine, "a", msg_id="m")
    assert (box.waiting("completed"), box.waiting("failed")) == (15, 5)
    engine.archive()
    assert (box.completed(), box.failed()) == (completed, failed)
    assert [one.id for one in drain(engine)] == [job_id]


def test_many_more_completed_jobs_than_are_kept_are_not_carried(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "CARRIED", 20)
    engine = box.engine(completed_retention=10)
    put(engine, *["a"] * 600)
    jobs = drain(engine, 100)
    carried = box.waiting("completed")
    assert 20 <= carried <= 200
    engine.archive()
    engine.prune()
    assert box.completed() == [one.id for one in jobs[-carried:]]
    age_history(box.name, box.database)
    engine.prune()
    assert box.completed() == [one.id for one in jobs[-10:]]
    nothing = Box(box._store, box.database)
    engine = nothing.engine(completed_retention=0)
    end_some(engine)
    assert nothing.waiting("completed") == 0
    engine.archive()
    assert (nothing.completed(), len(nothing.failed())) == ([], 5)


@pytest.mark.parametrize("task", ["", "{", "[]", '{"task_name": "x"}', "null"])
def test_a_job_that_cannot_be_read_does_not_stop_those_behind_it(
    box: Box, store: RedisStore, task: str
) -> None:
    engine = box.engine()
    [first] = put(engine, "a")
    [held] = take(engine)
    client, keys = store._client(box.name)
    client.hset(keys["inflight_task"], first, task)
    assert end(engine, held)
    completed, failed = end_some(engine)
    engine.archive()
    assert box.completed() == [first, *completed]
    assert box.failed() == failed


# -- names, while the outbox is long -----------------------------------------------


def entries_read(engine: RedisEngine) -> list[int]:
    """Return what will hold how many entries each look at an outbox read."""
    read: list[int] = []
    told: Any = engine.commands
    call, look = told.call, told.look

    def also_call(*command: Any) -> Any:
        reply = call(*command)
        if command[0] == "XRANGE":
            read.append(len(reply))
        return reply

    def also_look(*commands_: Any) -> Any:
        replies = look(*commands_)
        read.extend(
            len(reply)
            for command, reply in zip(commands_, replies, strict=True)
            if command[0] == "XRANGE"
        )
        return replies

    told.call, told.look = also_call, also_look
    return read


def end_named(engine: RedisEngine, count: int) -> list[NewJob]:
    """Let jobs end that have names, all in one script; return them."""
    new = [job("a", msg_id=f"m{number}") for number in range(count)]
    new += [job("a", id=f"own{number}", given_id=True) for number in range(count)]
    engine.enqueue(new, {})
    kinds = [FAIL, OutcomeKind.ACK, OutcomeKind.ACK]
    leased = take(engine, 2 * count)
    assert all(engine.finish([outcome(kinds[n % 3], one) for n, one in enumerate(leased)]))
    return new


@pytest.mark.parametrize("inside", [False, True])
def test_a_new_msg_id_does_not_read_what_is_on_its_way(box: Box, inside: bool) -> None:
    engine = box.engine()
    end_some(engine, 100)
    named = end_named(engine, 20)
    there = box.waiting("completed"), box.waiting("failed")
    read = entries_read(engine)
    with transaction.atomic(using=box.database) if inside else contextlib.nullcontext():
        assert (
            engine.known([job("a", msg_id="new"), job("a", id="new", given_id=True)]) == [None] * 2
        )
        put(engine, "a", msg_id="new")
        put(engine, "a", id="new", given_id=True)
        assert sum(read) == 0
        again = [one._replace(id=new_job_id()) if one.msg_id else one for one in named]
        assert engine.known(again) == [one.id for one in named]
        assert engine.enqueue(again, {}) == [one.id for one in named]
        assert 0 < max(read) <= outbox._LOOKS
        with pytest.raises(DuplicateJobError, match="own3"):
            put(engine, "b", id="own3", given_id=True)
    # It is for others to move.
    assert (box.waiting("completed"), box.waiting("failed")) == there
    assert engine.stats().ready == 2


def test_names_that_come_up_when_they_have_ended_and_are_on_their_way(box: Box) -> None:
    """Between the look and the script; also in batches of a large enqueue."""
    engine, other = box.engine(), box.engine()
    ended: list[NewJob] = []

    def meanwhile(run: Callable[[], Any]) -> Any:
        ended.extend(end_named(other, 30))
        return run()

    for script, more in (("enqueue", 0), ("admit", 300)):
        ended.clear()
        once(engine, script, meanwhile)
        new = [job("b", msg_id=f"m{number}") for number in range(10)]
        ids = engine.enqueue([*new, *(job("b") for _ in range(more))], {})
        assert ids[:10] == [one.id for one in ended[:10]]
        assert engine.depth().ready == more
        drain(engine, 100)
        engine.archive()
        forget_all(box)


def forget_all(box: Box) -> None:
    """Have nobody know of a job any more."""
    client, keys = box._store._client(box.name)
    client.delete(*keys.values())
    for model in (CompletedJob, FailedJob):
        model.objects.using(box.database).filter(queue=box.name).delete()


@pytest.mark.parametrize("inside", [False, True])
def test_a_requeue_reads_a_long_outbox_some_at_a_time(
    box: Box, monkeypatch: pytest.MonkeyPatch, inside: bool
) -> None:
    monkeypatch.setattr(outbox, "MOVE", 7)
    engine = box.engine()
    ids = dead(engine, 30)
    assert engine.requeue(ids[:20]) == ids[:20]
    for one in take(engine, 20):
        assert end(engine, one, FAIL, reason="second")
    dies_before(engine, "moved")
    with pytest.raises(Dies):
        engine.archive()
    read = entries_read(engine)
    with transaction.atomic(using=box.database) if inside else contextlib.nullcontext():
        assert sorted(engine.requeue(ids[:25])) == sorted(
            [*ids[:7], *ids[20:25]] if inside else ids[:25]
        )
    assert max(read) <= 7


# -- and back ----------------------------------------------------------------------


def dead(engine: RedisEngine, count: int = 3) -> list[str]:
    ids = put(engine, *["a"] * count)
    for one in take(engine, count):
        assert end(engine, one, FAIL, reason="first")
    engine.archive()
    return ids


def test_a_requeue_that_dies_before_redis_has_it_changes_nothing(box: Box) -> None:
    engine = box.engine()
    ids = dead(engine)
    dies_before(engine, "enqueue")
    with pytest.raises(Dies):
        engine.requeue()
    assert (box.failed(), box.live()) == (ids, {})
    assert engine.requeue() == ids


@pytest.mark.parametrize("then", ["requeue", "ack", "fail"])
def test_a_requeue_that_dies_before_its_commit_leaves_one_job(box: Box, then: str) -> None:
    engine = box.engine()
    ids = dead(engine)
    dies_before(engine, "enqueue", after=True)
    with pytest.raises(Dies):
        engine.requeue()
    assert (box.failed(), sorted(box.live())) == (ids, sorted(ids))
    if then == "requeue":
        assert engine.requeue() == []
        assert box.failed() == []
        assert [one.id for one in drain(engine)] == ids
        return
    held = take(engine, 3)
    for one in held:
        assert end(engine, one, OutcomeKind(then), reason="second")
    engine.archive()
    assert box.failed() == ([] if then == "ack" else ids)
    assert box.completed() == (ids if then == "ack" else [])
    rows = FailedJob.objects.using(box.database).filter(queue=box.name)
    assert {row.reason for row in rows} <= {"second"}
    assert engine.requeue() == ([] if then == "ack" else ids)


@pytest.mark.parametrize("then", ["runs", "is done", "failed"])
def test_a_requeue_that_the_database_undoes_and_repeats_counts_what_redis_has(
    box: Box, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, other = box.engine(), box.engine()
    ids = dead(engine)
    forget, calls = History.forget_dead, []

    def undone_once(*args: Any) -> None:
        calls.append(args)
        if len(calls) == 1:
            for one in take(other) if then == "runs" else take(other, 10):
                assert then == "runs" or end(other, one, ENDS[then], reason="second")
            raise Conflict("others were quicker")
        forget(*args)

    monkeypatch.setattr(History, "forget_dead", undone_once)
    assert engine.requeue() == ids
    assert len(calls) == 2
    engine.archive()
    assert sorted(box.live()) == (sorted(ids) if then == "runs" else []), "none runs twice"
    assert sorted(box.failed()) == (sorted(ids) if then == "failed" else [])
    rows = FailedJob.objects.using(box.database).filter(queue=box.name)
    assert {row.reason for row in rows} <= {"second"}


def test_letters_with_a_later_death_on_its_way_hold_up_no_others(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the caller's transaction nothing is moved: those 250 stay where they are, and first."""
    engine = box.engine()
    haunted, ids = dead(engine, 250), dead(engine)

    def die(*args: Any) -> None:
        raise Dies

    with monkeypatch.context() as patch, pytest.raises(Dies):
        patch.setattr(History, "forget_dead", die)
        engine.requeue(haunted)
    assert all(engine.finish([outcome(FAIL, one, reason="second") for one in take(engine, 250)]))
    with transaction.atomic(using=box.database):
        assert engine.requeue() == ids
        assert engine.requeue() == []
    assert sorted(engine.requeue()) == sorted(haunted)
    assert box.failed() == []
    assert sorted(box.live()) == sorted(haunted + ids)


def test_a_death_that_was_written_and_is_still_on_the_outbox_comes_back_once(box: Box) -> None:
    engine = box.engine()
    ids = put(engine, *"aaa")
    for one in take(engine, 3):
        assert end(engine, one, FAIL)
    dies_before(engine, "moved")
    with pytest.raises(Dies):
        engine.archive()
    assert engine.requeue(ids[:1]) == ids[:1]
    assert [one.id for one in drain(engine)] == ids[:1]
    engine.archive()
    assert (box.completed(), box.failed()) == (ids[:1], ids[1:])
    assert (box.waiting("completed"), box.waiting("failed")) == (0, 0)


def test_requeues_race_with_movers_and_with_each_other(box: Box) -> None:
    engines = [box.engine(completed_retention=None) for _ in range(4)]
    ids = put(engines[0], *["a"] * 150)
    stop = threading.Event()
    runs: Counter[str] = Counter()

    def work() -> None:
        # Each job fails twice.
        while sum(runs.values()) < 450:
            for one in take(engines[0], 20):
                runs[one.id] += 1
                kind = FAIL if runs[one.id] < 3 else OutcomeKind.ACK
                assert end(engines[0], one, kind, reason="r")
        stop.set()

    def requeue(engine: RedisEngine) -> list[str]:
        back = []
        while not stop.is_set():
            back += engine.requeue()
        return back

    def move() -> list[str]:
        while not stop.is_set():
            engines[3].archive()
        return []

    worker = Background(work)
    back = together(lambda: requeue(engines[1]), lambda: requeue(engines[2]), move)
    worker.result()
    engines[3].archive()
    assert Counter(back[0] + back[1]) == Counter(dict.fromkeys(ids, 2))
    assert set(runs.values()) == {3}
    assert (Counter(box.completed()), box.failed()) == (Counter(ids), [])
    assert box.live() == {}


def test_large_dead_letters_come_back_in_scripts_of_bounded_size(box: Box) -> None:
    engine = box.engine()
    payload = '{"args":["' + "x" * 700_000 + '"],"kwargs":{}}'
    ids = put(engine, *["a"] * 8, payload=payload)
    for one in take(engine, 8):
        assert end(engine, one, FAIL)
    sizes = []

    def measured(name: str, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        sizes.append(sum(len(str(arg)) for arg in args))
        return run()

    intercept(engine, measured)
    assert engine.requeue() == ids
    assert max(sizes) < 2_100_000
    assert [one.id for one in drain(engine)] == ids
