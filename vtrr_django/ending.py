"""The verbs that end a lease: of a queue of this process, or of one behind HTTP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from vtrr_django.domain.job import Outcome, OutcomeKind, Renewal
from vtrr_django.domain.values import check_delay, describe
from vtrr_django.exceptions import ValidationError
from vtrr_django.worker.describe import MAX_REASON, describe_exception, storable


class Leased(Protocol):
    """Anything that names a lease: its job and its token."""

    @property
    def id(self) -> str: ...
    @property
    def token(self) -> str: ...


class Ending(ABC):
    """One verb for each way in which a lease may end."""

    @abstractmethod
    def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """End leases, each in its way; False: that lease was not ours any more."""

    def ack(self, job: Leased, *, runtime: float | None = None) -> bool:
        """End a lease: the job is completed. False: the lease was not ours any more.

        ``runtime`` is how many seconds the job ran; by default since it was leased.
        """
        return self.finish([_outcome(OutcomeKind.ACK, job, runtime=runtime)])[0]

    def fail(
        self, job: Leased, reason: str | BaseException, *, runtime: float | None = None
    ) -> bool:
        """End a lease: the job is a dead letter. False: the lease was not ours any more.

        ``reason`` is text for people, or the exception, whose traceback is kept too.
        """
        return self.finish([_outcome(OutcomeKind.FAIL, job, reason=reason, runtime=runtime)])[0]

    def retry(
        self,
        job: Leased,
        delay: float = 0.0,
        *,
        reason: str | BaseException = "",
        runtime: float | None = None,
    ) -> bool:
        """End a lease: the job runs again in ``delay`` seconds, one attempt used."""
        outcome = _outcome(OutcomeKind.RETRY, job, delay=delay, reason=reason, runtime=runtime)
        return self.finish([outcome])[0]

    def snooze(self, job: Leased, delay: float = 0.0, *, runtime: float | None = None) -> bool:
        """End a lease: the job runs again in ``delay`` seconds, no attempt used."""
        return self.finish([_outcome(OutcomeKind.SNOOZE, job, delay=delay, runtime=runtime)])[0]

    def release(self, job: Leased) -> bool:
        """End a lease: the job is ready again at its old place, no attempt used."""
        return self.finish([_outcome(OutcomeKind.RELEASE, job)])[0]


class AsyncEnding(ABC):
    """The same verbs, with an ``a`` in front, from async code."""

    @abstractmethod
    async def afinish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """Do :meth:`Ending.finish` from async code."""

    async def aack(self, job: Leased, *, runtime: float | None = None) -> bool:
        """Do :meth:`Ending.ack` from async code."""
        return (await self.afinish([_outcome(OutcomeKind.ACK, job, runtime=runtime)]))[0]

    async def afail(
        self, job: Leased, reason: str | BaseException, *, runtime: float | None = None
    ) -> bool:
        """Do :meth:`Ending.fail` from async code."""
        outcome = _outcome(OutcomeKind.FAIL, job, reason=reason, runtime=runtime)
        return (await self.afinish([outcome]))[0]

    async def aretry(
        self,
        job: Leased,
        delay: float = 0.0,
        *,
        reason: str | BaseException = "",
        runtime: float | None = None,
    ) -> bool:
        """Do :meth:`Ending.retry` from async code."""
        outcome = _outcome(OutcomeKind.RETRY, job, delay=delay, reason=reason, runtime=runtime)
        return (await self.afinish([outcome]))[0]

    async def asnooze(
        self, job: Leased, delay: float = 0.0, *, runtime: float | None = None
    ) -> bool:
        """Do :meth:`Ending.snooze` from async code."""
        outcome = _outcome(OutcomeKind.SNOOZE, job, delay=delay, runtime=runtime)
        return (await self.afinish([outcome]))[0]

    async def arelease(self, job: Leased) -> bool:
        """Do :meth:`Ending.release` from async code."""
        return (await self.afinish([_outcome(OutcomeKind.RELEASE, job)]))[0]


def renewal(job: Leased, runtime: float | None) -> Renewal:
    """Return what renews a lease.

    Raises:
        ValidationError: ``job`` names no lease, or ``runtime`` is no number of seconds.
    """
    _check_leased(job)
    if runtime is not None:
        check_delay(runtime, "runtime")
    return Renewal(job_id=job.id, token=job.token, runtime=runtime)


def _check_leased(job: object) -> None:
    if not all(isinstance(getattr(job, name, None), str) for name in ("id", "token")):
        raise ValidationError(
            "job",
            "expected a leased job, or what else has the id and the token of a lease, got "
            + describe(job),
        )


def _outcome(
    kind: OutcomeKind,
    job: Leased,
    *,
    delay: float = 0.0,
    reason: str | BaseException = "",
    runtime: float | None = None,
) -> Outcome:
    _check_leased(job)
    check_delay(delay, "delay")
    if runtime is not None:
        check_delay(runtime, "runtime")
    if isinstance(reason, BaseException):
        told = describe_exception(reason)
    else:
        told = {"reason": storable(str(reason), MAX_REASON)}
    return Outcome(kind=kind, job_id=job.id, token=job.token, delay=delay, runtime=runtime, **told)
