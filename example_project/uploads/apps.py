from __future__ import annotations

from django.apps import AppConfig


class UploadsConfig(AppConfig):
    name = "example_project.uploads"
    label = "uploads"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from example_project.uploads import receivers

        receivers.connect()
