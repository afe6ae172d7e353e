"""Reading ready jobs in order, slice by slice, out of the two places that ``line.lua`` tells of."""

from __future__ import annotations

import heapq
import itertools
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from vtrr_django.engines.redis.commands import Commands

_NUL, _IS_UUID = b"\x00", b"u"
_PLACE, _ENTRY, _BLOCK = 7, 23, 100
"""Bytes of a place, bytes of an entry of the backlog, most entries of a block."""

_HIGHEST = b"\xff" * (_ENTRY + 1)
"""Behind a place: it sorts after all that begins with it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where somebody stopped reading.

    Attributes:
        member: the last job, as the line has it.
        block: what the block began with, behind the partition key, that had begun first of
            those that were not read to their ends; empty: there was none.
    """

    member: bytes
    block: bytes = b""

    @classmethod
    def parse(cls, member: str, block: str) -> Place:
        """Return the place that :meth:`words` wrote.

        Raises:
            ValueError: it did not.
        """
        found = cls(bytes.fromhex(member), bytes.fromhex(block))
        if len(found.member) - len(found.start) <= _PLACE + 1:
            raise ValueError("no member of a line")
        return found

    def words(self) -> tuple[str, str]:
        """Return it as text."""
        return self.member.hex(), self.block.hex()

    @property
    def start(self) -> bytes:
        """The partition key, and what ends it."""
        return _start(self.member)

    def is_of(self, key: str) -> bool:
        """Return whether it is in the line of that partition."""
        return self.start == key.encode() + _NUL


@dataclass(frozen=True, slots=True)
class Slice:
    """Some jobs, in the order of their lines: members as the line has them.

    Attributes:
        members: the jobs.
        blocks: the first and last member of each block of the backlog that was read.
    """

    members: list[bytes]
    blocks: list[tuple[bytes, bytes]]

    def place(self, index: int) -> Place:
        """Return where somebody is who has read up to the member at ``index``."""
        member = self.members[index]
        begun = [first for first, last in self.blocks if first <= member < last]
        # Two overlap where a row split one between the commands of a look: see backlog.lua.
        block = min(begun, default=b"")[len(_start(member)) :]
        return Place(member, block[:_PLACE] + block[_PLACE + 1 :])


class Lines:
    """The lines of all partitions of one queue, one behind the other."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._line, self._backlog = commands.keys["line"], commands.keys["backlog"]

    def read(self, key: str | None, after: Place | None, count: int) -> Slice:
        """Return the next ``count`` jobs, of one partition or (None) of all."""
        lowest, highest = b"-", b"+"
        if key is not None:
            lowest, highest = b"[" + key.encode() + _NUL, b"(" + key.encode() + b"\x01"
        most = count // _BLOCK + 2
        commands, first = [], lowest
        if after is not None:
            begun = after.member[: len(after.start) + _PLACE] + _HIGHEST
            commands = list(self._begun(after, begun))
            lowest, first = b"(" + after.member, b"(" + begun
        # The backlog first: what moves into the line meanwhile comes twice, rather than never.
        commands.append(_range(self._backlog, first, highest, most))
        commands.append(_range(self._line, lowest, highest, count))
        *before, blocks, members = self._commands.look(*commands)
        all_blocks = itertools.chain(
            sorted({block for found in before for block in found}),
            self._blocks(blocks, highest, most),
        )
        seen: list[tuple[bytes, bytes]] = []
        merged = heapq.merge(members, _entries(all_blocks, seen))
        distinct: Iterator[bytes] = (member for member, _ in itertools.groupby(merged))
        if after is not None:
            distinct = itertools.dropwhile(lambda member: member <= after.member, distinct)
        return Slice(list(itertools.islice(distinct, count)), seen)

    def _begun(self, after: Place, begun: bytes) -> Iterator[tuple[Any, ...]]:
        """Yield commands for the blocks that began before a place and may go on behind it."""
        least, most = b"[" + after.start, b"[" + begun
        yield ("ZREVRANGEBYLEX", self._backlog, most, least, "LIMIT", 0, 1)
        if after.block:
            yield _range(self._backlog, least + after.block, most, 1)

    def _blocks(self, blocks: Sequence[bytes], highest: bytes, most: int) -> Iterator[bytes]:
        """Yield blocks, and read on where there are more: some hold but a few jobs."""
        while blocks:
            yield from blocks
            if len(blocks) < most:
                return
            [blocks] = self._commands.look(_range(self._backlog, b"(" + blocks[-1], highest, most))


def partition_of(member: bytes) -> bytes:
    """Return the partition key of a member of a line."""
    return _start(member)[:-1]


def id_of(member: bytes) -> str:
    """Return the id of the job that a member of a line is."""
    rest = member[len(_start(member)) + _PLACE :]
    if rest[:1] == _IS_UUID:
        return str(uuid.UUID(bytes=rest[1:]))
    return rest[1:].decode("utf-8", "replace")


def _start(member: bytes) -> bytes:
    return member[: member.find(_NUL) + 1]


def _range(key: str, least: bytes, most: bytes, count: int) -> tuple[Any, ...]:
    return ("ZRANGEBYLEX", key, least, most, "LIMIT", 0, count)


def _entries(blocks: Iterable[bytes], seen: list[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """Yield the jobs of blocks, which come in the order in which they begin, in order."""
    waiting: list[bytes] = []
    for block in blocks:
        entries = _unpack(block)
        seen.append((entries[0], entries[-1]))
        while waiting and waiting[0] < entries[0]:
            yield heapq.heappop(waiting)
        for entry in entries:
            heapq.heappush(waiting, entry)
    while waiting:
        yield heapq.heappop(waiting)


def _unpack(block: bytes) -> list[bytes]:
    """Return the jobs of a block as members of the line."""
    start = _start(block)
    return [
        start + block[at : at + _PLACE] + _IS_UUID + block[at + _PLACE : at + _ENTRY]
        for at in range(len(start), len(block), _ENTRY)
    ]
