"""An app that keeps long polls short, for tests of the server that begin many."""

from __future__ import annotations

from django.apps import AppConfig


class Brief(AppConfig):
    name = "tests.api.brief"
    path = __file__.rpartition("/")[0]

    def ready(self) -> None:
        from vtrr_django.api import polling

        # Before anything has looked: the document of the API says it too.
        polling.LONGEST_WAIT = 0.3  # type: ignore[misc]
