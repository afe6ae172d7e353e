"""Runs the tests in ``inside`` with settings that have django-celery-beat."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = sorted(str(path.relative_to(HERE)) for path in (HERE / "inside").rglob("test_*.py"))


@pytest.mark.parametrize("name", FILES)
def test_inside(name: str) -> None:
    if find_spec("django_celery_beat") is None:
        pytest.skip("django-celery-beat is not installed; it allows no Django 6.1")
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
