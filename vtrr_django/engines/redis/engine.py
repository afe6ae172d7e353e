"""The Redis engine: every transition is one script, so it happens whole or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import redis

from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.job import (
    Due,
    JobInfo,
    JobPage,
    LeasedJob,
    NewJob,
    Outcome,
    PartitionStats,
    QueueStats,
    Reclaimed,
    Renewal,
    Stray,
)
from vtrr_django.domain.parts import parts
from vtrr_django.domain.states import State
from vtrr_django.engines.base import NO_SHARES, UNSET, Engine, Unset
from vtrr_django.engines.redis import wire
from vtrr_django.engines.redis.browse import Browser
from vtrr_django.engines.redis.client import connect
from vtrr_django.engines.redis.commands import Commands
from vtrr_django.engines.redis.enqueue import Incoming
from vtrr_django.engines.redis.figures import Figures
from vtrr_django.engines.redis.outbox import Outbox
from vtrr_django.engines.redis.strays import strays
from vtrr_django.engines.sql.history import History
from vtrr_django.engines.sql.store import Store
from vtrr_django.exceptions import StoreUnavailable, so_far

T = TypeVar("T")

_RETURNS = 100
"""Due jobs promoted, and as many leases reclaimed, in one script."""

_LEASES = 200
"""Jobs leased in one script."""

_CHUNK = 250
"""Jobs, or partitions, in one script of a verb that takes as many as there are."""

_ARCHIVED_PER_RECLAIM = 5000

_PURGE_PASSES = 40


class RedisEngine(Engine):
    """One queue in one Redis; its history is in the database.

    Args:
        name: of the queue.
        config: its settings; ``CACHE`` or ``URL`` lead to Redis.
        client: a redis-py client to use instead.
    """

    def __init__(self, name: str, config: QueueConfig, client: redis.Redis | None = None) -> None:
        super().__init__(name, config)
        if client is None:
            client = connect(config.options, name)
        self.commands = Commands(name, config, client)
        self.store = Store(config.database)
        self._history = History(name, config, self.store)
        self._outbox = Outbox(self.commands, self._history, self.store)
        self._incoming = Incoming(self.commands, self._outbox)
        self._figures = Figures(name, config, self.commands)
        self._browser = Browser(name, self.commands)

    # -- coming in -----------------------------------------------------------------

    def enqueue(self, jobs: Sequence[NewJob], shares: Mapping[str, float]) -> list[str]:
        return self._incoming.enqueue(jobs, shares)

    def known(self, jobs: Sequence[NewJob]) -> list[str | None]:
        return self._incoming.known(jobs)

    # -- running -------------------------------------------------------------------

    def lease(self, n: int, *, worker_id: str, lease_seconds: float) -> list[LeasedJob]:
        return self.finish_and_lease([], n, worker_id=worker_id, lease_seconds=lease_seconds)[1]

    def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        return self.finish_and_lease(outcomes, 0, worker_id="", lease_seconds=0.0)[0]

    def finish_and_lease(
        self, outcomes: Sequence[Outcome], n: int, *, worker_id: str, lease_seconds: float
    ) -> tuple[list[bool], list[LeasedJob]]:
        done: list[bool] = []
        *first, last = list(_chunks(outcomes)) or [[]]
        for chunk in first:
            done += self._cycle(chunk, 0, "", 0.0)[0]
        told, jobs = self._cycle(last, min(n, _LEASES), worker_id, lease_seconds)
        done += told
        while len(jobs) < n and len(jobs) % _LEASES == 0 and jobs:
            try:
                more = self._cycle([], min(n - len(jobs), _LEASES), worker_id, lease_seconds)[1]
            except StoreUnavailable:  # what is leased has to be run
                break
            if not more:
                break
            jobs += more
        return done, jobs

    def _cycle(
        self, outcomes: Sequence[Outcome], n: int, worker_id: str, lease_seconds: float
    ) -> tuple[list[bool], list[LeasedJob]]:
        if not outcomes and not n:
            return [], []
        flat = [value for outcome in outcomes for value in wire.encode_outcome(outcome)]
        token = secrets.token_hex(8) + "-" if n else ""
        done, now, leased, reclaimed = self.commands.run(
            "lease", len(outcomes), n, lease_seconds, token, worker_id, _RETURNS, *flat
        )
        if reclaimed:
            self.on_reclaimed(wire.decode_reclaimed(reclaimed))
        jobs: list[LeasedJob] = []
        if leased:
            expires = int(now) + round(lease_seconds * 1_000_000)
            jobs, spoilt = wire.decode_leased(self.name, leased, expires)
            if spoilt:
                self.finish(spoilt)
        return [flag == "1" for flag in wire.text(done)], jobs

    def renew(self, renewals: Sequence[Renewal], *, lease_seconds: float) -> list[bool]:
        done: list[bool] = []
        for chunk in _chunks(renewals):
            flat: list[Any] = []
            for one in chunk:
                ran = "" if one.runtime is None else repr(float(one.runtime))
                count = "" if one.delivery_count is None else one.delivery_count
                flat += [one.job_id, one.token, ran, count, one.new_token or ""]
            reply = wire.text(self.commands.run("renew", lease_seconds, *flat))
            done += [flag == "1" for flag in reply]
        return done

    # -- upkeep --------------------------------------------------------------------

    def reclaim(self, limit: int = 1000) -> list[Reclaimed]:
        self._incoming.complete()
        self._adopt()
        reclaimed: list[Reclaimed] = []
        with so_far(lambda: len(reclaimed)):
            for start in range(0, limit, _RETURNS):
                most = min(_RETURNS, limit - start)
                promoted, reply = self.commands.run("reclaim", most)
                reclaimed += (found := wire.decode_reclaimed(reply))
                if found:
                    self.on_reclaimed(found)
                if int(promoted) < most and len(found) < most:
                    break
        return reclaimed

    def _adopt(self) -> None:
        """Take in what vtrr-queue left; a lease does it too, for what it comes across."""
        passed_over = 0
        while True:
            looked_at, stay = map(int, self.commands.run("adopt", passed_over, _CHUNK))
            if not looked_at:
                return
            passed_over += stay

    def archive(self, limit: int = _ARCHIVED_PER_RECLAIM) -> int:
        return self._outbox.archive(limit)

    def prune(self, batch: int = 1000) -> dict[str, int]:
        for keys in _chunks(self._figures.partition_keys()):
            self.commands.run("forget", *keys)
        self._outbox.archive(_ARCHIVED_PER_RECLAIM)
        self._outbox.forget_names()
        return self._history.prune(batch)

    # -- steering ------------------------------------------------------------------

    def _set_paused(
        self, partition_key: str | None, paused: bool, shares: Mapping[str, float]
    ) -> None:
        flag = "1" if paused else "0"
        if partition_key is None:
            self.commands.run("pause", flag)
        else:
            self._configure(partition_key, shares, paused=flag)

    def set_partition(
        self,
        partition_key: str,
        *,
        share: float | Unset | None = UNSET,
        limit: int | Unset | None = UNSET,
        shares: Mapping[str, float] = NO_SHARES,
    ) -> None:
        self._configure(partition_key, shares, share=_setting(share), limit=_setting(limit))

    def _configure(
        self,
        key: str,
        shares: Mapping[str, float],
        *,
        share: str = "",
        limit: str = "",
        paused: str = "",
    ) -> None:
        declared = f"{shares[key]:.17g}" if key in shares else ""
        self.commands.run("partition", key, share, limit, paused, declared)

    def cancel(self, ids: Sequence[str]) -> list[str]:
        gone: set[str] = set()
        with so_far(lambda: len(gone)):
            for chunk in _chunks(ids):
                gone |= set(map(wire.text, self.commands.run("cancel", *chunk)))
        return [job_id for job_id in ids if job_id in gone]

    def purge(self, partition_key: str | None = None) -> int:
        which = ("0", "") if partition_key is None else ("1", partition_key)
        self._adopt()
        count = 0
        # What falls due meanwhile moves from one place to the other.
        with so_far(lambda: count):
            for _ in range(_PURGE_PASSES):
                before = count
                for removed in chain(self._purge_scheduled(which), self._purge_ready(which)):
                    count += removed
                if count == before:
                    break
        return count

    def _purge_ready(self, which: tuple[str, str]) -> Iterator[int]:
        """Remove chunk after chunk; yield how many jobs each was."""
        while removed := int(self.commands.run("purge", *which, _CHUNK)):
            yield removed

    def _purge_scheduled(self, which: tuple[str, str]) -> Iterator[int]:
        passed_over = 0
        while True:
            looked_at, removed = map(
                int, self.commands.run("scheduled", *which, passed_over, _CHUNK)
            )
            if not looked_at:
                return
            yield removed
            passed_over += looked_at - removed

    def requeue(
        self,
        ids: Sequence[str] | None = None,
        *,
        limit: int = 1000,
        shares: Mapping[str, float] = NO_SHARES,
    ) -> list[str]:
        back: list[str] = []
        revive = partial(self._incoming.revive, shares=shares)
        with so_far(lambda: len(back)):
            if ids is not None:
                for chunk in _chunks(ids):
                    back += self._outbox.requeue(chunk, len(chunk), revive)[0]
                return back
            while len(back) < limit:
                most = min(_CHUNK, limit - len(back))
                found, letters = self._outbox.requeue(None, most, revive)
                back += found
                if letters < most:
                    break
        return back

    def discard(self, ids: Sequence[str]) -> list[str]:
        gone: set[str] = set()
        with so_far(lambda: len(gone)):
            for chunk in _chunks(ids):
                gone |= set(self._outbox.discard(chunk))
        return [job_id for job_id in ids if job_id in gone]

    # -- looking -------------------------------------------------------------------

    def stats(self) -> QueueStats:
        self._adopt()
        self._outbox.archive(_ARCHIVED_PER_RECLAIM)
        return self._figures.stats(self._history)

    def depth(self) -> QueueStats:
        self._adopt()
        return self._figures.depth()

    def due(self, depth: QueueStats) -> Due:
        return self._figures.due(depth)

    @classmethod
    def strays(cls, engines: Sequence[Engine]) -> list[Stray]:
        return strays([one.commands for one in engines if isinstance(one, RedisEngine)])

    def waiting(self) -> int:
        return self._figures.waiting()

    def partitions(
        self, *, partition_key: str | None = None, limit: int = 1000
    ) -> list[PartitionStats]:
        self._adopt()
        return self._figures.partitions(partition_key, limit)

    def jobs(
        self,
        state: State,
        *,
        partition_key: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> JobPage:
        if after is None:
            self._adopt()
        return self._browser.page(state, partition_key, after, limit)

    def job(self, job_id: str) -> JobInfo | None:
        return self._browser.find(job_id)

    def dead_letters(self, ids: Sequence[str] | None = None, *, limit: int = 1000) -> list[NewJob]:
        return self._outbox.letters(ids, limit)


def _setting(value: float | Unset | None) -> str:
    """Return a partition's setting as ``partition.lua`` takes it."""
    if isinstance(value, Unset):
        return ""
    return "-" if value is None else f"{value:.17g}"


def _chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return parts(values, _CHUNK)
