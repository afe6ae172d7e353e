"""Jobs as the scripts take and return them.

Redis clients may decode responses or not; :func:`text` takes both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from vtrr_django.domain.job import (
    MAX_ID_LENGTH,
    MAX_PARTITION_KEY_LENGTH,
    MAX_TASK_NAME_LENGTH,
    LeasedJob,
    NewJob,
    Outcome,
    OutcomeKind,
    Reclaimed,
)
from vtrr_django.domain.parts import packed, parts
from vtrr_django.domain.payload import load_payload
from vtrr_django.engines.sql.fields import from_microseconds, to_microseconds
from vtrr_django.engines.sql.history import Death, End, Ended, timed_out

BATCH_JOBS: Final = 125
ROW_JOBS: Final = 1000
BATCH_CHARACTERS: Final = 2_000_000
"""Bounds of what one script stores, so that it holds up Redis for a few milliseconds; jobs of a
row (see :func:`is_row`) take less of them."""

LEAST_ROW: Final = 32
"""Fewest plain jobs of one partition that are packed here rather than by a script."""

_NORMAL = 100  # the first two digits of the places of priority 0
_FIELD, _ITEM = "\x1f", "\x1e"
"""ASCII's unit and record separators; no field contains a control character."""

_NOTHING = (None, None, None, 0)
_PRIORITY_DIGITS = 2
_is_uuid = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){4}[0-9a-f]{8}").fullmatch
_EPOCH = 1_577_836_800_000_000  # as in clock.lua


UNREADABLE: Final = (ValueError, LookupError, TypeError, RecursionError)
"""What reading a task may raise that somebody has spoilt."""


def text(value: Any) -> str:
    """Return a reply, or a part of one, as text; what is none in it is replaced."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def sound(value: str) -> str:
    """Return what JSON held as text that can be stored and sent: without lone surrogates."""
    return value.encode("utf-8", "replace").decode()


# -- coming in ---------------------------------------------------------------------


def task_json(task_name: str, payload: str) -> str:
    """Return what the ``task`` hash holds: the payload with the task's name in front."""
    name = json.dumps(task_name, ensure_ascii=False)
    return f'{{"task_name":{name},{payload[1:]}'


def split_task(task: str) -> tuple[str, str]:
    """Return a task's name and its payload, as they were before :func:`task_json`.

    vtrr-queue's JSON has other spaces. What cannot be read comes as it is and without a name:
    that somebody has spoilt one job must not keep those behind it from their history.
    """
    prefix = '{"task_name":'
    try:
        if task.startswith(f'{prefix}"'):
            name, end = json.JSONDecoder().raw_decode(task, len(prefix))
            return sound(name), "{" + task[end + 1 :]
        body = json.loads(task)
        name, rest = str(body["task_name"]), {"args": body["args"], "kwargs": body["kwargs"]}
    except UNREADABLE:
        return "", task
    return sound(name), sound(json.dumps(rest, ensure_ascii=False, separators=(",", ":")))


def encode_job(job: NewJob) -> str:
    """Return one job as ``storing.lua`` reads it."""
    due = ""
    if job.due_at is not None:
        due = str(to_microseconds(job.due_at))
    elif job.delay:
        due = f"+{round(job.delay * 1_000_000)}"
    names = _FIELD * 2
    if not _is_nameless(job):
        given = "1" if job.given_id else "0"
        names = _FIELD.join([given, job.parent_id or "", job.msg_id or ""])
    task = task_json(job.task_name, job.payload)
    deliveries = job.delivery_count or ""
    return (
        f"{job.id}\x1f{job.partition_key}\x1f{job.weight}\x1f{job.priority}\x1f{due}\x1f{task}"
        f"\x1f{names}\x1f{deliveries}\x1e"
    )


def encode_jobs(jobs: Iterable[NewJob]) -> str:
    """Return jobs as ``storing.lua`` reads them."""
    return "".join(map(encode_job, jobs))


def encode_shares(shares: Mapping[str, float]) -> str:
    """Return declared shares as ``storing.lua`` reads them."""
    return "".join(f"{key}{_FIELD}{share:.17g}{_ITEM}" for key, share in shares.items())


def encode_ids(ids: Iterable[str]) -> str:
    """Return ids as the scripts read a list of them."""
    return "".join(f"{one}{_ITEM}" for one in ids)


def batches(jobs: Sequence[NewJob], row: bool | None = None) -> Iterator[list[NewJob]]:
    """Cut jobs into what one script may store.

    Args:
        jobs: the jobs.
        row: what :func:`is_row` says of them; None: not asked yet.
    """
    most = ROW_JOBS if (is_row(jobs) if row is None else row) else BATCH_JOBS
    for part in parts(jobs, most):
        if sum([len(job.payload) for job in part]) <= BATCH_CHARACTERS:
            yield list(part)
        else:
            yield from packed(part, lambda job: len(job.payload), largest=BATCH_CHARACTERS)


def is_plain(job: NewJob) -> bool:
    """Return whether a job is ready at once and there are no details about it."""
    return not job.delay and job.due_at is None and _is_nameless(job)


def _is_nameless(job: NewJob) -> bool:
    """Return whether a job has no name or parent of its caller's, and used no attempt."""
    return (
        not job.given_id and job.msg_id is None and job.parent_id is None and not job.delivery_count
    )


def is_row(jobs: Sequence[NewJob]) -> bool:
    """Return whether these are many plain jobs of one task and partition: most bulks are."""
    if len(jobs) < LEAST_ROW:
        return False
    key, name = jobs[0].partition_key, jobs[0].task_name
    for job in jobs:
        # As is_plain(), without a call for each of very many.
        if (
            job.priority
            or job.delay
            or job.given_id
            or job.partition_key != key
            or job.task_name != name
            or (job.due_at, job.msg_id, job.parent_id, job.delivery_count) != _NOTHING
            or not _is_uuid(job.id)
        ):
            return False
    return True


def encode_plain(job: NewJob, share: float | None) -> tuple[str, str, int, int, str, str]:
    """Return a plain job as ``put.lua`` takes it."""
    declared = "" if share is None else f"{share:.17g}"
    task = task_json(job.task_name, job.payload)
    return job.id, job.partition_key, job.weight, job.priority, task, declared


@dataclass(frozen=True, slots=True)
class Row:
    """Many jobs of one partition with their places, as the hashes and ``rows.lua`` take them.

    Attributes:
        ids: of the jobs.
        tasks: ids and values of the ``task`` hash, in turn.
        metas: ids and values of the ``meta`` hash, in turn.
        packed: what ``rows.lua`` reads.
    """

    ids: list[str]
    tasks: list[str]
    metas: list[str]
    packed: bytes

    def hashes(self, keys: Mapping[str, str]) -> list[tuple[str, ...]]:
        """Return the commands that write the jobs' hashes."""
        return [("HSET", keys["task"], *self.tasks), ("HSET", keys["meta"], *self.metas)]

    def laid(self) -> bytes:
        """Return the row as ``stage.lua`` lays it aside."""
        return b"R" + self.packed


def encode_row(jobs: Sequence[NewJob], first_tick: int, share: float | None) -> Row:
    """Return jobs that :func:`is_row` with the places that ``reserve.lua`` gave them.

    Args:
        jobs: the jobs.
        first_tick: where their places begin.
        share: what ``SHARES`` declares for their partition, or None.
    """
    key = jobs[0].partition_key
    tasks: list[str] = []
    metas: list[str] = []
    entries: list[bytes] = []
    name = json.dumps(jobs[0].task_name, ensure_ascii=False)
    start = f'{{"task_name":{name},'
    for place, job in enumerate(jobs, _NORMAL << 48 | first_tick):
        tasks += (job.id, start + job.payload[1:])
        metas += (job.id, f"{job.weight},{place:014x}:{key}")
        entries.append(place.to_bytes(7, "big") + bytes.fromhex(job.id.replace("-", "")))
    encoded_key = key.encode()
    declared = "-" if share is None else f"{share:.17g}"
    head = f"{declared} {len(encoded_key)} ".encode()
    return Row(tasks[::2], tasks, metas, head + encoded_key + b"".join(entries))


# -- ends --------------------------------------------------------------------------


def encode_outcome(outcome: Outcome) -> tuple[str, ...]:
    """Return the end of a lease as ``finish()`` in ``ends.lua`` takes it."""
    return (
        outcome.kind.value,
        outcome.job_id,
        outcome.token,
        str(round(outcome.delay * 1_000_000)),
        "" if outcome.runtime is None else repr(float(outcome.runtime)),
        outcome.reason,
        outcome.error_class,
        outcome.traceback,
    )


def decode_reclaimed(reply: Sequence[Any]) -> list[Reclaimed]:
    """Read what ``reclaim()`` in ``returns.lua`` returned."""
    return [
        Reclaimed(
            job_id=text(job_id),
            partition_key=text(key),
            task_name=split_task(text(task))[0],
            timeouts=int(timeouts),
            dead=text(dead) == "1",
        )
        for job_id, key, task, timeouts, dead in zip(*[iter(reply)] * 5, strict=True)
    ]


def decode_leased(
    queue: str, reply: Sequence[Any], expires: int
) -> tuple[list[LeasedJob], list[Outcome]]:
    """Read what ``lease()`` in ``leasing.lua`` returned.

    Returns:
        the jobs; and how those are to end whose payload somebody else has spoilt.
    """
    jobs: list[LeasedJob] = []
    spoilt: list[Outcome] = []
    expires_at = from_microseconds(expires)
    for values in zip(*[iter(reply)] * 6, strict=True):
        job_id, _, meta, timeouts, details, token = map(text, values)
        try:
            body = json.loads(values[1].decode())  # bytes, it would take in other encodings
            name, args, kwargs = body["task_name"], body["args"], body["kwargs"]
        except UNREADABLE as error:
            reason = (
                'expected the payload in Redis to be JSON {"task_name": …, "args": …, "kwargs": …}'
                f", got something else ({type(error).__name__}); it cannot be run. See the payload "
                "of the dead letter"
            )
            fail = OutcomeKind.FAIL
            spoilt.append(Outcome(kind=fail, job_id=job_id, token=token, reason=reason))
            continue
        key, weight, priority, created, joined = read_meta(meta)
        deliveries, parent, msg_id = read_details(details)
        jobs.append(
            LeasedJob(
                id=job_id,
                queue=queue,
                task_name=name,
                args=args,
                kwargs=kwargs,
                partition_key=key,
                weight=weight,
                priority=priority,
                token=token,
                delivery_count=deliveries,
                timeouts=int(timeouts or 0),
                enqueued_at=from_microseconds(created),
                lease_expires_at=expires_at,
                parent_id=parent,
                msg_id=msg_id,
                ready_at=from_microseconds(joined) if joined else None,
            )
        )
    return jobs, spoilt


def _fitting(name: str, longest: int) -> str:
    return name.replace("\x00", "\N{REPLACEMENT CHARACTER}")[:longest]


def read_meta(meta: str) -> tuple[str, int, int, int, int]:
    """Read ``meta``: partition key, weight, priority, enqueued and joined (microseconds)."""
    head, _, key = meta.partition(":")
    weight, _, rest = head.partition(",")
    if not rest:  # by vtrr-queue 0.2
        return key, int(weight), 0, 0, 0
    place, _, own = rest.partition(",")
    joined = _EPOCH + 10 * int(place[_PRIORITY_DIGITS:], 16)
    created = int(own.partition(",")[0]) if own else joined
    return key, int(weight), 100 - int(place[:_PRIORITY_DIGITS], 16), created, joined


def read_details(details: str) -> tuple[int, str | None, str | None]:
    """Read ``details``: attempts used, parent_id, msg_id; of what somebody has spoilt, nothing."""
    try:
        deliveries, _, parent, msg_id = details.split(" ", 3)
        return int(deliveries), parent or None, msg_id or None
    except ValueError:
        return 0, None, None


def decode_entry(fields: Sequence[Any] | Mapping[Any, Any]) -> End:
    """Read one entry of an outbox, written by ``send_to_history()`` in ``ends.lua``."""
    if isinstance(fields, Mapping):
        entry = {text(name): text(value) for name, value in fields.items()}
    else:
        values = list(map(text, fields))
        entry = dict(zip(values[::2], values[1::2], strict=True))
    told = entry["job"].split(_FIELD)
    job_id, task, meta, info, runtime, ended, details, timeouts = told
    task_name, payload = split_task(task)
    key, weight, priority, created, joined = read_meta(meta)
    deliveries, parent, msg_id = read_details(details)
    claimed, _, worker = info.split(" ", 2)
    job = Ended(
        seq=0,
        token="",
        # vtrr-queue checks no names, and one that does not fit must not hold up all others.
        id=_fitting(job_id, MAX_ID_LENGTH),
        partition_key=_fitting(key, MAX_PARTITION_KEY_LENGTH),
        task_name=_fitting(task_name, MAX_TASK_NAME_LENGTH),
        payload=payload,
        weight=weight,
        precedence=-priority,
        delivery_count=deliveries,
        timeouts=int(timeouts or 0),
        msg_id=msg_id,
        parent_id=parent,
        claimed_by=worker,
        # A bulk's moments are a little ahead: its jobs are told apart by them.
        created_at=min(created or int(claimed), int(claimed)),
        scheduled_at=min(joined or int(claimed), int(claimed)),
        claimed_at=int(claimed),
        charged=0.0,
    )
    kind = entry.get("kind")
    if kind == "timeout":
        return timed_out(job, int(ended))
    death = None
    if kind is not None:
        death = Death(
            reason=entry["reason"],
            error_class=entry["error_class"],
            traceback=entry["traceback"],
        )
    return End(job=job, at=int(ended), runtime=float(runtime), death=death)


def same_payload(task: str, job: NewJob) -> tuple[str, str]:
    """Return name and payload of a stored task, in the text of ``job`` where they are equal."""
    name, payload = split_task(task)
    if payload != job.payload and load_payload(payload) == load_payload(job.payload):
        payload = job.payload
    return name, payload
