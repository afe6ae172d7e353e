"""From what a caller says about a job to the value an engine stores: all checks are here."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.utils import timezone

from vtrr_django.domain import values as checks
from vtrr_django.domain.config import Shares
from vtrr_django.domain.ids import new_job_ids
from vtrr_django.domain.job import NewJob, check_same_job
from vtrr_django.domain.payload import dump_payload, load_payload
from vtrr_django.exceptions import ConfigurationError, ValidationError

_MOST_HAVE = frozenset(("args", "kwargs", "weight"))
"""What an item of a bulk says, mostly; the checks of the rest take longer than these."""


def new_job(
    task_name: str,
    item: Mapping[str, Any],
    partition_key: str,
    *,
    fresh_id: str,
    max_bytes: int,
    path: str = "",
) -> NewJob:
    """Build a job out of an item of ``.queue(tasks=[...])`` or the like.

    Raises:
        ValidationError: naming the culprit below ``path``.
    """
    prefix = f"{path}." if path else ""
    payload = dump_payload(
        item.get("args", []), item.get("kwargs", {}), max_bytes=max_bytes, path=path
    )
    weight = 1
    if "weight" in item:
        weight = checks.check_weight(item["weight"], prefix + "weight")
    if _MOST_HAVE.issuperset(item):
        return NewJob(
            id=fresh_id,
            task_name=task_name,
            payload=payload,
            partition_key=partition_key,
            weight=weight,
        )

    def given(name: str, check: Callable[[Any, str], Any], default: Any = None) -> Any:
        value = item.get(name)
        return default if value is None else check(value, prefix + name)

    delay = given("delay", checks.check_delay)
    due_at = given("scheduled_at", _check_due_at)
    if delay is not None and due_at is not None:
        raise ValidationError(prefix + "delay", "expected delay or scheduled_at, got both")
    own_id = given("id", checks.check_job_id)
    return NewJob(
        id=fresh_id if own_id is None else own_id,
        given_id=own_id is not None,
        task_name=task_name,
        payload=payload,
        partition_key=partition_key,
        weight=weight,
        priority=checks.check_priority(item.get("priority", 0), prefix + "priority"),
        delay=delay,
        due_at=due_at,
        msg_id=given("msg_id", checks.check_msg_id),
        parent_id=given("parent_id", checks.check_parent_id),
    )


def named_jobs(items: Sequence[Mapping[str, Any]], *, max_bytes: int, path: str) -> list[NewJob]:
    """Build jobs out of items that say their ``task``, and perhaps their ``partition_key``, too.

    Args:
        items: as for :func:`new_job`, besides.
        max_bytes: longest payload.
        path: of the list of items; "": there is one item, which needs no path.

    Raises:
        ValidationError: naming the culprit, such as ``jobs[3].weight``.
    """
    jobs = []
    for index, (item, fresh_id) in enumerate(zip(items, new_job_ids(len(items)), strict=True)):
        where = f"{path}[{index}]" if path else ""
        prefix = f"{where}." if where else ""
        task_name = checks.check_task_name(item.get("task"), prefix + "task")
        key = checks.check_partition_key(
            item.get("partition_key", ""), prefix + "partition_key", required=False
        )
        jobs.append(
            new_job(task_name, item, key, fresh_id=fresh_id, max_bytes=max_bytes, path=where)
        )
    return jobs


def copy_of(letter: NewJob, fresh_id: str, once: str | None = None) -> NewJob:
    """Return a new job like a dead letter, whose child it is.

    Args:
        letter: the dead letter.
        fresh_id: the id of the new job.
        once: if given, the id is made of this and the letter's instead.

    Raises:
        ValidationError: somebody has spoilt it, so that it cannot be run.
    """
    try:
        checks.check_task_name(letter.task_name, "task_name")
        checks.check_partition_key(letter.partition_key, "partition_key", required=False)
        load_payload(letter.payload)
    except ValidationError as error:
        # What it says may quote arguments, which not everybody may see.
        raise ValidationError(
            f"dead letter {letter.id}",
            f"expected a job that can run, got one whose {error.path} somebody has spoilt; "
            "discard it, and enqueue what was meant anew",
        ) from error
    if once is not None:
        fresh_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"vtrr_django/{once}/{letter.id}"))
    return letter._replace(id=fresh_id, parent_id=letter.id, msg_id=None, given_id=once is not None)


class Waiting:
    """Jobs of one enqueue that wait for the commit of the default database's transaction.

    Django drops the callbacks of a savepoint that is rolled back, and they are its last ones.
    So the last that is left tells which jobs an enqueue in the same transaction must know of.
    """

    def __init__(self, queue: str, jobs: Sequence[NewJob], store: Callable[[], object]) -> None:
        self.queue = queue
        self.jobs = list(jobs)
        self._store = store
        # Of all jobs that wait, these the last of them; None as long as nobody has asked.
        self._names: _Names | None = None
        self._count = 0

    def __call__(self) -> None:
        self._store()

    def ids(self, known: Sequence[str | None]) -> list[str]:
        """Return the ids of the jobs, or of those that they are; once, before this waits.

        Args:
            known: ids of the stored jobs that they are.

        Raises:
            DuplicateJobError: a different job that waits has the id of one.
        """
        if not any(job.given_id or job.msg_id is not None for job in self.jobs):
            return [job.id for job in self.jobs]
        names = self._names_before()
        found = [names.take(job, stored) for job, stored in zip(self.jobs, known, strict=True)]
        self._names, self._count = names, len(names)
        return found

    def _names_before(self) -> _Names:
        """Return the names of the jobs that wait before these.

        All calls in one transaction take as long as one walk over its callbacks.
        """
        names, unread = _Names(), []
        for entry in reversed(connections[DEFAULT_DB_ALIAS].run_on_commit):
            one = entry[1]
            if not isinstance(one, Waiting) or one.queue != self.queue:
                continue
            if one._names is not None:
                names = one._names
                names.cut(one._count)
                break
            unread.append(one)
        for one in reversed(unread):
            for job in one.jobs:
                names.add(job)
        return names


class _Names:
    """Ids and msg_ids of jobs that wait, the last of which can be forgotten again."""

    def __init__(self) -> None:
        self._by_id: dict[str, NewJob] = {}
        self._by_msg_id: dict[str, str] = {}
        self._added: list[NewJob] = []

    def __len__(self) -> int:
        return len(self._added)

    def cut(self, count: int) -> None:
        """Forget all but the first ``count`` jobs."""
        while len(self._added) > count:
            job = self._added.pop()
            del self._by_id[job.id]
            if job.msg_id is not None:
                del self._by_msg_id[job.msg_id]

    def take(self, job: NewJob, stored: str | None) -> str:
        """Return the id of ``job``, or of the job that it is; add it if it is a new one.

        Raises:
            DuplicateJobError: its id is that of a different one.
        """
        other = self._by_id.get(job.id)
        if other is not None:
            check_same_job(job, other.partition_key, other.task_name, other.payload)
            return job.id
        if stored is None and job.msg_id is not None:
            stored = self._by_msg_id.get(job.msg_id)
        if stored is None:
            self.add(job)
        return stored or job.id

    def add(self, job: NewJob) -> None:
        """Add a job none of whose names is known."""
        self._by_id[job.id] = job
        if job.msg_id is not None:
            self._by_msg_id[job.msg_id] = job.id
        self._added.append(job)


def _check_due_at(value: Any, path: str) -> datetime:
    # A client of the HTTP API may have no settings.
    naive = isinstance(value, datetime) and timezone.is_naive(value)
    if naive and settings.configured and not settings.USE_TZ:
        value = timezone.make_aware(value)
    return checks.check_due_at(value, path)


def declared_shares(shares: Shares | None, keys: Iterable[str]) -> dict[str, float]:
    """Return what ``SHARES`` says about partitions; those it does not name are 1.

    Raises:
        ValidationError: the callable returned something that is no share.
        ConfigurationError: the callable raised.
    """
    if shares is None:
        return {}
    ask = shares if callable(shares) else shares.get
    found = {}
    for key in keys:
        try:
            share = ask(key)
        except Exception as error:
            # Not what it says: it may quote anything, and this is shown to whoever steers.
            raise ConfigurationError(
                f"SHARES: expected {_name(ask)} to return a share for partition {key!r}, got "
                f"{type(error).__name__}"
            ) from error
        found[key] = 1.0 if share is None else checks.check_share(share, f"SHARES[{key!r}]")
    return found


def _name(ask: object) -> str:
    """Return the dotted path of a function, or of the class of another callable."""
    named = ask if hasattr(ask, "__qualname__") else type(ask)
    return f"{named.__module__}.{named.__qualname__}"
