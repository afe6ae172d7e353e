"""Leases on their way to clients and back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse

from vtrr_django.api.answers import answer
from vtrr_django.api.fields import Fields
from vtrr_django.api.tokens import LONGEST, WireToken, from_wire, to_wire
from vtrr_django.domain.job import LeasedJob, Outcome, OutcomeKind, Renewal
from vtrr_django.domain.transport import job_to_json
from vtrr_django.domain.values import MAX_DELAY, check_job_id
from vtrr_django.queue import Queue
from vtrr_django.worker.describe import MAX_ERROR_CLASS, MAX_REASON, MAX_TRACEBACK, storable


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """A lease as a client names it.

    Attributes:
        job_id: whose.
        token: what proves it; None: what the client has cannot have come from here.
    """

    job_id: str
    token: WireToken | None

    @classmethod
    def of(cls, fields: Fields, job_id: str | None = None) -> Lease:
        """Read a lease; the job's ``id`` is another field, unless the path has it.

        Raises:
            ValidationError: it is none.
        """
        if job_id is None:
            job_id = check_job_id(fields.values.get("id"), fields.path("id"))
        text = fields.text("token", required=True, longest=LONGEST)
        return cls(job_id=job_id, token=from_wire(text))

    def outcome(self, kind: OutcomeKind, fields: Fields) -> Outcome | None:
        """Return its end as the store is told it; None: the lease is not ours.

        Texts are cut to what the history keeps, and made storable: how a job failed should not
        be lost over the way in which it is told.
        """
        told = Outcome(
            kind=kind,
            job_id=self.job_id,
            token="" if self.token is None else self.token.token,
            delay=fields.seconds("delay", default=0.0),
            reason=storable(fields.text("reason"), MAX_REASON),
            error_class=storable(fields.text("error_class"), MAX_ERROR_CLASS),
            traceback=storable(fields.text("traceback"), MAX_TRACEBACK),
            runtime=fields.seconds_or_none("runtime"),
        )
        return None if self.token is None else told

    def renewal(self, fields: Fields) -> Renewal | None:
        """Return its renewal as the store is told it; None: the lease is not ours."""
        runtime = fields.seconds_or_none("runtime")
        if self.token is None:
            return None
        return Renewal(job_id=self.job_id, token=self.token.token, runtime=runtime)


def first_ends(outcomes: Sequence[Outcome | None]) -> list[Outcome | None]:
    """Leave out all but the first end of each lease: stores differ about which counts."""
    seen: set[tuple[str, str]] = set()
    first: list[Outcome | None] = []
    for outcome in outcomes:
        name = None if outcome is None else (outcome.job_id, outcome.token)
        first.append(None if name in seen else outcome)
        if name is not None:
            seen.add(name)
    return first


def hear_of(queue: Queue, leases: Sequence[Lease], worker_id: str = "") -> None:
    """Know leases that another process gave out, so that what is done is whose it should be."""
    now, seconds = time.time(), queue.config.lease_seconds
    for lease in leases:
        if lease.token is not None:
            queue.recorder.heard_of(
                lease.token.token,
                lease.token.partition_key,
                worker_id,
                age=min(max(0.0, now - lease.token.claimed_at), MAX_DELAY),
                lease_seconds=seconds,
            )


def spread(known: Sequence[object | None], done: Sequence[bool]) -> list[bool]:
    """Return what the store said of those that it was told; of the others, False."""
    answers = iter(done)
    return [one is not None and next(answers) for one in known]


def answer_jobs(
    queue: Queue, jobs: Sequence[LeasedJob], *, come_back: int | None = None, **more: Any
) -> HttpResponse:
    """Return the answer that hands out leased jobs.

    A job that is no JSON, because somebody else wrote it to the store, becomes a dead letter.

    Args:
        queue: whose jobs.
        jobs: those.
        come_back: seconds after which to ask again, which are told; None: they are not.
        more: further keys of the answer.
    """
    if come_back is not None:
        more["retry_after"] = come_back
    told = [job_to_json(job, to_wire(job)) for job in jobs]
    try:
        response = answer({**more, "jobs": told})
    except ValueError:
        sound = [one for job, one in zip(jobs, told, strict=True) if _is_sound(queue, job, one)]
        response = answer({**more, "jobs": sound})
    if come_back is not None:
        response["Retry-After"] = str(come_back)
    return response


def _is_sound(queue: Queue, job: LeasedJob, told: dict[str, Any]) -> bool:
    try:
        answer(told)
    except ValueError as error:
        queue.fail(job, f"expected arguments that JSON can carry, got others: {error}")
        return False
    return True
