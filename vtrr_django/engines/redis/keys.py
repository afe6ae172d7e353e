"""The names of a queue's keys; no other module and no script builds one."""

from __future__ import annotations

from typing import Final

KEYS: Final = {
    # Operators read these with redis-cli: names and types are a public contract.
    "queue": "zset",
    "current_virtual_time": "string",
    "partition_virtual_time": "hash",
    "task": "hash",
    "meta": "hash",
    "inflight": "zset",
    "inflight_task": "hash",
    "lease": "hash",
    "timeouts": "hash",
    # The rest of the state.
    "line": "zset",
    "backlog": "zset",
    "waiting": "zset",
    "scheduled": "zset",
    "partition": "hash",
    "settings": "hash",
    "details": "hash",
    "lease_info": "hash",
    "average": "hash",
    "state": "hash",
    "msg_id": "hash",
    "finished": "zset",
    "staged": "hash",
    "outbox_completed": "stream",
    "outbox_failed": "stream",
}
"""Every key of a queue, and its type."""


def key_names(queue: str, *, hash_tag: bool) -> dict[str, str]:
    """Return the full name of each key of one queue.

    Args:
        queue: the queue's name.
        hash_tag: whether to put braces round it, so that Redis Cluster keeps all keys of
            the queue in one slot.
    """
    prefix = f"vtrr:{{{queue}}}" if hash_tag else f"vtrr:{queue}"
    return {key: f"{prefix}:{key}" for key in KEYS}
