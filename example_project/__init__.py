"""The example: files uploaded by several tenants, processed fairly."""

from importlib.util import find_spec

from example_project.environment import engine

# A project that always has Celery writes the import alone. This one runs without, too.
if engine() == "redis" and find_spec("celery") is not None:
    from example_project.celery import app as celery_app

    __all__ = ["celery_app"]
