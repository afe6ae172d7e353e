"""The two programs that people start: ``make demo`` and ``make serve``."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest

from example_project.accounts import ACCOUNTS, SMALL_TENANT
from example_project.browser import Browser, File
from example_project.demo import DemoFailed, check_fairness
from example_project.environment import ROOT
from example_project.fairness_report import Run, most_overtaken
from example_project.processes import time_limit
from tests.races.waiting import PATIENCE

WORKERS = 2
SMALL = 3


def environment(**values: str) -> dict[str, str]:
    ours = ("DJANGO_", "PYTEST_", "VTRR_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | values


def run_demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "example_project.demo", *arguments],
        cwd=ROOT,
        env=environment(PYTHONIOENCODING="utf-8"),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_the_demo_ends_by_itself_and_the_small_tenant_was_not_kept_waiting() -> None:
    sizes = ("--big=60", f"--small={SMALL}", f"--workers={WORKERS}")
    result = run_demo(*sizes, "--keep", f"--deadline={PATIENCE}")

    assert result.returncode == 0, result.stdout + result.stderr
    figures = r"\|( +\d+\.\d\d){3} +\|( +\d+\.\d\d){3}$"
    assert re.search(rf"^bigcorp +60 +{figures}", result.stdout, re.MULTILINE)
    assert re.search(rf"^solo +3 +{figures}", result.stdout, re.MULTILINE)
    assert "█" in result.stdout
    assert "the fairness bound is 9" in result.stdout

    kept = Path(re.search(r"^Kept: (.*)$", result.stdout, re.MULTILINE).group(1))
    try:
        assert _overtaken_by_the_big_tenant(kept / "db.sqlite3") <= most_overtaken(SMALL, WORKERS)
    finally:
        shutil.rmtree(kept)


def _overtaken_by_the_big_tenant(database: Path) -> int:
    """Return how many of the big tenant's jobs began while the small tenant's waited."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        ((count,),) = connection.execute(
            """
            WITH jobs AS (
                SELECT username, j.created_at, claimed_at FROM vtrr_django_completedjob j
                JOIN auth_user u ON CAST(u.id AS TEXT) = j.partition_key
            )
            SELECT count(*) FROM jobs WHERE username = 'bigcorp'
            AND claimed_at > (SELECT min(created_at) FROM jobs WHERE username = 'solo')
            AND claimed_at < (SELECT max(claimed_at) FROM jobs WHERE username = 'solo')
            """
        )
    return int(count)


def test_a_demo_that_was_not_fair_fails() -> None:
    runs = [
        Run(tenant="bigcorp", arrival=0, start=number, end=number + 1) for number in range(1, 60)
    ]
    runs.append(Run(tenant="solo", arrival=0.5, start=11, end=12))
    options = argparse.Namespace(small=1, workers=1)

    with pytest.raises(DemoFailed, match=r"at most 5 jobs of the big tenant .*, got 10"):
        check_fairness(options, runs)


def test_a_demo_that_fails_says_so_and_leaves_nothing() -> None:
    result = run_demo("--deadline=0.5")

    assert result.returncode == 1
    assert "The demo failed: not finished within 0.5 seconds" in result.stderr


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start ``serve`` and return it with what it printed until it was ready."""
    with (
        time_limit(PATIENCE),
        subprocess.Popen(
            [sys.executable, "-m", "example_project.serve", "--port=0"],
            cwd=ROOT,
            env=environment(VTRR_EXAMPLE_DATA=str(tmp_path)),
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        printed = ""
        for line in process.stdout:
            printed += line
            if "Ctrl-C stops it" in line:
                break
        try:
            yield process, printed
        finally:
            if process.poll() is None:
                process.terminate()


def test_the_site_takes_files_until_it_is_stopped(
    site: tuple[subprocess.Popen[str], str],
) -> None:
    process, printed = site
    address = re.search(r"http://127\.0\.0\.1:\d+/", printed).group()
    for account in ACCOUNTS:
        assert re.search(rf"{account.username} +password +{account.password} ", printed)
    browser = Browser(address)
    browser.sign_in(SMALL_TENANT.username, SMALL_TENANT.password)
    (pk,) = browser.upload([File("notes.txt", b"one two\nthree\n")])
    while (state := browser.state())["counts"]["done"] == 0:
        pass

    assert [row["id"] for row in state["uploads"]] == [pk]
    assert state["uploads"][0]["facts"].startswith("Text · 2 lines · 3 words · ")

    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    with pytest.raises(urllib.error.URLError):
        browser.state()


def test_a_wrong_password_is_not_let_in(site: tuple[subprocess.Popen[str], str]) -> None:
    _, printed = site
    browser = Browser(re.search(r"http://127\.0\.0\.1:\d+/", printed).group())

    with pytest.raises(PermissionError, match="solo could not sign in"):
        browser.sign_in(SMALL_TENANT.username, "guess")
