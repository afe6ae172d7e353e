"""What a health check says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

Status = Literal["ok", "warning", "critical"]

STATUSES: Final[tuple[Status, ...]] = ("ok", "warning", "critical")
"""From the best to the worst; the place of each is the exit status of ``vtrr_health``."""


def worst(statuses: Iterable[Status]) -> Status:
    """Return the worst of them; of none, ``"ok"``."""
    return max(statuses, key=STATUSES.index, default="ok")


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        id: what was looked at: ``store``, ``database``, ``workers``, ``backlog``, ``age``,
            ``reclaim``, ``beat``; of a report as a whole ``settings``.
        status: what was found.
        sentence: the same for people. It names no tenant and quotes no arguments, but workers,
            and what a store answered.
    """

    id: str
    status: Status
    sentence: str

    def as_dict(self, *, sentences: bool) -> dict[str, str]:
        """Return it as JSON has it, with or without its sentence."""
        told = {"id": self.id, "status": str(self.status)}
        return {**told, "sentence": self.sentence} if sentences else told


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueHealth:
    """How one queue is."""

    queue: str
    findings: tuple[Finding, ...]

    @property
    def status(self) -> Status:
        """The worst of its findings."""
        return worst(finding.status for finding in self.findings)


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthReport:
    """How queues are.

    Attributes:
        queues: in the order of settings.
        findings: about the whole; empty unless nothing could be looked at.
    """

    queues: tuple[QueueHealth, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def status(self) -> Status:
        """The worst of all."""
        return worst(
            [
                *(queue.status for queue in self.queues),
                *(finding.status for finding in self.findings),
            ]
        )

    def as_dict(self, *, sentences: bool) -> dict[str, Any]:
        """Return it as JSON has it, with or without sentences."""

        def told(findings: Iterable[Finding]) -> list[dict[str, str]]:
            return [finding.as_dict(sentences=sentences) for finding in findings]

        return {
            "status": self.status,
            "findings": told(self.findings),
            "queues": [
                {"queue": one.queue, "status": one.status, "findings": told(one.findings)}
                for one in self.queues
            ],
        }
