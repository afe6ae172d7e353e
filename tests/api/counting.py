"""An app that tells of each connection to a database, for tests of the server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.db.backends.signals import connection_created


class Counting(AppConfig):
    """File ``VTRR_TEST_CONNECTIONS`` gets a line for each: the process, and the alias."""

    name = "tests.api.counting"
    path = __file__.rpartition("/")[0]

    def ready(self) -> None:
        told = Path(os.environ["VTRR_TEST_CONNECTIONS"])

        def tell(connection: Any, **_: Any) -> None:
            with told.open("a") as file:
                file.write(f"{os.getpid()} {connection.alias}\n")

        connection_created.connect(tell, weak=False)
