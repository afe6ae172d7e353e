from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.worker.fakes import PATIENCE, MemorySource, burst, running, wait_until
from vtrr_django.domain.job import OutcomeKind
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.queue import Queue
from vtrr_django.worker import TaskContext, Worker, WorkerError, WorkerSummary
from vtrr_django.worker.slot import Slot
from vtrr_django.worker.worker import default_worker_id

ROOT = Path(__file__).parents[2]


class Held:
    """A job that goes on until the test lets it go."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.go = threading.Event()

    def __call__(self, context: TaskContext) -> None:
        self.began.set()
        self.go.wait(60)


@pytest.fixture
def held() -> Iterator[Held]:
    job = Held()
    yield job
    job.go.set()


def test_stop_finishes_the_running_job_with_its_lease_renewed(held: Held) -> None:
    source = MemorySource(lease_seconds=0.03)
    source.task(held)
    first, second = source.put(), source.put()
    with running([source]) as run:
        wait_until(held.began.is_set)
        run.worker.stop()
        before = len(source.renewals)
        wait_until(lambda: len(source.renewals) > before + 3)
        assert not run.ended
        held.go.set()
        summary = run.end()
    assert source.kinds_of(first) == [OutcomeKind.ACK]
    assert [job.id for job in source.ready] == [second]
    assert summary == WorkerSummary(jobs=1, succeeded=1)


def test_stop_gives_back_what_has_not_started_at_once(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vtrr_django.worker.slot.BATCH_SECONDS", 1000.0)
    source = MemorySource(prefetch=8)
    source.task(lambda context: None, name="short")
    source.task(held)
    for _ in range(7):
        source.put(task="short")
    running_id = source.put()
    behind = [source.put(task="short") for _ in range(7)]
    with running([source]) as run:
        wait_until(held.began.is_set)
        assert len(source.leased) == 8
        run.worker.stop()
        wait_until(lambda: len(source.leased) == 1)
        assert [job.id for job in source.ready] == behind
        held.go.set()
        summary = run.end()
    assert source.kinds_of(running_id) == [OutcomeKind.ACK]
    assert (summary.succeeded, summary.released) == (8, 7)


def test_stop_ends_idle_slots_at_once() -> None:
    source = MemorySource()
    with running([source], concurrency=5, poll_interval=1000.0) as run:
        wait_until(lambda: source.calls)
        run.worker.stop()
        run.worker.stop()
        assert run.end().jobs == 0


def test_stop_before_the_run_and_after_it() -> None:
    source = MemorySource()
    source.task(lambda context: None)
    source.put()
    worker = Worker([source])
    worker.stop()
    assert worker.run().jobs == 0
    worker.stop()
    assert worker.run().jobs == 0


def test_a_job_may_stop_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtrr_django.worker.slot.BATCH_SECONDS", 1000.0)
    source = MemorySource(prefetch=100)
    worker = Worker([source])

    def job(context: TaskContext, stops: bool) -> None:
        if stops:
            worker.stop()

    source.task(job)
    for number in range(100):
        source.put(number == 40)  # in the middle of a batch
    assert worker.run().succeeded == 41
    assert len(source.ready) == 59
    assert not source.leased


def test_stop_during_an_outage_hands_in_when_the_store_is_back(held: Held) -> None:
    source = MemorySource()
    source.task(held)
    job_id = source.put()
    with running([source]) as run:
        wait_until(held.began.is_set)
        source.down = StoreUnavailable("down")
        held.go.set()
        wait_until(lambda: source.failed_calls)
        run.worker.stop()
        failed = source.failed_calls
        wait_until(lambda: source.failed_calls > failed)
        source.down = None
        assert run.end().succeeded == 1
    assert source.kinds_of(job_id) == [OutcomeKind.ACK]


def test_stop_during_an_outage_ends_when_the_leases_have_run_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = MemorySource(lease_seconds=0.05)

    def job(context: TaskContext) -> None:
        source.down = StoreUnavailable("down")

    source.task(job)
    source.put()
    with running([source]) as run:
        wait_until(lambda: source.failed_calls)
        run.worker.stop()
        run.end()
    assert "did not take 1 outcomes" in caplog.text


def test_abort_releases_running_jobs_and_returns(held: Held) -> None:
    source = MemorySource()
    source.task(held)
    jobs = [source.put() for _ in range(3)]
    with running([source], concurrency=2) as run:
        wait_until(lambda: len(source.leased) == 2)
        run.worker.stop()
        run.worker.abort()
        summary = run.end()
    assert summary.aborted
    assert source.leased == {}
    assert {job.id for job in source.ready} == set(jobs)
    assert [outcome.kind for outcome in source.outcomes] == [OutcomeKind.RELEASE] * 2
    held.go.set()
    wait_until(lambda: len(source.refused) == 2, "the late results to be refused")


def test_abort_ends_the_wait_for_a_store_that_is_down() -> None:
    source = MemorySource()

    def job(context: TaskContext) -> None:
        source.down = StoreUnavailable("down")

    source.task(job)
    source.put()
    with running([source]) as run:
        wait_until(lambda: source.failed_calls)
        run.worker.stop()
        run.worker.abort()
        assert run.end().aborted


def test_a_worker_runs_once_at_a_time() -> None:
    with running([MemorySource()]) as run:
        wait_until(lambda: run.worker._crew is not None)
        with pytest.raises(WorkerError, match="does not run yet"):
            run.worker.run()


def test_no_thread_is_left_behind() -> None:
    before = set(threading.enumerate())
    source = MemorySource()
    source.task(lambda context: None)
    source.put()
    burst(source, concurrency=3)
    wait_until(lambda: set(threading.enumerate()) <= before)


def test_signal_handlers_want_the_main_thread() -> None:
    errors: list[BaseException] = []

    def install() -> None:
        try:
            Worker([MemorySource()]).install_signal_handlers()
        except WorkerError as exc:
            errors.append(exc)

    thread = threading.Thread(target=install)
    thread.start()
    thread.join()
    assert "main thread" in str(errors[0])


def test_signal_handlers_can_be_restored() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    restore = Worker([MemorySource()]).install_signal_handlers()
    assert signal.getsignal(signal.SIGTERM) != before[0]
    restore()
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_forked_process_leases_by_hand_under_a_name_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue, other = Queue("default"), Queue("other")
    before = queue._own_id(None)
    assert before == queue._own_id(None) == other._own_id(None)
    assert f":{os.getpid()}:" in before
    monkeypatch.setattr(os, "getpid", lambda: 7)
    assert ":7:" in queue._own_id(None) == other._own_id(None)
    assert queue._own_id("me") == "me"


def test_the_default_worker_id(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(os.getpid()) in default_worker_id()
    assert default_worker_id() != default_worker_id()
    monkeypatch.setattr("socket.gethostname", lambda: "h" * 300)
    assert len(default_worker_id()) == 255


# -- real processes --------------------------------------------------------------------


class Process:
    def __init__(self, *options: str) -> None:
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.worker.signalled", *options],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.strip())

    def wait_for(self, line: str) -> None:
        wait_until(lambda: line in self.lines or not self._reader.is_alive(), line)
        assert line in self.lines, (self.lines, self.errors())

    def errors(self) -> str:
        assert self._process.stderr is not None
        return self._process.stderr.read()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def status(self) -> int:
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return self._process.returncode

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()


@contextmanager
def process(*options: str) -> Iterator[Process]:
    started = Process(*options)
    try:
        yield started
    finally:
        started.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_the_running_job_finish(number: int) -> None:
    with process("long") as worker:
        worker.wait_for("began long")
        worker.signal(number)
        worker.wait_for("stops")
        worker.go()
        assert worker.status() == 0
        assert worker.lines[-2:] == ["ack long", "summary 1 False"]


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["TERM", "INT"]
)
@pytest.mark.parametrize("job", ["deaf", "adeaf"])
def test_the_second_signal_releases_and_ends_the_process(
    number: int, status: int, job: str
) -> None:
    with process(job) as worker:
        worker.wait_for(f"began {job}")
        worker.signal(number)
        worker.wait_for("stops")  # two signals that wait at once are one
        worker.signal(number)
        assert worker.status() == status
        assert worker.lines[-1] == f"release {job}"


def test_ctrl_c_without_handlers_ends_like_stop() -> None:
    with process("long", "unhandled") as worker:
        worker.wait_for("began long")
        worker.signal(signal.SIGINT)
        worker.wait_for("stops")
        worker.go()
        assert worker.status() in {-signal.SIGINT, 130, 1}
        assert worker.lines[-1] == "ack long"
        assert "KeyboardInterrupt" in worker.errors()


def test_ctrl_c_while_a_thread_starts_starts_it_no_second_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[Slot] = []
    start = Slot.start

    def interrupted(self: Slot) -> None:
        started.append(self)
        if len(started) == 1:
            threading.Timer(0.05, start, [self]).start()  # the system takes its time
            raise KeyboardInterrupt
        start(self)

    monkeypatch.setattr(Slot, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Worker([MemorySource()], concurrency=2).run()
    assert len(started) == len(set(started)) == 2


def test_a_stuck_process_replaces_itself() -> None:
    with process("stuck", "quick") as worker:
        worker.wait_for("began stuck")
        wait_until(lambda: any(line.startswith("replaced") for line in worker.lines))
        wait_until(lambda: worker.lines.count("ack quick") == 2)
        pids = {line.split()[1] for line in worker.lines if line.startswith(("pid", "replaced"))}
        assert len(pids) == 1, "exec keeps the pid"
        assert not any(line.endswith("stuck") for line in worker.lines if "began" not in line)
        worker.signal(signal.SIGTERM)
        assert worker.status() == 0


@pytest.mark.parametrize("job", ["stuck", "astuck"])
def test_a_process_ends_though_a_job_that_nobody_can_end_goes_on(job: str) -> None:
    with process(job, "unreplaced") as worker:
        worker.wait_for(f"began {job}")
        worker.wait_for("summary 1 False")
        assert worker.status() == 0
