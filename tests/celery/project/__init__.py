"""A Django project in the usual layout, as small as it gets."""

from tests.celery.project.celery import app as celery_app

__all__ = ["celery_app"]
