"""The heartbeat file: written while the threads of a worker make progress, and only then."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app import tasks
from tests.commands.manage import manage, run
from tests.worker.fakes import Hanging, MemorySource, Running, running, wait_until
from vtrr_django.exceptions import ConfigurationError, StoreUnavailable
from vtrr_django.worker import TaskContext, Worker, heartbeat_file, upkeep
from vtrr_django.worker.heartbeat_file import HeartbeatFile, problem_of
from vtrr_django.worker.slot import Slot


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "heartbeat"


class Counted:
    """How often it was to be written, and was."""

    def __init__(self) -> None:
        self.beats = self.writes = 0

    def is_written(self) -> None:
        """Wait until it is written once more."""
        before = self.writes
        wait_until(lambda: self.writes > before, "a heartbeat")

    def is_left(self) -> bool:
        """Wait until it was due some more times, the first later than now; was it not written?"""
        beats, writes = self.beats, self.writes
        wait_until(lambda: self.beats > beats + 3, "the heartbeat to be due")
        return self.writes == writes


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Have it written, and threads found hanging, after a moment."""
    monkeypatch.setattr(heartbeat_file, "WRITE_INTERVAL", 0.01)
    monkeypatch.setattr(heartbeat_file, "HUNG_SECONDS", 0.1)
    counts = Counted()
    beat, write = HeartbeatFile.beat, HeartbeatFile._write

    def count_beat(self: HeartbeatFile, threads: Any) -> None:
        beat(self, threads)
        counts.beats += 1

    def count_write(self: HeartbeatFile) -> None:
        write(self)
        counts.writes += 1

    monkeypatch.setattr(HeartbeatFile, "beat", count_beat)
    monkeypatch.setattr(HeartbeatFile, "_write", count_write)
    return counts


# -- what is in it, and when -----------------------------------------------------------------


def test_it_says_when_and_who_and_goes_with_the_worker(path: Path, counted: Counted) -> None:
    path.write_text("of an earlier run")
    with running([MemorySource()], heartbeat_file=path, worker_id="me and you") as worker:
        wait_until(lambda: counted.writes, "the first heartbeat")
        said, who = path.read_text().removesuffix("\n").split(" ", 1)
        assert who == "me and you"
        assert abs(time.time() - int(said)) < 60
        assert path.stat().st_mode & 0o777 == 0o644 & ~_umask()
        inode = path.stat().st_ino
        wait_until(lambda: path.stat().st_ino != inode, "it to be replaced")
        worker.worker.stop()
        worker.end()
    assert list(path.parent.iterdir()) == []


def test_without_a_path_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Worker([MemorySource()]).run_burst()
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_followed(path: Path, counted: Counted) -> None:
    link = path.with_name("link")
    link.symlink_to(path)
    with running([MemorySource()], heartbeat_file=str(link)):
        counted.is_written()
        assert link.is_symlink()
        assert path.is_file()


def test_it_is_written_while_the_last_jobs_end(path: Path, counted: Counted) -> None:
    began, go = threading.Event(), threading.Event()
    source = MemorySource()

    def job(context: TaskContext) -> None:
        began.set()
        go.wait(60)

    source.task(job)
    source.put()
    with running([source], heartbeat_file=path) as worker:
        wait_until(began.is_set)
        worker.worker.stop()
        counted.is_written()
        assert not worker.ended
        go.set()


# -- paths that cannot be --------------------------------------------------------------------


def refusal(path: Path) -> str:
    source = MemorySource()
    with pytest.raises(ConfigurationError) as caught:
        Worker([source], heartbeat_file=path).run_burst()
    assert source.calls == []
    return str(caught.value)


def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place, problem in (("no/such", "No such file"), ("file/in", "Not a directory")):
        said = refusal(tmp_path / place / "heartbeat")
        assert said.startswith("heartbeat_file: expected a path that can be written, got '/")
        assert problem in said
        assert said.endswith("; create its folder, or let this user write there")


def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (tmp_path, pipe):
        assert "which is something else; choose another path" in refusal(place)
    assert pipe.is_fifo()


def test_it_is_not_written_through_somebody_elses_link(path: Path) -> None:
    victim = path.with_name("victim")
    victim.write_text("precious")
    path.with_name(f"{path.name}.new").symlink_to(victim)
    assert "symbolic link" in refusal(path)
    assert victim.read_text() == "precious"


# -- progress --------------------------------------------------------------------------------


def test_a_store_that_is_lost_is_waited_for_alive(path: Path, counted: Counted) -> None:
    source = MemorySource()
    source.down = StoreUnavailable("gone")
    with running([source], heartbeat_file=path):
        wait_until(lambda: source.failed_calls, "the outage")
        counted.is_written()


def test_a_long_job_is_no_hung_thread(path: Path, counted: Counted) -> None:
    source, go = MemorySource(), threading.Event()
    began: list[float] = []

    def job(context: TaskContext) -> None:
        began.append(time.monotonic())
        go.wait(60)

    source.task(job)
    source.put()
    with running([source], heartbeat_file=path):
        wait_until(lambda: began and time.monotonic() > began[0] + 0.3, "the job to be long")
        counted.is_written()
        go.set()


@pytest.fixture(
    params=[
        ("finish_and_lease", "vtrr-slot-0"),
        ("renew_many", "vtrr-keeper"),
        ("reclaim", "vtrr-upkeep"),
        ("archive", "vtrr-upkeep"),
        ("measure", "vtrr-upkeep"),
    ],
    ids=lambda param: param[0],
)
def hanging(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Hanging, str]]:
    """A source that hangs, and the thread that will hang in it."""
    monkeypatch.setattr(upkeep, "ARCHIVE_INTERVAL", 0.01)
    verb, thread = request.param
    source = Hanging(verb, lease_seconds=0.03)
    source.hang.set()
    source.task(lambda context: source.go.wait(60))
    source.put()
    yield source, thread
    source.go.set()


def test_a_thread_that_hangs_is_found(
    path: Path,
    counted: Counted,
    hanging: tuple[Hanging, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, thread = hanging
    problem = f"thread {thread} is in one call for more than"
    with running([source], heartbeat_file=path):
        wait_until(lambda: problem in caplog.text, "it to be found")
        assert counted.is_left()
        assert caplog.text.count(problem) == 1  # said once
        assert path.exists()
        caplog.set_level("INFO", "vtrr_django.worker")
        source.go.set()
        wait_until(lambda: "all threads make progress again" in caplog.text, "it to go on")
        counted.is_written()


def test_a_thread_that_is_dead_is_found() -> None:
    source = MemorySource()
    with running([source]) as run_of_it:
        wait_until(lambda: source.calls)
        crew: Any = run_of_it.worker._crew
        watched = crew._watched()
        assert problem_of(watched, time.monotonic()) == ""
        assert {thread.name for thread in watched} == {
            *("vtrr-keeper", "vtrr-upkeep", "vtrr-limits", "vtrr-slot-0")
        }
    now = time.monotonic()
    assert [problem_of([thread], now) for thread in watched] == [
        f"thread {thread.name} is dead" for thread in watched
    ]


def test_a_slot_that_failed_is_missed_while_others_go_on(
    path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go = threading.Event(), threading.Event()
    source, take = MemorySource(), Slot._take

    def fail(self: Slot, turn: Any) -> None:
        if self.name == "vtrr-slot-1":
            began.wait(60)
            raise RuntimeError("a bug")
        take(self, turn)

    def job(context: TaskContext) -> None:
        began.set()
        go.wait(60)

    monkeypatch.setattr(Slot, "_take", fail)
    source.task(job)
    source.put()
    worker = Running(Worker([source], concurrency=2, heartbeat_file=path))
    try:
        wait_until(lambda: counted.beats and counted.is_left(), "it to be missed")
    finally:
        go.set()
    wait_until(lambda: worker.ended)
    assert not path.exists()


def test_a_file_that_cannot_be_written_any_more_is_said(
    path: Path, counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "vtrr_django.worker")
    with running([MemorySource()], heartbeat_file=path):
        wait_until(lambda: counted.writes, "the first heartbeat")
        path.with_name(f"{path.name}.new").mkdir()
        wait_until(lambda: "writing the heartbeat file" in caplog.text, "the problem")
        assert counted.is_left()
        assert caplog.text.count("does not work") == 1
        path.with_name(f"{path.name}.new").rmdir()
        counted.is_written()
        wait_until(lambda: "works again" in caplog.text, "its end")


# -- those who look ---------------------------------------------------------------------------

PROBE = "test $(($(date +%s) - $(cut -d' ' -f1 {path}))) -lt 30"


def test_a_probe_that_every_container_can_run(path: Path) -> None:
    def probe() -> bool:
        command = ["sh", "-c", PROBE.format(path=path)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    assert not probe()
    file = HeartbeatFile(path, "me")
    file.begin()
    assert probe()
    said, who = path.read_text().split(" ")
    path.write_text(f"{int(said) - 31} {who}")
    assert not probe()
    file.end()
    assert not probe()


# -- processes -------------------------------------------------------------------------------


@pytest.fixture
def database(transactional_db: None) -> None:
    """What processes need."""


@pytest.mark.usefixtures("database")
def test_a_process_removes_it_at_its_end(tmp_path: Path, path: Path) -> None:
    with manage(tmp_path, "vtrr_worker", f"--heartbeat-file={path}") as worker:
        _, who = worker.wait_for_file(path).split(" ", 1)
        assert who.split(":")[1] == str(worker.pid)
        worker.signal(signal.SIGTERM)
        assert worker.end().status == 0
    assert not path.exists()


@pytest.mark.usefixtures("database")
def test_one_that_is_killed_leaves_it_to_grow_old(tmp_path: Path, path: Path) -> None:
    with manage(tmp_path, "vtrr_worker", f"--heartbeat-file={path}", "--worker-id=a") as worker:
        last = worker.wait_for_file(path)
        worker.signal(signal.SIGKILL)
        assert worker.end().status == -signal.SIGKILL
    assert path.read_text().split(" ")[1] == last.split(" ")[1] == "a\n"
    arguments = ("vtrr_worker", f"--heartbeat-file={path}", "--burst")
    assert run(tmp_path, *arguments).status == 0
    assert not path.exists()


@pytest.mark.usefixtures("database")
def test_a_process_refuses_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    ended = run(tmp_path, "vtrr_worker", f"--heartbeat-file={tmp_path}/no/such", "--burst")
    assert ended.status == 1
    assert ended.err.splitlines()[-1].startswith(
        "CommandError: heartbeat_file: expected a path that can be written"
    )
    assert "Traceback" not in ended.err


@pytest.mark.usefixtures("database")
def test_a_process_that_is_replaced_goes_on_with_it(tmp_path: Path, path: Path) -> None:
    began = tmp_path / "began"
    tasks.get_stuck.enqueue(str(began), partition_key="acme")
    vtrr = {"QUEUES": {"default": {"LEASE_SECONDS": 1, "RECLAIM_INTERVAL": 0.1}}}
    with manage(tmp_path, "vtrr_worker", f"--heartbeat-file={path}", vtrr=vtrr) as worker:
        worker.wait_for_file(began)
        first = path.read_text().split(" ")[1]
        worker.wait_for(" is replaced")
        wait_until(lambda: path.read_text().split(" ")[1] != first, "the next one to write it")
        worker.signal(signal.SIGTERM)
        assert worker.end().status == 0
    assert not path.exists()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
