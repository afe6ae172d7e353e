"""What the processes of these tests do."""

from __future__ import annotations

from typing import Any

from tests.races.child import Part
from tests.races.roles import Note
from vtrr_django.worker import upkeep


def work(part: Part) -> None:
    """Run a worker that says ten times a second that it is alive."""
    upkeep.MEASURE_INTERVAL = 0.1

    @part.queue.handler
    def note(message: Note) -> None:
        part.say("run", message.number)
        part.wait_for("finish")

    worker = part.queue.worker(poll_interval=0.02, backoff_interval=0.02, worker_id="me")
    worker.install_signal_handlers()
    part.say("begun")
    worker.run()


def work_and_hang(part: Part) -> None:
    """Do the same; but whoever would lease hangs until the flag "go on"."""
    queue: Any = part.queue
    lease = queue.finish_and_lease

    def hang(*args: Any, **options: Any) -> Any:
        part.wait_for("go on")
        return lease(*args, **options)

    queue.finish_and_lease = hang
    work(part)
