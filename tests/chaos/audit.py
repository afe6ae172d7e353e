"""Whether a journal and what is left in the store fit together.

A verb that was told of before it acted, and not after, was cut off: it may have happened.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.races.journal import Entry

Rows = dict[str, list[dict[str, Any]]]


@dataclass(slots=True)
class Lease:
    """One lease, as its holder told of it.

    Attributes:
        line: where the journal tells of it.
        ending_at: the first line of the call that ended it.
        ended: how it ended; None: it ran out, or its end was cut off.
        cut_off: ways to end it that were tried with no answer told.
        renewed_at: the first line of the last renewal that was answered True.
        after: verbs that were answered True though it had ended before they began.
    """

    job_id: str
    token: str
    expires: float
    partition_key: str
    worker_id: str
    line: int
    ending_at: int = 0
    renewed_at: int = 0
    ended: str | None = None
    ended_at: int = 0
    cut_off: Counter[str] = field(default_factory=Counter)
    after: list[str] = field(default_factory=list)


class Audit:
    """Reads the journal once; :meth:`problems` says all that is wrong."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.markers: dict[str, str | None] = {}
        self.undone: set[str] = set()
        self.msg_ids: dict[str, set[str]] = defaultdict(set)
        self.leases: dict[str, Lease] = {}
        self.jobs: dict[str, list[Lease]] = defaultdict(list)
        self.cancelled: set[str] = set()
        self.requeued: set[str] = set()
        self.maybe_cancelled: Counter[str] = Counter()
        self.cut_off_leases = self.cut_off_requeues = 0
        self.twice: list[str] = []
        self._trying: dict[str, int] = {}
        for line, entry in enumerate(entries):
            read = getattr(self, f"_{entry.what}", None)
            if read is not None:
                read(line, *entry.words)

    # -- reading -------------------------------------------------------------------

    def _publishing(self, line: int, markers: list[str]) -> None:
        self.markers.update(dict.fromkeys(markers))

    def _published(self, line: int, rows: list[list[Any]]) -> None:
        for marker, job_id, msg_id in rows:
            if msg_id is None:
                self.markers[marker] = job_id
            else:  # the job of an earlier one, perhaps
                self.msg_ids[msg_id].add(job_id)

    def _undone(self, line: int, markers: list[str]) -> None:
        self.undone.update(markers)

    def _leasing(self, line: int) -> None:
        self.cut_off_leases += 1

    def _leased(self, line: int, worker_id: str, rows: list[list[Any]]) -> None:
        self.cut_off_leases -= 1
        for job_id, token, expires, partition_key in rows:
            if token in self.leases:
                self.twice.append(f"token {token} was given out twice")
            lease = Lease(job_id, token, expires, partition_key, worker_id, line)
            self.leases[token] = lease
            self.jobs[job_id].append(lease)

    def _ending(self, line: int, kind: str, job_id: str, token: str) -> None:
        self._trying[token] = line
        self.leases[token].cut_off[kind] += 1

    def _ended(self, line: int, kind: str, job_id: str, token: str, answer: bool) -> None:
        lease = self.leases[token]
        lease.cut_off[kind] -= 1
        if not answer:
            return
        if lease.ended is not None:
            lease.after.append(kind)
            return
        lease.ended, lease.ended_at, lease.ending_at = kind, line, self._trying[token]

    def _renewing(self, line: int, tokens: list[str]) -> None:
        self._trying.update({f"renew {token}": line for token in tokens})

    def _renewed(self, line: int, answers: list[list[Any]]) -> None:
        for token, answer in answers:
            if not answer:
                continue
            lease, since = self.leases[token], self._trying[f"renew {token}"]
            lease.renewed_at = since
            if lease.ended is not None and lease.ended_at < since:
                lease.after.append("renew")

    def _cancelling(self, line: int, ids: list[str]) -> None:
        self.maybe_cancelled.update(ids)

    def _cancelled(self, line: int, ids: list[str], gone: list[str]) -> None:
        self.maybe_cancelled.subtract(ids)
        self.cancelled.update(gone)

    def _requeueing(self, line: int) -> None:
        self.cut_off_requeues += 1

    def _requeued(self, line: int, ids: list[str]) -> None:
        self.cut_off_requeues -= 1
        self.requeued.update(ids)

    # -- judging -------------------------------------------------------------------

    def problems(
        self,
        history: Rows,
        live: dict[str, Any],
        stats: dict[str, Any],
        limits: dict[str, int],
    ) -> list[str]:
        """Return what does not fit together, in words; nothing may be leased from any more.

        ``limits`` are the partitions that had the same in-flight limit all the time.
        """
        completed, failed = history["completed"], history["failed"]
        found = [*self.twice, *(f"job {job_id} is still there" for job_id in live)]
        found += self._broken_limits(limits)
        found += self._wrong_counts(completed, failed, stats)
        found += self._wrong_jobs(completed, failed)
        for job_id, leases in self.jobs.items():
            found += self._wrong_leases(job_id, leases)
        for row in completed:
            found += self._wrong_end(row, "ack")
        for row in failed:
            found += self._wrong_end(row, "fail")
        return found

    def _broken_limits(self, limits: dict[str, int]) -> Iterator[str]:
        """Leases that their holders ended were held from one line of the journal to another."""
        changes: list[tuple[int, int, str]] = []
        for lease in self.leases.values():
            if lease.ended is not None and lease.partition_key in limits:
                changes.append((lease.line, 1, lease.partition_key))
                changes.append((lease.ending_at, -1, lease.partition_key))
        held: Counter[str] = Counter()
        for line, change, key in sorted(changes):
            held[key] += change
            if held[key] > limits[key]:
                yield f"partition {key!r} had {held[key]} jobs in flight at line {line}"

    def _wrong_counts(
        self, completed: list[Any], failed: list[Any], stats: dict[str, Any]
    ) -> Iterator[str]:
        expected = {
            "ready": 0,
            "claimed": 0,
            "scheduled": 0,
            "completed": len(completed),
            "failed": len(failed),
        }
        for key, value in expected.items():
            if stats[key] != value:
                yield f"stats say {key}={stats[key]}, expected {value}"

    def _wrong_jobs(self, completed: list[Any], failed: list[Any]) -> Iterator[str]:
        """Each job that was published ended once or was cancelled; others never were."""
        rows = [*completed, *failed]
        ends = Counter(row["id"] for row in rows)
        yield from (f"job {job_id} ended {n} times" for job_id, n in ends.items() if n > 1)
        markers = Counter(row["parent_id"] for row in rows)
        for marker, n in markers.items():
            if marker not in self.markers or marker in self.undone:
                yield f"job of {marker} was never published, or undone, and ended"
            if n > 1:
                yield f"{marker} was published once and became {n} jobs"
        for marker, job_id in self.markers.items():
            if job_id is None:
                continue
            if job_id in self.cancelled and job_id in ends:
                yield f"job {job_id} was cancelled and ended"
            gone = job_id in self.cancelled or self.maybe_cancelled[job_id] > 0
            if job_id not in ends and not gone:
                yield f"job {job_id} of {marker} is lost"
        for msg_id, ids in self.msg_ids.items():
            if len(ids) > 1:
                yield f"msg_id {msg_id} became jobs {sorted(ids)}"
            if not ids <= ends.keys():
                yield f"the job of msg_id {msg_id} is lost"

    def _wrong_leases(self, job_id: str, leases: list[Lease]) -> Iterator[str]:
        """A lease that was renewed or ended by its holder was the only one until then."""
        for lease in leases:
            if lease.after:
                yield f"lease {lease.token} ended by {lease.ended}, then again by {lease.after}"
            for other in leases:
                if other.expires <= lease.expires or other is lease:
                    continue
                if other.line < max(lease.ending_at, lease.renewed_at):
                    yield f"job {job_id} was leased to two at once: {lease}, {other}"
                if lease.ended == "ack":
                    yield f"job {job_id} was leased after its ack: {lease}, {other}"
        over = {"ack"} if self._may_be_back(job_id) else {"ack", "fail"}
        if job_id in self.cancelled and any(lease.ended in over for lease in leases):
            yield f"job {job_id} was cancelled and ended by {leases}"

    def _may_be_back(self, job_id: str) -> bool:
        """Return whether it may have been a dead letter that was requeued."""
        return job_id in self.requeued or self.cut_off_requeues > 0

    def _wrong_end(self, row: dict[str, Any], kind: str) -> Iterator[str]:
        """What the store has about an ended job is what its holders told."""
        leases = self.jobs[row["id"]]
        told = [lease for lease in leases if lease.ended == kind]
        cut_off = any(lease.cut_off[kind] > 0 for lease in leases)
        died = kind == "fail" and row["reason"].startswith("lease ran out")
        if not (told or cut_off or died):
            yield f"job {row['id']} has ended by {kind}, and nobody did it"
        if kind == "ack" and told and told[0].worker_id != row["worker_id"]:
            yield f"job {row['id']} was acked by {told[0]}, not by {row['worker_id']}"
        if self._may_be_back(row["id"]):
            return  # its counts began again, at a moment that the journal does not tell
        tried = sum(lease.cut_off["retry"] > 0 for lease in leases)
        retried = sum(lease.ended == "retry" for lease in leases)
        if not retried <= row["delivery_count"] <= retried + tried:
            yield f"job {row['id']} was retried {retried} times: {row}"
        ran_out = sum(lease.ended is None for lease in leases)
        unsure = sum(lease.ended is None and +lease.cut_off != {} for lease in leases)
        if not ran_out - unsure <= row["timeouts"] <= ran_out + self.cut_off_leases:
            yield f"job {row['id']} ran out of {ran_out} leases: {row}"
