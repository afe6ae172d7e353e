"""Enqueues that do not fit into one script: all or nothing, whoever dies on the way."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.jobs import drain, job, take
from tests.contract.redis_store import RedisStore
from tests.races.child import Part
from tests.races.processes import Crew
from tests.redis.engines import content, engine_on, intercept, let_go, once
from vtrr_django.domain.ids import new_job_ids
from vtrr_django.domain.job import NewJob
from vtrr_django.engines.redis import wire
from vtrr_django.engines.redis.engine import RedisEngine
from vtrr_django.exceptions import DuplicateJobError, StoreUnavailable

pytestmark = [
    pytest.mark.service("redis"),
    pytest.mark.django_db(transaction=True, available_apps=["vtrr_django"]),
]

COUNT = 2500


class Dies(BaseException):
    """The process of the enqueuer does not live to see what comes next."""


def many(**fields: Any) -> list[NewJob]:
    keys = ("a", "b", "a", "c")
    ids = new_job_ids(COUNT)
    return [job(keys[number % 4], id=one, **fields) for number, one in enumerate(ids)]


KINDS: dict[str, Callable[[], list[NewJob]]] = {
    "mixed": many,
    "row": lambda: [job("a") for _ in range(COUNT)],
    "msg_id": lambda: named("msg_id"),
    "id": lambda: named("id"),
}


def named(kind: str, jobs: list[NewJob] | None = None) -> list[NewJob]:
    """Return jobs each with a name of the caller's."""
    rows = range(COUNT)
    if kind == "msg_id":
        return [job("a", msg_id=f"m{number}") for number in rows]
    return [job("a", id=f"job{number}", given_id=True) for number in rows]


def interrupt(
    engine: RedisEngine, script: str, number: int, error: BaseException, *, after: bool = False
) -> None:
    """Have a script (of that batch) raise the first time it is run, before or after it acts."""

    def hook(name: str, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        if name == script and (name == "commit" or args[1] == number):
            let_go(engine)
            if after:
                run()
            raise error
        return run()

    intercept(engine, hook)


def staged(engine: RedisEngine) -> dict[bytes, bytes]:
    client: Any = engine.commands.client
    found: dict[bytes, bytes] = client.hgetall(engine.commands.keys["staged"])
    return found


def an_hour_passes(engine: RedisEngine) -> None:
    for field, value in staged(engine).items():
        if value.startswith(b"staged "):
            earlier = f"staged {int(value[7:]) - 3_602_000_000}"
            engine.commands.client.hset(engine.commands.keys["staged"], field.decode(), earlier)


def ids_of(jobs: list[NewJob]) -> list[str]:
    return [one.id for one in jobs]


def by_partition(jobs: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in jobs:
        found.setdefault(one.partition_key, []).append(one.id)
    return found


# -- dying -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "number", "after"),
    [("stage", 0, False), ("stage", 0, True), ("stage", 2, True), ("commit", 0, False)],
)
@pytest.mark.parametrize("kind", ["mixed", "row"])
def test_who_dies_before_the_decision_has_enqueued_nothing(
    store: RedisStore, script: str, number: int, after: bool, kind: str
) -> None:
    engine = store.engine()
    interrupt(engine, script, number, Dies(), after=after)
    with pytest.raises(Dies):
        engine.enqueue(KINDS[kind](), {})
    assert engine.reclaim() == []
    assert take(engine) == []
    assert engine.stats().ready == 0
    assert bool(staged(engine)) == (after or script == "commit")
    an_hour_passes(engine)
    engine.reclaim()
    assert content_of(engine).keys() <= {engine.commands.keys["state"]}


@pytest.mark.parametrize(
    ("script", "number", "after"),
    [("commit", 0, True), ("admit", 1, True), ("admit", 2, False)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_who_dies_after_the_decision_has_enqueued_all(
    store: RedisStore, script: str, number: int, after: bool, kind: str
) -> None:
    engine = store.engine()
    jobs = KINDS[kind]()
    interrupt(engine, script, number, Dies(), after=after)
    with pytest.raises(Dies):
        engine.enqueue(jobs, {"a": 2.0})
    an_hour_passes(engine)
    other = store.engine_named(engine.name)
    other.reclaim()
    assert staged(engine) == {}
    assert other.stats().ready == COUNT
    assert {one.partition_key: one.share for one in other.partitions()}["a"] == 2.0
    assert by_partition(drain(other, 500)) == by_partition(jobs)


def enqueue_and_die(part: Part, *, script: str, number: int, kind: str) -> None:
    """Be killed in the middle of a large enqueue."""
    engine: Any = part.queue.engine

    def hook(name: str, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        if name == script and args[1] == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return run()

    intercept(engine, hook)
    engine.enqueue(KINDS[kind](), {})


@pytest.fixture
def crew(store: RedisStore, settings: Any, tmp_path: Path) -> Iterator[Crew]:
    name = store.new_name()
    made = Crew(tmp_path, {"QUEUES": {name: store.settings()}}, name)
    made.name = name  # type: ignore[attr-defined]
    yield made
    made.close()


@pytest.mark.parametrize("kind", ["mixed", "row"])
@pytest.mark.parametrize(("script", "number", "left"), [("stage", 2, 0), ("admit", 1, COUNT)])
def test_a_process_is_killed_on_the_way(
    store: RedisStore, crew: Any, script: str, number: int, left: int, kind: str
) -> None:
    role = f"{__name__}:enqueue_and_die"
    process = crew.start(role, script=script, number=number, kind=kind)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    engine = store.engine_named(crew.name)
    an_hour_passes(engine)
    engine.reclaim()
    assert engine.stats().ready == left
    assert staged(engine) == {}
    assert len(drain(engine, 500)) == left


# -- answers that get lost ---------------------------------------------------------


def test_a_decision_whose_answer_got_lost_counts_whole(store: RedisStore) -> None:
    """What is committed must not be withdrawn: others may be storing it already."""
    engine = store.engine()
    jobs = many()
    interrupt(engine, "commit", 0, StoreUnavailable("the answer got lost"), after=True)
    assert engine.enqueue(jobs, {}) == ids_of(jobs)
    assert staged(engine) == {}
    assert by_partition(drain(engine, 500)) == by_partition(jobs)


def test_a_decision_that_was_not_made_leaves_nothing(store: RedisStore) -> None:
    engine = store.engine()
    interrupt(engine, "commit", 0, StoreUnavailable("it never arrived"))
    with pytest.raises(StoreUnavailable, match="never arrived"):
        engine.enqueue(many(), {})
    assert staged(engine) == {}


@pytest.mark.parametrize("kind", ["mixed", "row"])
def test_a_batch_that_arrives_after_all_was_withdrawn_is_not_kept(
    store: RedisStore, kind: str
) -> None:
    engine = store.engine()
    late: list[Callable[[], Any]] = []

    def frozen(name: str, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        if name == "stage" and args[1] == 1:
            late.append(run)
            raise StoreUnavailable("no answer")
        return run()

    intercept(engine, frozen)
    with pytest.raises(StoreUnavailable):
        engine.enqueue(KINDS[kind](), {})
    assert not int(_last(late[0]()))
    engine.reclaim()
    assert staged(engine) == {}


def _last(answer: Any) -> Any:
    return answer[-1] if isinstance(answer, list) else answer


def test_an_enqueue_that_takes_too_long_is_given_up_whole(store: RedisStore) -> None:
    engine = store.engine()
    other = store.engine_named(engine.name)

    def slowly(name: str, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        answer = run()
        if name == "stage" and args[1] == 1:
            an_hour_passes(engine)
            other.reclaim()
        return answer

    intercept(engine, slowly)
    with pytest.raises(StoreUnavailable, match="nothing was stored"):
        engine.enqueue(many(), {})
    assert staged(engine) == {}
    assert take(engine) == []


# -- names of the caller's ---------------------------------------------------------


@pytest.mark.parametrize("kind", ["msg_id", "id"])
def test_a_repeated_enqueue_stores_nothing_twice(store: RedisStore, kind: str) -> None:
    engine = store.engine(completed_retention=None)
    jobs = named(kind)
    ids = engine.enqueue(jobs, {})
    assert engine.enqueue(named(kind), {}) == ids
    done = drain(engine, 500)
    assert [one.id for one in done] == ids
    assert engine.enqueue(named(kind), {}) == ids
    assert take(engine) == []


def test_duplicates_inside_one_call(store: RedisStore) -> None:
    engine = store.engine()
    jobs = named("msg_id")
    jobs[2000] = job("a", msg_id="m3")
    jobs[2400] = job("a", msg_id="m2300")
    ids = engine.enqueue(jobs, {})
    assert (ids[2000], ids[2400]) == (ids[3], ids[2300])
    assert len(set(ids)) == COUNT - 2
    assert len(drain(engine, 500)) == COUNT - 2


@pytest.mark.parametrize("where", ["live", "ended", "the call"])
def test_a_conflict_writes_nothing(store: RedisStore, where: str) -> None:
    engine = store.engine()
    jobs = named("id")
    other = job("b", id="job2200", given_id=True)
    if where == "the call":
        jobs[2300] = other
    else:
        engine.enqueue([other], {})
        if where == "ended":
            drain(engine)
    before = content_of(engine)
    with pytest.raises(DuplicateJobError, match="job2200"):
        engine.enqueue(jobs, {})
    assert content_of(engine) == before


def content_of(engine: RedisEngine) -> dict[str, Any]:
    engine.archive()
    return content(engine.commands.client, *engine.commands.keys.values())


def publish_elsewhere(engine: RedisEngine, jobs: list[NewJob], *, run: bool) -> None:
    """Let somebody else enqueue ``jobs`` right before the first batch is admitted."""

    def overtaken(admit: Callable[[], Any]) -> Any:
        engine.enqueue(jobs, {})
        if run:
            drain(engine, 500)
        return admit()

    once(engine, "admit", overtaken)


@pytest.mark.parametrize("retention", [None, 0, 1000])
@pytest.mark.parametrize("run", [False, True])
def test_somebody_else_has_the_same_idea_meanwhile(
    store: RedisStore, run: bool, retention: int | None
) -> None:
    engine = store.engine(completed_retention=retention)
    jobs, others = named("msg_id"), named("msg_id")[1500:1510]
    publish_elsewhere(engine, others, run=run)
    ids = engine.enqueue(jobs, {})
    known = retention != 0 or not run
    assert ids[1500:1510] == ids_of(others if known else jobs[1500:1510])
    left = {one.id for one in drain(engine, 500)}
    assert left >= set(ids_of(jobs[1510:]))
    assert set(ids_of(jobs[1500:1510])).isdisjoint(left) == known


@pytest.mark.parametrize("dies", [True, False])
def test_jobs_whose_names_only_redis_remembers_are_enqueued(store: RedisStore, dies: bool) -> None:
    """History was trimmed, so the names are free again; whoever admits the jobs sees to it."""
    engine = store.engine(completed_retention=1)
    engine.enqueue(named("msg_id"), {})
    drain(engine, 500)
    store.age(engine.name)
    engine.prune()
    jobs = named("msg_id")
    if dies:
        interrupt(engine, "commit", 0, Dies(), after=True)
        with pytest.raises(Dies):
            engine.enqueue(jobs, {})
        engine.reclaim()
    else:
        # Somebody else finds the committed batches first.
        other = store.engine_named(engine.name, completed_retention=1)
        once(engine, "commit", lambda run: (run(), other.reclaim())[0])
        ids = engine.enqueue(jobs, {})
        assert ids[:-1] == ids_of(jobs)[:-1]
    assert staged(engine) == {}
    assert {one.id for one in drain(engine, 500)} >= set(ids_of(jobs)[:-1])


def test_the_answer_is_right_when_others_admit_the_jobs(store: RedisStore) -> None:
    engine = store.engine()
    other = store.engine_named(engine.name)
    jobs, others = named("msg_id"), named("msg_id")[1500:1510]

    def overtaken(run: Callable[[], Any]) -> Any:
        other.enqueue(others, {})
        answer = run()
        other.reclaim()
        return answer

    once(engine, "commit", overtaken)
    ids = engine.enqueue(jobs, {})
    assert ids == [*ids_of(jobs)[:1500], *ids_of(others), *ids_of(jobs)[1510:]]
    assert sorted(one.id for one in drain(engine, 500)) == sorted(ids)


def test_batches_are_bounded_by_jobs_and_by_size() -> None:
    plain = [job("a") for _ in range(COUNT)]
    assert [len(one) for one in wire.batches(plain)] == [1000, 1000, 500]
    mixed = [*plain[:200], job("b")]
    assert [len(one) for one in wire.batches(mixed)] == [125, 76]
    large = [job("a", payload="x" * 900_000) for _ in range(5)]
    assert [len(one) for one in wire.batches(large)] == [2, 2, 1]


def test_an_own_engine_may_have_a_client_of_its_own(own_redis: Any) -> None:
    engine = engine_on(own_redis())
    jobs = many()
    assert engine.enqueue(jobs, {}) == ids_of(jobs)
