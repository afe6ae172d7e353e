"""What an open transaction of a request does to others, and what a rollback leaves: nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections, transaction

from tests.contract.stores import OrmStore, Store
from tests.races.conftest import MakeQueue
from tests.races.roles import Note, Undo
from tests.races.stores import many_writers, one_writer, other_levels, unhindered
from tests.races.threads import Background, Halt
from vtrr_django.domain.job import LeasedJob, Outcome, OutcomeKind
from vtrr_django.queue import Queue


def _atomic(queue: Queue) -> Any:
    return transaction.atomic(using=queue.engine.transaction_alias or "default")


@contextmanager
def _open(queue: Queue, work: Callable[[], Any]) -> Iterator[None]:
    """Have another connection do ``work`` and keep its transaction open."""
    halt = Halt()

    def run() -> None:
        with _atomic(queue):
            halt.behind(work)()

    holder = Background(run)
    halt.reached()
    try:
        yield
    finally:
        halt.go_on()
        holder.result()


def test_a_rollback_leaves_no_job(store: Store, make_queue: MakeQueue) -> None:
    queue = make_queue()
    with pytest.raises(Undo), _atomic(queue):
        queue.publish(Note(), partition_key="a")
        queue.publish(Note(), partition_key="a", msg_id="m")
        queue.publish(Note(), partition_key="a", delay=3600)
        raise Undo
    assert store.live(queue.name) == {}
    assert queue.lease() == []
    again = queue.publish(Note(), partition_key="a", msg_id="m")
    assert [job.id for job in queue.lease(10)] == [again]


def test_a_rollback_to_a_savepoint_leaves_what_came_before(
    store: Store, make_queue: MakeQueue
) -> None:
    queue = make_queue()
    with _atomic(queue):
        first = queue.publish(Note(), partition_key="a")
        with pytest.raises(Undo), _atomic(queue):
            queue.publish(Note(), partition_key="a")
            raise Undo
        last = queue.publish(Note(), partition_key="a")
    assert [job.id for job in queue.lease(10)] == [first, last]


@many_writers
@pytest.mark.parametrize("known", [True, False], ids=["known_tenant", "new_tenant"])
@pytest.mark.parametrize("ids", [{}, {"msg_id": "{}"}, {"id": "{}"}], ids=["plain", "msg_id", "id"])
def test_enqueues_of_one_tenant_do_not_wait_for_each_other(
    store: Store, make_queue: MakeQueue, known: bool, ids: dict[str, str]
) -> None:
    queue = make_queue()
    if known:
        queue.publish(Note(), partition_key="a")

    def publish(name: str) -> Callable[[], str]:
        options = {key: value.format(name) for key, value in ids.items()}
        return lambda: queue.publish(Note(), partition_key="a", **options)

    def in_transaction() -> None:
        with _atomic(queue):
            publish("middle")()
            publish("late")()

    with _open(queue, publish("m")):
        # Before and behind "m" in every index, committed while its transaction is open.
        Background(in_transaction).result()
        Background(publish("a")).result()
        Background(publish("z")).result()
        assert len(Background(lambda: queue.lease(10)).result()) == 4 + known
    assert len(queue.lease(10)) == 1


@one_writer
def test_enqueues_take_turns_where_there_is_one_writer(store: Store, make_queue: MakeQueue) -> None:
    # Here the second must wait: that it does so patiently, with no "database is locked",
    # and that both are stored, is what can be asked for.
    queue = make_queue()

    def publish() -> str:
        with _atomic(queue):
            return queue.publish(Note(), partition_key="a")

    with _open(queue, publish):
        others = [Background(publish), Background(publish)]
        assert store.live(queue.name) == {}
    ids = {other.result() for other in others}
    assert ids < {job.id for job in queue.lease(10)}


def _fresh_lease(queue: Queue) -> LeasedJob:
    queue.publish(Note(), partition_key="a")
    return queue.lease()[0]


def _ack_all(queue: Queue, jobs: list[LeasedJob]) -> list[bool]:
    acks = [Outcome(kind=OutcomeKind.ACK, job_id=job.id, token=job.token) for job in jobs]
    return queue.finish_and_lease(acks, 0, worker_id="w")[0]


VERBS: dict[str, Callable[[Queue], Callable[[], Any]]] = {
    "lease": lambda q: lambda: q.lease(10) or pytest.fail("nothing to lease"),
    "lease_all": lambda q: lambda: q.lease(1000) or pytest.fail("nothing to lease"),
    "ack_all": lambda q: (lambda jobs: lambda: all(_ack_all(q, jobs)))(q.lease(1000)),
    "ack": lambda q: (lambda job: lambda: q.ack(job))(_fresh_lease(q)),
    "fail": lambda q: (lambda job: lambda: q.fail(job, "no"))(_fresh_lease(q)),
    "retry": lambda q: (lambda job: lambda: q.retry(job))(_fresh_lease(q)),
    "snooze": lambda q: (lambda job: lambda: q.snooze(job))(_fresh_lease(q)),
    "release": lambda q: (lambda job: lambda: q.release(job))(_fresh_lease(q)),
    "renew": lambda q: (lambda job: lambda: q.renew(job))(_fresh_lease(q)),
    "reclaim": lambda q: lambda: q.reclaim() + 1,
    "pause": lambda q: lambda: q.pause("a") or True,
    "limit": lambda q: lambda: q.set_partition("a", limit=2) or True,
    "cancel": lambda q: (lambda job_id: lambda: q.cancel(job_id))(
        q.publish(Note(), partition_key="a")
    ),
    "purge": lambda q: lambda: q.purge("a"),
    "stats": lambda q: lambda: q.stats()["ready"],
}


def _does_not_wait(queue: Queue, verb: str, backlog: int) -> None:
    queue.publish(Note(), partition_key="a", msg_id="known")
    for _ in range(backlog - 1):
        queue.publish(Note(), partition_key="a")
    act = VERBS[verb](queue)

    def enqueue() -> None:
        queue.publish(Note(), partition_key="a")
        queue.publish(Note(), partition_key="a", msg_id="new")
        queue.publish(Note(), partition_key="a", delay=60)

    with _open(queue, enqueue):
        assert Background(act).result(30)


@unhindered
@pytest.mark.parametrize("backlog", [1, 300])
@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_waits_for_a_transaction_that_enqueued(
    store: Store, make_queue: MakeQueue, verb: str, backlog: int
) -> None:
    _does_not_wait(make_queue(), verb, backlog)


@unhindered
def test_the_last_ack_does_not_wait_for_a_transaction_that_enqueued(
    store: Store, make_queue: MakeQueue
) -> None:
    _last_ack_does_not_wait(make_queue())


def _last_ack_does_not_wait(queue: Queue) -> None:
    last = _fresh_lease(queue)
    with _open(queue, lambda: queue.publish(Note(), partition_key="b")):
        assert Background(lambda: queue.ack(last)).result(30)


@pytest.fixture
def repeatable_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the database's own default, where Django's is READ COMMITTED."""
    assert isinstance(store, OrmStore)
    options = connections.settings[store.alias].setdefault("OPTIONS", {})
    monkeypatch.setitem(options, "isolation_level", "repeatable read")
    connections[store.alias].close()
    yield
    monkeypatch.undo()
    connections[store.alias].close()


@other_levels
@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_waits_under_repeatable_read(
    store: Store, repeatable_read: None, make_queue: MakeQueue, verb: str
) -> None:
    _does_not_wait(make_queue(), verb, backlog=1)


@other_levels
def test_the_last_ack_does_not_wait_under_repeatable_read(
    store: Store, repeatable_read: None, make_queue: MakeQueue
) -> None:
    _last_ack_does_not_wait(make_queue())


def test_looking_waits_for_nobody(store: Store, make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.publish(Note(), partition_key="a")
    with _open(queue, lambda: queue.publish(Note(), partition_key="a")):
        assert Background(queue.stats).result(30)["ready"] == 1
        assert Background(queue.partitions).result(30)[0].ready == 1


@unhindered
@pytest.mark.parametrize("again", [{"msg_id": "known"}, {"id": "known"}], ids=["msg_id", "id"])
def test_no_worker_waits_for_a_transaction_that_published_again(
    store: Store, make_queue: MakeQueue, again: dict[str, str]
) -> None:
    queue = make_queue()
    queue.publish(Note(), partition_key="a", **again)

    def run() -> bool:
        return queue.ack(queue.lease()[0])

    with _open(queue, lambda: queue.publish(Note(), partition_key="a", **again)):
        assert Background(run).result(30)


@unhindered
def test_no_enqueue_waits_for_a_transaction_that_published_again(
    store: Store, make_queue: MakeQueue
) -> None:
    queue = make_queue()
    queue.publish(Note(), partition_key="a", msg_id="known")
    with _open(queue, lambda: queue.publish(Note(), partition_key="a", msg_id="known")):
        assert Background(lambda: queue.publish(Note(), partition_key="b")).result(30)
