"""An app whose second forked process takes long before it is anything, for tests of the server."""

from __future__ import annotations

import atexit
import itertools
import os
from pathlib import Path

from django.apps import AppConfig

from tests.races.waiting import until


class Unborn(AppConfig):
    """In folder ``VTRR_TEST_UNBORN`` a file ``born`` says go on, and ``ended`` that it ended."""

    name = "tests.api.unborn"
    path = __file__.rpartition("/")[0]

    def ready(self) -> None:
        folder = Path(os.environ["VTRR_TEST_UNBORN"])
        numbers = itertools.count()

        def wait() -> None:
            if next(numbers) == 1:
                until((folder / "born").exists, "the test to say go on")
                atexit.register((folder / "ended").touch)

        os.register_at_fork(after_in_child=wait, after_in_parent=lambda: next(numbers))
