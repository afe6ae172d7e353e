"""Coming in: one script for what fits into one, several behind one decision for the rest."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from vtrr_django.domain.job import NewJob, check_same_job
from vtrr_django.engines.redis import wire
from vtrr_django.engines.redis.commands import Commands
from vtrr_django.engines.redis.outbox import Outbox
from vtrr_django.engines.redis.staging import ROUNDS, Staging
from vtrr_django.engines.sql.history import DeadLetter
from vtrr_django.exceptions import StoreUnavailable


class Incoming:
    """The incoming side of one queue."""

    def __init__(self, commands: Commands, outbox: Outbox) -> None:
        self._commands = commands
        self._outbox = outbox
        self._staging = Staging(commands, outbox)

    def enqueue(self, jobs: Sequence[NewJob], shares: Mapping[str, float]) -> list[str]:
        """Store ``jobs``, all or none; see :meth:`Engine.enqueue`."""
        if len(jobs) == 1 and wire.is_plain(jobs[0]):
            [job] = jobs
            share = shares.get(job.partition_key)
            self._commands.run("put", *wire.encode_plain(job, share))
            return [job.id]
        if not jobs:
            return []
        ids = [job.id for job in jobs]
        keyed = [i for i, job in enumerate(jobs) if job.given_id or job.msg_id is not None]
        positions = list(range(len(jobs)))
        if keyed:
            positions = self._drop_known(jobs, ids, keyed)
        fresh = [jobs[i] for i in positions]
        stored = self._store(fresh, shares) if fresh else []
        for position, job_id in zip(positions, stored, strict=True):
            ids[position] = job_id
        if keyed:
            _follow(jobs, ids, keyed)
        return ids

    def known(self, jobs: Sequence[NewJob]) -> list[str | None]:
        """Return the id of the job that each of ``jobs`` is already; see :meth:`Engine.known`.

        Looks among the live ones first, then in the history, where they go.
        """
        known: list[str | None] = [None] * len(jobs)
        wanted = [i for i, job in enumerate(jobs) if job.given_id or job.msg_id is not None]
        if not wanted:
            return known
        args, owners = [], []
        for i in wanted:
            if jobs[i].given_id:
                args.append("i" + jobs[i].id)
                owners.append(i)
            if jobs[i].msg_id is not None:
                args.append(f"m{jobs[i].msg_id}")
                owners.append(i)
        ended = {}
        for start in range(0, len(args), wire.BATCH_JOBS):
            chunk = args[start : start + wire.BATCH_JOBS]
            for row in self._commands.run("known", *chunk):
                position, state, job_id, key, task = row[0], *map(wire.text, row[1:])
                i = owners[start + int(position)]
                if state == "ended":
                    ended[job_id] = task
                elif known[i] is None:
                    known[i] = _checked(jobs[i], job_id, key, task)
        rest = [i for i in wanted if known[i] is None]
        if rest:
            found = self._outbox.known([jobs[i] for i in rest], ended)
            by_position = dict(zip(rest, found, strict=True))
            known = [old or by_position.get(i) for i, old in enumerate(known)]
        return known

    def _drop_known(
        self, jobs: Sequence[NewJob], ids: list[str], keyed: Sequence[int]
    ) -> list[int]:
        """Note the ids of jobs that exist already; return the positions of the rest."""
        known = self.known([jobs[i] for i in keyed])
        dropped = set()
        for i, job_id in zip(keyed, known, strict=True):
            if job_id is not None:
                ids[i] = job_id
                dropped.add(i)
        dropped |= set(_repeated(jobs, [i for i in keyed if i not in dropped]))
        return [i for i in range(len(jobs)) if i not in dropped]

    # -- storing -------------------------------------------------------------------

    def _store(self, jobs: Sequence[NewJob], shares: Mapping[str, float]) -> list[str]:
        is_row = wire.is_row(jobs)
        first, *more = wire.batches(jobs, is_row)
        if more:
            return self._store_many([first, *more], shares, is_row)
        if is_row:
            return self._staging.append(first, shares)
        known: dict[int, str] = {}
        forgotten: set[str] = set()
        encoded_shares = wire.encode_shares(shares)
        for _ in range(ROUNDS):
            fresh = [i for i in range(len(jobs)) if i not in known]
            if not fresh:
                break
            encoded = wire.encode_jobs(jobs[i] for i in fresh)
            found = self._commands.run(
                "enqueue", encoded, encoded_shares, wire.encode_ids(forgotten)
            )
            if not found:
                break
            self._resolve(found, [(i, jobs[i]) for i in fresh], known, forgotten)
        else:
            raise StoreUnavailable(
                f"jobs of the same msg_id or id came and went in queue {self._commands.queue!r} "
                f"during {ROUNDS} attempts to enqueue; nothing was stored"
            )
        return [known.get(i, job.id) for i, job in enumerate(jobs)]

    def _resolve(
        self,
        found: Sequence[Any],
        jobs: Sequence[tuple[int, NewJob]],
        known: dict[int, str],
        forgotten: set[str],
    ) -> None:
        """Find out what became of jobs that stood in the way of new ones."""
        ended, seconds = [], {}
        for row in found:
            position, state, job_id, key, task = row[0], *map(wire.text, row[1:])
            index, job = jobs[int(position)]
            if state == "live":
                known[index] = _checked(job, job_id, key, task)
            else:
                ended.append((index, job, job_id))
                seconds[job_id] = task
        kept = self._outbox.known([job for _, job, _ in ended], seconds) if ended else []
        for (index, _, job_id), there in zip(ended, kept, strict=True):
            if there is None:
                forgotten.add(job_id)
            else:
                known[index] = there

    def _store_many(
        self, batches: Sequence[Sequence[NewJob]], shares: Mapping[str, float], is_row: bool
    ) -> list[str]:
        ids: list[str] = []
        stored = self._staging.store(batches, shares, is_row)
        for batch, found in zip(batches, stored, strict=True):
            ids += self._ids_of(batch, found)
        return ids

    def _ids_of(self, batch: Sequence[NewJob], found: Sequence[Any] | None) -> list[str]:
        """Return the ids of the jobs of a batch, of which some may be other jobs' by now."""
        ids = [job.id for job in batch]
        others = {int(row[0]): wire.text(row[2]) for row in found or ()}
        # Who else stored the batch was told what stood in its way, and is not here to ask.
        doubtful = list(range(len(batch)) if found is None else others)
        known = self.known([batch[i] for i in doubtful])
        for i, job_id in zip(doubtful, known, strict=True):
            ids[i] = job_id or others.get(i, ids[i])
        return ids

    def revive(self, letters: Sequence[DeadLetter], shares: Mapping[str, float]) -> list[str]:
        """Store dead letters as ready jobs; return the ids of those that were not live.

        Letters that were taken over may have ids and msg_ids that others have, too.
        """
        jobs = [
            NewJob(
                id=one.id,
                task_name=one.task_name,
                payload=one.payload,
                partition_key=one.partition_key,
                weight=one.weight,
                priority=one.priority,
                msg_id=one.msg_id,
                parent_id=one.parent_id,
                given_id=True,
            )
            for one in letters
        ]
        encoded = wire.encode_shares(shares)
        return [job.id for batch in wire.batches(jobs) for job in self._revive(batch, encoded)]

    def _revive(self, jobs: list[NewJob], shares: str) -> list[NewJob]:
        """Store those that are not live, each msg_id once: others and earlier ones go first."""
        forgotten = {job.id for job in jobs}
        taken: set[str] = set()
        while fresh := _with_own_msg_ids(jobs, taken):
            found = self._commands.run(
                "enqueue", wire.encode_jobs(fresh), shares, wire.encode_ids(forgotten)
            )
            if not found:
                return fresh
            live = set()
            for row in found:
                job, state, job_id = fresh[int(row[0])], wire.text(row[1]), wire.text(row[2])
                if job_id == job.id:
                    live.add(job_id)
                elif state == "live":
                    taken.add(str(job.msg_id))
                else:  # a msg_id is unique among live jobs; that one has let it go
                    forgotten.add(job_id)
            # From the start: what made way for a letter that turned out live has its msg_id back.
            jobs = [job for job in jobs if job.id not in live]
        return []

    def complete(self) -> None:
        """Finish the large enqueues of processes that did not live to do it."""
        self._staging.complete()


def _with_own_msg_ids(jobs: Sequence[NewJob], taken: Collection[str]) -> list[NewJob]:
    """Return the jobs, without the msg_ids that are taken or that an earlier one of them has."""
    seen: set[str | None] = set(taken)
    own = []
    for job in jobs:
        own.append(job._replace(msg_id=None) if job.msg_id in seen else job)
        seen |= {job.msg_id} - {None}
    return own


def _checked(job: NewJob, job_id: str, partition_key: str, task: str) -> str:
    """Return ``job_id`` if ``job`` may be that job.

    Raises:
        DuplicateJobError: they share an id and are different.
    """
    if job.given_id and job_id == job.id:
        check_same_job(job, partition_key, *wire.same_payload(task, job))
    return job_id


def _first_with(jobs: Sequence[NewJob], keyed: Sequence[int]) -> dict[tuple[str, str], int]:
    first: dict[tuple[str, str], int] = {}
    for i in keyed:
        if jobs[i].given_id:
            first.setdefault(("id", jobs[i].id), i)
        if jobs[i].msg_id is not None:
            first.setdefault(("msg_id", str(jobs[i].msg_id)), i)
    return first


def _earlier(jobs: Sequence[NewJob], keyed: Sequence[int]) -> dict[int, int]:
    """Return, for each job that an earlier one of the same call is, the position of that one.

    Raises:
        DuplicateJobError: two share an id and are different.
    """
    first = _first_with(jobs, keyed)
    earlier: dict[int, int] = {}
    for i in keyed:
        job = jobs[i]
        same = first[("id", job.id)] if job.given_id else i
        if same != i:
            other = jobs[same]
            check_same_job(job, other.partition_key, other.task_name, other.payload)
        elif job.msg_id is not None:
            same = first[("msg_id", job.msg_id)]
        if same != i:
            earlier[i] = same
    return earlier


def _repeated(jobs: Sequence[NewJob], keyed: Sequence[int]) -> list[int]:
    return list(_earlier(jobs, keyed))


def _follow(jobs: Sequence[NewJob], ids: list[str], keyed: Sequence[int]) -> None:
    """Give jobs that an earlier one of the same call is that one's id."""
    for i, same in _earlier(jobs, keyed).items():
        ids[i] = ids[same]
