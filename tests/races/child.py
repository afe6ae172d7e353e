"""The side of a test's processes: set up once in the process they are forked from."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django

# Every process imports the main module of the test run once more: pytest.
import pytest  # noqa: F401

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from django.test import override_settings  # noqa: E402

from tests.races.journal import Journal  # noqa: E402
from tests.races.waiting import until  # noqa: E402
from vtrr_django import get_queue  # noqa: E402
from vtrr_django.queue import Queue  # noqa: E402

LIFETIME = 280
"""Seconds after which a process ends, should the test that started it be gone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a process is to do."""

    role: str
    options: dict[str, Any]
    folder: Path
    vtrr: dict[str, Any]
    queue: str
    number: int


class Part:
    """What a role has to play with."""

    def __init__(self, plan: Plan) -> None:
        self._folder = plan.folder
        self._journal = Journal(plan.folder / "journal")
        self.number = plan.number
        self.say = self._journal.say

    @property
    def queue(self) -> Queue:
        return self._queue

    def take(self, queue: Queue) -> None:
        self._queue = queue

    def sees(self, flag: str) -> bool:
        """Return whether the test has raised a flag."""
        return (self._folder / f"flag-{flag}").exists()

    def wait_for(self, flag: str) -> None:
        """Wait until the test raises a flag."""
        until(lambda: self.sees(flag), f"flag {flag!r}")


class _Tell(logging.Handler):
    """Errors that nobody raises, as those of a robust on-commit hook, fail the test."""

    def __init__(self, part: Part) -> None:
        super().__init__(logging.ERROR)
        self._part = part

    def emit(self, record: logging.LogRecord) -> None:
        text = logging.Formatter().format(record)
        # A job that fails or times out on purpose is logged too and is no error of anybody's.
        if record.name not in {"vtrr_django.worker", "vtrr_django.jobs"}:
            self._part.say("logged", self._part.number, text)


def perform(plan: Plan) -> None:
    """Play a role from beginning to end."""
    signal.alarm(LIFETIME)
    part = Part(plan)
    logging.getLogger().addHandler(_Tell(part))
    module, _, function = plan.role.rpartition(":")
    try:
        with override_settings(VTRR=plan.vtrr):
            part.take(get_queue(plan.queue))
            role = getattr(importlib.import_module(module or "tests.races.roles"), function)
            role(part, **plan.options)
    except BaseException:
        part.say("error", plan.number, traceback.format_exc())
        sys.exit(1)
