"""msg_ids and ids of the caller's while their jobs end: one job each, and nothing kept for ever."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.contract.jobs import ack_all, drain, end, job, put, take
from tests.contract.redis_store import RedisStore
from tests.races.threads import Background, together
from tests.redis.engines import once
from vtrr_django.domain.job import NewJob, OutcomeKind
from vtrr_django.engines.redis import outbox
from vtrr_django.engines.redis.engine import RedisEngine
from vtrr_django.exceptions import DuplicateJobError

pytestmark = [
    pytest.mark.service("redis"),
    pytest.mark.django_db(transaction=True, available_apps=["vtrr_django"]),
]

OTHER = '{"args":["other"],"kwargs":{}}'


def before(engine: RedisEngine, script: str, act: Callable[[], Any]) -> None:
    """Let something happen right before the engine's next run of a script."""

    def also(run: Callable[[], Any]) -> Any:
        act()
        return run()

    once(engine, script, also)


def kept(engine: RedisEngine) -> tuple[int, int]:
    """Return how many names Redis remembers: of ended jobs, and msg_ids."""
    client: Any = engine.commands.client
    keys = engine.commands.keys
    return int(client.zcard(keys["finished"])), int(client.hlen(keys["msg_id"]))


@pytest.fixture
def ten_minutes_pass(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what lets all that has happened be as long ago as names are remembered."""
    return lambda: monkeypatch.setattr(outbox, "KEEP_NAMES", 0.0)


# -- between the look and the script -----------------------------------------------


@pytest.mark.parametrize("ends", ["lives", "is leased", "completes", "fails", "is archived"])
@pytest.mark.parametrize("payload", [{}, {"payload": OTHER}], ids=["same", "other"])
@pytest.mark.parametrize("own", [{}, {"id": "own", "given_id": True}], ids=["", "own id"])
def test_a_msg_id_that_comes_up_meanwhile(
    store: RedisStore, ends: str, payload: dict[str, Any], own: dict[str, Any]
) -> None:
    engine = store.engine()
    other = store.engine_named(engine.name)
    first = job("a", msg_id="m")

    def somebody_else() -> None:
        other.enqueue([first], {})
        if ends != "lives":
            [held] = take(other)
            if ends != "is leased":
                assert end(other, held, OutcomeKind.FAIL if ends == "fails" else OutcomeKind.ACK)
            if ends == "is archived":
                other.archive()

    before(engine, "enqueue", somebody_else)
    new = job("b", msg_id="m", **payload, **own)
    assert engine.enqueue([job("c"), new, job("c")], {})[1] == first.id
    assert engine.stats().ready == 2 + (ends == "lives")


@pytest.mark.parametrize("ends", ["lives", "completes", "fails", "is archived"])
@pytest.mark.parametrize("same", [True, False])
def test_an_id_that_comes_up_meanwhile(store: RedisStore, ends: str, same: bool) -> None:
    engine = store.engine()
    other = store.engine_named(engine.name)

    def somebody_else() -> None:
        other.enqueue([job("a", id="j", given_id=True)], {})
        if ends != "lives":
            [held] = take(other)
            assert end(other, held, OutcomeKind.FAIL if ends == "fails" else OutcomeKind.ACK)
            if ends == "is archived":
                other.archive()

    before(engine, "enqueue", somebody_else)
    new = [job("c"), job("a" if same else "b", id="j", given_id=True)]
    if same:
        assert engine.enqueue(new, {})[1] == "j"
    else:
        with pytest.raises(DuplicateJobError):
            engine.enqueue(new, {})
    assert engine.stats().ready == (1 if same else 0) + (ends == "lives")


# -- at the same time --------------------------------------------------------------

NAMES: dict[str, Callable[[int], NewJob]] = {
    "msg_id": lambda number: job("a", msg_id=f"m{number}"),
    "id": lambda number: job("a", id=f"j{number}", given_id=True),
    "both": lambda number: job("a", id=f"j{number}", given_id=True, msg_id=f"m{number}"),
}


@pytest.mark.parametrize("retention", [None, 1000])
@pytest.mark.parametrize("names", NAMES)
def test_enqueues_race_with_the_ends_of_the_same_jobs(
    store: RedisStore, names: str, retention: int | None
) -> None:
    name = store.new_name()
    engines = [store.engine_named(name, completed_retention=retention) for _ in range(6)]
    runs: Counter[str] = Counter()
    stop = threading.Event()

    def work(engine: RedisEngine) -> None:
        while not stop.is_set():
            jobs = take(engine, 3)
            runs.update(one.id for one in jobs)
            assert all(ack_all(engine, jobs))

    def tidy(engine: RedisEngine) -> None:
        while not stop.is_set():
            engine.archive()
            engine.prune()

    def enqueue(engine: RedisEngine) -> list[str]:
        answers = []
        for number in range(0, 60, 2):
            answers += engine.enqueue([NAMES[names](number), NAMES[names](number + 1)], {})
        return answers

    helpers = [Background(lambda: work(engines[0])), Background(lambda: tidy(engines[1]))]
    answers = together(*[partial(enqueue, one) for one in engines[2:]])
    stop.set()
    for helper in helpers:
        helper.result()
    runs.update(one.id for one in drain(engines[0], 50))
    assert all(answer == answers[0] for answer in answers)
    assert runs == Counter(answers[0])


# -- how long names are remembered -------------------------------------------------


@pytest.mark.parametrize("kind", [OutcomeKind.ACK, OutcomeKind.FAIL])
def test_names_are_remembered_until_the_history_has_them(
    store: RedisStore, kind: OutcomeKind, ten_minutes_pass: Callable[[], None]
) -> None:
    engine = store.engine()
    new = job("a", id="j", given_id=True, msg_id="m")
    engine.enqueue([new], {})
    assert end(engine, take(engine)[0], kind)
    assert kept(engine) == (2, 1)
    ten_minutes_pass()
    # It is still on its way.
    engine._outbox.forget_names()
    assert kept(engine) == (2, 1)
    engine.archive()
    assert kept(engine) == (0, 0)
    assert engine.enqueue([new, job("a", msg_id="m")], {}) == ["j", "j"]


def test_a_name_that_lives_again_is_not_forgotten_with_its_past(
    store: RedisStore, ten_minutes_pass: Callable[[], None]
) -> None:
    engine = store.engine()
    engine.enqueue([job("a", id="j", given_id=True, msg_id="m")], {})
    assert end(engine, take(engine)[0], OutcomeKind.FAIL)
    engine.archive()
    assert engine.requeue() == ["j"]
    ten_minutes_pass()
    engine.prune()
    assert engine.enqueue([job("a", msg_id="m")], {}) == ["j"]
    assert engine.enqueue([job("a", id="j", given_id=True)], {}) == ["j"]
    take(engine)
    engine.prune()
    assert engine.enqueue([job("a", msg_id="m")], {}) == ["j"]


@pytest.mark.parametrize("verb", ["archive", "prune"])
def test_names_of_many_jobs_are_forgotten_in_time(
    store: RedisStore, ten_minutes_pass: Callable[[], None], verb: str
) -> None:
    """Most of these jobs never reach the history, and their names must not stay for ever."""
    engine = store.engine(completed_retention=10)
    for start in range(0, 2700, 900):
        rows = range(start, start + 900)
        new = [job("a", id=f"j{n}", given_id=True, msg_id=f"m{n}") for n in rows]
        engine.enqueue(new, {})
        drain(engine, 300)
    engine.archive()
    assert kept(engine) == (5400, 2700)
    ten_minutes_pass()
    if verb == "archive":
        put(engine, "a")
        drain(engine)
    getattr(engine, verb)()
    assert kept(engine) == (0, 0)


def test_names_of_jobs_that_are_gone_are_free(store: RedisStore) -> None:
    engine = store.engine(completed_retention=0)
    new = [job("a", id=f"j{n}", given_id=True, msg_id=f"m{n}") for n in range(4)]
    engine.enqueue(new, {})
    assert end(engine, take(engine)[0])
    engine.cancel(["j1"])
    engine.purge("a")
    assert kept(engine) == (0, 0)
    again = [job("b", id=f"j{n}", given_id=True, msg_id=f"m{n}") for n in range(4)]
    assert engine.enqueue(again, {}) == ["j0", "j1", "j2", "j3"]
