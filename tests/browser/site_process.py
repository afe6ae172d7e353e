"""The site of these tests as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.races.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


class Site:
    """The site, started, in the databases of this run.

    Args:
        vtrr: its ``settings.VTRR``.
        settings: the module of its settings.
        warnings: what a warning is: an error, or to be ignored.
    """

    def __init__(
        self,
        vtrr: dict[str, Any],
        settings: str = "tests.browser.site.settings",
        *,
        warnings: str = "error",
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", warnings, "-m", "tests.browser.site"],
            cwd=ROOT,
            env=os.environ
            | {"DJANGO_SETTINGS_MODULE": settings, "VTRR_TEST_SETTINGS": json.dumps(vtrr)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        port = self._process.stdout.readline().strip()
        if not port:
            self.close()
            raise AssertionError("the site did not start; it said why above")
        self.address = f"http://127.0.0.1:{port}"

    def told(self) -> dict[str, Any]:
        """Return the reports of the browser and the log since it was last asked."""
        with urlopen(f"{self.address}/told", timeout=PATIENCE) as answer:  # noqa: S310 - ours
            found: dict[str, Any] = json.load(answer)
        return found

    def close(self) -> None:
        """Let it end."""
        self._process.communicate(timeout=PATIENCE)
