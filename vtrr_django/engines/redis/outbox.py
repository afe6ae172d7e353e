"""Ended jobs on their way from Redis to the database, and dead letters on their way back.

The script that ends a job puts it on an outbox; this moves it, many at a time. Exactly
once: an entry is taken off the outbox after the commit of its row, and a row that is
there already, from a move that died in between, is left as it is. Requeueing looks at
the outbox first and holds the same lock, so that no entry of an earlier death of a job
is left when the job lives again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from vtrr_django.domain.job import NewJob
from vtrr_django.domain.parts import parts
from vtrr_django.engines.redis import wire
from vtrr_django.engines.redis.commands import Commands
from vtrr_django.engines.sql.history import DeadLetter, Ended, History
from vtrr_django.engines.sql.store import Cursor, Store
from vtrr_django.engines.sql.tables import QUEUE

T = TypeVar("T")

MOVE = 500
"""Entries moved in one transaction."""

KEEP_NAMES = 600.0
"""Seconds for which Redis remembers ids and msg_ids of callers after their job has ended: longer
than any enqueue takes between its look into the database and its script."""

_NAMES = 1000
"""The most names that ``moved.lua`` forgets in one call."""

_LOOKS = 20
"""The most places of an outbox that are looked at in one trip, and entries of each."""

_EVERYTHING = 1_000_000_000


class Outbox:
    """The outbox of one queue, and the history it leads to."""

    def __init__(self, commands: Commands, history: History, store: Store) -> None:
        self._commands = commands
        self._history = history
        self._store = store

    def archive(self, limit: int) -> int:
        """Move up to about ``limit`` ended jobs to the database; return how many.

        None inside the caller's transaction: should it be rolled back, the rows would be gone
        and the entries too. Then others do it, or a later call.
        """
        if self._store.in_transaction:
            return 0
        moved = 0
        more = self._waits()
        while more and moved < limit:
            counts = self._locked(self._move)
            moved += sum(counts)
            # What ended meanwhile is for the next call: one job at a time costs a transaction each.
            more = max(counts) == MOVE
        if moved:
            self.forget_names()
        return moved

    def forget_names(self) -> None:
        """Have Redis forget the names of jobs that ended long ago, whether they got here or not.

        Of completed jobs not many more are on their way than are kept.
        """
        while int(self._commands.run("moved", "completed", KEEP_NAMES)) == _NAMES:
            pass

    def _waits(self) -> bool:
        completed, failed = (
            int(self._commands.call("XLEN", self._commands.keys[f"outbox_{which}"]))
            for which in ("completed", "failed")
        )
        return completed + failed > 0

    def _locked(self, work: Callable[[Cursor, list[Callable[[], None]]], T]) -> T:
        """Run ``work`` in a transaction that has the queue's history to itself.

        What ``work`` appends to its second argument is called after the commit.
        """
        after: list[Callable[[], None]] = []

        def transaction(cursor: Cursor) -> T:
            after.clear()
            dialect = cursor.dialect
            lock = f"SELECT paused FROM {QUEUE} WHERE queue = %s{dialect.lock_wait}"
            if not cursor.rows(lock, [self._commands.queue]):
                cursor.run(
                    f"{dialect.insert_new} {QUEUE} (queue, paused, period) VALUES (%s, %s, 1)"
                    f"{dialect.ignore_conflict}",
                    [self._commands.queue, False],
                )
                cursor.rows(lock, [self._commands.queue])
            return work(cursor, after)

        result = self._store.transact(transaction)
        for call in after:
            call()
        return result

    def _move(self, cursor: Cursor, after: list[Callable[[], None]]) -> list[int]:
        return [self._move_from(which, cursor, after) for which in ("completed", "failed")]

    def _move_from(self, which: str, cursor: Cursor, after: list[Callable[[], None]]) -> int:
        key = self._commands.keys[f"outbox_{which}"]
        entries = self._commands.call("XRANGE", key, "-", "+", "COUNT", MOVE)
        if not entries:
            return 0
        ends = [wire.decode_entry(fields) for _, fields in entries]
        latest = list({end.job.id: end for end in sorted(ends, key=lambda end: end.at)}.values())
        self._history.drop_earlier_deaths(cursor, latest)
        self._history.record(cursor, latest)
        numbers = [number for number, _ in entries]
        after.append(lambda: self._commands.run("moved", which, KEEP_NAMES, *numbers))
        return len(entries)

    # -- looking -------------------------------------------------------------------

    def known(self, jobs: Sequence[NewJob], ended: Mapping[str, str]) -> list[str | None]:
        """Return the id of the ended job that each of ``jobs`` is.

        Args:
            jobs: the jobs.
            ended: what Redis remembers of their names: ids of ended jobs, and the seconds that
                their entries tell, as ``known.lua`` says them. Of what is on its way it
                remembers all names, so that nothing else need be looked for there.

        Raises:
            DuplicateJobError: a given id belongs to a different job.
        """
        on_their_way = self._on_their_way(ended)
        known = self._store.transact(lambda cursor: self._history.known(cursor, jobs))
        known.add(
            [
                (job.id, job.msg_id, job.partition_key, job.task_name, job.payload)
                for job in on_their_way
            ]
        )
        return [known.match(job) for job in jobs]

    def kept(self, ended: Mapping[str, str]) -> set[str]:
        """Return which ended jobs the history remembers; ``ended`` as for :meth:`known`."""
        on_their_way = {job.id for job in self._on_their_way(ended)}
        kept = self._store.transact(lambda cursor: self._history.kept(cursor, sorted(ended)))
        return kept | on_their_way

    def _on_their_way(self, ended: Mapping[str, str]) -> list[Ended]:
        """Return those of the jobs that are not moved yet.

        To be looked at before the database: it is where they go. However long an outbox has
        become, only the entries of their milliseconds are read.
        """
        moments = sorted({str(round(float(one) * 1000)) for one in ended.values() if one})
        outboxes = [self._commands.keys[f"outbox_{which}"] for which in ("completed", "failed")]
        places = [(key, moment, moment) for moment in moments for key in outboxes]
        found = []
        while places:
            now, places = places[:_LOOKS], places[_LOOKS:]
            commands = (("XRANGE", *place, "COUNT", _LOOKS) for place in now)
            replies = self._commands.look(*commands)
            for (key, _, moment), entries in zip(now, replies, strict=True):
                found += [wire.decode_entry(fields).job for _, fields in entries]
                if len(entries) == _LOOKS:
                    places.append((key, f"({wire.text(entries[-1][0])}", moment))
        return [job for job in found if job.id in ended]

    def _failed(self) -> Iterator[tuple[Any, Any]]:
        """Yield the entries of the outbox of failed jobs, some at a time."""
        key, start = self._commands.keys["outbox_failed"], "-"
        while entries := self._commands.call("XRANGE", key, start, "+", "COUNT", MOVE):
            yield from entries
            start = f"({wire.text(entries[-1][0])}"

    # -- coming back ---------------------------------------------------------------

    def requeue(
        self,
        ids: Sequence[str] | None,
        limit: int,
        revive: Callable[[Sequence[DeadLetter]], list[str]],
    ) -> tuple[list[str], int]:
        """Have ``revive`` store dead letters as jobs again.

        Return the ids of those it did, and how many letters there were: one whose job is live
        is no job once more, and no letter either.

        Should this die between the two, the job is live *and* still a row: the next
        requeue finds it live and only drops the row, and so does the job's next end.
        """
        back: list[str] = []

        def work(cursor: Cursor, after: list[Callable[[], None]]) -> int:
            found = self._history.dead_letters(cursor, ids, limit)
            # The database may undo this and have it done again; what Redis has done is done.
            letters = [one for one in self._settled(cursor, found) if one.id not in back]
            if letters:
                back.extend(revive(letters))
            self._history.forget_dead(cursor, found)
            return len(found)

        self.archive(limit=_EVERYTHING)
        letters = self._locked(work)
        return back, letters

    def discard(self, ids: Sequence[str]) -> list[str]:
        """Delete dead letters, those on their way too; return the ids of those there were.

        Their names need no letting go: what Redis remembers of an ended job's ids counts only
        while the history has the job.
        """

        def work(cursor: Cursor, after: list[Callable[[], None]]) -> list[str]:
            found = self._history.dead_letters(cursor, ids, len(ids))
            letters = self._settled(cursor, found)
            self._history.forget_dead(cursor, found)
            return [letter.id for letter in letters]

        self.archive(limit=_EVERYTHING)
        return self._locked(work)

    def letters(self, ids: Sequence[str] | None, limit: int) -> list[NewJob]:
        """Return dead letters as :meth:`History.letters` does, those on their way too."""
        self.archive(limit=_EVERYTHING)
        return self._history.letters(ids, limit)

    def _settled(self, cursor: Cursor, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        """Clear the outbox of deaths that are rows; pass over letters with a later one there.

        Those are letters no more: what is there becomes the letter of their job.
        """
        by_id = {letter.id: letter for letter in letters}
        written = []
        for number, fields in self._failed() if letters else ():
            end = wire.decode_entry(fields)
            letter = by_id.get(end.job.id)
            if letter is None:
                continue
            if self._history.is_earlier_death(cursor, letter.seq, end):
                del by_id[letter.id]
            else:
                written.append(number)
        for numbers in parts(written, MOVE):
            self._commands.run("moved", "failed", KEEP_NAMES, *numbers)
        return list(by_id.values())
