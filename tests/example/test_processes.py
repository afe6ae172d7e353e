from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from example_project.environment import ROOT
from example_project.processes import (
    DeadlinePassed,
    ProcessEnded,
    Processes,
    signals_end_this_process,
    time_limit,
)
from tests.races.waiting import PATIENCE


def wait_until_gone(pid: int) -> None:
    with time_limit(PATIENCE):
        while True:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            # Nobody may have asked how an orphan ended: then its number stays.
            with contextlib.suppress(OSError):
                if ") Z " in Path(f"/proc/{pid}/stat").read_text():
                    return
            time.sleep(0.01)


@pytest.fixture
def sleeper(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """Return what a process needs to run the module ``sleeper``, and the file it writes."""
    started = tmp_path / "started"
    (tmp_path / "sleeper.py").write_text(
        textwrap.dedent(
            f"""
            import os, pathlib, signal, sys, time
            if "--stubborn" in sys.argv:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print("about to sleep", flush=True)
            draft = pathlib.Path({str(tmp_path / "draft")!r})
            draft.write_text(str(os.getpid()))
            draft.replace({str(started)!r})
            if "--fail" in sys.argv:
                sys.exit("I have had enough")
            time.sleep(300)
            """
        )
    )
    return {"PYTHONPATH": str(tmp_path)}, started


def test_leaving_ends_what_was_started(sleeper: tuple[dict[str, str], Path]) -> None:
    environment, started = sleeper

    def start_and_fail() -> None:
        with Processes(environment) as processes:
            processes.start("sleeper", "sleeper")
            processes.wait_for(started)
            raise RuntimeError

    with time_limit(PATIENCE), pytest.raises(RuntimeError):
        start_and_fail()

    wait_until_gone(int(started.read_text()))


def test_a_stubborn_process_is_killed(
    sleeper: tuple[dict[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("example_project.processes.STOP_SECONDS", 0.2)
    environment, started = sleeper
    with time_limit(PATIENCE), Processes(environment) as processes:
        processes.start("sleeper", "sleeper", "--stubborn")
        pid = int(processes.wait_for(started))

    wait_until_gone(pid)


@pytest.fixture
def parent(tmp_path: Path) -> dict[str, str]:
    """Return what a process needs to run the module ``parent``, which leaves a child behind."""
    (tmp_path / "parent.py").write_text(
        textwrap.dedent(
            """
            import pathlib, subprocess, sys, time
            code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(300)"
            child = subprocess.Popen([sys.executable, "-c", code])
            draft = pathlib.Path(sys.argv[1] + ".draft")
            draft.write_text(str(child.pid))
            draft.replace(sys.argv[1])
            if "--end" not in sys.argv:
                time.sleep(300)
            """
        )
    )
    return {"PYTHONPATH": str(tmp_path)}


@pytest.mark.parametrize("arguments", [[], ["--end"]])
def test_children_end_with_their_parent(
    parent: dict[str, str], tmp_path: Path, arguments: list[str]
) -> None:
    with time_limit(PATIENCE), Processes(parent) as processes:
        processes.start("parent", "parent", str(tmp_path / "pid"), *arguments)
        while not (tmp_path / "pid").exists():
            time.sleep(0.01)
        pid = int((tmp_path / "pid").read_text())

    wait_until_gone(pid)


def test_servers_end_last(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import pathlib, signal, sys, time
        def end(*args):
            time.sleep(float(sys.argv[2]))
            with open("ended", "a") as file:
                file.write(sys.argv[1])
            sys.exit()
        signal.signal(signal.SIGTERM, end)
        pathlib.Path(sys.argv[1]).touch()
        time.sleep(300)
        """
    )
    with time_limit(PATIENCE), pytest.MonkeyPatch.context() as patch:
        patch.setattr("example_project.processes.ROOT", tmp_path)
        with Processes({}) as processes:
            pid = processes.start_server("server", sys.executable, "-c", program, "s", "0")
            processes.run("client", sys.executable, "-c", program, "c", "0.3")
            for name in "sc":
                processes.wait_for(tmp_path / name)
            assert processes.running["server"].pid == pid

    assert (tmp_path / "ended").read_text() == "cs"


def test_a_process_that_ends_is_noticed_and_its_words_are_kept(
    sleeper: tuple[dict[str, str], Path], tmp_path: Path
) -> None:
    environment, _ = sleeper
    with time_limit(PATIENCE), Processes(environment, log_dir=tmp_path) as processes:
        processes.start("tired sleeper", "sleeper", "--fail")
        with pytest.raises(ProcessEnded, match="the tired sleeper ended with exit status 1"):
            processes.wait_for(tmp_path / "never")

    assert "--- tired-sleeper.log\nabout to sleep\nI have had enough" in processes.tails()


def test_time_runs_out_wherever_one_waits() -> None:
    with (
        pytest.raises(DeadlinePassed, match=r"not finished within 0\.05 seconds"),
        time_limit(0.05),
    ):
        time.sleep(30)

    with time_limit(0.05):
        pass
    time.sleep(0.1)  # rings no more


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_told_to_end_is_an_interrupt(number: signal.Signals) -> None:
    # Whoever runs the tests may ignore SIGHUP, as nohup does.
    found = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt), signals_end_this_process():
            signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, found)


def test_an_impatient_user_leaves_nothing_behind(
    sleeper: tuple[dict[str, str], Path], tmp_path: Path
) -> None:
    environment, started = sleeper
    program = textwrap.dedent(
        f"""
        import pathlib, time
        from example_project import processes
        processes.STOP_SECONDS = 1.0
        with processes.signals_end_this_process(), processes.Processes({environment!r}) as started:
            started.start("sleeper", "sleeper", "--stubborn")
            print("pid", started.wait_for(pathlib.Path({str(started)!r})), flush=True)
            time.sleep(300)
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid = next(int(line[4:]) for line in parent.stdout if line.startswith("pid "))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            parent.send_signal(number)
            time.sleep(0.1)

    wait_until_gone(pid)
