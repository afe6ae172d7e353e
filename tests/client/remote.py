"""What a process without Django settings runs: ``python -m tests.client.remote PLAN``.

The plan is JSON: url, secret, queue, visibility_timeout, worker_id, journal.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.races.journal import Journal
from vtrr_django.client import RemoteQueue

JOB_SECONDS = 0.03
"""Long enough that a worker leases one job at a time."""


@dataclass
class Upload:
    tenant: str
    number: int


def main(plan: dict[str, Any]) -> None:
    logging.basicConfig(level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    journal = Journal(Path(plan["journal"]))
    queue = RemoteQueue(
        plan["queue"],
        base_url=plan["url"],
        secret=plan["secret"],
        visibility_timeout=plan["visibility_timeout"],
    )
    busy = threading.Event()

    @queue.handler
    def upload(message: Upload) -> None:
        journal.say("start", message.tenant, message.number, plan["worker_id"])
        busy.wait(JOB_SECONDS)

    worker = queue.worker(worker_id=plan["worker_id"], poll_interval=0.1, backoff_interval=0.2)
    worker.install_signal_handlers()
    summary = worker.run()
    queue.close()

    from django.conf import settings

    assert not settings.configured
    sys.stdout.write(json.dumps(asdict(summary)) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
