"""Enqueues that do not fit into one script: laid aside, decided on, then stored in batches.

From the decision on it does not matter who stores a batch. Its enqueuer does, unless it
dies; and :meth:`Staging.complete` does, for whoever reclaims.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from vtrr_django.domain.job import NewJob
from vtrr_django.engines.redis import wire
from vtrr_django.engines.redis.commands import Commands
from vtrr_django.engines.redis.outbox import Outbox
from vtrr_django.exceptions import StoreUnavailable

ROUNDS: Final = 8
"""How often one enqueue looks again because jobs of its names came or went meanwhile."""

ABANDONED: Final = 3600.0
"""Seconds after which what a large enqueue has laid aside, and never committed, is dropped."""


class Staging:
    """The large enqueues of one queue."""

    def __init__(self, commands: Commands, outbox: Outbox) -> None:
        self._commands = commands
        self._outbox = outbox

    def append(self, jobs: Sequence[NewJob], shares: Mapping[str, float]) -> list[str]:
        """Store one row of jobs, see :func:`wire.is_row`, all or none; return their ids.

        Its places are reserved in the name of its first job, and the script that stores it
        uses up that reservation: should the client repeat it, it finds nothing to do.
        """
        name = jobs[0].id
        tick = int(self._commands.run("reserve", len(jobs), name))
        row = wire.encode_row(jobs, tick, shares.get(jobs[0].partition_key))
        try:
            self._commands.run("append", name, row.packed, *row.tasks, *row.metas)
        except StoreUnavailable:
            # Should it not have arrived yet, it is not to be stored after this was told.
            with contextlib.suppress(StoreUnavailable):
                self._commands.run("withdraw", name)
            raise
        return row.ids

    def store(
        self, batches: Sequence[Sequence[NewJob]], shares: Mapping[str, float], is_row: bool
    ) -> list[list[Any] | None]:
        """Store all batches or none.

        Many plain jobs of one partition come packed, their hashes written as they are laid
        aside; others come as text, and a script does the rest when it takes them up.

        Returns:
            For each batch what stood in the way of its jobs, which were not stored; see
            ``in_the_way()`` in ``storing.lua``. None where somebody else stored the batch.
        """
        name = uuid.uuid4().hex
        try:
            decided = self._lay_aside(name, batches, shares, is_row)
        except StoreUnavailable:
            # The answer may have got lost. What is committed, others may be storing already.
            if not self._withdraw(name):
                raise
            decided = True
        if not decided:
            raise StoreUnavailable(
                f"an enqueue of {sum(map(len, batches)):,} jobs to queue "
                f"{self._commands.queue!r} took over an hour and was given up; nothing was stored"
            )
        return [self._admit(name, number) for number in range(len(batches))]

    def _lay_aside(
        self,
        name: str,
        batches: Sequence[Sequence[NewJob]],
        shares: Mapping[str, float],
        is_row: bool,
    ) -> bool:
        """Return whether they are committed; else they were withdrawn meanwhile."""
        lay = self._lay_rows if is_row else self._lay_jobs
        if not all(map(int, lay(name, batches, shares))):
            return False
        return bool(int(self._commands.run("commit", name, len(batches))))

    def _lay_jobs(
        self, name: str, batches: Sequence[Sequence[NewJob]], shares: Mapping[str, float]
    ) -> Iterator[Any]:
        encoded = wire.encode_shares(shares)
        for number, batch in enumerate(batches):
            jobs = f"J{encoded}\x1d{wire.encode_jobs(batch)}"
            yield self._commands.run("stage", name, number, jobs)

    def _lay_rows(
        self, name: str, batches: Sequence[Sequence[NewJob]], shares: Mapping[str, float]
    ) -> Iterator[Any]:
        tick = int(self._commands.run("reserve", sum(map(len, batches)), ""))
        for number, batch in enumerate(batches):
            row = wire.encode_row(batch, tick, shares.get(batch[0].partition_key))
            hashes = row.hashes(self._commands.keys)
            yield (laid := self._commands.run_together(hashes, "stage", name, number, row.laid()))
            if not int(laid):
                for key in ("task", "meta"):
                    self._commands.call("HDEL", self._commands.keys[key], *row.ids)
            tick += len(batch)

    def _withdraw(self, name: str) -> bool:
        """Drop what was laid aside; return whether it is committed, and was not dropped.

        Should Redis be away, :meth:`complete` does it later.
        """
        with contextlib.suppress(StoreUnavailable):
            if int(self._commands.run("withdraw", name)):
                return True
            number = 0
            while int(self._commands.run("drop", name, number)):
                number += 1
        return False

    def _admit(self, name: str, number: int, *, ours: bool = True) -> list[Any] | None:
        kept: set[str] = set()
        forgotten: set[str] = set()
        for _ in range(ROUNDS):
            known = wire.encode_ids(kept), wire.encode_ids(forgotten)
            state, found = self._commands.run("admit", name, number, *known, "0" if ours else "1")
            if wire.text(state) != "undecided":
                return None if wire.text(state) == "gone" else list(found)
            ended = {
                wire.text(row[2]): wire.text(row[4])
                for row in found
                if wire.text(row[1]) == "ended" and wire.text(row[2]) not in kept
            }
            kept |= self._outbox.kept(ended)
            forgotten |= ended.keys() - kept
        raise StoreUnavailable(
            f"jobs of the same msg_id or id came and went in queue {self._commands.queue!r} during "
            f"{ROUNDS} attempts to store a batch of a large enqueue; others will store the rest"
        )

    def complete(self) -> None:
        """Store what is committed and was not stored; drop what was given up."""
        staged = self._commands.keys["staged"]
        if not int(self._commands.call("HLEN", staged)):
            return
        now = int(wire.text(self._commands.call("TIME")[0]))
        fields = sorted(map(wire.text, self._commands.call("HKEYS", staged)))
        names = {field for field in fields if " " not in field}
        for field in fields:
            name, _, number = field.partition(" ")
            if name not in names:
                self._commands.run("drop", name, number)
            elif not number:
                self._complete(
                    name, wire.text(self._commands.call("HGET", staged, name) or ""), now
                )

    def _complete(self, name: str, state: str, now: int) -> None:
        word, _, number = state.partition(" ")
        if word == "committed":
            # It may need the database, and what else comes back must not wait for that.
            with contextlib.suppress(StoreUnavailable):
                for batch in range(int(number)):
                    self._admit(name, batch, ours=False)
        elif word == "staged" and now - int(number) / 1e6 > ABANDONED:
            self._withdraw(name)
