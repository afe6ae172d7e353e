"""What the API answers, as the values that the rest of the package knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from vtrr_django.domain.job import LeasedJob
from vtrr_django.domain.transport import job_from_json, time_from_text
from vtrr_django.exceptions import ConfigurationError

T = TypeVar("T")

LONGEST_REST: Final = 60.0

_COUNTS: Final = ("ready", "claimed", "scheduled", "failed", "completed")
"""What the counts of a queue hold in any version, and what no other service answers."""


def jobs_of(body: Mapping[str, Any], where: str) -> list[LeasedJob]:
    """Return the jobs of an answer; ``where`` is the server, for people.

    Raises:
        ConfigurationError: there is no list of them, or this version does not know such jobs.
    """
    try:
        return [job_from_json(job) for job in _list_of(body, "jobs", dict, where)]
    except (KeyError, TypeError, ValueError) as error:
        raise _strange(where, "jobs that this version knows") from error


def done_of(body: Mapping[str, Any], count: int, where: str) -> list[bool]:
    """Return which of ``count`` leases were ended or renewed."""
    done = _list_of(body, "done", bool, where)
    if len(done) != count:
        raise _strange(where, f"{count} times true or false")
    return done


def ids_of(body: Mapping[str, Any], count: int, where: str) -> list[str]:
    """Return the ids of ``count`` jobs."""
    ids = _list_of(body, "ids", str, where)
    if len(ids) != count:
        raise _strange(where, f"{count} ids")
    return ids


def rest_of(body: Mapping[str, Any]) -> float:
    """Return the seconds in which the server wants no other claim that waits; mostly 0."""
    seconds = body.get("retry_after", 0)
    good = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    return min(max(0.0, seconds), LONGEST_REST) if good else 0.0


def stats_of(body: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the counts of a queue as ``Queue.stats()`` has them: with moments, not texts.

    Raises:
        ConfigurationError: there are no counts, or moments are none.
    """
    if not all(type(body.get(name)) is int for name in _COUNTS):
        raise _strange(where, f"how many jobs are {', '.join(_COUNTS)}")
    try:
        return _with_moments(body)
    except (TypeError, ValueError) as error:
        raise _strange(where, "moments with an offset") from error


def _with_moments(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _value(name, value) for name, value in body.items()}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_with_moments(one) if isinstance(one, dict) else one for one in value]
    return time_from_text(value) if name.endswith("_at") else value


def _list_of(body: Mapping[str, Any], name: str, kind: type[T], where: str) -> list[T]:
    found = body.get(name)
    if not isinstance(found, list) or not all(isinstance(one, kind) for one in found):
        raise _strange(where, f"a list of {name}")
    return found


def _strange(where: str, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"expected {where} to answer with {what}, got something else: its version and that of "
        "this client do not fit; install the same vtrr-django on both sides"
    )
