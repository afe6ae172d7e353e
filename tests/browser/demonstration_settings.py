"""The queues of the pictures in the README."""

from typing import Any

SETTINGS: dict[str, Any] = {
    "uploads": {"ENGINE": "orm", "SHARES": {"acme": 2, "globex": 2}},
    "emails": {"ENGINE": "redis"},
    "reports": {"ENGINE": "orm", "PARTITION_LIMIT": 2},
}
