"""A row of the file as a job of ours, or the reason why it cannot be one."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from vtrr_django.contrib.liteworks.envelope import Envelope, Letter, read_object, shown_keys
from vtrr_django.contrib.liteworks.moments import read_moment
from vtrr_django.contrib.liteworks.names import Names, Target
from vtrr_django.contrib.liteworks.source import COMPLETED, FAILED, Row
from vtrr_django.domain import values as checks
from vtrr_django.domain.job import MAX_WORKER_ID_LENGTH, NewJob
from vtrr_django.domain.payload import dump_payload
from vtrr_django.exceptions import ValidationError
from vtrr_django.worker.describe import MAX_REASON, MAX_TRACEBACK, storable

_SOME: Final = 3

_DIGEST = re.compile("liteworks-[0-9a-f]{32}")

_TRACEBACK: Final = "Traceback (most recent call last)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tenant:
    """Which partition jobs belong to.

    Attributes:
        key: all of them.
        field: the one named by this field of their data, a path with dots; None: ``key``.
    """

    key: str = ""
    field: str | None = None

    def of(self, data: dict[str, Any]) -> str:
        """Return the partition key of a job.

        Raises:
            ValidationError: its data names none.
        """
        if self.field is None:
            return self.key
        value: Any = data
        for part in self.field.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise ValidationError(
                f"payload.{self.field}",
                f"expected text or a whole number, to tell the partition, got "
                f"{checks.describe(value)}; give another --partition-field, or --partition",
            )
        return checks.check_partition_key(value, f"payload.{self.field}", required=False)


class Ended(NamedTuple):
    """A job that has ended, with the columns of its table in the history.

    Attributes:
        id: of the job.
        task_name: what ran it.
        columns: all but ``queue``; moments are aware.
    """

    id: str
    task_name: str
    columns: dict[str, Any]


class Reader:
    """Understands the rows of one file.

    Args:
        names: of messages and tasks.
        envelope: how payloads are put.
        tenant: whose the jobs are.
        source: of the liteworks queue; ids that are unique only there are told apart by it.
        prefix_ids: all ids are unique only there, not just those that are mere numbers.
        contested_ids: those of the file that another row's may become, with ``source`` in front.
        max_bytes: longest payload.
        repeated_msg_ids: those that several waiting jobs have.
        now: jobs due before are ready.

    Attributes:
        without_msg_id: waiting jobs that had to do without theirs.
        renamed: some ids that could not stay as they are, and what they are now.
    """

    def __init__(
        self,
        names: Names,
        envelope: Envelope,
        tenant: Tenant,
        *,
        source: str,
        prefix_ids: bool,
        contested_ids: set[str],
        max_bytes: int,
        repeated_msg_ids: set[str],
        now: datetime,
    ) -> None:
        self.names = names
        self._envelope = envelope
        self._tenant = tenant
        self._source = source
        self._prefix_ids = prefix_ids
        self._contested = contested_ids
        self._max_bytes = max_bytes
        self._repeated = repeated_msg_ids
        self._now = now
        self._seen: set[str] = set()
        self._became: dict[str, str] = {}
        self.without_msg_id = 0
        self.renamed: dict[str, str] = {}

    def start(self) -> None:
        """Begin with the first row again."""
        self._seen.clear()
        self._became.clear()
        self.names.unknown_fields.clear()
        self.without_msg_id = 0

    # -- rows --------------------------------------------------------------------------

    def job(self, row: Row) -> NewJob:
        """Return a waiting job. Its claim, if somebody has one, is not part of it.

        Raises:
            ValidationError: it cannot be understood, or not be stored.
        """
        if row.shares_id:
            raise ValidationError("id", f"expected it to be unique in {row.table}, got a repeat")
        target, key, payload = self._work(row)
        due_at = self._moment(row, "scheduled_at")
        job = NewJob(
            id=self._id(row),
            task_name=target.name,
            payload=payload,
            partition_key=key,
            due_at=due_at if due_at > self._now else None,
            msg_id=self._msg_id(row),
            parent_id=self._parent_id(row),
            given_id=True,
            delivery_count=self._count(row),
        )
        # What is refused for another reason takes no other row's id or msg_id.
        self._become(row, job.id)
        return job._replace(msg_id=self._once(job.msg_id))

    def ended(self, row: Row) -> Ended:
        """Return a dead letter, or a completed job.

        Raises:
            ValidationError: it cannot be understood, or not be stored.
        """
        target, key, payload = self._work(row)
        moment = "failed_at" if row.table == FAILED else "completed_at"
        at = self._moment(row, moment)
        claimed_at = self._moment_or_none(row, "claimed_at")
        ready_at = self._moment_or_none(row, "scheduled_at") or claimed_at or at
        worker = row.values.get("worker_id") or row.values["claimed_by"]
        own_id = self._id(row)
        job_id = self._ended_id(row, own_id, at) if row.shares_id else own_id
        columns = {
            "id": job_id,
            "partition_key": key,
            "task_name": target.name,
            "payload": payload,
            "delivery_count": self._count(row),
            "msg_id": self._msg_id(row),
            "parent_id": self._parent_id(row),
            "worker_id": storable(_lenient(worker), MAX_WORKER_ID_LENGTH),
            "created_at": self._moment_or_none(row, "created_at") or ready_at,
            "ready_at": ready_at,
            "claimed_at": claimed_at,
            "runtime": None if claimed_at is None else max(0.0, (at - claimed_at).total_seconds()),
            moment: at,
        }
        if row.table == FAILED:
            columns |= _cause(_lenient(row.values["reason"]))
        self._become(row, own_id)
        return Ended(job_id, target.name, columns)

    # -- what is to run ----------------------------------------------------------------

    def _work(self, row: Row) -> tuple[Target, str, str]:
        """Return what runs a job, whose it is, and its payload as it is stored."""
        text = row.text("payload")
        if text is None:
            raise ValidationError("payload", "expected JSON, got NULL")
        body = read_object(text)
        only = self.names.only
        letter = self._envelope.open(body, only.fields if only else ())
        # What a completed job was is only looked at; everything else runs, or may run again.
        target = self._target(letter, may_be_unknown=row.table == COMPLETED)
        payload = dump_payload([], letter.data, max_bytes=self._max_bytes, path="payload")
        if row.table != COMPLETED:
            self.names.check(target, letter.data)
        return target, self._tenant.of(letter.data), payload

    def _target(self, letter: Letter, *, may_be_unknown: bool) -> Target:
        only, name = self.names.only, letter.type_name
        if only is not None:
            if name is not None and not self.names.is_of(name, only):
                raise ValidationError(
                    "payload",
                    f"expected {checks.with_article(only.name)}, as --task says, got the type "
                    f"{checks.describe(name)}; leave --task out, and say which types are which "
                    "with --map TYPE=NAME",
                )
            return only
        if name is None:
            raise ValidationError(
                "payload",
                f"expected a message type, got {shown_keys(letter.data)}; name the key that holds "
                "it with --type-key, or say what all jobs are with --task NAME",
            )
        try:
            return self.names.of(name)
        except ValidationError:
            if may_be_unknown:
                return Target(checks.check_task_name(name, "payload"))
            raise

    # -- ids ---------------------------------------------------------------------------

    def _id(self, row: Row) -> str:
        value = row.text("id")
        if not value:
            got = "NULL" if value is None else "nothing"
            raise ValidationError("id", f"expected an id, got {got}")
        return self._own_id(value)

    def _own_id(self, value: str) -> str:
        """Return what liteworks calls a job, where nothing else can have that id."""
        try:
            checks.check_job_id(value, "id")
        except ValidationError:
            return self._derived(value)
        # A number is unique in one file only.
        return self._derived(value) if self._prefix_ids or value.isdecimal() else value

    def _derived(self, value: str) -> str:
        """Return an id out of one that cannot stay as it is; always the same."""
        named = f"{self._source}-{value}"
        try:
            checks.check_job_id(named, "id")
        except ValidationError:
            named = _digest(self._source, value)
        if len(self.renamed) < _SOME:
            self.renamed[value] = named
        return named

    def _become(self, row: Row, job_id: str) -> None:
        """Remember which row has an id, where rows with different ids could come to have it.

        Raises:
            ValidationError: another one has it.
        """
        if job_id not in self._contested and not _DIGEST.fullmatch(job_id):
            return
        value = row.text("id") or ""
        if self._became.setdefault(job_id, value) != value:
            raise ValidationError(
                "id",
                f"expected ids that stay different, got {checks.describe(job_id)}, which another "
                "row of this file becomes; give another name with --source",
            )

    @staticmethod
    def _ended_id(row: Row, own_id: str, at: datetime) -> str:
        """Return an id for the end of a job whose own id another job has, too."""
        return _digest(row.table, own_id, row.text("payload") or "", at.isoformat())

    def _msg_id(self, row: Row) -> str | None:
        return checks.check_msg_id(row.text("msg_id"), "msg_id")

    def _once(self, msg_id: str | None) -> str | None:
        """Return a msg_id the first time; the jobs that repeat it would count as that one."""
        if msg_id not in self._repeated:
            return msg_id
        if msg_id in self._seen:
            self.without_msg_id += 1
            return None
        self._seen.add(msg_id)
        return msg_id

    def _parent_id(self, row: Row) -> str | None:
        value = row.text("parent_id")
        return self._own_id(value) if value else None

    # -- numbers and times -------------------------------------------------------------

    @staticmethod
    def _count(row: Row) -> int:
        value = row.values["delivery_count"]
        return (
            0
            if value is None
            else checks.check_whole(
                row.value("delivery_count"), "delivery_count", 0, checks.MAX_INT32
            )
        )

    @staticmethod
    def _moment(row: Row, column: str) -> datetime:
        return read_moment(row.value(column), column)

    def _moment_or_none(self, row: Row, column: str) -> datetime | None:
        return None if row.values[column] is None else self._moment(row, column)


def _digest(*told: str) -> str:
    digest = hashlib.blake2b("\0".join(told).encode(errors="surrogatepass"), digest_size=16)
    return f"liteworks-{digest.hexdigest()}"


def _lenient(value: Any) -> str:
    """Return what people wrote for people."""
    if value is None:
        return ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _cause(reason: str) -> dict[str, str]:
    """Return why a job failed: its last line is the reason where it is a traceback."""
    lines = reason.strip().splitlines()
    short = lines[-1] if reason.lstrip().startswith(_TRACEBACK) and lines else reason
    long = "" if len(reason) <= MAX_REASON and short == reason else reason
    return {
        "reason": storable(short, MAX_REASON),
        "traceback": storable(long, MAX_TRACEBACK),
    }
