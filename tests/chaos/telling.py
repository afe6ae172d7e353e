"""A queue's verbs, each told to the journal before it acts and after.

What is told before but not after, by a process that was killed, may have happened or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.utils import OperationalError

from vtrr_django.domain.job import LeasedJob, Outcome, OutcomeKind, Renewal
from vtrr_django.queue import Queue


@dataclass
class Errand:
    """The message of every job; what a worker makes of it is left to chance."""

    number: int = 0


class Undo(Exception):
    """Makes ``atomic()`` roll back."""


class Telling:
    """The verbs of one queue, used by one process under one name."""

    def __init__(self, queue: Queue, say: Callable[..., None], worker_id: str) -> None:
        self.queue = queue
        self.worker_id = worker_id
        self._say = say
        self._renew_many = queue.renew_many
        self._exchange = queue.finish_and_lease

    # -- coming in -----------------------------------------------------------------

    def publish(self, items: dict[str, dict[str, Any]], *, undo: bool = False) -> list[str]:
        """Publish one job per item, marker -> options, in one transaction; return their ids."""
        self._say("publishing", [*items])
        alias = self.queue.engine.transaction_alias
        msg_ids = [options.get("msg_id") for options in items.values()]
        scope: Any = transaction.atomic(using=alias or "default")
        if alias is None and any(msg_ids):
            # Behind a commit the store may find that another was first, and its id is not told.
            scope, undo = nullcontext(), False
        try:
            with scope:
                ids = [
                    self.queue.publish(Errand(), parent_id=marker, **options)
                    for marker, options in items.items()
                ]
                if undo:
                    raise Undo
        except (Undo, OperationalError):  # the latter: chosen to end a deadlock
            self._say("undone", [*items])
            return []
        self._say("published", [*zip(items, ids, msg_ids, strict=True)])
        return ids

    # -- running -------------------------------------------------------------------

    def lease(self, n: int) -> list[LeasedJob]:
        self._say("leasing")
        return self._leased(self.queue.lease(n, self.worker_id))

    def exchange(
        self, outcomes: Sequence[Outcome], n: int, *, worker_id: str
    ) -> tuple[list[bool], list[LeasedJob]]:
        """Do ``finish_and_lease``; a worker may be given this in its place."""
        for outcome in outcomes:
            self._say("ending", outcome.kind.value, outcome.job_id, outcome.token)
        self._say("leasing")
        done, jobs = self._exchange(outcomes, n, worker_id=worker_id)
        for outcome, answer in zip(outcomes, done, strict=True):
            self._say("ended", outcome.kind.value, outcome.job_id, outcome.token, answer)
        return done, self._leased(jobs)

    def _leased(self, jobs: list[LeasedJob]) -> list[LeasedJob]:
        rows = [
            [job.id, job.token, job.lease_expires_at.timestamp(), job.partition_key] for job in jobs
        ]
        self._say("leased", self.worker_id, rows)
        return jobs

    def end(self, kind: OutcomeKind, job: LeasedJob, *more: Any) -> bool:
        """End a lease by its public verb."""
        self._say("ending", kind.value, job.id, job.token)
        verb: Callable[..., bool] = getattr(self.queue, kind.value)
        answer = verb(job, *more)
        self._say("ended", kind.value, job.id, job.token, answer)
        return answer

    def renew_many(self, renewals: Sequence[Renewal]) -> list[bool]:
        """Do ``renew_many``; a worker may be given this in its place."""
        self._say("renewing", [renewal.token for renewal in renewals])
        answers = self._renew_many(renewals)
        told = [(r.token, answer) for r, answer in zip(renewals, answers, strict=True)]
        self._say("renewed", told)
        return answers

    # -- steering ------------------------------------------------------------------

    def cancel(self, ids: Sequence[str]) -> None:
        self._say("cancelling", [*ids])
        self._say("cancelled", [*ids], self.queue.cancel(ids))

    def requeue(self, limit: int) -> None:
        self._say("requeueing")
        self._say("requeued", self.queue.requeue(limit=limit))
