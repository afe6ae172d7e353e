"""Workers elsewhere lease jobs, renew their leases and end them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from vtrr_django.api.endpoint import Call, Fields, Refused, endpoint
from vtrr_django.api.leases import Lease, answer_jobs, first_ends, hear_of, spread
from vtrr_django.api.polling import LONGEST_WAIT, Polled, waits
from vtrr_django.api.upkeep import tend
from vtrr_django.domain.job import LeasedJob, OutcomeKind
from vtrr_django.domain.transport import KINDS
from vtrr_django.domain.values import check_job_id, check_worker_id
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.queue import Queue

MOST_CLAIMED: Final = 100
MOST_OUTCOMES: Final = 100
MOST_RENEWED: Final = 1000
"""In one request."""

MOST_BYTES: Final = 32 * 1024 * 1024
"""Of the payloads in one answer."""

SHORTEST_LEASE: Final = 1.0
LONGEST_LEASE: Final = 86_400.0
"""Seconds."""

ACTIONS: Final = {
    "snooze": ("delay", "reason"),
    "retry": ("delay", "reason"),
    "renew": ("visibility_timeout",),
    "release": (),
}
"""What may be done to a lease besides ending it for good, and what may be said of each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A wish for jobs.

    Attributes:
        worker_id: whose.
        limit: most jobs.
        lease_seconds: how long their leases last; None: as the queue says.
        wait: seconds to wait for the first.
    """

    worker_id: str
    limit: int
    lease_seconds: float | None
    wait: float

    @classmethod
    def of(cls, fields: Fields) -> Claim:
        """Read a claim.

        Raises:
            ValidationError: it is none.
        """
        fields.only("worker_id", "limit", "visibility_timeout", "wait")
        return cls(
            worker_id=check_worker_id(fields.values.get("worker_id"), fields.path("worker_id")),
            limit=fields.whole("limit", 1, MOST_CLAIMED, default=1),
            lease_seconds=_lease_seconds(fields),
            wait=fields.seconds("wait", 0, LONGEST_WAIT, default=0.0),
        )

    def most(self, queue: Queue) -> int:
        """Return how many jobs may be leased, were each as large as the queue allows."""
        return max(1, min(self.limit, MOST_BYTES // queue.config.max_payload_bytes))

    def lease(self, queue: Queue) -> list[LeasedJob]:
        """Lease what there is."""
        queue.recorder.seen(self.worker_id)
        return queue.lease(self.most(queue), self.worker_id, lease_seconds=self.lease_seconds)

    def lease_or_tend(self, queue: Queue) -> list[LeasedJob]:
        """Lease what there is; look after the queue if there is nothing and that is waited for."""
        found = self.lease(queue)
        if not found and self.wait:
            tend(queue)
        return found


def _lease_seconds(fields: Fields) -> float | None:
    return fields.seconds_or_none("visibility_timeout", SHORTEST_LEASE, LONGEST_LEASE)


@endpoint(read=False, permission=None)
def claim(call: Call) -> Any:
    """Lease jobs; wait for them, if the caller wants to and may."""
    wanted = Claim.of(call)

    def look() -> list[LeasedJob]:
        return wanted.lease_or_tend(call.queue)

    found, come_back = waits.poll(look, wanted.wait, call.request)
    return answer_jobs(call.queue, found, come_back=come_back)


@endpoint(read=False, permission=None)
def finish(call: Call) -> Any:
    """End leases and lease more, in one transaction: what workers do all the time."""
    call.only("outcomes", "claim")
    asked = call.objects("outcomes", 0, MOST_OUTCOMES)
    leases, outcomes = [], []
    for fields in asked:
        fields.only("kind", "id", "token", "delay", "reason", "error_class", "traceback", "runtime")
        kind = OutcomeKind(fields.choice("kind", KINDS))
        leases.append(lease := Lease.of(fields))
        outcomes.append(lease.outcome(kind, fields))
    outcomes = first_ends(outcomes)
    found = call.object_or_none("claim")
    wanted = None if found is None else Claim.of(found)
    queue = call.queue
    hear_of(queue, leases, "" if wanted is None else wanted.worker_id)
    told = [outcome for outcome in outcomes if outcome is not None]
    if wanted is None:
        done = queue.finish(told) if told else []
        return {"done": spread(outcomes, done), "jobs": []}
    queue.recorder.seen(wanted.worker_id)
    done, jobs = queue.finish_and_lease(
        told, wanted.most(queue), worker_id=wanted.worker_id, lease_seconds=wanted.lease_seconds
    )
    queue.dispatch_after(told, done)
    come_back = None
    if not jobs and wanted.wait:
        jobs, come_back = _wait(call, wanted)
    return answer_jobs(queue, jobs, come_back=come_back, done=spread(outcomes, done))


def _wait(call: Call, wanted: Claim) -> Polled:
    """Wait for jobs, come what may: what has been ended is still to be told."""

    def look() -> list[LeasedJob]:
        try:
            return wanted.lease_or_tend(call.queue)
        except StoreUnavailable:
            return []

    return waits.poll(look, wanted.wait, call.request)


@endpoint(read=False, permission=None)
def renew(call: Call) -> Any:
    """Renew leases. Whoever says its ``worker_id`` is known to be alive."""
    call.only("leases", "visibility_timeout", "worker_id")
    worker_id = ""
    if call.has("worker_id"):
        worker_id = check_worker_id(call.values["worker_id"], "worker_id")
    leases, renewals = [], []
    for fields in call.objects("leases", 1, MOST_RENEWED):
        fields.only("id", "token", "runtime")
        leases.append(lease := Lease.of(fields))
        renewals.append(lease.renewal(fields))
    queue, seconds = call.queue, _lease_seconds(call)
    hear_of(queue, leases, worker_id)
    if worker_id:
        queue.recorder.seen(worker_id)
    told = [renewal for renewal in renewals if renewal is not None]
    done = queue.renew_many(told, seconds) if told else []
    return {"done": spread(renewals, done)}


@endpoint(read=False, permission=None, query=("token", "runtime"))
def ack(call: Call, job_id: str) -> Any:
    """End a lease: the job is completed."""
    return _end(call, OutcomeKind.ACK, Lease.of(call, check_job_id(job_id, "id")))


@endpoint(read=False, permission=None)
def fail(call: Call) -> Any:
    """End a lease: the job is a dead letter."""
    call.only("id", "token", "reason", "error_class", "traceback", "runtime")
    return _end(call, OutcomeKind.FAIL, Lease.of(call))


@endpoint(read=False, permission=None)
def change(call: Call, job_id: str) -> Any:
    """Snooze, retry or release a job, or renew its lease."""
    action = call.choice("action", tuple(ACTIONS))
    call.only("token", "action", "runtime", *ACTIONS[action])
    lease = Lease.of(call, check_job_id(job_id, "id"))
    if action != "renew":
        return _end(call, OutcomeKind(action), lease)
    renewal, seconds = lease.renewal(call), _lease_seconds(call)
    queue = call.queue
    hear_of(queue, [lease])
    return _done(lease, renewal is not None and queue.renew_many([renewal], seconds)[0])


def _end(call: Call, kind: OutcomeKind, lease: Lease) -> Any:
    outcome = lease.outcome(kind, call)
    queue = call.queue
    hear_of(queue, [lease])
    return _done(lease, outcome is not None and queue.finish([outcome])[0])


def _done(lease: Lease, done: bool) -> Any:
    if not done:
        raise Refused(
            409,
            f"expected a lease that is yours, got one of job {lease.job_id} that is not, or not "
            "any more: it ran out, was ended, or the token is of another; drop the job",
            more={"done": False},
        )
    return {"done": True}
