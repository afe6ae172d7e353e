"""The leases of a queue behind HTTP: taking, renewing and ending them."""

from __future__ import annotations

import contextlib
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from vtrr_django.client.answers import done_of, jobs_of, rest_of
from vtrr_django.client.talk import Call, Pause, Talk, ahold, hold
from vtrr_django.client.transport import Transport
from vtrr_django.client.wire import (
    LONGEST_LEASE,
    LONGEST_WAIT,
    MOST_CLAIMED,
    MOST_OUTCOMES,
    MOST_RENEWALS,
    batches,
    dump,
    dump_list,
)
from vtrr_django.domain.config import QueueConfig
from vtrr_django.domain.job import LeasedJob, Outcome, Renewal
from vtrr_django.domain.transport import outcome_to_json
from vtrr_django.domain.values import check_number, check_whole, check_worker_id
from vtrr_django.ending import AsyncEnding, Ending, Leased, renewal
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.worker.process import own_worker_id

ONCE = 0.0
"""The patience of one try."""

SHORTEST_REST = 1.0
"""Seconds between two looks of one lease by hand, at least; the last comes when its wait ends."""


class RemoteLeases(Ending, AsyncEnding):
    """What workers do with a queue; the part of ``RemoteQueue`` that is a ``JobSource``.

    An end of a lease whose answer was lost is told again, and is then answered with False if
    it had been done the first time: the lease is not ours any more. ``ack`` returns that, and
    a worker counts the job as ``lost`` and says so in its log; the history has it as what it
    was: once, and well ended.

    Args:
        name: of the queue.
        transport: the way to its server.
    """

    def __init__(self, name: str, transport: Transport) -> None:
        self._transport = transport
        self._where = str(transport.address)
        self._root = f"/{name}/"
        self._works_for = ""
        self.wait = 0.0
        """Seconds that a claim of :meth:`finish_and_lease` waits for jobs."""
        self._rests_until = 0.0

    @property
    @abstractmethod
    def config(self) -> QueueConfig:
        """What is settled here."""

    def _path(self, what: str) -> str:
        return self._root + what

    # -- by hand -------------------------------------------------------------------

    def lease(
        self,
        n: int = 1,
        worker_id: str | None = None,
        *,
        lease_seconds: float | None = None,
        wait: float = 0.0,
    ) -> list[LeasedJob]:
        """Lease up to ``n`` jobs in fair order; empty when nothing may run.

        Args:
            n: 1 to 100.
            worker_id: who leases, for people; this process by default.
            lease_seconds: how long the leases last; None: the ``visibility_timeout``.
            wait: seconds to wait for the first job, 0 to 20. The server is asked at once, and
                answers as soon as there is one. Where it lets nobody wait, or has too many who
                do, it is asked again when it says, and for the last time when they are over.

        Raises:
            StoreUnavailable: no answer. Jobs that were leased all the same come back when
                their leases have run out.
        """
        return hold(self._leasing(n, worker_id, lease_seconds, wait), self._transport)

    async def alease(
        self,
        n: int = 1,
        worker_id: str | None = None,
        *,
        lease_seconds: float | None = None,
        wait: float = 0.0,
    ) -> list[LeasedJob]:
        """Do :meth:`lease` in asyncio's event loop.

        Who cancels it while it waits may cancel what the server is just giving out: those jobs
        come back when their leases have run out.
        """
        return await ahold(self._leasing(n, worker_id, lease_seconds, wait), self._transport)

    def renew(
        self, job: Leased, *, runtime: float | None = None, lease_seconds: float | None = None
    ) -> bool:
        """Let the lease run for ``lease_seconds`` from now. False: it was not ours any more.

        None: for the ``visibility_timeout``.
        """
        return hold(self._renewing_one(job, runtime, lease_seconds), self._transport)

    async def arenew(
        self, job: Leased, *, runtime: float | None = None, lease_seconds: float | None = None
    ) -> bool:
        """Do :meth:`renew` in asyncio's event loop."""
        return await ahold(self._renewing_one(job, runtime, lease_seconds), self._transport)

    def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """End leases, each in its way; False: that lease was not ours any more."""
        return hold(self._finishing(outcomes, None), self._transport)

    async def afinish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """Do :meth:`finish` in asyncio's event loop."""
        return await ahold(self._finishing(outcomes, None), self._transport)

    # -- by workers ----------------------------------------------------------------
    #
    # One try each: a worker has patience of its own, keeps what it wanted to say, and is not
    # to be held up here when it is told to stop.

    def check_access(self) -> None:
        """Find out whether the server lets us in and has the queue; it may as well be away.

        Raises:
            ConfigurationError: it does not.
        """
        with contextlib.suppress(StoreUnavailable):
            hold(self._ending([], None, ONCE), self._transport)

    def finish_and_lease(
        self, outcomes: Sequence[Outcome], n: int, *, worker_id: str
    ) -> tuple[list[bool], list[LeasedJob]]:
        """End leases and lease up to ``n`` more jobs, in one request; workers call it.

        Where the server has had too many claims that wait, the next one is sent when it has said
        to ask again: until then it waits here, and no longer than it would at the server.
        """
        self._works_for = worker_id
        n = min(n, MOST_CLAIMED)
        if not n:
            return hold(self._finishing(outcomes, ONCE), self._transport), []
        claim = self._claim(n, worker_id, None)
        if not outcomes:
            return [], hold(self._claiming(claim), self._transport)
        # What does not fit into one request goes before it. Should the last one fail, all of it
        # is told again: see the class.
        *earlier, rest = batches(_dumped(outcomes), MOST_OUTCOMES)
        done: list[bool] = []
        for batch in earlier:
            done += hold(self._ending(batch, None, ONCE), self._transport)[0]
        last, jobs = hold(self._ending(rest, claim, ONCE), self._transport)
        return done + last, jobs

    def renew_many(
        self, renewals: Sequence[Renewal], lease_seconds: float | None = None
    ) -> list[bool]:
        """Renew several leases; None: for the ``visibility_timeout``."""
        return hold(self._renewing(renewals, lease_seconds, ONCE), self._transport)

    def job_started(self, job: LeasedJob, worker_id: str) -> None:
        """Do nothing: there are no listeners to signals here."""

    def reclaim(self) -> int:
        """Do nothing, as the next three: the server looks after its queues."""
        return 0

    def archive(self) -> object:
        """Do nothing."""

    def prune(self) -> object:
        """Do nothing."""

    def measure(self, worker_id: str) -> object:
        """Do nothing."""

    # -- requests ------------------------------------------------------------------

    def _claim(self, n: int, worker_id: str, lease_seconds: float | None) -> dict[str, Any]:
        return {
            "worker_id": worker_id,
            "limit": n,
            "visibility_timeout": self._lease_seconds(lease_seconds),
        }

    def _lease_seconds(self, given: float | None) -> float:
        if given is None:
            return self.config.lease_seconds
        return check_number(given, "lease_seconds", 1, LONGEST_LEASE)

    def _own_id(self, worker_id: str | None) -> str:
        return own_worker_id() if worker_id is None else check_worker_id(worker_id, "worker_id")

    def _leasing(
        self, n: int, worker_id: str | None, lease_seconds: float | None, wait: float
    ) -> Talk[list[LeasedJob]]:
        check_whole(n, "n", 1, MOST_CLAIMED)
        check_number(wait, "wait", 0, LONGEST_WAIT)
        claim = self._claim(n, self._own_id(worker_id), lease_seconds)
        ends, left = time.monotonic() + wait, float(wait)
        while True:
            body = yield self._ask(claim, left, None)
            jobs = jobs_of(body, self._where)
            if jobs or left <= 0:
                return jobs
            left = ends - time.monotonic()
            if left <= 0:
                return []
            # Nobody may wait there now, or the server is about to stop.
            pause = max(rest_of(body), SHORTEST_REST)
            yield Pause(min(pause, left))
            left = max(0.0, ends - time.monotonic()) if pause < left else 0.0

    def _claiming(self, claim: dict[str, Any]) -> Talk[list[LeasedJob]]:
        wait = self.wait
        rest = self._rests_until - time.monotonic() if wait else 0.0
        if rest > 0:
            yield Pause(min(rest, wait))
            if rest > wait:
                return []
        body = yield self._ask(claim, wait, ONCE)
        if wait:  # of those who do not, the server says nothing about it
            self._rests_until = time.monotonic() + rest_of(body)
        return jobs_of(body, self._where)

    def _ask(self, claim: dict[str, Any], wait: float, patience: float | None) -> Call:
        return Call(
            path=self._path("claim"),
            content=dump({**claim, "wait": wait}),
            repeatable=False,
            patience=patience,
            wait=wait,
        )

    def _finishing(self, outcomes: Sequence[Outcome], patience: float | None) -> Talk[list[bool]]:
        done: list[bool] = []
        for batch in batches(_dumped(outcomes), MOST_OUTCOMES):
            ended, _ = yield from self._ending(batch, None, patience)
            done += ended
        return done

    def _ending(
        self, told: Sequence[bytes], claim: dict[str, Any] | None, patience: float | None
    ) -> Talk[tuple[list[bool], list[LeasedJob]]]:
        body = yield Call(
            path=self._path("finish"),
            content=dump_list("outcomes", told, {"claim": claim}),
            repeatable=claim is None,
            patience=patience,
        )
        return done_of(body, len(told), self._where), jobs_of(body, self._where)

    def _renewing_one(
        self, job: Leased, runtime: float | None, lease_seconds: float | None
    ) -> Talk[bool]:
        return (yield from self._renewing([renewal(job, runtime)], lease_seconds, None))[0]

    def _renewing(
        self, renewals: Sequence[Renewal], lease_seconds: float | None, patience: float | None
    ) -> Talk[list[bool]]:
        more: dict[str, Any] = {"visibility_timeout": self._lease_seconds(lease_seconds)}
        if self._works_for:
            # Of a worker that runs long jobs nothing else is heard.
            more["worker_id"] = self._works_for
        told = [
            dump({"id": one.job_id, "token": one.token, "runtime": one.runtime}) for one in renewals
        ]
        done: list[bool] = []
        for batch in batches(told, MOST_RENEWALS):
            content = dump_list("leases", batch, more)
            body = yield Call(path=self._path("renew"), content=content, patience=patience)
            done += done_of(body, len(batch), self._where)
        return done


def _dumped(outcomes: Sequence[Outcome]) -> list[bytes]:
    return [dump(outcome_to_json(outcome)) for outcome in outcomes]
