"""Pages of live jobs, read slice by slice by commands of Redis' own: no script walks a queue.

What is read at different moments need not fit together: a job whose record has gone
meanwhile is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from vtrr_django.domain.cursor import bad_cursor, read_cursor, write_cursor
from vtrr_django.domain.job import JobInfo, JobPage
from vtrr_django.domain.states import State
from vtrr_django.engines.redis.commands import Commands
from vtrr_django.engines.redis.lines import Lines, Place, id_of, partition_of
from vtrr_django.engines.redis.records import Found, Records, as_text

_LOOKED_AT: Final = 1000
"""Scheduled or leased jobs that one call looks at, at least, to find those of one partition."""

_LOOKS: Final = 3
"""How often one looks again for what may just have moved."""

_OVERLAP: Final = 50
"""Jobs that may go, between two commands, before a page begins."""


class Browser:
    """The jobs of one queue, as people look through them."""

    def __init__(self, name: str, commands: Commands) -> None:
        self._commands = commands
        self._keys = commands.keys
        self._lines = Lines(commands)
        self._records = Records(name, commands)

    def find(self, job_id: str) -> JobInfo | None:
        """Return a live job by its id."""
        keys = self._keys
        for _ in range(_LOOKS):
            expires, leased, due, waits = self._commands.look(
                ("ZSCORE", keys["inflight"], job_id),
                ("HEXISTS", keys["inflight_task"], job_id),
                ("ZSCORE", keys["scheduled"], job_id),
                ("HEXISTS", keys["task"], job_id),
            )
            state, second = (State.LEASED, expires) if leased else (State.SCHEDULED, due)
            if not leased and due is None:
                state = State.READY
            if leased or waits:
                found = Found(job_id, None if second is None else float(second))
                for info in self._records.read(state, [found]):
                    return info
        return None

    def page(
        self, state: State, partition_key: str | None, after: str | None, limit: int
    ) -> JobPage:
        """Return one page; see :meth:`Engine.jobs`."""
        if state is State.READY:
            return self._ready(partition_key, after, limit)
        return self._by_time(state, partition_key, after, limit)

    # -- ready ---------------------------------------------------------------------

    def _ready(self, key: str | None, after: str | None, limit: int) -> JobPage:
        place = None
        if after is not None:
            try:
                place = Place.parse(*read_cursor(after, State.READY.name, str, str))
            except ValueError:  # a ValidationError is one too
                raise bad_cursor(after) from None
            if key is not None and not place.is_of(key):
                raise bad_cursor(after)
        found = self._lines.read(key, place, limit + 1)
        page = found.members[:limit]
        jobs = [Found(id_of(one), None, as_text(partition_of(one))) for one in page]
        more = len(found.members) > limit
        return JobPage(
            jobs=self._records.read(State.READY, jobs),
            next=write_cursor(State.READY.name, *found.place(limit - 1).words()) if more else None,
        )

    # -- scheduled and leased ------------------------------------------------------

    def _by_time(self, state: State, key: str | None, after: str | None, limit: int) -> JobPage:
        where = self._keys["inflight" if state is State.LEASED else "scheduled"]
        place = None if after is None else read_cursor(after, state.name, float, str)
        most = limit if key is None else max(limit, _LOOKED_AT)
        slice_ = self._slice(where, place, most + 1)
        looked_at, jobs = self._pick(slice_[:most], key, limit)
        last = slice_[looked_at - 1] if len(slice_) > looked_at else None
        return JobPage(
            jobs=self._records.read(state, jobs),
            next=None if last is None else write_cursor(state.name, last.second or 0.0, last.id),
        )

    def _slice(self, where: str, place: Sequence[Any] | None, count: int) -> list[Found]:
        """Return the next jobs behind a place, in order.

        Ranks change as others go. So it begins a little before the place, and looks whether
        that was far enough.
        """
        if place is None:
            return self._pairs(where, 0, count)
        behind = (place[0], place[1])
        found: list[Found] = []
        for _ in range(_LOOKS):
            start = max(0, self._rank_behind(where, *behind) - _OVERLAP)
            found = self._pairs(where, start, _OVERLAP + count)
            if not start or (found and found[0].order <= behind):
                break
        return [one for one in found if one.order > behind][:count]

    def _pick(self, found: list[Found], key: str | None, limit: int) -> tuple[int, list[Found]]:
        """Return how many were looked at, and up to ``limit`` of one partition (None: any)."""
        if key is None or not found:
            return len(found), found
        [metas] = self._commands.look(("HMGET", self._keys["meta"], *(one.id for one in found)))
        picked: list[Found] = []
        for index, (one, meta) in enumerate(zip(found, metas, strict=True)):
            if as_text(meta).partition(":")[2] == key:
                picked.append(one)
            if len(picked) == limit:
                return index + 1, picked
        return len(found), picked

    def _rank_behind(self, where: str, second: float, job_id: str) -> int:
        """Return the rank of the first job behind that one, which may have gone.

        Jobs of one moment are in the order of their ids: a few probes find the place.
        """
        now_at, rank, low, high = self._commands.look(
            ("ZSCORE", where, job_id),
            ("ZRANK", where, job_id),
            ("ZCOUNT", where, "-inf", f"({second!r}"),
            ("ZCOUNT", where, "-inf", repr(second)),
        )
        if now_at is not None and rank is not None and float(now_at) == second:
            return int(rank) + 1
        low, high = int(low), int(high)
        while low < high:
            middle = (low + high) // 2
            [there] = self._commands.look(("ZRANGE", where, middle, middle))
            if there and there[0] <= job_id.encode():
                low = middle + 1
            else:
                high = middle
        return low

    def _pairs(self, where: str, start: int, count: int) -> list[Found]:
        """Return ``count`` jobs from a rank on."""
        [reply] = self._commands.look(("ZRANGE", where, start, start + count - 1, "WITHSCORES"))
        # RESP3 has them pair by pair.
        nested = bool(reply) and isinstance(reply[0], (list, tuple))
        pairs = reply if nested else zip(reply[::2], reply[1::2], strict=True)
        return [Found(as_text(member), float(score)) for member, score in pairs]
