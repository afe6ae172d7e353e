"""An app that makes a server impatient, and one of its views fail: for tests of the server."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig


class Impatient(AppConfig):
    name = "tests.api.impatient"
    path = __file__.rpartition("/")[0]

    def ready(self) -> None:
        from vtrr_django.api import gathering, threads
        from vtrr_django.health import views

        def fail(*args: Any) -> Any:
            raise ZeroDivisionError("a bug")

        gathering.PATIENCE = 1.0  # type: ignore[misc]
        threads.MOST_HELD = 2_000_000  # type: ignore[misc]
        views.check_health = fail
