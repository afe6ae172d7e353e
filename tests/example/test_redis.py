"""The example on Redis and Celery: ``VTRR_ENGINE=redis``, with real processes."""

from __future__ import annotations

import contextlib
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.management import CommandError

from example_project import redis_server
from example_project.browser import Browser, File
from example_project.environment import ROOT
from example_project.processes import Processes, time_limit
from tests import services
from tests.example.site_process import ServeProcess, environment, serve
from tests.own_redis import PROGRAM, OwnRedis
from tests.ports import claim_port
from tests.races.standing import stand_still_at_rest
from tests.races.waiting import PATIENCE, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what runs is read from /proc")

TEXT = File("notes.txt", b"one two\nthree\n")


@pytest.fixture
def free_place() -> str:
    """Return the URL of a Redis that does not run."""
    services.need_program(PROGRAM)
    return f"redis://127.0.0.1:{claim_port()}"


def wait_until_done(browser: Browser, count: int) -> None:
    until(lambda: browser.state()["counts"]["done"] == count, f"{count} files to be done")


def workers_of(data_dir: Path) -> list[str]:
    """Return who ran the jobs that have ended."""
    with contextlib.closing(sqlite3.connect(data_dir / "db.sqlite3")) as connection:
        rows = connection.execute("SELECT worker_id FROM vtrr_django_completedjob").fetchall()
    return [worker_id for (worker_id,) in rows]


def pids(site: ServeProcess, words: str) -> set[int]:
    return {pid for pid, line in site.started().items() if words in line}


# -- serve ---------------------------------------------------------------------------


def test_nothing_runs_yet_then_all_of_it_then_nothing(tmp_path: Path, free_place: str) -> None:
    with serve(tmp_path, 3, VTRR_ENGINE="redis", VTRR_EXAMPLE_REDIS=free_place) as site:
        assert f"{PROGRAM} on port {free_place.rpartition(':')[2]}" in site.printed
        browser = site.browser()
        browser.upload([TEXT, TEXT])
        wait_until_done(browser, 2)
        # Redis has handed over what it knows of them, and a process of Celery's pool ran them.
        workers = until(lambda: workers_of(tmp_path) * (len(workers_of(tmp_path)) == 2), "history")
        pool = pids(site, "celery --quiet --app=example_project worker")
        assert len(pool) == 3
        assert {int(worker.split(":")[1]) for worker in workers} <= pool
        assert len(pids(site, "celery --quiet --app=example_project beat")) == 1
        assert len(pids(site, PROGRAM)) == 1

        # A worker that does not react any more: it is killed, its pool too.
        stand_still_at_rest(*pool, file=tmp_path / "db.sqlite3")
        browser.upload([TEXT])
        assert site.stop() == 0
        assert site.started() == {}

    # What it took in is in the files of the Redis that it started, which is started again.
    with Processes({}) as processes, time_limit(PATIENCE):
        url = redis_server.use_or_start(processes, tmp_path, free_place, print)
        with redis.Redis.from_url(url) as client:
            assert client.zcard("vtrr:uploads:queue") == 1


def test_a_redis_that_runs_is_used_and_left_alone(
    tmp_path: Path, own_redis: Callable[..., OwnRedis]
) -> None:
    server = own_redis()
    with redis.Redis.from_url(server.url(15)) as others:
        others.set("somebody", "else's")
        with serve(
            tmp_path, VTRR_ENGINE="redis", VTRR_EXAMPLE_REDIS=server.url().removesuffix("/0")
        ) as site:
            assert f"Redis that runs at 127.0.0.1:{server.port}, its database 14" in site.printed
            browser = site.browser()
            browser.upload([TEXT])
            wait_until_done(browser, 1)
            assert pids(site, PROGRAM) == set()
            site.process.send_signal(signal.SIGINT)
            assert site.process.wait(30) == 0
            assert site.started() == {}
        assert others.get("somebody") == b"else's"
        assert others.dbsize() == 1
        keyspace = others.info("keyspace")
    assert set(keyspace) == {"db14", "db15"}


# -- which Redis ---------------------------------------------------------------------


@pytest.fixture
def claim(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Return what asks for the database of a data folder."""
    with Processes({}) as processes, time_limit(PATIENCE):

        def ask(folder: str, wanted: str) -> str:
            said: list[str] = []
            url = redis_server.use_or_start(processes, tmp_path / folder, wanted, said.append)
            assert len(said) == 1
            return url

        yield ask


def test_each_data_folder_has_a_database_and_keeps_it(
    claim: Callable[..., str], own_redis: Callable[..., OwnRedis]
) -> None:
    place = own_redis().url().removesuffix("/0")

    assert claim("a", place) == f"{place}/15"
    assert claim("b", place) == f"{place}/14"
    assert claim("a", place) == f"{place}/15"
    assert claim("b", f"{place}/14") == f"{place}/14"
    assert claim("c", f"{place}/3") == f"{place}/3"


def test_what_is_others_is_refused(
    claim: Callable[..., str], own_redis: Callable[..., OwnRedis]
) -> None:
    server = own_redis({"databases": 2})
    place = server.url().removesuffix("/0")
    with server.client() as client:
        client.set("somebody", "else's")

    with pytest.raises(CommandError, match=r"empty database in 0 .*got only others' data"):
        claim("a", f"{place}/0")
    with pytest.raises(CommandError, match=r"empty database in 7 "):
        claim("a", f"{place}/7")
    assert claim("a", place) == f"{place}/1"
    with pytest.raises(CommandError, match=r"empty database among 1 to 15 .*give another number"):
        claim("b", place)


def test_a_redis_that_does_not_let_us_in(
    claim: Callable[..., str], own_redis: Callable[..., OwnRedis]
) -> None:
    server = own_redis({"requirepass": "secret"})

    with pytest.raises(CommandError, match=r"to be let in .*say the password"):
        claim("a", f"redis://127.0.0.1:{server.port}")
    with pytest.raises(CommandError, match="to be let in") as refused:
        claim("a", f"redis://:guess@127.0.0.1:{server.port}")
    assert "guess" not in str(refused.value)
    assert claim("a", server.url(2)) == server.url(2)


def test_what_is_no_redis(claim: Callable[..., str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(redis_server, "SECONDS", 0.1)
        with pytest.raises(CommandError, match="expected a Redis at 127"):
            claim("a", f"redis://127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize(
    "wanted", ["localhost:6379", "rediss://a", "redis://", "redis://a:b", "redis://a/b"]
)
def test_what_is_no_place(claim: Callable[..., str], wanted: str) -> None:
    with pytest.raises(CommandError, match=r"VTRR_EXAMPLE_REDIS: expected redis://"):
        claim("a", wanted)


def test_what_was_started_once_is_started_again(
    tmp_path: Path,
    free_place: str,
    own_redis: Callable[..., OwnRedis],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running = own_redis().url().removesuffix("/0")
    for number, usual in enumerate([free_place, running], start=1):
        monkeypatch.setattr(redis_server, "USUAL_REDIS", usual)
        with Processes({}) as processes, time_limit(PATIENCE):
            url = redis_server.use_or_start(processes, tmp_path, None, print)
            with redis.Redis.from_url(url) as client:
                assert client.incr("starts") == number
            assert (url == f"{usual}/0") is (usual == free_place)


def test_two_servers_never_share_files(claim: Callable[..., str], free_place: str) -> None:
    assert claim("a", free_place) == f"{free_place}/0"
    other = f"redis://127.0.0.1:{claim_port()}"
    with pytest.raises(CommandError, match="is the example running already"):
        claim("a", other)


# -- demo, and what is missing -------------------------------------------------------


def run_demo(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "example_project.demo", *arguments],
        cwd=ROOT,
        env=environment(PYTHONIOENCODING="utf-8", VTRR_ENGINE="redis", **variables),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_the_demo_on_redis_is_fair() -> None:
    services.need_program(PROGRAM)

    result = run_demo("--big=30", f"--deadline={PATIENCE}")

    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{PROGRAM} on port" in result.stdout
    assert "the fairness bound is 9" in result.stdout


def test_the_demo_without_a_redis_server(tmp_path: Path) -> None:
    result = run_demo(PATH=str(tmp_path))

    assert result.returncode == 1
    assert "expected redis-server to be installed, got none in PATH" in result.stderr
    assert "Traceback" not in result.stderr


WITHOUT = "import sys; sys.modules['celery'] = sys.modules['redis'] = None; "


def run_without_extras(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + program],
        cwd=ROOT,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )


def test_redis_without_the_extras_says_what_to_install() -> None:
    program = "from example_project import demo; sys.exit(demo.main([]))"

    result = run_without_extras(program, VTRR_ENGINE="redis")

    assert result.returncode == 1
    assert "expected redis and celery to be installed" in result.stderr
    assert "pip install 'vtrr-django[redis,celery]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_database_needs_neither_redis_nor_celery(tmp_path: Path) -> None:
    program = (
        "import django; django.setup();"
        "from django.core.management import call_command; call_command('check');"
        "from example_project import demo, serve, wsgi; from example_project.uploads import tasks"
    )
    result = run_without_extras(
        program,
        DJANGO_SETTINGS_MODULE="example_project.settings",
        VTRR_EXAMPLE_DATA=str(tmp_path),
    )
    assert result.returncode == 0, result.stderr


def test_programs_started_by_hand_find_what_serve_uses(tmp_path: Path) -> None:
    (tmp_path / "redis-url").write_text("redis://127.0.0.1:1/5")
    program = (
        "import django; django.setup(); from celery import current_app as app; import vtrr_django;"
        "app.loader.import_default_modules(); app.finalize();"
        "print(vtrr_django.get_queue('uploads').config.options['URL'], app.conf.broker_url,"
        "*app.conf.beat_schedule, 'example_project.uploads.tasks.process_upload' in app.tasks)"
    )
    variables: dict[str, Any] = {
        "DJANGO_SETTINGS_MODULE": "example_project.settings",
        "VTRR_ENGINE": "redis",
        "VTRR_EXAMPLE_DATA": str(tmp_path),
    }
    result = subprocess.run(
        [sys.executable, "-c", f"import example_project; {program}"],
        cwd=ROOT,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
    place = "redis://127.0.0.1:1/5"
    assert result.stdout.split() == [place, place, "vtrr_queue.reclaim.uploads", "True"], (
        result.stderr
    )
