"""Tokens as clients hold them: they also say when the lease began, and of which partition.

The end of a lease may reach another process than the one that gave it out. What the token says
lets it be counted as that tenant's, with its run time. It is only believed for that: the lease
itself is compared in the store.
"""

from __future__ import annotations

import base64
import binascii
import re
import time
from dataclasses import dataclass
from typing import Final

from vtrr_django.domain.job import LeasedJob
from vtrr_django.domain.values import check_partition_key
from vtrr_django.exceptions import ValidationError

LONGEST: Final = 2048
"""Characters: 255 of a partition key are at most 1,360 of base64."""

_TOKEN = re.compile(r"([!-~]{1,256})~([0-9]{1,15})~([A-Za-z0-9_-]{0,1360})")


@dataclass(frozen=True, kw_only=True, slots=True)
class WireToken:
    """What a client's token says.

    Attributes:
        token: the store's.
        claimed_at: seconds since the epoch.
        partition_key: of the job.
    """

    token: str
    claimed_at: float
    partition_key: str


def to_wire(job: LeasedJob, now: float | None = None) -> str:
    """Return the token that a client gets for a job leased now."""
    at = round((time.time() if now is None else now) * 1000)
    key = base64.urlsafe_b64encode(job.partition_key.encode()).decode().rstrip("=")
    return f"{job.token}~{at}~{key}"


def from_wire(text: str) -> WireToken | None:
    """Undo :func:`to_wire`; None: it cannot have come from there."""
    match = _TOKEN.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        return None
    token, at, key = match.groups()
    try:
        partition_key = base64.urlsafe_b64decode(key + "=" * (-len(key) % 4)).decode()
        check_partition_key(partition_key, "token", required=False)
    except (binascii.Error, UnicodeDecodeError, ValidationError):
        return None
    return WireToken(token=token, claimed_at=int(at) / 1000, partition_key=partition_key)
