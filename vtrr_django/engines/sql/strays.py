"""Live jobs of queues that nobody declares any more."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from vtrr_django.domain.job import Stray
from vtrr_django.engines.sql.store import Store, marks
from vtrr_django.engines.sql.tables import JOB, LEASED, READY, SCHEDULED

_MOST: Final = 1000
"""Names of queues that are looked at."""

# From name to name, one probe of an index each: there may be a million rows of one.
_WALK: Final = f"""
    WITH RECURSIVE names (queue, n) AS (
        SELECT (SELECT queue FROM {JOB} ORDER BY queue LIMIT 1), 1
        UNION ALL
        SELECT (
            SELECT j.queue FROM {JOB} j WHERE j.queue > names.queue ORDER BY j.queue LIMIT 1
        ), names.n + 1
        FROM names WHERE names.queue IS NOT NULL AND names.n < {_MOST}
    )
"""

# MariaDB reads every row for each step of that.
_GROUPS: Final = f"""
    WITH names AS (
        SELECT queue FROM {JOB} FORCE INDEX FOR GROUP BY (vtrr_job_line)
        GROUP BY queue ORDER BY queue LIMIT {_MOST}
    )
"""


def strays(store: Store, declared: Collection[str]) -> list[Stray]:
    """Return the live jobs of a database that are of no queue declared to be in it: one query.

    Raises:
        StoreUnavailable: it did not answer, or was not migrated.
        ConfigurationError: ``DATABASES`` has no such alias.
    """
    counts = ", ".join(
        f"(SELECT COUNT(*) FROM {JOB} j WHERE j.queue = names.queue AND j.state = {state})"
        for state in (READY, SCHEDULED, LEASED)
    )
    names = sorted(declared)
    others = f" AND names.queue NOT IN {marks(names)}" if names else ""
    rows = store.read(
        f"{_GROUPS if store.dialect.skips_equal_keys else _WALK} "
        f"SELECT names.queue, {counts} FROM names "
        f"WHERE names.queue IS NOT NULL{others} ORDER BY names.queue",
        names,
    )
    place = f"database {store.alias!r}"
    return [
        Stray(queue=name, place=place, ready=ready, scheduled=scheduled, leased=leased)
        for name, ready, scheduled, leased in rows
    ]
