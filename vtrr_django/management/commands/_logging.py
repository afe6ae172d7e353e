"""Where the logs of commands go that run until they are told to end."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator

from django.conf import settings

from vtrr_django import logs

PACKAGE = "vtrr_django"
LEVELS = {0: logging.WARNING, 1: logging.INFO}


@contextlib.contextmanager
def log_to_stderr(verbosity: int) -> Iterator[None]:
    """Show what the package logs, where the project has configured nothing for it."""
    package = logging.getLogger(PACKAGE)
    if package.hasHandlers():
        yield
        return
    handler = _handler()
    level = package.level
    package.addHandler(handler)
    if level == logging.NOTSET:
        package.setLevel(LEVELS.get(verbosity, logging.DEBUG))
        logs.connect()
    try:
        yield
    finally:
        package.removeHandler(handler)
        package.setLevel(level)
        logs.connect()


@contextlib.contextmanager
def crashes_to_stderr() -> Iterator[None]:
    """Show errors that nobody foresaw, which by Django's default only ADMINS get, by mail."""
    if settings.LOGGING or settings.DEBUG:  # with DEBUG it shows them itself
        yield
        return
    requests = logging.getLogger("django.request")
    handler = _handler()
    handler.setLevel(logging.ERROR)
    requests.addHandler(handler)
    try:
        yield
    finally:
        requests.removeHandler(handler)


def _handler() -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    return handler
