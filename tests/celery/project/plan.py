"""What a run of the project is: the queues, their store and the broker.

A test writes it into the environment; the processes it starts read it there.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any

VARIABLE = "VTRR_TEST_CELERY"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One run.

    Attributes:
        run: begins the names of all queues, so that no two runs meet.
        broker: URL.
        store: settings of every queue that say where its jobs are.
        journal: path of the file in which tasks say what they do.
        queues: further settings, by the short name of the queue.
        celery: settings of Celery, without ``CELERY_``.
        settings: the settings module of the processes.
    """

    run: str
    broker: str
    store: dict[str, Any]
    journal: str
    queues: dict[str, dict[str, Any]]
    celery: dict[str, Any] = field(default_factory=dict)
    settings: str

    def name_of(self, queue: str) -> str:
        return f"{self.run}-{queue}"

    def vtrr(self) -> dict[str, Any]:
        """Return ``settings.VTRR``."""
        return {
            "QUEUES": {
                self.name_of(queue): {
                    **self.store,
                    "CELERY_QUEUE": self.name_of(queue),
                    "LEASE_SECONDS": 2,
                    "RECLAIM_INTERVAL": 0.5,
                    **more,
                }
                for queue, more in self.queues.items()
            }
        }

    def environment(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}


def current() -> Plan:
    """Return the plan of this process."""
    return Plan(**json.loads(os.environ[VARIABLE]))
