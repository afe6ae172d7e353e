"""Pages of jobs in Redis: merged out of lines and blocks, bounded, whatever somebody has spoilt."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.contract.jobs import all_pages, drain, job, put, take
from tests.contract.redis_store import RedisStore
from tests.redis.engines import once
from tests.redis.test_backlog import in_blocks, singles
from tests.redis.test_spoilt import SPOILT
from tests.redis.test_vtrr_queue import Old
from vtrr_django.domain.job import JobInfo
from vtrr_django.domain.states import State
from vtrr_django.engines.redis.engine import RedisEngine

pytestmark = [
    pytest.mark.service("redis"),
    pytest.mark.django_db(transaction=True, available_apps=["vtrr_django"]),
]

READY, SCHEDULED, LEASED = State.READY, State.SCHEDULED, State.LEASED

LIMITS = [1, 7, 50, 333]


def ids_of(jobs: list[JobInfo]) -> list[str]:
    return [one.id for one in jobs]


# -- lines and blocks --------------------------------------------------------------


@pytest.mark.parametrize("rows", [60, 1500])
def test_blocks_that_lie_within_another(store: RedisStore, rows: int) -> None:
    """A large enqueue takes its places, and before it is stored, jobs come and are packed."""
    engine = store.engine()
    put(engine, "A", "b")
    singles(engine, 100)

    def meanwhile(run: Any) -> Any:
        singles(store.engine_named(engine.name), 300)
        return run()

    once(engine, "append" if rows < 1000 else "stage", meanwhile)
    ids = put(engine, *["a"] * rows)
    assert in_blocks(engine) >= rows + 100
    pages = [ids_of(all_pages(engine, READY, limit=limit)) for limit in LIMITS]
    one = [ids_of(all_pages(engine, READY, limit=9, partition_key="a"))]
    ran = [one.id for one in drain(engine, 100)]
    (only_a,) = {tuple(x for x in ran if x in set(one[0]))}
    assert len(only_a) == rows + 400
    assert [x for x in only_a if x in set(ids)] == ids
    assert one == [list(only_a)]
    for found in pages:
        assert found[1:-1] == list(only_a)


def test_small_blocks(store: RedisStore) -> None:
    engine = store.engine()
    for _ in range(12):
        engine.enqueue([job("ab"[number % 2]) for number in range(40)], {})
    assert in_blocks(engine) > 300
    everything = ids_of(all_pages(engine, READY, limit=500))
    assert len(everything) == 480
    for limit in LIMITS:
        assert ids_of(all_pages(engine, READY, limit=limit)) == everything


def test_a_line_that_is_packed_while_pages_turn(store: RedisStore) -> None:
    engine = store.engine()
    ids = singles(engine, 159)
    page = engine.jobs(READY, limit=110)
    assert ids_of(page.jobs) == ids[:110]
    assert in_blocks(engine) == 0
    ids += singles(engine, 1)
    assert in_blocks(engine) == 100
    assert ids_of(all_pages(engine, READY, limit=7, after=page.next)) == ids[110:]


def test_blocks_that_move_up_while_pages_turn(store: RedisStore) -> None:
    engine = store.engine()
    ids = put(engine, *["a"] * 350)
    page = engine.jobs(READY, limit=150)
    assert ids_of(page.jobs) == ids[:150]
    assert len(take(engine, 120)) == 120
    rest = engine.jobs(READY, limit=20, after=page.next)
    assert ids_of(rest.jobs) == ids[150:170]
    assert len(take(engine, 180)) == 180
    assert ids_of(all_pages(engine, READY, limit=7, after=rest.next)) == ids[300:]


@pytest.mark.parametrize("times", [1, 2])
def test_ranks_that_change_between_two_commands(store: RedisStore, times: int) -> None:
    engine = store.engine()
    ids = [put(engine, "a", delay=60.0 + number)[0] for number in range(400)]
    page = engine.jobs(SCHEDULED, limit=300)
    assert ids_of(page.jobs) == ids[:300]
    other, gone = store.engine_named(engine.name), iter(range(0, 240, 80))
    commands: Any = engine.commands
    look, left = commands.look, [None] * times

    def late(*asked: tuple[Any, ...]) -> Any:
        if asked[0][0] == "ZRANGE" and left:
            left.pop()
            first = next(gone)
            assert len(other.cancel(ids[first : first + 80])) == 80
        return look(*asked)

    commands.look = late
    assert ids_of(engine.jobs(SCHEDULED, after=page.next).jobs) == ids[300:350]
    assert not left


# -- bounds ------------------------------------------------------------------------


class Reads:
    """Counts what an engine reads of sorted sets, and the commands it takes."""

    def __init__(self, engine: RedisEngine) -> None:
        self.members = self.commands = 0
        commands: Any = engine.commands
        look = commands.look

        def counted(*asked: tuple[Any, ...]) -> Any:
            replies = look(*asked)
            self.commands += len(asked)
            for command, reply in zip(asked, replies, strict=True):
                if command[0].startswith("Z") and isinstance(reply, list):
                    flat = "WITHSCORES" in command and reply and isinstance(reply[0], bytes)
                    self.members += len(reply) // (2 if flat else 1)
            return replies

        commands.look = counted


@pytest.mark.parametrize("state", [READY, SCHEDULED])
def test_a_page_reads_about_as_much_as_it_shows(store: RedisStore, state: State) -> None:
    engine = store.engine()
    delay = 60.0 if state is SCHEDULED else None
    for key in ("a", "b"):
        engine.enqueue([job(key, delay=delay) for _ in range(2500)], {})
        put(engine, *[key] * 200, delay=delay)
    reads = Reads(engine)
    after = None
    for _ in range(30):
        before = reads.members, reads.commands
        page = engine.jobs(state, limit=50, after=after)
        assert len(page.jobs) == 50
        assert 50 <= reads.members - before[0] <= 50 + 100
        assert reads.commands - before[1] <= 20
        after = page.next


def test_one_partitions_jobs_among_many_of_others(store: RedisStore) -> None:
    engine = store.engine()
    early = put(engine, "few", delay=60.0)
    put(engine, *["many"] * 2500, delay=61.0)
    late = put(engine, "few", "few", delay=62.0)
    reads = Reads(engine)
    page = engine.jobs(SCHEDULED, partition_key="few", limit=10)
    assert ids_of(page.jobs) == early
    assert page.next is not None
    assert reads.members <= 1001
    nothing = engine.jobs(SCHEDULED, partition_key="few", limit=10, after=page.next)
    assert (nothing.jobs, nothing.next is None) == ([], False)
    assert ids_of(all_pages(engine, SCHEDULED, partition_key="few", limit=1)) == early + late


# -- what is not as it should be ---------------------------------------------------

BYTES = {
    "not UTF-8": b'{"task_name": "\xff", "args": ["\xfe"], "kwargs": {}}',
    "half a character": b'{"task_name": "\\ud83d", "args": ["\\ud83d"], "kwargs": {}}',
}


@pytest.mark.parametrize("payload", [*SPOILT.values(), *BYTES.values()], ids=[*SPOILT, *BYTES])
def test_a_spoilt_payload_is_shown_as_it_is(store: RedisStore, payload: Any) -> None:
    engine = store.engine()
    ready = put(engine, "a")
    [scheduled] = put(engine, "a", delay=60.0)
    ready += put(engine, *["a"] * 40)
    [leased] = take(engine)
    for name, job_id in (("task", ready[1]), ("task", scheduled), ("inflight_task", leased.id)):
        engine.commands.client.hset(engine.commands.keys[name], job_id, payload)
    assert ids_of(all_pages(engine, READY, limit=7)) == ready[1:]
    for state, job_id in ((READY, ready[1]), (SCHEDULED, scheduled), (LEASED, leased.id)):
        [found] = engine.jobs(state, limit=1).jobs
        assert (found.id, found.partition_key) == (job_id, "a")
        assert found == engine.job(job_id)
        (found.task_name + found.payload).encode()  # a page is sent as UTF-8
        if isinstance(payload, str):
            assert (found.task_name, found.payload) == ("", payload)


@pytest.mark.parametrize(
    "value", ["", "x", "1", "1,:", ",:", "1,zz:a", "1 2 3", "a b c d", "9" * 99]
)
@pytest.mark.parametrize("name", ["meta", "details", "timeouts", "lease_info"])
def test_a_spoilt_record_does_not_spoil_the_page(store: RedisStore, name: str, value: str) -> None:
    engine = store.engine()
    ids = put(engine, *["a"] * 3)
    [leased] = take(engine)
    for job_id in ids:
        engine.commands.client.hset(engine.commands.keys[name], job_id, value)
    assert ids_of(engine.jobs(READY).jobs) == ids[1:]
    assert ids_of(engine.jobs(LEASED).jobs) == ids[:1] == [leased.id]
    assert all(engine.job(job_id) for job_id in ids)


@pytest.mark.parametrize("state", [READY, SCHEDULED, LEASED])
def test_a_job_whose_record_has_gone_is_passed_over(store: RedisStore, state: State) -> None:
    engine = store.engine()
    ids = put(engine, *["a"] * 5, delay=60.0 if state is SCHEDULED else None)
    if state is LEASED:
        take(engine, 5)
    found = ids_of(engine.jobs(state).jobs)
    assert sorted(found) == sorted(ids)
    name = "inflight_task" if state is LEASED else "task"
    engine.commands.client.hdel(engine.commands.keys[name], *found[1:4])
    assert ids_of(all_pages(engine, state, limit=2)) == [found[0], found[4]]
    assert engine.job(found[2]) is None


@pytest.mark.parametrize("meta", [False, True])
def test_jobs_that_vtrr_queue_stored(store: RedisStore, meta: bool) -> None:
    engine = store.engine()
    old = Old(engine, meta=meta)
    ids = old.queue("a:b", 3, 3, 3)
    token = old.lease(ids[2], time.time() + 1000, timeouts=2)
    assert token
    found = engine.jobs(READY).jobs
    assert ids_of(found) == ids[:2]
    key, weight = ("a:b", 3) if meta else ("", 1)
    for one in [*found, *engine.jobs(LEASED).jobs]:
        assert (one.partition_key, one.weight, one.priority) == (key, weight, 0)
        assert one.task_name == "tests.old"
        assert f'["{one.id}",[],{2**70}]' in one.payload
    [leased] = engine.jobs(LEASED).jobs
    assert (leased.id, leased.timeouts, leased.delivery_count) == (ids[2], 2, 0)
    assert (leased.enqueued_at, leased.ready_at, leased.worker_id) == (None, None, None)
    assert leased.lease_expires_at is not None
    assert engine.jobs(LEASED, partition_key=key).jobs == [leased]
    assert engine.job(ids[2]) == leased
    assert engine.depth().ready == 2
