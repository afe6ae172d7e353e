"""What the README says is what happens: its files are made, its commands are run."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import get_commands, load_command_class

import vtrr_django
from tests.own_redis import OwnRedis
from vtrr_django import conf

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(
    r"(?:<!-- file: ([^,\n]+?)(, appended)?(, on redis)? -->\n)?```(\w+)\n(.*?)```", re.DOTALL
)
BLOCKS = [match.groups() for match in BLOCK.finditer(README)]


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", README, re.DOTALL | re.MULTILINE)
    assert found, f"README has no section {title!r}"
    return found[1]


@pytest.mark.parametrize("code", [code for *_, kind, code in BLOCKS if kind == "python"])
def test_every_python_block_compiles(code: str) -> None:
    compile(code, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def _run(directory: Path, *command: str) -> str:
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "DJANGO_SETTINGS_MODULE": "mysite.settings",
        "PYTHONWARNINGS": "error",
    }
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _make_project(base: Path, *, on_redis: bool) -> Path:
    """Make a new Django project with the files of the quick start."""
    _run(base, sys.executable, "-m", "django", "startproject", "mysite", ".", "--settings=")
    _run(base, sys.executable, "-m", "django", "startapp", "uploads", "--settings=")
    for name, appended, needs_redis, _, code in BLOCKS:
        if name is not None and (on_redis or not needs_redis):
            path = base / name
            path.write_text((path.read_text() if appended else "") + "\n" + code)
    with (base / "mysite/settings.py").open("a") as settings:
        settings.write('INSTALLED_APPS += ["uploads"]\nALLOWED_HOSTS = ["testserver"]\n')
    (base / "mysite/urls.py").write_text(
        "from django.urls import path\nfrom uploads.views import upload\n"
        'urlpatterns = [path("upload", upload)]\n'
    )
    return base


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _make_project(tmp_path_factory.mktemp("readme"), on_redis=False)


def _upload(directory: Path) -> str:
    return _run(
        directory,
        sys.executable,
        "-c",
        "import django; django.setup(); from django.test import Client; "
        "print(Client().get('/upload').json())",
    )


def test_the_quick_start_works_as_written(project: Path) -> None:
    quick_start = section("Quick start")
    _run(project, sys.executable, "manage.py", "migrate")
    answer = _upload(project)
    assert len(re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", answer)) == 3
    assert "python manage.py vtrr_worker --burst" in quick_start
    ran = _run(project, sys.executable, "manage.py", "vtrr_worker", "--burst")
    for name in ("a.pdf", "b.pdf", "c.pdf"):
        assert f"processing {name}, attempt 1" in ran
    stats = _run(project, sys.executable, "manage.py", "vtrr_stats")
    assert "default" in stats
    assert not re.search(r"\b3 ready\b", stats)


def test_redis_and_celery_work_as_written(
    tmp_path: Path, own_redis: Callable[..., OwnRedis]
) -> None:
    server = own_redis()
    base = _make_project(tmp_path, on_redis=True)
    settings = base / "mysite/settings.py"
    text = settings.read_text()
    assert text.count("127.0.0.1:6379") == 2
    settings.write_text(text.replace("127.0.0.1:6379", f"127.0.0.1:{server.port}"))
    commands = section("On Redis, with Celery workers")
    [worker] = re.findall(r"^celery -A mysite worker.*$", commands, re.MULTILINE)
    [beat] = re.findall(r"^celery -A mysite beat$", commands, re.MULTILINE)
    assert "Ran 1 test" in _run(base, sys.executable, "manage.py", "test", "uploads")
    _run(base, sys.executable, "manage.py", "migrate")
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "DJANGO_SETTINGS_MODULE": "mysite.settings",
    }
    with (base / "out").open("w+") as out, contextlib.ExitStack() as started:
        for command in (worker.replace("--concurrency 8", "--concurrency 2"), beat):
            process = subprocess.Popen(
                [sys.executable, "-m", *command.split()],
                cwd=base,
                env=environment,
                stdout=out,
                stderr=out,
            )
            started.callback(process.wait)
            started.callback(process.terminate)
        assert len(re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", _upload(base))) == 3
        end = time.monotonic() + 60
        while not re.search(r"\b3\b", stats := _completed(base)) and time.monotonic() < end:
            time.sleep(0.2)
    assert re.search(r"\b3\b", stats), (base / "out").read_text()
    for name in ("a.pdf", "b.pdf", "c.pdf"):
        assert f"processing {name}, attempt 1" in (base / "out").read_text()


def _completed(directory: Path) -> str:
    code = (
        "import django; django.setup(); from vtrr_django import get_queue; "
        "print(get_queue('default').stats()['completed'])"
    )
    return _run(directory, sys.executable, "-c", code)


def test_the_test_case_of_the_readme_passes(project: Path) -> None:
    assert "Ran 1 test" in _run(project, sys.executable, "manage.py", "test", "uploads")


def test_the_sqlite_settings_of_the_readme_satisfy_the_checks(project: Path) -> None:
    [sqlite] = [code for *_, code in BLOCKS if "init_command" in code]
    before = _run(project, sys.executable, "manage.py", "check")
    assert "vtrr." in before
    (project / "mysite/tuned.py").write_text(f"from mysite.settings import *\n{sqlite}")
    after = _run(project, sys.executable, "manage.py", "check", "--settings=mysite.tuned")
    assert "no issues" in after


def _documented(text: str) -> list[str]:
    """Return the names in the first column of a table."""
    cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_the_settings_table_names_every_setting() -> None:
    text = section("Settings")
    known = {*conf._QUEUE_KEYS, *conf._ENGINE_OPTIONS}
    said = set(re.findall(r"`([A-Z_]{3,})`", text))
    assert known <= said
    tabled = {name for name in _documented(text) if name.isupper()}
    assert tabled <= known


def test_the_commands_table_names_every_command_and_only_options_they_have() -> None:
    text = section("Operations")
    ours = {name for name, app in get_commands().items() if app == "vtrr_django"}
    rows = re.findall(r"^\| (`vtrr_.*?) \| ", text, re.MULTILINE)
    said: set[str] = set()
    for row in rows:
        names = re.findall(r"vtrr_\w+", row)
        said |= set(names)
        for name in names:
            parser = load_command_class("vtrr_django", name).create_parser("manage.py", name)
            options = set(parser._option_string_actions)
            assert set(re.findall(r"--[a-z-]+", row)) <= options, (name, row)
    assert said == ours


def test_the_checks_table_names_every_check() -> None:
    home = Path(vtrr_django.__file__).parent
    files = [*(home / "checks").glob("*.py"), *home.rglob("checks.py")]
    source = "".join(path.read_text() for path in files)
    ids = set(re.findall(r"vtrr\.[EW]\d{3}", source))
    assert ids
    assert ids == set(re.findall(r"`(vtrr\.[EW]\d{3})`", section("Checks")))


def test_no_part_of_the_readme_is_left_to_be_filled_in() -> None:
    assert not re.findall(r"<!-- (?!file:).*?-->\n(?:```\n```)?\n", README)
    assert "TODO" not in README


def test_the_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets: set[Any] = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    assert targets >= {"demo", "test", "lint", "bench"}
    for target in targets | {"serve"}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
