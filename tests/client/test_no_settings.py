"""The client in processes that have no Django settings, nor all of what may be installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

RUN = """
from dataclasses import dataclass

from tests.client.fakes import FakeApi
from vtrr_django import Discard, RetryPolicy, Snooze, ValidationError
from vtrr_django.client import Liteworks, RemoteQueue

queue = FakeApi().queue()

@dataclass
class Note:
    text: str

@queue.handler(policy=RetryPolicy(max_retries=1))
async def keep(note: Note):
    print("kept", note.text)

@queue.task
def shout(self, text):
    print("shouted", text, self.request.retries)

queue.publish(Note("a"), delay=0)
shout.enqueue("b", partition_key="acme")
worker = queue.worker(poll_interval=0.01)
worker.install_signal_handlers()
print(worker.run_burst().succeeded, queue.stats()["ready"])
print(Liteworks(base_url="https://jobs.test", secret="s").queue)

import datetime
try:
    queue.publish(Note("a"), scheduled_at=datetime.datetime(2027, 1, 1))
except ValidationError as error:
    print(error.path)

import sys
from django.conf import settings
assert not settings.configured
assert "vtrr_django.queue" not in sys.modules
"""

NO_HTTPX = """
import sys
sys.modules["httpx"] = None
from vtrr_django import ConfigurationError
from vtrr_django.client import Liteworks
for arguments in ({"base_url": "https://jobs.test"}, {}):
    try:
        Liteworks(**arguments)
    except ConfigurationError as error:
        print(error)
"""


def python(code: str) -> str:
    env = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_all_works_without_settings() -> None:
    assert python(RUN).splitlines() == [
        "kept a",
        "shouted b 0",
        "2 0",
        "<RemoteQueue 'default' at https://jobs.test>",
        "scheduled_at",
    ]


def test_what_is_missing_is_said() -> None:
    no_httpx, no_settings = python(NO_HTTPX).splitlines()
    assert 'pip install "vtrr-django[client]"' in no_httpx
    assert "DJANGO_SETTINGS_MODULE" in no_settings
    assert "base_url" in no_settings


@pytest.mark.parametrize("module", ["vtrr_django", "vtrr_django.client", "vtrr_django.tasks"])
def test_importing_needs_no_settings(module: str) -> None:
    assert python(f"import {module}; print({module}.__name__)").strip() == module
