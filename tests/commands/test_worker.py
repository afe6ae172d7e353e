"""``vtrr_worker``, mostly as a process of its own."""

from __future__ import annotations

import itertools
import json
import logging
import os
import signal
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import connection, transaction
from django.test import override_settings

from tests.app import tasks
from tests.commands.conftest import Shop
from tests.commands.manage import call, manage, run
from tests.worker.fakes import wait_until
from vtrr_django import get_queue
from vtrr_django.management.commands import vtrr_worker
from vtrr_django.management.commands._logging import log_to_stderr
from vtrr_django.worker import Worker, WorkerSummary


@pytest.fixture
def files(tmp_path: Path, transactional_db: None) -> Path:
    """A folder for what jobs write."""
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


@pytest.fixture
def waiting(files: Path) -> tuple[Path, Path]:
    """A job that says when it began, and ends when it is told to."""
    began, go = files / "began", files / "go"
    tasks.wait.enqueue(str(began), str(go), partition_key="acme")
    return began, go


def write(folder: Path, *names: str, partition: str = "acme") -> None:
    for name in names:
        tasks.write.enqueue(str(folder / name), partition_key=partition)


# -- a burst -----------------------------------------------------------------------------


def test_a_burst_runs_what_is_there_and_says_what_it_did(tmp_path: Path, files: Path) -> None:
    write(files, "a", "b", "c")
    tasks.give_up.enqueue(partition_key="acme")
    ended = run(tmp_path, "vtrr_worker", "--burst", "--concurrency=2", "--worker-id=me")
    assert ended.status == 0, ended.err
    assert sorted(path.name for path in files.iterdir()) == ["a", "b", "c"]
    assert ended.out == "Ran 4 jobs: 3 succeeded, 1 failed.\n"
    assert "worker me starts: queues default, concurrency 2" in ended.err
    assert "INFO queue default runs tests.app.tasks.get_stuck, tests.app.tasks.give_up" in ended.err
    assert "ERROR job" in ended.err
    assert "as told" in ended.err


def test_a_burst_with_nothing_to_do(tmp_path: Path, files: Path) -> None:
    ended = run(tmp_path, "vtrr_worker", "--burst", "--verbosity=0")
    assert (ended.status, ended.out) == (0, "")
    # Somebody misspelt a name in tests.app.tasks; that is worth a warning.
    (said,) = ended.err.splitlines()
    assert "WARNING tasks of queue defautl cannot be enqueued" in said
    assert "did you mean 'default'?" in said


def test_the_most_jobs(tmp_path: Path, files: Path) -> None:
    write(files, "a", "b", "c")
    ended = run(tmp_path, "vtrr_worker", "--max-jobs=2")
    assert (ended.status, ended.out) == (0, "Ran 2 jobs: 2 succeeded.\n")
    assert get_queue().stats()["ready"] == 1


def test_at_debug_every_step_is_said_once(tmp_path: Path, files: Path) -> None:
    write(files, "a")
    ended = run(tmp_path, "vtrr_worker", "--burst", "--verbosity=2")
    assert ended.status == 0, ended.err
    steps = [line for line in ended.err.splitlines() if "DEBUG job" in line]
    assert [step.partition(" of tests.app.tasks.write ")[2] for step in steps] == [
        "starts (attempt 1)",
        "ended: ack",
    ]


def test_a_project_that_configures_its_logs_keeps_them(tmp_path: Path, files: Path) -> None:
    ended = run(tmp_path, "vtrr_worker", "--burst", env={"VTRR_TEST_HANDLER": "1"})
    assert ended.status == 0
    assert ended.err.count(" starts:") == 1
    assert all(line.startswith("own ") for line in ended.err.splitlines())


# -- signals --------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_running_job_finish(
    tmp_path: Path, waiting: tuple[Path, Path], files: Path, number: int
) -> None:
    began, go = waiting
    write(files, "not-begun")
    with manage(tmp_path, "vtrr_worker", "--poll-interval=0.05") as worker:
        worker.wait_for_file(began)
        worker.signal(number)
        worker.wait_for(" stops:")
        go.touch()
        ended = worker.end()
    assert ended.status == 0, ended.err
    assert ended.out == "Ran 1 job: 1 succeeded.\n"
    stats = get_queue().stats()
    assert (stats["completed"], stats["ready"], stats["claimed"]) == (1, 1, 0)


def test_a_second_signal_gives_the_job_back(tmp_path: Path, waiting: tuple[Path, Path]) -> None:
    began, _ = waiting
    with manage(tmp_path, "vtrr_worker") as worker:
        worker.wait_for_file(began)
        worker.signal(signal.SIGTERM)
        worker.wait_for(" stops:")
        worker.signal(signal.SIGTERM)
        assert worker.end().status == 128 + signal.SIGTERM
    stats = get_queue().stats()
    assert (stats["ready"], stats["claimed"]) == (1, 0)


def test_a_stuck_job_replaces_the_process(tmp_path: Path, files: Path) -> None:
    began = files / "began"
    tasks.get_stuck.enqueue(str(began), partition_key="acme")
    vtrr = {"QUEUES": {"default": {"LEASE_SECONDS": 1, "RECLAIM_INTERVAL": 0.1}}}
    with manage(tmp_path, "vtrr_worker", "--poll-interval=0.05", vtrr=vtrr) as worker:
        assert int(worker.wait_for_file(began)) == worker.pid
        worker.wait_for(" is replaced")
        wait_until(lambda: get_queue().stats()["completed"] == 1, "the job to run again")
        worker.signal(signal.SIGTERM)
        ended = worker.end()
    assert ended.status == 0, ended.err
    assert ended.err.count(" starts:") == 2


# -- reload -----------------------------------------------------------------------------------


@pytest.fixture
def own_app(files: Path) -> tuple[Path, dict[str, str]]:
    """An installed app outside the checkout, and the environment that installs it."""
    app = files / "reloaded_app"
    app.mkdir()
    (app / "__init__.py").touch()
    # A file that is saved twice in a second has one cache.
    env = {"PYTHONPATH": str(files), "PYTHONDONTWRITEBYTECODE": "1"}
    return app / "tasks.py", {"VTRR_TEST_EXTRA_APP": app.name, **env}


def define(tasks_module: Path, text: str) -> None:
    tasks_module.write_text(
        textwrap.dedent(f"""
            from pathlib import Path
            from tests.app import tasks
            from vtrr_django import get_queue

            @get_queue("default").task
            def say(self, path):
                Path(path).write_text("{text}")
        """)
    )


def save_until(path: Path, condition: Callable[[], object]) -> None:
    """Save a file again and again: the reloader does not see what is older than itself."""
    times = itertools.count(time.time())

    def save_and_look() -> object:
        os.utime(path, (next(times),) * 2)
        return condition()

    wait_until(save_and_look, "a reload")


def enqueue_to(task_name: str, path: Path) -> None:
    """Enqueue a job of a task that this process does not know."""
    real = tasks.write.name
    tasks.write.name = task_name
    try:
        tasks.write.enqueue(str(path), partition_key="acme")
    finally:
        tasks.write.name = real


def test_new_code_starts_the_worker_anew_and_gives_back_the_running_job(
    tmp_path: Path, waiting: tuple[Path, Path], own_app: tuple[Path, dict[str, str]], files: Path
) -> None:
    began, go = waiting
    module, env = own_app
    define(module, "before")
    with manage(tmp_path, "vtrr_worker", "--reload", "--poll-interval=0.05", env=env) as worker:
        first = worker.wait_for_file(began)
        began.unlink()
        define(module, "after a change")
        save_until(module, lambda: "released 1 leases" in worker.err or not worker.running)
        assert worker.wait_for_file(began) != first, "another process"
        assert get_queue().stats()["claimed"] == 1
        go.touch()
        enqueue_to("reloaded_app.tasks.say", files / "said")
        assert worker.wait_for_file(files / "said") == "after a change"
        worker.signal(signal.SIGINT)
        assert worker.end().status == 0


@pytest.mark.parametrize("more", ["--burst", "--max-jobs=1"])
def test_reload_never_ends(more: str) -> None:
    with pytest.raises(CommandError, match="--reload never ends"):
        call("vtrr_worker", "--reload", more)


# -- which queues -----------------------------------------------------------------------------

VTRR = {"QUEUES": {"default": {}, "mails": {}, "celery": {"CELERY_QUEUE": "c"}}}


def test_all_queues_that_celery_does_not_run(tmp_path: Path, files: Path) -> None:
    ended = run(tmp_path, "vtrr_worker", "--burst", vtrr=VTRR)
    assert ended.status == 0
    assert "queues default, mails, concurrency" in ended.err
    assert "WARNING queue mails: no task or handler is known" in ended.err
    assert ended.err.count("vtrr.W005") == 1, "checks are run, once"


def test_the_queues_that_are_named(tmp_path: Path, files: Path) -> None:
    arguments = ["--queue", "mails", "celery", "--queue=mails", "--skip-checks"]
    ended = run(tmp_path, "vtrr_worker", "--burst", *arguments, vtrr=VTRR)
    assert ended.status == 0
    assert "queues mails, celery, concurrency" in ended.err
    assert "vtrr.W005" not in ended.err


@pytest.mark.parametrize("more", [[], ["--reload"]], ids=["plain", "reload"])
def test_an_unknown_queue(tmp_path: Path, files: Path, more: list[str]) -> None:
    ended = run(tmp_path, "vtrr_worker", "--queue=defualt", *more)
    assert ended.status == 1
    assert ended.err.startswith("CommandError: expected a queue declared in VTRR['QUEUES']")
    assert "did you mean 'default'?" in ended.err


def test_celery_runs_them_all() -> None:
    vtrr = {"QUEUES": {"celery": {"CELERY_QUEUE": "c"}}}
    with override_settings(VTRR=vtrr), pytest.raises(CommandError, match="expected --queue NAME"):
        call("vtrr_worker", "--burst")


# -- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--concurrency=0"], "concurrency: expected a whole number >= 1"),
        (["--poll-interval=0"], "poll_interval: expected a number of seconds > 0"),
        (["--max-jobs=0"], "max_jobs: expected"),
        (["--worker-id="], "worker_id: expected"),
        (["--concurrency=many"], "invalid int value"),
    ],
)
def test_options_that_cannot_be(arguments: list[str], why: str) -> None:
    with pytest.raises(CommandError, match=why):
        call("vtrr_worker", *arguments)


def test_wrong_settings_are_no_traceback(tmp_path: Path, files: Path) -> None:
    vtrr = {"QUEUES": {"default": {"LEASE_SECOND": 1}}}
    for command in ("vtrr_worker", "vtrr_stats"):
        ended = run(tmp_path, command, vtrr=vtrr)
        assert ended.status == 1
        assert "LEASE_SECOND" in ended.err
        assert "did you mean 'LEASE_SECONDS'" in ended.err
        assert "Traceback" not in ended.err


def test_tasks_are_checked_before_they_run(tmp_path: Path, files: Path) -> None:
    vtrr = {"QUEUES": {"default": {"HEARTBEAT": False}}}
    ended = run(tmp_path, "vtrr_worker", "--burst", vtrr=vtrr)
    assert ended.status == 1
    assert "(vtrr.E009) Task tests.app.tasks.write may outlive its lease" in ended.err


@pytest.mark.parametrize("command", ["vtrr_worker", "vtrr_stats"])
def test_a_database_without_tables(tmp_path: Path, files: Path, command: str) -> None:
    databases = json.loads(os.environ["VTRR_TEST_DATABASES"])
    databases["default"] = str(tmp_path / "empty.sqlite3")
    ended = run(tmp_path, command, env={"VTRR_TEST_DATABASES": json.dumps(databases)})
    assert ended.status == 1
    assert ended.err == (
        "CommandError: expected the tables of vtrr_django in database 'default', got none; run "
        "manage.py migrate --database=default first\n"
    )


def test_a_database_without_tables_keeps_no_other_queue_from_its_turn(
    tmp_path: Path, files: Path
) -> None:
    env = {"VTRR_TEST_FILES": json.dumps({"empty": str(tmp_path / "empty.sqlite3")})}
    env["VTRR_TEST_ROUTERS"] = "vtrr_django.routers.VTRRRouter"
    queues = {"first": {"DATABASE": "empty"}, "second": {"DATABASE": "empty"}, "third": {}}
    ended = run(tmp_path, "vtrr_reclaim", vtrr={"QUEUES": queues}, env=env)
    assert ended.status == 1
    assert ended.out == "Queue third: 0 leases reclaimed.\n"
    assert ended.err == (
        "CommandError: expected the tables of vtrr_django in database 'empty', got none; run "
        "manage.py migrate --database=empty first\n"
    )


@pytest.mark.service("postgres")
@pytest.mark.parametrize("command", ["vtrr_worker", "vtrr_stats"])
def test_a_server_without_tables(tmp_path: Path, files: Path, command: str) -> None:
    databases = json.loads(os.environ["VTRR_TEST_DATABASES"]) | {"postgres": "template1"}
    ended = run(
        tmp_path,
        command,
        vtrr={"QUEUES": {"default": {"DATABASE": "postgres"}}},
        env={"VTRR_TEST_DATABASES": json.dumps(databases)},
    )
    assert ended.status == 1
    assert "in database 'postgres', got none; run manage.py migrate" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.service("postgres")
def test_a_database_that_does_not_answer(tmp_path: Path, files: Path) -> None:
    databases = json.loads(os.environ["VTRR_TEST_DATABASES"]) | {"postgres": "no_such_database"}
    ended = run(
        tmp_path,
        "vtrr_stats",
        vtrr={"QUEUES": {"default": {"DATABASE": "postgres"}}},
        env={"VTRR_TEST_DATABASES": json.dumps(databases)},
    )
    assert ended.status == 1
    assert "\nCommandError: database 'postgres' did not answer" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.service("postgres")
def test_a_worker_waits_for_a_database_that_does_not_answer(tmp_path: Path, files: Path) -> None:
    databases = json.loads(os.environ["VTRR_TEST_DATABASES"]) | {"postgres": "no_such_database"}
    with manage(
        tmp_path,
        "vtrr_worker",
        vtrr={"QUEUES": {"default": {"DATABASE": "postgres"}}},
        env={"VTRR_TEST_DATABASES": json.dumps(databases)},
    ) as worker:
        worker.wait_for("leasing from queue default does not work")
        worker.signal(signal.SIGTERM)
        assert worker.end().status == 0


# -- in this process ----------------------------------------------------------------------------


@pytest.fixture
def signals_restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    assert signal.getsignal(signal.SIGTERM) is before


def test_it_may_be_called_from_code(shop: Shop, signals_restored: None) -> None:
    shop.send.queue(partition_key="acme", tasks=[{}] * 3)
    assert call("vtrr_worker", "--burst", queue=["mails"]) == "Ran 3 jobs: 3 succeeded.\n"
    assert connection.connection is None, "the worker's threads have their own"


def test_what_a_job_leaves_open_is_closed_before_it_is_acked(shop: Shop) -> None:
    @shop.uploads.task
    def leave_a_transaction_open(self: Any) -> None:
        transaction.atomic().__enter__()

    leave_a_transaction_open.enqueue(partition_key="acme")
    call("vtrr_worker", "--burst", queue=["uploads"])
    assert shop.uploads.stats()["completed"] == 1


def test_an_idle_queue_is_never_polled_more_often_than_told(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers: list[Worker] = []

    def run(worker: Worker) -> WorkerSummary:
        workers.append(worker)
        return WorkerSummary()

    monkeypatch.setattr(Worker, "run", run)
    for seconds in (0.1, 10.0):
        call("vtrr_worker", f"--poll-interval={seconds}")
    assert [(w.poll_interval, w.backoff_interval) for w in workers] == [(0.1, 2.0), (10.0, 10.0)]


@pytest.mark.parametrize(
    ("summary", "sentence"),
    [
        ({}, "Ran 0 jobs."),
        ({"jobs": 1, "lost": 1}, "Ran 1 job: 1 lost."),
        (
            {"jobs": 1300, "succeeded": 1200, "retried": 100, "released": 1},
            "Ran 1,300 jobs: 1,200 succeeded, 100 retried. Gave back 1 lease.",
        ),
    ],
)
def test_the_summary_as_a_sentence(summary: dict[str, Any], sentence: str) -> None:
    assert vtrr_worker._sentence(WorkerSummary(**summary)) == sentence


@pytest.mark.parametrize(
    ("verbosity", "level"), [(0, logging.WARNING), (1, logging.INFO), (3, logging.DEBUG)]
)
def test_the_level_of_logs_follows_verbosity(
    monkeypatch: pytest.MonkeyPatch, verbosity: int, level: int
) -> None:
    package = logging.getLogger("vtrr_django")
    monkeypatch.setattr(package, "propagate", False)
    before = package.level, list(package.handlers)
    with log_to_stderr(verbosity):
        assert package.level == level
        assert len(package.handlers) == len(before[1]) + 1
    assert (package.level, package.handlers) == before


def test_a_level_that_the_project_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    package = logging.getLogger("vtrr_django")
    monkeypatch.setattr(package, "propagate", False)
    package.setLevel(logging.ERROR)
    try:
        with log_to_stderr(1):
            assert package.level == logging.ERROR
    finally:
        package.setLevel(logging.NOTSET)
