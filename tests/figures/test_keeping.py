"""Writing figures down: nothing twice, nothing lost, nobody waits long, all of it bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connections, transaction
from django.db.models import F, Sum

from tests.contract.stores import SQL_STORES, STORES, OrmStore, Store
from tests.figures.jobs import LEASE_SECONDS, end, lease, reclaimed
from tests.figures.roles import add, did
from tests.races.processes import Crew
from tests.races.stores import many_writers
from tests.races.threads import together
from vtrr_django.domain.job import OutcomeKind, PartitionStats, QueueStats
from vtrr_django.engines.sql.models import (
    PartitionSample,
    QueueSample,
    QueueTotals,
    WorkerSighting,
)
from vtrr_django.engines.sql.store import Store as Database
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.figures import keeping
from vtrr_django.figures.keeping import MINUTE, Keeper, Told, floor
from vtrr_django.figures.reading import Reader
from vtrr_django.figures.recorder import (
    COUNTERS,
    MOST_PARTITIONS,
    MOST_WORKERS,
    REST,
    Counted,
    Recorder,
)
from vtrr_django.figures.trimming import KEPT, TENANTS_KEPT
from vtrr_django.queue import Queue

SAMPLES: tuple[Any, ...] = (QueueSample, PartitionSample)


class Figures:
    """The figures of one queue, written and read."""

    def __init__(self, store: OrmStore, name: str) -> None:
        self.alias, self.name = store.alias, name
        self.keeper = Keeper(name, Database(store.alias))
        self.reader = Reader(name, Database(store.alias))

    def add(self, counted: Counted | None = None, worker_id: str = "", **more: Any) -> int | None:
        holding = more.pop("holding", {})
        told = Told(counted=counted or Counted(), holding=holding, worker_id=worker_id, **more)
        return self.keeper.add(told)

    def rows(self, model: Any) -> Any:
        return model.objects.using(self.alias).filter(queue=self.name)

    def set_back(self, delta: timedelta, *models: Any) -> None:
        """Let rows be so much older."""
        for model in models:
            column = "seen_at" if model is WorkerSighting else "at"
            back = F(column) - delta // timedelta(microseconds=1)
            self.rows(model).update(**{column: back})

    @property
    def counts(self) -> dict[str, int]:
        return {name: n for name, n in self.reader.totals().counts.items() if n}


@pytest.fixture(params=SQL_STORES)
def store(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[Store]:
    """Each database in turn; the tests of one that names others say why."""
    made = STORES[request.param]()
    yield made
    made.close()


@pytest.fixture
def figures(store: Store) -> Figures:
    assert isinstance(store, OrmStore)
    return Figures(store, store.new_name())


def everything() -> Counted:
    """Return one of each."""
    recorder = Recorder()
    jobs = {kind: lease("a", waited=1.0) for kind in OutcomeKind}
    recorder.leased(list(jobs.values()), "w", LEASE_SECONDS)
    recorder.finished([end(job, kind, 2.0) for kind, job in jobs.items()], [True] * len(jobs))
    recorder.finished([end(lease())], [False])
    recorder.reclaimed([reclaimed(lease("b"), dead=True)])
    recorder.looked()
    return recorder.take()


# -- adding ------------------------------------------------------------------------


def test_nothing_is_written_down_yet(figures: Figures) -> None:
    totals = figures.reader.totals()
    assert set(totals.counts.values()) == {0}
    assert not totals.waits
    assert (totals.leased_at, totals.reclaimed_at, totals.beat_at) == (None, None, None)
    assert figures.reader.workers() == []
    assert figures.reader.tenants() == {}
    assert figures.reader.worker_seconds(["a"]) == ({}, 0.0)
    assert [minute.ready for minute in figures.reader.minutes()] == [None] * 61


def test_everything_adds_up(figures: Figures) -> None:
    for _ in range(3):
        figures.add(everything())
    totals = figures.reader.totals()
    expected = dict.fromkeys(COUNTERS, 3) | {"leases": 15, "failed": 6}
    assert totals.counts == expected
    assert (totals.waits.count, totals.waits.total) == (15, pytest.approx(15.0))
    assert (totals.runs.count, totals.runs.total) == (12, pytest.approx(24.0))
    assert totals.leased_at is not None
    assert totals.leased_at == totals.reclaimed_at
    assert totals.now - totals.leased_at < timedelta(minutes=10)
    assert totals.beat_at is None
    minutes = figures.reader.minutes()
    for name in ("leases", "completed", "failed", "reclaimed"):
        assert sum(getattr(minute, name) for minute in minutes) == expected[name]
    tenants = figures.reader.tenants()
    assert (tenants["a"].leases, tenants["a"].completed, tenants["a"].failed) == (15, 3, 3)
    assert tenants["a"].worker_seconds == pytest.approx(24.0)
    assert tenants["a"].waits == totals.waits
    assert (tenants["b"].leases, tenants["b"].failed, tenants["b"].waits.count) == (0, 3, 0)
    assert figures.reader.tenants(["b", "c"]).keys() == {"b"}
    assert figures.reader.worker_seconds(["b", "a", "a"]) == ({"a": 24.0, "b": 0.0}, 24.0)


def test_queues_and_tenants_are_told_apart_byte_by_byte(store: Store, figures: Figures) -> None:
    keys = ["a", "A", "a ", "", "ä", "日本", "🦊", "x" * 255]
    other = Figures(store, figures.name.upper())  # type: ignore[arg-type]
    figures.add(did(*keys))
    figures.add(did(*keys))
    other.add(did("a"), "W")
    assert {key: one.leases for key, one in figures.reader.tenants().items()} == (
        dict.fromkeys(keys, 2)
    )
    assert other.counts == {"leases": 1, "completed": 1}
    assert [worker.worker_id for worker in figures.reader.workers()] == ["w"]


def test_one_caller_is_told_to_take_the_gauges_of_a_minute(figures: Figures) -> None:
    minutes = [figures.add(did("a"), beat=True) for _ in range(5)]
    told = [minute for minute in minutes if minute is not None]
    assert told == [minutes[0], *sorted(set(told) - {minutes[0]})]


def test_who_was_a_little_faster_has_taken_the_minute_before_too(figures: Figures) -> None:
    """Moments of two writers may come in the other order than their turns."""
    figures.add(did("a"))
    step = MINUTE // timedelta(microseconds=1)
    figures.rows(QueueTotals).update(sampled_at=F("sampled_at") + step)
    assert figures.add(did("a")) is None


def test_a_clock_that_was_put_back_stops_no_gauges(figures: Figures) -> None:
    figures.add(did("a"))
    day = timedelta(days=1) // timedelta(microseconds=1)
    figures.rows(QueueTotals).update(sampled_at=F("sampled_at") + day)
    assert figures.add() is not None


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_writers_at_the_same_time(
    figures: Figures,
    store: Store,
    settings: Any,
    make_crew: Callable[[Queue], Crew],
    kind: str,
) -> None:
    """Four of them, one queue, the same tenants: nothing is lost, and no minute told twice."""
    settings.VTRR = {"QUEUES": {figures.name: store.settings()}}
    rounds, keys = 10, [f"t{number}" for number in range(30)]
    if kind == "processes":
        crew = make_crew(Queue(figures.name))
        for _ in range(4):
            crew.start("tests.figures.roles:measure", rounds=rounds, partition_keys=keys)
        crew.heard("ready", 4)
        crew.flag("go")
        crew.join()
        told = [minute for (minute,) in crew.journal.said("minute")]
    else:

        def write() -> list[int | None]:
            told = Told(counted=did(*keys), holding={}, worker_id="w", beat=True)
            return [add(figures.keeper, told) for _ in range(rounds)]

        found = together(write, write, write, write)
        told = [minute for minutes in found for minute in minutes if minute is not None]
    assert len(set(told)) == len(told) >= 1
    sum_of_all = 4 * rounds * len(keys)
    assert figures.counts == {"leases": sum_of_all, "completed": sum_of_all}
    found = figures.reader.tenants()
    assert {tenant.leases for tenant in found.values()} == {4 * rounds}
    assert {tenant.waits.count for tenant in found.values()} == {4 * rounds}
    assert figures.reader.totals().waits.count == sum_of_all
    assert sum(worker.jobs for worker in figures.reader.workers()) == sum_of_all


@many_writers
def test_writers_of_many_queues_do_not_meet(figures: Figures, store: Store) -> None:
    others = [Figures(store, f"{figures.name}-{n}") for n in range(4)]  # type: ignore[arg-type]

    def writer(one: Figures) -> Callable[[], None]:
        def write() -> None:
            for number in range(10):
                one.add(did(*(f"t{number}-{n}" for n in range(20))), f"w{number}")

        return write

    together(*(writer(one) for one in others))
    for one in others:
        assert one.counts == {"leases": 200, "completed": 200}
        assert len(one.reader.workers()) == 11


@many_writers
def test_nobody_waits_for_a_writer_that_stands_still(
    figures: Figures,
    store: Store,
    settings: Any,
    make_crew: Callable[[Queue], Crew],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.VTRR = {"QUEUES": {figures.name: store.settings()}}
    figures.add(did("a"), "w")
    take_the_gauges(figures)
    crew = make_crew(Queue(figures.name))
    process = crew.start("tests.figures.roles:stand_still_while_writing")
    crew.heard("locked")
    crew.stop(process)
    monkeypatch.setattr(keeping, "_PATIENCE", 0.05)
    with pytest.raises(StoreUnavailable, match="being written by another process"):
        figures.add(did("a"))
    for worker_id in ("v", "v", "x"):  # beside that writer's, new and known
        assert figures.add(Counted(), worker_id) is None
    crew.resume(process)
    crew.flag("go on")
    crew.join(process)
    monkeypatch.undo()
    figures.add(did("a"))
    assert figures.counts == {"leases": 3, "completed": 3}


def test_a_write_that_fails_loses_nothing(
    figures: Figures, store: Store, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even half of it: the queue counts on, and all of it arrives the next time."""
    settings.VTRR = {"QUEUES": {figures.name: store.settings()}}
    queue = Queue(figures.name)
    queue.recorder.leased([lease("a"), lease("b")], "w", LEASE_SECONDS)
    with monkeypatch.context() as patch:

        def fail(*args: Any) -> None:
            raise OperationalError("gone away")

        patch.setattr(Keeper, "_see", fail)
        with pytest.raises(StoreUnavailable, match="did not answer"):
            queue.measure("w")
    assert figures.counts == {}
    assert figures.reader.tenants() == {}
    queue.recorder.leased([lease("a")], "w", LEASE_SECONDS)
    queue.measure("w")
    assert figures.counts == {"leases": 3}
    assert figures.reader.tenants()["a"].leases == 2
    queue.measure("w")
    assert figures.counts == {"leases": 3}


def test_in_a_callers_transaction_it_is_undone_with_it(figures: Figures) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=figures.alias):
        figures.add(did("a"), "w")
        assert figures.counts == {"leases": 1, "completed": 1}
        1 / 0  # noqa: B018 - for its error
    assert figures.counts == {}


# -- bounds ------------------------------------------------------------------------


def test_many_tenants_are_bounded_and_those_with_most_leases_are_told_apart(
    figures: Figures,
) -> None:
    figures.add(did("early"))
    counted = Counted()
    for number in range(3000):
        tenant = counted.tenants[f"t{number}"] = did("x").tenants["x"]
        tenant.leases = 2 if number >= 2500 else 1
    figures.add(counted)
    figures.add(did("early", "t0", "t2999", "new"))
    found = figures.reader.tenants()
    # Should five minutes have ended meanwhile, there are two samples of each.
    samples = figures.rows(PartitionSample).values("at").distinct().count()
    assert len(found) <= samples * (MOST_PARTITIONS + 1)
    assert found["early"].leases == 2
    assert found["t2999"].leases == 3
    assert {f"t{number}" for number in range(2500, 3000)} <= found.keys()
    assert sum(tenant.leases for tenant in found.values()) == 3500 + 5
    assert sum(tenant.waits.count for tenant in found.values()) == 3000 + 5
    if samples == 1:
        assert len(found) == MOST_PARTITIONS + 1
        assert "new" not in found
        assert found[REST].leases > 1900


def test_what_is_old_is_trimmed_and_nothing_else(figures: Figures, store: Store) -> None:
    other = Figures(store, f"{figures.name}-b")  # type: ignore[arg-type]
    for one in (figures, other):
        one.add(did("a"), "w")
        one.set_back(KEPT + timedelta(minutes=5), QueueSample, WorkerSighting)
        one.set_back(TENANTS_KEPT + timedelta(minutes=10), PartitionSample)
    figures.add(did("b", worker_id="v"))
    note(figures, 0)  # that minute is trimmed too
    assert [one.leases for one in figures.rows(QueueSample)] == [1]
    assert set(figures.rows(PartitionSample).values_list("partition_key", flat=True)) == {"b"}
    assert [worker.worker_id for worker in figures.reader.workers()] == ["v"]
    for model in (*SAMPLES, WorkerSighting):
        assert other.rows(model).count() == 1
    assert figures.counts == {"leases": 2, "completed": 2}


def test_workers_are_bounded(figures: Figures) -> None:
    for batch in range(3):
        counted = did("a")
        counted.workers = {f"w{batch}-{n}": 1 for n in range(MOST_WORKERS)}
        figures.add(counted)
    note(figures, 0)
    seen = figures.reader.workers()
    assert len(seen) == MOST_WORKERS
    assert {worker.worker_id.partition("-")[0] for worker in seen} == {"w2"}
    assert figures.rows(WorkerSighting).count() <= 2 * MOST_WORKERS


# -- workers -----------------------------------------------------------------------


def test_workers_are_seen(figures: Figures) -> None:
    figures.add(Counted(), "idle")
    figures.add(did("a", "a", worker_id="busy"), "busy", holding={"busy": 1, "idle": 9})
    [first] = [one for one in figures.reader.workers() if one.worker_id == "busy"]
    figures.add(did("a", worker_id="busy"), "idle", holding={"busy": 3})
    figures.add(Counted(), "busy", holding={"busy": 2})
    busy, idle = sorted(figures.reader.workers(), key=lambda one: one.worker_id)
    assert (busy.jobs, busy.holding) == (3, 2)
    assert (idle.jobs, idle.holding, idle.leased_at) == (0, 0, None)
    assert first.started_at == busy.started_at == first.leased_at
    assert busy.leased_at is not None
    assert first.started_at <= busy.leased_at <= busy.seen_at
    assert figures.reader.workers()[0] == busy


def test_an_idle_worker_writes_its_own_row_and_no_other(figures: Figures) -> None:
    looked = Counted(looked=True)
    figures.add(looked, "w")
    written: list[str] = []

    def note_writes(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not sql.lstrip().startswith("SELECT"):
            written.append(sql)
        return execute(sql, params, many, context)

    take_the_gauges(figures)
    with connections[figures.alias].execute_wrapper(note_writes):
        assert figures.add(looked, "w") is None
    assert [WorkerSighting._meta.db_table in sql for sql in written] == [True]


def test_looking_for_leases_that_ran_out_is_noted_while_idle(figures: Figures) -> None:
    figures.add(Counted(looked=True), "w")
    first = figures.reader.totals().reclaimed_at
    long_ago = timedelta(seconds=40) // timedelta(microseconds=1)
    figures.rows(QueueTotals).update(reclaimed_at=F("reclaimed_at") - long_ago)
    figures.add(Counted(), "w")
    figures.add(Counted(looked=True), "w")
    again = figures.reader.totals().reclaimed_at
    assert first is not None
    assert again is not None
    assert again >= first


def test_beat_is_noted_each_time(figures: Figures) -> None:
    figures.add(Counted(), beat=True)
    first = figures.reader.totals().beat_at
    figures.add(Counted(), beat=True)
    again = figures.reader.totals().beat_at
    assert first is not None
    assert again is not None
    assert again > first
    assert figures.reader.workers() == []


# -- how the queue stands ----------------------------------------------------------


def note(figures: Figures, minute: int, ready: int = 7) -> None:
    now = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    stats = QueueStats(
        paused=False,
        ready=ready,
        scheduled=2,
        leased=3,
        failed=0,
        completed=0,
        partitions_waiting=2,
        oldest_ready_at=now - timedelta(seconds=90),
        now=now,
    )
    longest = [
        PartitionStats(partition_key=key, ready=count) for key, count in (("ä🦊", ready), ("b", 0))
    ]
    figures.keeper.note(minute, stats, longest)


def test_gauges_join_the_counts_of_their_minute(figures: Figures) -> None:
    minute = figures.add(did("a"), "w")
    assert minute is not None
    note(figures, minute, ready=6)
    note(figures, minute)
    [found] = [one for one in figures.reader.minutes() if one.ready is not None]
    assert found.at == floor(found.at, MINUTE)
    assert (found.leases, found.completed) == (1, 1)
    assert (found.ready, found.scheduled, found.leased, found.oldest_wait) == (7, 2, 3, 90.0)
    assert found.waiting == {"ä🦊": 7}


def test_gauges_come_first_in_a_minute_in_which_nothing_happened(figures: Figures) -> None:
    minute = figures.add(Counted(), "w")
    assert minute is not None
    note(figures, minute)
    assert [one.leases for one in figures.reader.minutes() if one.ready == 7] == [0]
    figures.add(did("a"), "w")
    assert sum(one.leases for one in figures.reader.minutes()) == 1


def test_minutes_are_whole_whatever_the_time_asked_for(figures: Figures) -> None:
    figures.add(did("a"), "w")
    for past in (timedelta(0), timedelta(seconds=90), timedelta(hours=24)):
        minutes = figures.reader.minutes(past)
        assert len(minutes) == -(-past // MINUTE) + 1
        assert all(one.at == floor(one.at, MINUTE) for one in minutes)
    assert sum(one.leases for one in figures.reader.minutes(timedelta(seconds=90))) == 1


def test_moments_are_moments_without_time_zones_too(figures: Figures, settings: Any) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = "Asia/Kolkata"  # half an hour beside the hours
    minute = figures.add(did("a"), "w", beat=True)
    assert minute is not None
    note(figures, minute)
    totals = figures.reader.totals()
    assert totals.now.tzinfo is UTC
    assert totals.beat_at is not None
    assert totals.now - totals.beat_at < timedelta(minutes=10)
    assert [one.leases for one in figures.reader.minutes() if one.ready == 7] == [1]
    assert figures.reader.tenants(past=timedelta(minutes=1)).keys() == {"a"}
    [worker] = figures.reader.workers()
    assert worker.seen_at == totals.beat_at


def take_the_gauges(figures: Figures) -> None:
    """Make sure that the gauges of this minute, and of the one that may begin now, are taken."""
    step = MINUTE // timedelta(microseconds=1)
    now = Database(figures.alias).now()
    figures.rows(QueueTotals).update(sampled_at=now - now % step + step)


def test_tenants_are_read_over_several_samples_and_no_older_ones(figures: Figures) -> None:
    for _ in range(3):
        figures.set_back(timedelta(minutes=30), PartitionSample)
        figures.add(did("a", "a", "b"))
    hour, all_of_it = figures.reader.tenants(past=timedelta(minutes=40)), timedelta(hours=2)
    assert {key: one.leases for key, one in hour.items()} == {"a": 4, "b": 2}
    assert hour["a"].waits.count == 4
    assert hour["a"].worker_seconds == figures.reader.worker_seconds(["a"], all_of_it)[0]["a"] / 1.5
    assert figures.reader.tenants(["b"], all_of_it)["b"].completed == 3


def test_sums_are_those_of_the_table(figures: Figures) -> None:
    figures.add(did("a", "b", "a"))
    found = figures.rows(PartitionSample).aggregate(sum=Sum("worker_seconds"))
    assert found["sum"] == figures.reader.worker_seconds(["a", "b"])[1] == 6.0
