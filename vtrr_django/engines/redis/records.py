"""What the hashes say of jobs, for people: whatever somebody has spoilt, it can be shown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from vtrr_django.domain.job import JobInfo
from vtrr_django.domain.states import State
from vtrr_django.engines.redis import wire
from vtrr_django.engines.redis.commands import Commands
from vtrr_django.engines.sql.fields import from_microseconds

_HASHES = ("meta", "details", "timeouts", "lease_info")


class Found(NamedTuple):
    """A job somebody came across.

    Attributes:
        id: of the job.
        second: when it is due, or its lease runs out; None: it is ready, or this is not known.
        partition_key: in whose line it stood, should the job itself not say.
    """

    id: str
    second: float | None = None
    partition_key: str = ""

    @property
    def order(self) -> tuple[float, str]:
        """Where it is among those that have their time."""
        return self.second or 0.0, self.id


class Records:
    """The records of one queue's jobs."""

    def __init__(self, name: str, commands: Commands) -> None:
        self.name = name
        self._commands = commands

    def read(self, state: State, found: Sequence[Found]) -> list[JobInfo]:
        """Return those of the jobs that still are where they were found."""
        if not found:
            return []
        keys, ids = self._commands.keys, [one.id for one in found]
        task = "inflight_task" if state is State.LEASED else "task"
        replies = self._commands.look(*(("HMGET", keys[key], *ids) for key in (task, *_HASHES)))
        return [
            self._info(state, one, task, records)
            for one, task, *records in zip(found, *replies, strict=True)
            if task is not None
        ]

    def _info(
        self, state: State, found: Found, task: bytes, records: Sequence[bytes | None]
    ) -> JobInfo:
        meta, details, timeouts, lease = map(as_text, records)
        task_name, payload = wire.split_task(as_text(task))
        key, weight, priority, created, joined = _read_meta(meta, found.partition_key)
        deliveries, parent_id, msg_id = wire.read_details(details)
        second = None if found.second is None else _moment(found.second * 1e6)
        leased_at, worker = _read_lease(lease) if state is State.LEASED else (None, None)
        return JobInfo(
            id=found.id,
            queue=self.name,
            state=state,
            task_name=task_name,
            payload=payload,
            partition_key=key,
            weight=weight,
            priority=priority,
            delivery_count=deliveries,
            timeouts=int(timeouts) if timeouts.isdecimal() else 0,
            msg_id=msg_id,
            parent_id=parent_id,
            enqueued_at=_moment(created),
            ready_at=second if state is State.SCHEDULED else _moment(joined),
            worker_id=worker,
            leased_at=leased_at,
            lease_expires_at=second if state is State.LEASED else None,
        )


def as_text(value: Any) -> str:
    """Return bytes as text, what is none in them replaced; nothing as ""."""
    return "" if value is None else bytes(value).decode("utf-8", "replace")


def _read_meta(meta: str, partition_key: str) -> tuple[str, int, int, int, int]:
    try:
        return wire.read_meta(meta)
    except ValueError:
        return partition_key, 1, 0, 0, 0


def _read_lease(info: str) -> tuple[datetime | None, str | None]:
    claimed, _, rest = info.partition(" ")
    worker = rest.partition(" ")[2]
    return _moment(int(claimed) if claimed.isdecimal() else 0), worker or None


def _moment(microseconds: float) -> datetime | None:
    """Return a moment; None for 0, which stands for none, and for what no calendar has."""
    try:
        return from_microseconds(round(microseconds)) if microseconds else None
    except (OverflowError, ValueError):
        return None
