"""The leases of a queue behind HTTP: taking, renewing and ending them."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from vtrr_django.client.answers import done_of, jobs_of
from vtrr_django.client.transport import TRIES, Transport
from vtrr_django.client.wire import (
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
from vtrr_django.domain.values import check_delay, check_number, check_whole, check_worker_id
from vtrr_django.ending import Ending, Leased
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.worker.process import default_worker_id

LONGEST_LEASE = 86_400
"""Seconds; what the API allows."""


class RemoteLeases(Ending):
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
        self._worker_id: str | None = None
        self._works_for = ""
        self.wait = 0.0
        """Seconds that a claim of :meth:`finish_and_lease` waits for jobs."""

    @property
    @abstractmethod
    def config(self) -> QueueConfig:
        """What is settled here."""

    def _path(self, what: str) -> str:
        return self._root + what

    # -- by hand -------------------------------------------------------------------

    def lease(
        self, n: int = 1, worker_id: str | None = None, *, lease_seconds: float | None = None
    ) -> list[LeasedJob]:
        """Lease up to ``n`` jobs in fair order; empty when nothing may run.

        Args:
            n: 1 to 100.
            worker_id: who leases, for people; this process by default.
            lease_seconds: how long the leases last; None: the ``visibility_timeout``.

        Raises:
            StoreUnavailable: no answer. Jobs that were leased all the same come back when
                their leases have run out.
        """
        check_whole(n, "n", 1, MOST_CLAIMED)
        claim = self._claim(n, self._own_id(worker_id), lease_seconds)
        body = self._transport.call("POST", self._path("claim"), dump(claim), repeatable=False)
        return jobs_of(body, self._where)

    def renew(
        self, job: Leased, *, runtime: float | None = None, lease_seconds: float | None = None
    ) -> bool:
        """Let the lease run for ``lease_seconds`` from now. False: it was not ours any more.

        None: for the ``visibility_timeout``.
        """
        if runtime is not None:
            check_delay(runtime, "runtime")
        renewal = Renewal(job_id=job.id, token=job.token, runtime=runtime)
        return self._renew([renewal], lease_seconds, TRIES)[0]

    def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """End leases, each in its way; False: that lease was not ours any more."""
        return self._finish(outcomes, TRIES)

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
            self._end([], None, 1)

    def finish_and_lease(
        self, outcomes: Sequence[Outcome], n: int, *, worker_id: str
    ) -> tuple[list[bool], list[LeasedJob]]:
        """End leases and lease up to ``n`` more jobs, in one request; workers call it."""
        self._works_for = worker_id
        n = min(n, MOST_CLAIMED)
        if not n:
            return self._finish(outcomes, 1), []
        claim = self._claim(n, worker_id, None)
        if not outcomes:
            claim["wait"] = self.wait
            body = self._transport.call(
                "POST", self._path("claim"), dump(claim), repeatable=False, tries=1, wait=self.wait
            )
            return [], jobs_of(body, self._where)
        # What does not fit into one request goes before it. Should the last one fail, all of it
        # is told again: see the class.
        told = list(batches(_dumped(outcomes), MOST_OUTCOMES))
        done = [one for batch in told[:-1] for one in self._end(batch, None, 1)[0]]
        last, jobs = self._end(told[-1], claim, 1)
        return done + last, jobs

    def renew_many(
        self, renewals: Sequence[Renewal], lease_seconds: float | None = None
    ) -> list[bool]:
        """Renew several leases; None: for the ``visibility_timeout``."""
        return self._renew(renewals, lease_seconds, 1)

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
        if worker_id is not None:
            return check_worker_id(worker_id, "worker_id")
        if self._worker_id is None:
            self._worker_id = default_worker_id()
        return self._worker_id

    def _finish(self, outcomes: Sequence[Outcome], tries: int) -> list[bool]:
        told = batches(_dumped(outcomes), MOST_OUTCOMES)
        return [one for batch in told for one in self._end(batch, None, tries)[0]]

    def _end(
        self, told: Sequence[bytes], claim: dict[str, Any] | None, tries: int
    ) -> tuple[list[bool], list[LeasedJob]]:
        content = dump_list("outcomes", told, {"claim": claim})
        body = self._transport.call(
            "POST", self._path("finish"), content, repeatable=claim is None, tries=tries
        )
        done = done_of(body, len(told), self._where)
        return done, jobs_of(body, self._where)

    def _renew(
        self, renewals: Sequence[Renewal], lease_seconds: float | None, tries: int
    ) -> list[bool]:
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
            body = self._transport.call("POST", self._path("renew"), content, tries=tries)
            done += done_of(body, len(batch), self._where)
        return done


def _dumped(outcomes: Sequence[Outcome]) -> list[bytes]:
    return [dump(outcome_to_json(outcome)) for outcome in outcomes]
