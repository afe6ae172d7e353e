"""Runs the tests in ``inside`` with settings that have django-celery-beat."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import services

HERE = Path(__file__).parent
FILES = sorted(str(path.relative_to(HERE)) for path in (HERE / "inside").rglob("test_*.py"))


@pytest.mark.parametrize("name", FILES)
def test_inside(name: str) -> None:
    services.need_package("django_celery_beat")
    without = {"VTRR_TEST_DATABASES", "VTRR_TEST_CELERY", "PYTEST_XDIST_WORKER"}
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider"),
            *("--ds", "tests.beat.settings", str(HERE / name)),
        ],
        cwd=HERE.parents[1],
        env={key: value for key, value in os.environ.items() if key not in without},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
