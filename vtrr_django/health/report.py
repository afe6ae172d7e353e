"""What a health check says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from vtrr_django.domain.transport import time_to_text

Status = Literal["ok", "warning", "critical"]

STATUSES: Final[tuple[Status, ...]] = ("ok", "warning", "critical")
"""From the best to the worst; the place of each is the exit status of ``vtrr_health``."""


Fact: TypeAlias = "float | str | datetime | None"
"""A number, a name, a moment, yes or no; None: there is none, or nobody knows."""


def worst(statuses: Iterable[Status]) -> Status:
    """Return the worst of them; of none, ``"ok"``."""
    return max(statuses, key=STATUSES.index, default="ok")


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        id: what was looked at: ``store``, ``database``, ``workers``, ``backlog``, ``age``,
            ``reclaim``, ``outbox``, ``beat``; of a report as a whole ``settings``.
        status: what was found.
        sentence: the same for people. It names no tenant and quotes no arguments, but workers,
            and what a store answered.
        facts: the numbers and moments of it by name, see the README; durations in seconds.
    """

    id: str
    status: Status
    sentence: str
    facts: Mapping[str, Fact] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it; moments are RFC 3339 in UTC."""
        facts = {name: _told(fact) for name, fact in self.facts.items()}
        return {
            "id": self.id,
            "status": str(self.status),
            "sentence": self.sentence,
            "facts": facts,
        }


def _told(fact: Fact) -> float | str | None:
    if isinstance(fact, datetime):
        return time_to_text(fact)
    return round(fact, 3) if isinstance(fact, float) else fact


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

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""

        def told(findings: Iterable[Finding]) -> list[dict[str, Any]]:
            return [finding.as_dict() for finding in findings]

        return {
            "status": self.status,
            "findings": told(self.findings),
            "queues": [
                {"queue": one.queue, "status": one.status, "findings": told(one.findings)}
                for one in self.queues
            ],
        }
