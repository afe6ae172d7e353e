from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace

import pytest

from tests.worker.fakes import PATIENCE, MemorySource, Running, burst, running, wait_until
from vtrr_django.domain.job import LeasedJob, Outcome, OutcomeKind
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.worker import TaskContext
from vtrr_django.worker.lanes import Lane
from vtrr_django.worker.rota import Rota, Seat
from vtrr_django.worker.source import NoHooks

# -- batches ---------------------------------------------------------------------------


def test_one_call_ends_a_batch_and_leases_the_next() -> None:
    source = MemorySource(prefetch=1)
    source.task(lambda context: None)
    for _ in range(5):
        source.put()
    burst(source)
    assert [(len(call.outcomes), call.found) for call in source.calls] == [
        (0, 1),
        (1, 1),
        (1, 1),
        (1, 1),
        (1, 1),
        (1, 0),
    ]


def test_batches_of_short_jobs_grow_up_to_prefetch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtrr_django.worker.slot.BATCH_SECONDS", 60.0)
    source = MemorySource(prefetch=10)
    source.task(lambda context: None)
    for _ in range(40):
        source.put()
    burst(source)
    assert [call.n for call in source.calls[:6]] == [1, 2, 4, 8, 10, 10]
    assert {kind for call in source.calls for kind in call.kinds} == {OutcomeKind.ACK}


def test_batches_of_long_jobs_stay_at_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtrr_django.worker.slot.BATCH_SECONDS", 0.0)
    source = MemorySource(prefetch=10)
    source.task(lambda context: None)
    for _ in range(10):
        source.put()
    burst(source)
    assert {call.n for call in source.calls} == {1}


def test_a_slow_batch_is_given_up_between_two_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(ahead=0.0)
    clock.monotonic = lambda: time.monotonic() + clock.ahead
    monkeypatch.setattr("vtrr_django.worker.slot.time", clock)
    monkeypatch.setattr("vtrr_django.worker.slot.BATCH_SECONDS", 60.0)
    source = MemorySource(prefetch=8)

    def job(context: TaskContext, seconds: float) -> None:
        clock.ahead += seconds

    source.task(job)
    for number in range(15):
        source.put(1000.0 if number == 4 else 0.0)  # batches of 1, 2, 4: the second of the third
    burst(source)
    assert [(call.kinds, call.n) for call in source.calls[2:5]] == [
        ([OutcomeKind.ACK] * 2, 4),
        ([OutcomeKind.ACK] * 2 + [OutcomeKind.RELEASE] * 2, 1),
        ([OutcomeKind.ACK], 2),
    ]
    acked = [outcome.job_id for outcome in source.outcomes if outcome.kind is OutcomeKind.ACK]
    assert len(acked) == len(set(acked)) == 15
    assert acked == sorted(acked, key=source.places.__getitem__)


def test_what_a_slot_gave_back_does_not_count_for_max_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(ahead=0.0)
    clock.monotonic = lambda: time.monotonic() + clock.ahead
    monkeypatch.setattr("vtrr_django.worker.slot.time", clock)
    monkeypatch.setattr("vtrr_django.worker.slot.BATCH_SECONDS", 60.0)
    source = MemorySource(prefetch=8)

    def job(context: TaskContext, seconds: float) -> None:
        clock.ahead += seconds

    source.task(job)
    for number in range(15):
        source.put(1000.0 if number == 4 else 0.0)
    with running([source], max_jobs=12) as run:
        summary = run.end()
    assert (summary.succeeded, summary.released) == (12, 2)


def test_what_waits_behind_a_long_job_is_given_back_while_it_runs() -> None:
    source = MemorySource(prefetch=8)
    began, go = threading.Event(), threading.Event()

    def job(context: TaskContext, long: bool) -> None:
        if long:
            began.set()
            go.wait(60)

    source.task(job)
    short = [source.put(False) for _ in range(8)]
    long = source.put(True)
    behind = [source.put(False) for _ in range(3)]
    with running([source]):
        wait_until(began.is_set)
        wait_until(lambda: len(source.leased) == 1, "all but the long job to be handed in")
        assert [lease.id for lease in source.leased.values()] == [long]
        assert {source.kinds_of(job_id)[-1] for job_id in short} == {OutcomeKind.ACK}
        assert [job.id for job in source.ready] == behind, "they keep their order"
        go.set()
        wait_until(lambda: len(source.outcomes) >= 12)
        wait_until(lambda: not source.leased and not source.ready)
    assert {source.kinds_of(job_id)[-1] for job_id in behind} == {OutcomeKind.ACK}


def test_what_is_given_back_is_run_by_an_idle_slot() -> None:
    source = MemorySource(prefetch=8)
    began, go = threading.Event(), threading.Event()

    def job(context: TaskContext, long: bool) -> None:
        if long:
            began.set()
            go.wait(60)

    source.task(job)
    for number in range(40):
        source.put(number == 20)
    with running([source], concurrency=2, poll_interval=60.0, backoff_interval=60.0):
        wait_until(began.is_set)
        acked = OutcomeKind.ACK
        wait_until(lambda: sum(o.kind is acked for o in source.outcomes) == 39)
        go.set()


# -- polling ---------------------------------------------------------------------------


def test_only_one_slot_polls_while_idle() -> None:
    rota = make_rota(poll_interval=50.0)
    seats = [Seat() for _ in range(3)]
    turn = rota.next_turn(seats[0])
    assert turn is not None
    assert turn.is_poll
    waiting = [threading.Thread(target=rota.next_turn, args=(seat,)) for seat in seats[1:]]
    for thread in waiting:
        thread.start()
    wait_until(lambda: len(rota._changed._waiters) == 2)  # type: ignore[attr-defined]
    rota.answered(turn, 0)
    assert all(thread.is_alive() for thread in waiting)
    assert rota.busy == 1
    rota.stop()
    for thread in waiting:
        thread.join()


def make_rota(*sources: MemorySource, burst: bool = False, **options: float) -> Rota:
    lanes = [Lane(source, "w", NoHooks()) for source in sources or (MemorySource(),)]
    return Rota(
        lanes,
        poll_interval=options.get("poll_interval", 1.0),
        backoff_interval=options.get("backoff_interval", 100.0),
        max_empty=4,
        burst=burst,
        max_jobs=None,
        extra={},
    )


def test_polls_back_off_after_max_empty_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    rota = make_rota(poll_interval=1.0, backoff_interval=100.0)
    flow = rota._flows[0]
    now = 1000.0
    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr("vtrr_django.worker.rota.time", clock)
    pauses = []
    seat = Seat()
    for _ in range(6):
        now = max(now, flow.ready_at)
        turn = rota.next_turn(seat)
        assert turn is not None
        rota.answered(turn, 0)
        pauses.append(flow.ready_at - now)
    assert pauses == [1.0, 1.0, 1.0, 100.0, 100.0, 100.0]
    now = flow.ready_at
    turn = rota.next_turn(seat)
    assert turn is not None
    rota.answered(turn, 1)
    assert flow.flowing
    turn = rota.next_turn(seat)
    assert turn is not None
    rota.answered(turn, 0)
    assert flow.ready_at - now == 1.0, "work in between starts the count again"


def test_an_empty_answer_that_came_late_does_not_stop_the_others() -> None:
    rota = make_rota()
    first, late = Seat(), Seat()
    turn = rota.next_turn(first)
    assert turn is not None
    rota.answered(turn, 1)
    slow = rota.next_turn(late)
    again = rota.next_turn(first)
    assert slow is not None
    assert again is not None
    rota.answered(again, 1)
    rota.answered(slow, 0)
    assert rota._flows[0].flowing


def test_a_slot_that_only_hands_in_makes_no_pause_longer() -> None:
    rota = make_rota()
    flow = rota._flows[0]
    turn = rota.next_turn(Seat())
    assert turn is not None
    rota.failed(turn, StoreUnavailable("down"))
    for _ in range(3):
        turn = rota.next_turn(Seat(flow=flow, holding=True))
        assert turn is not None
        rota.failed(turn, StoreUnavailable("down"))
    assert flow.outage.failures == 1


def test_few_jobs_wake_no_second_slot_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rota = make_rota(poll_interval=10.0)
    flow = rota._flows[0]
    clock = SimpleNamespace(now=1000.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr("vtrr_django.worker.rota.time", clock)
    worker, helper = Seat(sizes={flow.lane: 4}), Seat()

    def look(seat: Seat, found: int) -> None:
        turn = rota.next_turn(seat)
        assert turn is not None
        rota.answered(turn, found)
        seat.holding = found > 0

    look(worker, 1)
    assert flow.flowing
    look(helper, 0)
    for _ in range(3):
        clock.now += 1.0
        look(worker, 1)
        assert not flow.flowing
        assert flow.ready_at == 1010.0, "the helper looks again then, however much was found"
    look(worker, 4)
    assert flow.flowing, "all that was asked for: there may be more"
    look(helper, 0)
    look(worker, 1)
    clock.now += 10.0
    look(helper, 1)
    assert flow.flowing


def test_a_job_behind_a_long_one_waits_for_a_poll_and_not_for_its_end() -> None:
    source = MemorySource(prefetch=10)
    began, go = threading.Event(), threading.Event()

    def job(context: TaskContext, long: bool) -> None:
        if long:
            began.set()
            go.wait(10 * PATIENCE)

    source.task(job)
    with running([source], concurrency=3, poll_interval=0.05, backoff_interval=0.05) as run:
        for _ in range(5):
            for number in range(6):
                source.put(number == 3)
                run.worker.wake()
            wait_until(began.is_set)
            last = source.put(False)
            wait_until(partial(source.kinds_of, last))
            go.set()
            wait_until(lambda: not source.leased and not source.ready)
            began.clear()
            go.clear()


def test_wake_polls_at_once() -> None:
    source = MemorySource()
    source.task(lambda context: None)
    with running([source], poll_interval=1000.0, backoff_interval=1000.0, concurrency=3) as run:
        wait_until(lambda: source.calls)
        for _ in range(3):
            job_id = source.put()
            run.worker.wake()
            wait_until(partial(source.kinds_of, job_id))


def test_all_slots_take_part() -> None:
    source = MemorySource()
    barrier = threading.Barrier(4)
    source.task(lambda context: barrier.wait(PATIENCE))
    with running([source], concurrency=4, poll_interval=1000.0) as run:
        wait_until(lambda: idle_slots(run) == 4)
        for _ in range(4):
            source.put()
        run.worker.wake()
        wait_until(lambda: len(source.outcomes) == 4)


def idle_slots(run: Running) -> int:
    crew = run.worker._crew
    return 0 if crew is None else len(crew.rota._changed._waiters)  # type: ignore[attr-defined]


# -- several sources -------------------------------------------------------------------


def test_sources_are_served_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtrr_django.worker.rota.TURN_SECONDS", 0.0)
    order: list[str] = []
    sources = [MemorySource(name, prefetch=1) for name in ("a", "b", "c")]
    for source in sources:
        source.task(lambda context: order.append(context.job.queue))
        for _ in range(5):
            source.put()
    burst(*sources)
    assert "".join(order) == "abc" * 5


def test_a_source_with_short_jobs_is_kept_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtrr_django.worker.rota.TURN_SECONDS", 1000.0)
    order: list[str] = []
    sources = [MemorySource(name, prefetch=1) for name in ("a", "b")]
    for source in sources:
        source.task(lambda context: order.append(context.job.queue))
        for _ in range(5):
            source.put()
    burst(*sources)
    assert "".join(order) == "aaaaabbbbb"


def test_a_slot_hands_in_before_it_leaves_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtrr_django.worker.rota.TURN_SECONDS", 0.0)
    first, second = MemorySource("first", prefetch=1), MemorySource("second", prefetch=1)
    unfinished: list[int] = []
    for source, other in ((first, second), (second, first)):

        def job(context: TaskContext, other: MemorySource = other) -> None:
            unfinished.append(len(other.leased))

        source.task(job)
        for _ in range(10):
            source.put()
    burst(first, second)
    assert unfinished == [0] * 20


def test_an_empty_source_does_not_delay_a_busy_one() -> None:
    busy, empty = MemorySource("busy"), MemorySource("empty")
    busy.task(lambda context: None)
    for _ in range(500):
        busy.put()
    with running([empty, busy], poll_interval=1000.0):
        wait_until(lambda: len(busy.outcomes) == 500)
    assert len(empty.calls) <= 2


def test_idle_slots_watch_every_source() -> None:
    sources = [MemorySource(name) for name in ("a", "b", "c")]
    for source in sources:
        source.task(lambda context: None)
    with running(sources, concurrency=3):
        wait_until(lambda: all(len(source.calls) > 3 for source in sources))
        for source in sources * 2:
            job_id = source.put()
            wait_until(partial(source.kinds_of, job_id))


def test_a_source_that_hangs_leaves_the_others_alone() -> None:
    hangs, inside, go = threading.Event(), threading.Event(), threading.Event()

    class Hanging(MemorySource):
        def finish_and_lease(
            self, outcomes: Sequence[Outcome], n: int, *, worker_id: str
        ) -> tuple[list[bool], list[LeasedJob]]:
            if hangs.is_set():
                inside.set()
                go.wait(10 * PATIENCE)
            return super().finish_and_lease(outcomes, n, worker_id=worker_id)

    ill, well = Hanging("ill"), MemorySource("well")
    well.task(lambda context: None)
    with running([ill, well], concurrency=2) as run:
        wait_until(lambda: idle_slots(run) == 2)
        hangs.set()
        wait_until(inside.is_set)
        for _ in range(20):
            job_id = well.put()
            wait_until(partial(well.kinds_of, job_id))
        go.set()


def test_slots_are_spread_over_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long jobs of one queue do not end up on every slot while another has work."""
    monkeypatch.setattr("vtrr_django.worker.rota.TURN_SECONDS", 0.0)
    slow, quick = MemorySource("slow"), MemorySource("quick")
    go = threading.Event()
    slow.task(lambda context: go.wait(60))
    quick.task(lambda context: None)
    for _ in range(10):
        slow.put()
    for _ in range(500):
        quick.put()
    with running([slow, quick], concurrency=4):
        wait_until(lambda: len(quick.outcomes) == 500)
        go.set()
        wait_until(lambda: len(slow.outcomes) == 10)


# -- outages ---------------------------------------------------------------------------


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtrr_django.worker.logs.FIRST_PAUSE", 0.005)
    monkeypatch.setattr("vtrr_django.worker.logs.LONGEST_PAUSE", 0.02)
    monkeypatch.setattr("vtrr_django.worker.lanes.SUSPECT_PAUSE", 0.005)
    monkeypatch.setattr("vtrr_django.worker.handing.FIRST_PAUSE", 0.005)


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize(
    "error", [StoreUnavailable("down"), OSError("odd"), SystemExit()], ids=repr
)
def test_an_outage_is_ridden_through(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    source = MemorySource()
    ran: Counter[str] = Counter()

    def job(context: TaskContext, breaks: bool) -> None:
        ran.update([context.job.id])
        if breaks:
            source.down = error

    source.task(job)
    with caplog.at_level(logging.INFO), running([source], concurrency=3):
        for turn in (1, 2, 3):
            source.failed_calls = 0
            for number in range(100):
                source.put(number == 50)
            wait_until(lambda: source.failed_calls > 20)
            source.down = None
            wait_until(lambda turn=turn: len(source.outcomes) >= 100 * turn)
        wait_until(lambda: len(told(caplog, "works")) == len(told(caplog, "does not")))
    assert len(ran) == 300
    assert set(ran.values()) == {1}
    assert Counter(outcome.job_id for outcome in source.outcomes).total() == 300
    assert source.refused == []
    went = told(caplog, "does not")
    # Once an outage; and each slot may have failed before another's success, and tell of it after.
    assert 1 <= len(went) <= 3 * (1 + 3)
    assert {record.levelno for record in went} == {logging.ERROR}


def told(caplog: pytest.LogCaptureFixture, what: str) -> list[logging.LogRecord]:
    start = f"leasing from queue memory {what}"
    return [record for record in caplog.records if record.getMessage().startswith(start)]


@pytest.mark.usefixtures("short_pauses")
def test_an_outage_of_one_source_leaves_the_others_alone() -> None:
    well, ill = MemorySource("well"), MemorySource("ill")
    well.task(lambda context: None)
    ill.down = StoreUnavailable("down")
    with running([ill, well], concurrency=2):
        wait_until(lambda: ill.failed_calls >= 2)
        for _ in range(50):
            well.put()
        wait_until(lambda: len(well.outcomes) == 50)


def test_outcomes_of_an_outage_are_handed_in_after_the_job_moved_on() -> None:
    """Kept outcomes go with the next call, whichever slot makes it."""
    source = MemorySource()
    lane = Lane(source, "w", NoHooks())
    source.put()
    (lease,) = lane.exchange([], 1)
    lease.outcome = lease.released()
    source.down = StoreUnavailable("down")
    with pytest.raises(StoreUnavailable):
        lane.exchange([lease], 1)
    assert lane.kept == 1
    assert lane.held() == [lease]
    source.down = None
    (again,) = lane.exchange([], 1)
    assert again.job == lease.job
    assert lane.kept == 0
    assert lane.held() == [again]


@pytest.mark.usefixtures("short_pauses")
def test_one_bad_outcome_holds_up_nothing_and_is_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = MemorySource()
    source.task(lambda context: None)
    bad = source.put()
    source.poison.add(bad)
    with running([source]) as run:
        for _ in range(50):
            source.put()
        wait_until(lambda: len(source.outcomes) == 50)
        wait_until(lambda: "giving it up" in caplog.text)
        run.worker.stop()
        summary = run.end()
    assert source.kinds_of(bad) == []
    assert (summary.succeeded, summary.lost) == (50, 1)


@pytest.mark.usefixtures("short_pauses")
def test_an_outage_with_odd_errors_gives_nothing_up(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource()
    go = threading.Event()
    source.task(lambda context: go.wait(60))
    job_id = source.put()
    with running([source]):
        wait_until(lambda: source.leased)
        source.down = OSError("connection reset")
        go.set()
        wait_until(lambda: source.failed_calls > 30)
        source.down = None
        wait_until(lambda: source.kinds_of(job_id))
    assert "giving it up" not in caplog.text


# -- ends ------------------------------------------------------------------------------


def test_a_burst_ends_when_nothing_is_ready() -> None:
    sources = [MemorySource(name) for name in ("a", "b")]
    assert burst(*sources, concurrency=3).jobs == 0
    assert all(len(source.calls) >= 1 for source in sources)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_burst_runs_what_its_jobs_enqueue(concurrency: int) -> None:
    here, there = MemorySource("here"), MemorySource("there")

    def job(context: TaskContext, depth: int) -> None:
        other = there if context.job.queue == "here" else here
        if depth:
            other.put(depth - 1)
            other.put(depth - 1)

    here.task(job)
    there.task(job)
    here.put(6)
    summary = burst(here, there, concurrency=concurrency, poll_interval=1000.0)
    assert summary.succeeded == 2**7 - 1


def test_a_burst_runs_retries_that_are_due() -> None:
    source = MemorySource()

    def job(context: TaskContext) -> None:
        if len(source.started) < 4:
            raise OSError

    source.task(job, retry_delay=0)
    source.put()
    summary = burst(source)
    assert (summary.retried, summary.succeeded) == (3, 1)


def test_a_burst_may_be_repeated() -> None:
    from vtrr_django.worker import Worker

    source = MemorySource()
    source.task(lambda context: None)
    worker = Worker([source])
    for _ in range(3):
        source.put()
        assert worker.run_burst().succeeded == 1


@pytest.mark.parametrize("concurrency", [1, 5])
def test_max_jobs_is_never_exceeded(concurrency: int) -> None:
    source = MemorySource()
    source.task(lambda context: None)
    for _ in range(100):
        source.put()
    with running([source], concurrency=concurrency, max_jobs=37) as run:
        summary = run.end()
    assert summary.succeeded == 37
    assert len(source.ready) == 63
    assert source.leased == {}


def test_max_jobs_counts_what_ran_not_what_was_given_back() -> None:
    source = MemorySource(prefetch=8)

    def job(context: TaskContext, long: bool) -> None:
        if long:
            wait_until(lambda: len(source.leased) == 1)

    source.task(job)
    for number in range(30):
        source.put(number in {4, 9})
    with running([source], max_jobs=25) as run:
        summary = run.end()
    assert summary.succeeded == 25
    assert summary.released > 0
    assert len(source.ready) == 5


def test_max_jobs_waits_for_jobs() -> None:
    source = MemorySource()
    source.task(lambda context: None)
    with running([source], max_jobs=3, concurrency=2) as run:
        for _ in range(3):
            wait_until(lambda: source.calls)
            source.put()
        assert run.end().succeeded == 3


def test_a_slot_that_fails_in_itself_stops_the_worker_loudly(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vtrr_django.worker import WorkerError

    source = MemorySource()
    source.task(lambda context: None)
    source.put()

    def broken(*args: object) -> None:
        raise RuntimeError("a bug in the worker")

    monkeypatch.setattr("vtrr_django.worker.slot.Slot._resize", broken)
    with pytest.raises(WorkerError):
        burst(source)
    assert "a bug in the worker" in caplog.text


def test_reclaim_archive_and_prune_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtrr_django.worker.upkeep.ARCHIVE_INTERVAL", 0.01)
    monkeypatch.setattr("vtrr_django.worker.upkeep.FIRST_PRUNE", 0.0)
    monkeypatch.setattr("vtrr_django.worker.upkeep.PRUNE_INTERVAL", 0.01)
    source = MemorySource(reclaim_interval=0.01)
    with running([source]):
        wait_until(lambda: min(source.reclaims, source.archives, source.prunes) > 3)
        source.down = StoreUnavailable("down")
        reclaims = source.reclaims
        wait_until(lambda: source.reclaims > reclaims + 2)


def test_what_a_reclaim_brings_back_is_run_at_once() -> None:
    class Reclaiming(MemorySource):
        lost: LeasedJob | None = None

        def reclaim(self) -> int:
            self.reclaims += 1
            if self.lost is None:
                return 0
            self.ready.append(self.lost)
            self.lost = None
            return 1

    source = Reclaiming(reclaim_interval=0.01)
    source.task(lambda context: None)
    job_id = source.put()
    lost = source.ready.pop()
    with running([source], poll_interval=1000.0, backoff_interval=1000.0):
        wait_until(lambda: source.calls)
        source.lost = lost
        wait_until(lambda: source.kinds_of(job_id))


def test_progress_is_said_while_busy(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vtrr_django.worker.crew.PROGRESS_INTERVAL", 0.01)
    source = MemorySource()
    go = threading.Event()
    source.task(lambda context: go.wait(PATIENCE))
    source.put()
    with caplog.at_level(logging.INFO), running([source]):
        wait_until(lambda: "0 jobs done, 1 running" in caplog.text)
        go.set()
        wait_until(lambda: "1 jobs done, 0 running" in caplog.text)
        said = len(caplog.records)
        calls = len(source.calls)
        wait_until(lambda: len(source.calls) > calls + 10)
        assert len(caplog.records) == said, "nothing is said while idle"


def test_a_job_that_is_put_back_is_not_said_to_be_done(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vtrr_django.worker.crew.PROGRESS_INTERVAL", 0.01)
    source = MemorySource()
    source.put(task="of.another.version")
    with caplog.at_level(logging.INFO), running([source]):
        wait_until(lambda: "0 jobs done, 0 running, 0.0 jobs/s; put off 1 times" in caplog.text)
    assert "1 jobs done" not in caplog.text
