"""Redis forgets scripts, hangs up, restarts and is killed under load: nothing is lost."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.contract.jobs import job
from tests.own_redis import OwnRedis
from tests.races.child import Part
from tests.races.processes import Crew
from tests.races.waiting import until
from tests.redis.engines import engine_on
from vtrr_django.domain.job import Outcome, OutcomeKind
from vtrr_django.engines.base import Engine
from vtrr_django.engines.sql.models import CompletedJob
from vtrr_django.exceptions import StoreUnavailable

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["vtrr_django"])

Harm = Callable[[OwnRedis], None]

LEASE = 1.5

MOST_WAITING = 1000
"""Ready jobs with which nobody enqueues more."""


def again(part: Part, act: Callable[[], Any]) -> Any:
    """Do it until Redis answers."""
    while True:
        try:
            return act()
        except StoreUnavailable:
            time.sleep(0.02)
            if part.sees("drain") and part.sees("enough"):
                raise


def try_to_enqueue(engine: Engine, keys: list[str], count: int) -> list[str]:
    """Enqueue new jobs: who enqueues once more enqueues others."""
    return engine.enqueue([job(keys[number % len(keys)]) for number in range(count)], {})


def enqueue(part: Part, *, seed: int, largest: int) -> None:
    """Enqueue ones and bulks until "drain"; say what Redis has confirmed."""
    rng, engine = random.Random(seed), part.queue.engine
    while not part.sees("drain"):
        # No more than can be run in good time, however slow the machine.
        until(lambda: again(part, engine.waiting) < MOST_WAITING or part.sees("drain"), "room")
        count = rng.choice([1, 1, 1, 5, 40, largest])
        keys = [rng.choice("abc")] if rng.random() < 0.5 else list("abcdef")
        ids = again(part, partial(try_to_enqueue, engine, keys, count))
        part.say("enqueued", part.number, ids)
        time.sleep(0.05)


def work(part: Part, *, n: int) -> None:
    """Lease and ack until "enough": who enqueues may do it once more behind "drain"."""
    engine = part.queue.engine
    held: list[Any] = []
    while held or not part.sees("enough"):
        acks = [Outcome(kind=OutcomeKind.ACK, job_id=one.id, token=one.token) for one in held]
        # An answer that got lost may have been an ack, a lease or both; leases run out.
        _, held = again(
            part,
            partial(engine.finish_and_lease, acks, n, worker_id="w", lease_seconds=LEASE),
        )
        if held:
            part.say("run", part.number, [one.id for one in held])
        else:
            time.sleep(0.01)


def reclaim(part: Part) -> None:
    """Reclaim until "enough"."""
    engine = part.queue.engine
    while not part.sees("enough"):
        again(part, engine.reclaim)
        part.say("reclaimed", part.number)
        time.sleep(0.1)


def flush(server: OwnRedis) -> None:
    server.client().script_flush()


def hang_up(server: OwnRedis) -> None:
    server.client().client_kill_filter(_type="normal")


def restart(server: OwnRedis) -> None:
    server.stop()
    server.start()


def crash(server: OwnRedis) -> None:
    server.kill()
    server.start()


HARM: dict[str, Harm] = {"flush": flush, "hang up": hang_up, "restart": restart, "crash": crash}


@pytest.fixture
def server(own_redis: Callable[..., OwnRedis]) -> OwnRedis:
    return own_redis({"appendonly": "yes", "appendfsync": "always"})


@pytest.fixture
def crew(server: OwnRedis, tmp_path: Path) -> Iterator[Crew]:
    queue = {"ENGINE": "redis", "URL": server.url(), "COMPLETED_RETENTION": None}
    made = Crew(tmp_path, {"QUEUES": {"q": queue}}, "q")
    yield made
    made.close()


def test_everybody_carries_on_and_nothing_is_lost(
    server: OwnRedis, crew: Crew, size: Callable[[int, int], int]
) -> None:
    for seed in range(2):
        crew.start(f"{__name__}:enqueue", seed=seed, largest=size(400, 2500))
    for n in (1, 7):
        crew.start(f"{__name__}:work", n=n)
    crew.start(f"{__name__}:reclaim")
    harm = [*HARM.values()] * size(1, 6)
    random.Random(5).shuffle(harm)

    def done() -> Counter[int]:
        crew.check()
        said = (one for what in ("enqueued", "run", "reclaimed") for one in crew.journal.said(what))
        return Counter(words[0] for words in said)

    def all_work() -> bool:
        now = done()
        return all(now[number] > then[number] + 1 for number in range(1, 6))

    then: Counter[int] = Counter()
    until(all_work, "everybody to have begun")
    for act in harm:
        act(server)
        then = done()
        until(all_work, f"everybody to carry on after {act.__name__}")
    crew.flag("drain")
    engine = engine_on(server, "q", completed_retention=None)
    until(lambda: not any(_left(engine)), lambda: f"all jobs to have run; left are {_left(engine)}")
    crew.flag("enough")
    crew.join()
    engine.archive(1_000_000)

    enqueued = {one for _, ids in crew.journal.said("enqueued") for one in ids}
    ran = {one for _, ids in crew.journal.said("run") for one in ids}
    ended = Counter(CompletedJob.objects.filter(queue="q").values_list("id", flat=True))
    assert enqueued <= ended.keys()
    assert set(ended.values()) == {1}
    # A lease whose answer got lost was nobody's; its job ran later. An ack may have got lost too.
    assert ended.keys() <= ran
    assert len(enqueued) > 50


def _left(engine: Any) -> tuple[int, int, int]:
    stats = engine.stats()
    return stats.ready, stats.scheduled, stats.leased
