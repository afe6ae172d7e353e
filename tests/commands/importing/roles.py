"""What the processes of these tests do."""

from __future__ import annotations

import os
import signal
from typing import Any

from django.core.management import call_command

from tests.commands.importing.files import send_email
from tests.races.child import Part
from vtrr_django.contrib.liteworks.takeover import TakeOver


def import_all(part: Part, *, file: str) -> None:
    """Take a file over as soon as all are ready to."""
    part.queue.handler(send_email)
    part.say("ready", part.number)
    part.wait_for("go")
    call_command("vtrr_import_liteworks", file, queue=part.queue.name, apply=True)


def import_and_die(part: Part, *, file: str, step: str, batch: int) -> None:
    """Take a file over, and be killed at a step of one of its batches."""
    part.queue.handler(send_email)
    calls = 0
    real = getattr(TakeOver, step)

    def deadly(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == batch:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)

    setattr(TakeOver, step, deadly)
    call_command("vtrr_import_liteworks", file, queue=part.queue.name, apply=True)
