"""Publishing the same thing many times at once: one job, and everybody gets its id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from tests.contract.stores import OrmStore, Store
from tests.races.conftest import MakeQueue
from tests.races.processes import Crew
from tests.races.roles import Note, Undo
from tests.races.stores import crossing_rows
from tests.races.threads import Background, Halt, together
from vtrr_django.engines.orm.engine import OrmEngine
from vtrr_django.engines.sql.models import FailedJob
from vtrr_django.queue import Queue

PUBLISHERS = 10

IDS: dict[str, Callable[[int], dict[str, str]]] = {
    "msg_id": lambda number: {"msg_id": f"m{number}"},
    "id": lambda number: {"id": f"j{number}"},
    "both": lambda number: {"msg_id": f"m{number}", "id": f"j{number}"},
}


def _at_once(queue: Queue, options: dict[str, str]) -> str:
    return queue.publish(Note(), partition_key="a", **options)


def _in_a_transaction(queue: Queue, options: dict[str, str]) -> str:
    with transaction.atomic(using=queue.engine.transaction_alias or "default"):
        queue.publish(Note(), partition_key="b")
        return queue.publish(Note(), partition_key="a", **options)


@pytest.fixture(params=[_at_once, _in_a_transaction], ids=["at_once", "in_a_transaction"])
def publish(request: pytest.FixtureRequest) -> Callable[..., str]:
    chosen: Callable[..., str] = request.param
    return chosen


@pytest.mark.parametrize("ids", IDS)
def test_ten_threads_publish_the_same_job_while_workers_run_it(
    store: Store,
    make_queue: MakeQueue,
    make_crew: Callable[[Queue], Crew],
    size: Callable[[int, int], int],
    publish: Callable[..., str],
    ids: str,
) -> None:
    queue = make_queue(COMPLETED_RETENTION=None)
    crew = make_crew(queue)
    crew.start("consume", n=3)
    crew.start("consume_in_one_trip", n=3)
    published = []
    for number in range(size(10, 100)):
        answers = set(together(*[partial(publish, queue, IDS[ids](number))] * PUBLISHERS))
        # Who enqueues behind the commit has made up an id before.
        assert len(answers) == 1 or (publish is _in_a_transaction and not store.joins)
        published.append(answers)
    crew.flag("drain")
    crew.join()
    runs = Counter(crew.journal.first_words("run"))
    assert set(runs.values()) == {1}
    assert [len(answers & runs.keys()) for answers in published] == [1] * len(published)
    keys = Counter(row["partition_key"] for row in store.history(queue.name)["completed"])
    assert keys["a"] == len(published)


def test_who_rolls_back_leaves_the_job_to_the_others(
    store: Store, make_queue: MakeQueue, size: Callable[[int, int], int]
) -> None:
    queue = make_queue()

    def undone(options: dict[str, Any]) -> str | None:
        try:
            with transaction.atomic(using=queue.engine.transaction_alias or "default"):
                _at_once(queue, options)
                raise Undo
        except Undo:
            return None

    for number in range(size(5, 50)):
        options = IDS["msg_id"](number)
        writers = [partial(undone, options), partial(_in_a_transaction, queue, options)] * 3
        kept = {answer for answer in together(*writers) if answer is not None}
        assert len(kept) == 1 or not store.joins
        jobs = [one["id"] for one in store.live(queue.name).values() if one["msg_id"]]
        assert len(jobs) == number + 1
        assert len(kept & {*jobs}) == 1


@crossing_rows
def test_two_letters_of_one_msg_id_that_are_requeued_at_the_same_time(
    store: Store, make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Letters that were taken over: what is enqueued here has a msg_id once.
    assert isinstance(store, OrmStore)
    queue, halt = make_queue(), Halt()
    engine = queue.engine
    assert isinstance(engine, OrmEngine)
    for _ in range(2):
        queue.publish(Note(), partition_key="a")
    first, second = [job.id for job in queue.lease(2) if queue.fail(job, "r")]
    FailedJob.objects.using(store.alias).filter(queue=queue.name).update(msg_id="m")
    inserter: Any = engine._inserter
    monkeypatch.setattr(inserter, "_out_of_the_way", halt.behind(inserter._out_of_the_way))
    slow = Background(lambda: queue.requeue(first))
    halt.reached()
    assert queue.requeue(second) == [second]
    halt.go_on()
    assert slow.result() == [first]
    assert {job.id: job.msg_id for job in queue.lease(2)} == {first: None, second: "m"}
