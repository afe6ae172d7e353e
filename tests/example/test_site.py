"""Runs the tests in ``site/`` under the settings of the example project."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def test_the_sites_own_tests_pass(tmp_path: Path) -> None:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DJANGO_", "PYTEST_", "VTRR_"))
    }
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "--ds=example_project.settings", str(HERE / "site")],
        cwd=HERE.parent.parent,
        env=environment | {"VTRR_EXAMPLE_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        pytest.fail(f"{result.stdout}\n{result.stderr}", pytrace=False)
