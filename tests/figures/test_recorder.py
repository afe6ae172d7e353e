"""Counting in memory: each lease and each end once, whichever thread, bounded whatever comes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.clock import Clock
from tests.figures.jobs import LEASE_SECONDS, LEASED_AT, end, lease, reclaimed, renewal
from tests.races.threads import together
from vtrr_django.domain.job import LeasedJob, OutcomeKind
from vtrr_django.figures import recorder as module
from vtrr_django.figures.recorder import (
    COUNTERS,
    MOST_PARTITIONS,
    MOST_WORKERS,
    REST,
    Counted,
    Recorder,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


@pytest.fixture
def recorder(clock: Clock) -> Recorder:
    return Recorder()


def leased(recorder: Recorder, *jobs: LeasedJob, worker_id: str = "w") -> None:
    recorder.leased(jobs, worker_id, LEASE_SECONDS)


def counters(counted: Counted) -> dict[str, int]:
    """Return the counters that are not 0."""
    return {name: n for name in COUNTERS if (n := getattr(counted, name))}


# -- leases ------------------------------------------------------------------------


def test_leases_are_counted_with_what_their_jobs_waited(recorder: Recorder) -> None:
    leased(recorder, lease("a", waited=3.0), lease("b", waited=0.1), lease("a", waited=1.0))
    counted = recorder.take()
    assert counters(counted) == {"leases": 3}
    assert (counted.waits.count, counted.waits.total) == (3, pytest.approx(4.1))
    assert {key: tenant.leases for key, tenant in counted.tenants.items()} == {"a": 2, "b": 1}
    assert counted.tenants["a"].waits.total == pytest.approx(4.0)
    assert counted.workers == {"w": 3}
    assert recorder.take() == Counted()


def test_a_wait_is_counted_from_the_line_the_job_stood_in_last(recorder: Recorder) -> None:
    unknown = lease(ready_at=None, enqueued_at=LEASED_AT.replace(hour=11))
    leased(recorder, unknown, lease(waited=-5.0))
    assert recorder.take().waits.total == pytest.approx(3600.0)


def test_no_jobs_are_no_lease(recorder: Recorder) -> None:
    leased(recorder)
    recorder.finished([], [])
    assert recorder.take() == Counted()


# -- ends --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (OutcomeKind.ACK, "completed"),
        (OutcomeKind.FAIL, "failed"),
        (OutcomeKind.RETRY, "retried"),
        (OutcomeKind.SNOOZE, "snoozed"),
        (OutcomeKind.RELEASE, "released"),
    ],
)
def test_an_end_is_counted_by_its_kind(recorder: Recorder, kind: OutcomeKind, name: str) -> None:
    job = lease()
    leased(recorder, job)
    recorder.take()
    recorder.finished([end(job, kind, 2.0)], [True])
    counted = recorder.take()
    assert counters(counted) == {name: 1}
    ran = kind is not OutcomeKind.RELEASE
    assert counted.runs.count == ran
    tenant = counted.tenant("acme")
    assert tenant.worker_seconds == (2.0 if ran else 0.0)
    assert (tenant.completed, tenant.failed) == (name == "completed", name == "failed")


def test_a_refused_end_is_only_that(recorder: Recorder) -> None:
    job, other = lease(), lease()
    leased(recorder, job, other)
    recorder.take()
    recorder.finished([end(job), end(other, runtime=1.0)], [False, True])
    counted = recorder.take()
    assert counters(counted) == {"completed": 1, "refused": 1}
    assert counted.runs.count == 1
    assert counted.tenants["acme"].completed == 1


def test_the_runtime_is_what_is_said_or_else_the_time_since_the_lease(
    recorder: Recorder, clock: Clock
) -> None:
    said, measured = lease(), lease()
    leased(recorder, said, measured)
    clock.now += 4.0
    recorder.finished([end(said, runtime=0.5), end(measured)], [True, True])
    counted = recorder.take()
    assert counted.runs.total == 4.5
    assert counted.tenants["acme"].worker_seconds == 4.5


def test_the_end_of_a_lease_that_began_elsewhere_has_no_tenant(recorder: Recorder) -> None:
    ends = [end(lease()), end(lease(), OutcomeKind.FAIL, runtime=3.0)]
    recorder.finished(ends, [True, True])
    counted = recorder.take()
    assert counters(counted) == {"completed": 1, "failed": 1}
    assert (counted.runs.count, counted.runs.total) == (1, 3.0)
    assert counted.tenants == {}


def test_a_lease_taken_over_has_one(recorder: Recorder, clock: Clock) -> None:
    job = lease("b")
    recorder.took_over(job, "w", LEASE_SECONDS)
    assert recorder.holding() == {"w": 1}
    clock.now += 2.0
    recorder.finished([end(job)], [True])
    counted = recorder.take()
    assert counters(counted) == {"completed": 1}
    assert counted.tenants["b"].worker_seconds == 2.0


def test_a_long_job_is_charged_while_it_runs_and_not_twice(recorder: Recorder) -> None:
    job = lease()
    leased(recorder, job)
    charged = []
    for ran in (20.0, 40.0):
        recorder.renewed([renewal(job, ran)], [True], LEASE_SECONDS)
        charged.append(recorder.take().tenants["acme"].worker_seconds)
    recorder.renewed([renewal(job)], [True], LEASE_SECONDS)
    recorder.finished([end(job, runtime=41.5)], [True])
    counted = recorder.take()
    assert [*charged, counted.tenants["acme"].worker_seconds] == [20.0, 20.0, 1.5]
    assert counted.runs.total == 41.5


def test_renewals_of_others_leases_and_lost_ones_count_nothing(recorder: Recorder) -> None:
    job = lease()
    leased(recorder, job)
    recorder.take()
    recorder.renewed([renewal(job, 9.0), renewal(lease(), 9.0)], [False, True], LEASE_SECONDS)
    assert recorder.take() == Counted()
    assert recorder.holding() == {}


def test_leases_that_ran_out_and_the_dead_letters_among_them(recorder: Recorder) -> None:
    recorder.reclaimed([reclaimed(lease("a"), dead=False), reclaimed(lease("b"), dead=True)])
    counted = recorder.take()
    assert counters(counted) == {"failed": 1, "reclaimed": 2}
    assert [(key, tenant.failed) for key, tenant in counted.tenants.items()] == [("b", 1)]


def test_looking_is_noted_and_is_idle(recorder: Recorder) -> None:
    recorder.looked()
    counted = recorder.take()
    assert (counted.looked, counted.is_idle) == (True, True)
    assert not recorder.take().looked
    recorder.reclaimed([reclaimed(lease(), dead=False)])
    assert not recorder.take().is_idle


# -- what is held ------------------------------------------------------------------


def test_holding_counts_leases_that_have_not_run_out(recorder: Recorder, clock: Clock) -> None:
    jobs = [lease() for _ in range(3)]
    leased(recorder, *jobs[:2], worker_id="one")
    leased(recorder, jobs[2], worker_id="two")
    assert recorder.holding() == {"one": 2, "two": 1}
    clock.now += LEASE_SECONDS - 1
    recorder.renewed([renewal(jobs[0])], [True], LEASE_SECONDS)
    clock.now += 2
    assert recorder.holding() == {"one": 1}
    recorder.finished([end(jobs[0])], [True])
    assert recorder.holding() == {}


def test_a_lease_nobody_ends_is_forgotten_long_after_it_ran_out(
    recorder: Recorder, clock: Clock
) -> None:
    late, never = lease("late"), lease("never")
    leased(recorder, late, never)
    clock.now += LEASE_SECONDS + 3000
    recorder.take()
    recorder.finished([end(late, runtime=1.0)], [True])
    clock.now += 1000
    assert "late" in recorder.take().tenants
    recorder.finished([end(never, runtime=1.0)], [True])
    assert recorder.take().tenants == {}


# -- bounds ------------------------------------------------------------------------


def test_partitions_beyond_the_most_are_counted_together(recorder: Recorder) -> None:
    jobs = [lease(f"t{n}") for n in range(MOST_PARTITIONS + 50)]
    leased(recorder, *jobs, lease("t0"), lease(f"t{MOST_PARTITIONS}"))
    recorder.finished([end(job, runtime=1.0) for job in jobs], [True] * len(jobs))
    counted = recorder.take()
    assert len(counted.tenants) == MOST_PARTITIONS + 1
    rest = counted.tenants[REST]
    assert (rest.leases, rest.completed, rest.worker_seconds) == (51, 50, 50.0)
    assert counted.tenants["t0"].leases == 2
    assert sum(tenant.leases for tenant in counted.tenants.values()) == counted.leases


def test_workers_beyond_the_most_are_not_told_apart(recorder: Recorder) -> None:
    for number in range(MOST_WORKERS + 10):
        leased(recorder, lease(), worker_id=f"w{number}")
    leased(recorder, lease(), worker_id="w0")
    counted = recorder.take()
    assert counted.leases == MOST_WORKERS + 11
    assert len(counted.workers) == MOST_WORKERS
    assert counted.workers["w0"] == 2


def test_leases_that_nobody_ends_are_bounded(recorder: Recorder) -> None:
    first, last = lease("first"), lease("last")
    leased(recorder, first)
    for _ in range(25):
        leased(recorder, *[lease() for _ in range(1000)])
    leased(recorder, last)
    assert recorder.holding().total() <= 20_000
    recorder.take()
    recorder.finished([end(first), end(last)], [True, True])
    counted = recorder.take()
    assert counters(counted) == {"completed": 2}
    assert set(counted.tenants) == {"last"}


# -- taking ------------------------------------------------------------------------


def test_what_was_put_back_is_told_with_what_came_since(recorder: Recorder) -> None:
    first, second = lease("a", waited=1.0), lease("b", waited=2.0)
    leased(recorder, first)
    recorder.looked()
    taken = recorder.take()
    leased(recorder, second, worker_id="v")
    recorder.finished([end(first, runtime=3.0), end(second, OutcomeKind.FAIL)], [True, False])
    recorder.put_back(taken)
    counted = recorder.take()
    assert counters(counted) == {"leases": 2, "completed": 1, "refused": 1}
    assert counted.waits.total == pytest.approx(3.0)
    assert counted.runs.total == 3.0
    assert counted.workers == {"w": 1, "v": 1}
    assert counted.looked
    assert [counted.tenants[key].leases for key in "ab"] == [1, 1]
    assert counted.tenants["a"].completed == 1


def test_put_back_again_and_again_it_stays_bounded(recorder: Recorder) -> None:
    """As where the tables are missing for days, and tenants come and go."""
    for batch in range(5):
        leased(recorder, *[lease(f"t{batch}-{n}") for n in range(800)], worker_id=f"w{batch}")
        recorder.put_back(recorder.take())
    counted = recorder.take()
    assert counted.leases == 4000
    assert len(counted.tenants) == MOST_PARTITIONS + 1
    assert counted.tenants[REST].leases == 4000 - MOST_PARTITIONS


def test_threads_count_at_the_same_time_and_nothing_is_lost() -> None:
    recorder, taken = Recorder(), list[Counted]()
    rounds = 2000

    def work() -> None:
        for number in range(rounds):
            job = lease(f"t{number % 7}")
            recorder.leased([job], "w", LEASE_SECONDS)
            recorder.finished([end(job, runtime=1.0)], [True])

    def tell() -> None:
        for number in range(rounds):
            counted = recorder.take()
            if number % 2:
                recorder.put_back(counted)
            else:
                taken.append(counted)

    together(work, work, work, tell)
    total = recorder.take()
    for counted in taken:
        total.merge(counted)
    assert counters(total) == {"leases": 3 * rounds, "completed": 3 * rounds}
    assert total.runs.total == 3.0 * rounds
    assert sum(tenant.worker_seconds for tenant in total.tenants.values()) == 3.0 * rounds
    assert recorder.holding() == {}


def test_a_forked_process_begins_anew_even_if_a_thread_was_counting() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.figures.forked"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    child, parent = (json.loads(line) for line in ended.stdout.splitlines())
    assert child == {"who": "child", "leases": 1, "completed": 1, "holding": {}}
    assert parent == {"who": "parent", "leases": 1, "completed": 1, "holding": {}}
