"""No call holds up Redis for more than 50 ms, however much there is.

Everyday sizes show a loop without a bound; ``VTRR_STRESS=1`` takes the sizes of the promise.
What counts is the time Redis computes: its slow log counts what others take from this machine
too. With ``--log-cli-level=info`` each test says how long the longest command took, by both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.jobs import ack_all, all_pages, job, take
from tests.own_redis import OwnRedis
from tests.redis.engines import engine_on, intercept, once
from vtrr_django.domain.ids import new_job_ids
from vtrr_django.domain.job import NewJob, Renewal
from vtrr_django.domain.states import State
from vtrr_django.engines.redis.engine import RedisEngine

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["vtrr_django"])

logger = logging.getLogger(__name__)

LIMIT = 50_000
"""Microseconds."""

Size = Callable[[int, int], int]
Watch = Callable[[Callable[[RedisEngine], object], Callable[[RedisEngine], object]], None]


class Meter:
    """Measures what each command of an engine takes the server.

    Args:
        engine: the engine; nobody else uses its server.
    """

    def __init__(self, engine: RedisEngine) -> None:
        self._client: Any = engine.commands.client
        self.longest = (0.0, "")
        intercept(engine, lambda name, args, run: self._measure(name, run))
        commands: Any = engine.commands
        call, look = commands.call, commands.look
        commands.call = lambda *args: self._measure(args[0], lambda: call(*args))
        commands.look = lambda *all_: self._measure(all_[0][0], lambda: look(*all_))

    def _used(self) -> float:
        info = self._client.info("cpu")
        used = info["used_cpu_user_main_thread"] + info["used_cpu_sys_main_thread"]
        return float(used) * 1e6

    def _measure(self, name: str, run: Callable[[], Any]) -> Any:
        before = self._used()
        try:
            return run()
        finally:
            self.longest = max(self.longest, (self._used() - before, name))


@pytest.fixture
def watch(own_redis: Callable[..., OwnRedis]) -> Watch:
    """Return what prepares an engine and then lets nothing it does take long."""
    server = own_redis({"slowlog-log-slower-than": 1000, "slowlog-max-len": 5000})
    client: Any = server.client()

    def look(
        prepare: Callable[[RedisEngine], object], act: Callable[[RedisEngine], object]
    ) -> None:
        engine = engine_on(server, "q")
        prepare(engine)
        meter = Meter(engine)
        client.slowlog_reset()
        act(engine)
        slowest = max((one["duration"] for one in client.slowlog_get(5000)), default=0)
        took, name = meter.longest
        logger.info("%s: %.1f ms; slow log: %.1f ms", name, took / 1000, slowest / 1000)
        assert took < LIMIT, name

    return look


def jobs_of(count: int, partitions: int = 1, **fields: Any) -> list[NewJob]:
    ids = new_job_ids(count)
    payload = '{"args":["' + "x" * 50 + '"],"kwargs":{}}'
    return [
        job(f"tenant{number % partitions}", id=one, payload=payload, **fields)
        for number, one in enumerate(ids)
    ]


def nothing(engine: RedisEngine) -> None:
    """Prepare nothing."""


def filled(*args: Any, **fields: Any) -> Callable[[RedisEngine], object]:
    return lambda engine: engine.enqueue(jobs_of(*args, **fields), {})


@pytest.mark.parametrize("partitions", [1, 7, 20_000])
def test_a_large_enqueue(watch: Watch, size: Size, partitions: int) -> None:
    watch(nothing, filled(size(10_000, 100_000), partitions))


def test_a_large_enqueue_with_names(watch: Watch, size: Size) -> None:
    def act(engine: RedisEngine) -> None:
        for _ in range(2):
            new = [job("a", msg_id=f"m{number}") for number in range(size(3_000, 100_000))]
            engine.enqueue(new, {})

    watch(nothing, act)


def test_a_large_enqueue_that_another_has_to_finish(watch: Watch, size: Size) -> None:
    class Dies(BaseException):
        pass

    def prepare(engine: RedisEngine) -> None:
        def dies(run: Callable[[], Any]) -> Any:
            raise Dies

        once(engine, "admit", dies)
        with pytest.raises(Dies):
            engine.enqueue(jobs_of(size(10_000, 100_000), 100), {})

    watch(prepare, lambda engine: engine.reclaim())


@pytest.mark.parametrize("partitions", [1, 50_000])
@pytest.mark.parametrize("key", ["tenant0", None])
@pytest.mark.parametrize("plain", [True, False])
def test_a_purge(watch: Watch, size: Size, partitions: int, key: str | None, plain: bool) -> None:
    fields: dict[str, Any] = {} if plain else {"priority": 1}

    def act(engine: RedisEngine) -> None:
        assert engine.purge(key)

    watch(filled(size(10_000, 200_000), size(min(partitions, 3000), partitions), **fields), act)


def test_a_purge_of_scheduled_jobs(watch: Watch, size: Size) -> None:
    def act(engine: RedisEngine) -> None:
        assert engine.purge("tenant0")
        assert engine.purge()

    watch(filled(size(10_000, 200_000), 3, delay=3600.0), act)


@pytest.mark.parametrize("partitions", [1, 5000])
@pytest.mark.parametrize("by", ["lease", "reclaim"])
def test_many_jobs_fall_due(watch: Watch, size: Size, partitions: int, by: str) -> None:
    count = size(5_000, 20_000)

    def act(engine: RedisEngine) -> None:
        found = 0
        for _ in range(count // 1000 + 1):
            if by == "reclaim":
                engine.reclaim()
            found += len(take(engine, 1000))
        assert found == count or by == "lease"

    watch(filled(count, partitions, delay=0.000001), act)


@pytest.mark.parametrize("partitions", [1, 5000])
@pytest.mark.parametrize("by", ["lease", "reclaim"])
def test_many_leases_run_out(watch: Watch, size: Size, partitions: int, by: str) -> None:
    count = size(5_000, 20_000)

    def prepare(engine: RedisEngine) -> None:
        engine.enqueue(jobs_of(count, partitions), {})
        left = count
        while left:
            left -= len(engine.lease(1000, worker_id="w", lease_seconds=3600.0))
        client: Any = engine.commands.client
        key = engine.commands.keys["inflight"]
        late = [(name, 1.0) for name in client.zrange(key, 0, -1)]
        for start in range(0, count, 1000):
            client.zadd(key, dict(late[start : start + 1000]))

    def act(engine: RedisEngine) -> None:
        if by == "reclaim":
            assert sum(len(engine.reclaim()) for _ in range(count // 1000)) == count
        else:
            for _ in range(100):
                take(engine, 100)

    watch(prepare, act)


def test_large_batches(watch: Watch, size: Size) -> None:
    def act(engine: RedisEngine) -> None:
        while held := take(engine, 1000):
            renewals = [Renewal(job_id=one.id, token=one.token) for one in held]
            assert all(engine.renew(renewals, lease_seconds=60.0))
            assert all(ack_all(engine, held))
        assert engine.archive()

    watch(filled(size(3_000, 20_000), 1000), act)


def test_cancelling(watch: Watch, size: Size) -> None:
    def act(engine: RedisEngine) -> None:
        client: Any = engine.commands.client
        ids = [one.decode() for one in client.hkeys(engine.commands.keys["task"])]
        assert len(engine.cancel(ids)) == len(ids)

    watch(filled(size(5_000, 20_000), 3), act)


def test_a_busy_period_of_many_partitions_ends_and_they_are_looked_at_and_forgotten(
    watch: Watch, size: Size
) -> None:
    count = size(5_000, 100_000)

    def prepare(engine: RedisEngine) -> None:
        engine.enqueue(jobs_of(count, count), {})
        for _ in range(count // 1000 - 1):
            assert all(ack_all(engine, take(engine, 1000)))

    def act(engine: RedisEngine) -> None:
        assert len(engine.partitions(limit=count)) == 1000
        engine.set_partition("tenant1", share=2.0)
        assert all(ack_all(engine, take(engine, 1000)))
        assert not engine.commands.client.exists(engine.commands.keys["partition_virtual_time"])
        engine.prune()
        assert [one.partition_key for one in engine.partitions()] == ["tenant1"]

    watch(prepare, act)


@pytest.mark.parametrize("state", [State.READY, State.SCHEDULED])
@pytest.mark.parametrize("key", ["tenant1", None])
def test_turning_pages(watch: Watch, size: Size, state: State, key: str | None) -> None:
    count = size(10_000, 200_000)

    def act(engine: RedisEngine) -> None:
        found = all_pages(engine, state, partition_key=key, limit=1000)
        assert len(found) == (count if key is None else count // 50)
        assert all(engine.job(one.id) for one in found[:50])

    delay = 3600.0 if state is State.SCHEDULED else None
    watch(filled(count, 50, delay=delay), act)


def test_many_partitions_wait(watch: Watch, size: Size) -> None:
    count = size(5_000, 100_000)

    def act(engine: RedisEngine) -> None:
        assert len(engine.partitions(limit=count)) == count
        engine.stats()
        assert len(take(engine, 1000)) == 1000

    watch(filled(count, count), act)
