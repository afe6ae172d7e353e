"""The end of a busy period makes all partitions even, also those that have just come.

One that became a candidate meanwhile, and kept the tag of the period that is over, would wait
for as many jobs of the others as it had once been ahead.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import F

from tests.contract.stores import OrmStore, Store
from tests.races.conftest import MakeQueue
from tests.races.roles import Note
from tests.races.stores import crossing_rows, partition_rows
from tests.races.threads import Background, Halt
from vtrr_django.engines.orm.engine import OrmEngine
from vtrr_django.engines.sql.models import Partition
from vtrr_django.queue import Queue

AHEAD = 1000
"""Virtual time that partition "a" has when the period ends; far more than the others get to."""


def _publish(queue: Queue, key: str, count: int = 1) -> None:
    for _ in range(count):
        queue.publish(Note(), partition_key=key)


def _ahead(queue: Queue) -> Any:
    """Return the only job that is left, leased, and its partition far ahead by that lease."""
    queue.publish(Note(), partition_key="a", weight=AHEAD)
    [job] = queue.lease()
    return job


def _engine(queue: Queue) -> Any:
    """Return the queue's engine, whose parts a test may halt."""
    assert isinstance(queue.engine, OrmEngine)
    return queue.engine


def _next(queue: Queue, count: int) -> list[str]:
    """Lease some jobs, one after the other; return their partitions."""
    return [job.partition_key for _ in range(count) for job in queue.lease()]


def _overtake(store: Store, queue: Queue, key: str) -> None:
    """Leave a candidate as who is killed in the race does: with the tag of an earlier period."""
    assert isinstance(store, OrmStore)
    rows = Partition.objects.using(store.alias).filter(queue=queue.name, partition_key=key)
    assert rows.update(period=F("period") - 1, virtual_time=AHEAD) == 1


@crossing_rows
def test_a_job_that_arrives_while_the_busy_period_ends(
    store: Store, make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, ending = make_queue(), Halt()
    last, period = _ahead(queue), _engine(queue)._busy_period
    monkeypatch.setattr(period, "_end_period", ending.behind(period._end_period))
    worker = Background(lambda: queue.ack(last))
    ending.reached()
    _publish(queue, "a")
    ending.go_on()
    assert worker.result()
    _publish(queue, "b", 20)
    _publish(queue, "c", 20)
    assert sorted(_next(queue, 3)) == ["a", "b", "c"]


@crossing_rows
def test_a_partition_that_becomes_a_candidate_when_the_busy_period_has_ended(
    store: Store, make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, ending, joining = make_queue(), Halt(), Halt()
    last, period = _ahead(queue), _engine(queue)._busy_period
    monkeypatch.setattr(period, "_end_period", ending.behind(period._end_period))
    parts = _engine(queue)._partitions
    monkeypatch.setattr(parts, "_refresh_locked", joining.behind(parts._refresh_locked))
    worker = Background(lambda: queue.ack(last))
    ending.reached()
    publisher = Background(lambda: _publish(queue, "a"))
    joining.reached()
    ending.go_on()
    assert worker.result()
    joining.go_on()
    publisher.result()
    _publish(queue, "b", 20)
    _publish(queue, "c", 20)
    assert sorted(_next(queue, 3)) == ["a", "b", "c"]


@partition_rows
def test_the_sweep_finds_a_candidate_with_the_tag_of_an_earlier_period(
    store: Store, make_queue: MakeQueue
) -> None:
    queue = make_queue()
    for key in ("a", "b", "c"):
        _publish(queue, key, 20)
    _overtake(store, queue, "a")
    queue.reclaim()
    assert sorted(_next(queue, 3)) == ["a", "b", "c"]


@partition_rows
def test_a_lease_of_such_a_candidate_sets_nobody_back(store: Store, make_queue: MakeQueue) -> None:
    queue = make_queue()
    _publish(queue, "a", 20)
    _overtake(store, queue, "a")
    assert _next(queue, 1) == ["a"]
    for key in ("b", "c"):
        _publish(queue, key, 20)
    assert queue.partitions("b")[0].virtual_time < AHEAD
    assert sorted(_next(queue, 6)) == ["a", "a", "b", "b", "c", "c"]


@partition_rows
def test_settings_of_such_a_candidate_do_not_put_it_ahead(
    store: Store, make_queue: MakeQueue
) -> None:
    queue = make_queue()
    _publish(queue, "b", 60)
    assert len(_next(queue, 30)) == 30
    _publish(queue, "a", 30)
    _overtake(store, queue, "a")
    queue.set_partition("a", limit=25)
    assert _next(queue, 20).count("a") in range(9, 12)
