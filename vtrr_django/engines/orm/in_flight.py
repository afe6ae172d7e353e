"""How many jobs partitions have in flight: what is held against their limits."""

from __future__ import annotations

from collections.abc import Sequence

from vtrr_django.engines.sql.store import Read, marks
from vtrr_django.engines.sql.tables import JOB, LEASED


def leased_counts(read: Read, queue: str, keys: Sequence[str]) -> dict[str, int]:
    """Return how many jobs each partition has leased; partitions with none are missing."""
    if not keys:
        return {}
    rows = read(
        f"SELECT partition_key, COUNT(*) FROM {JOB} WHERE queue = %s AND state = %s "
        f"AND partition_key IN {marks(keys)} GROUP BY partition_key",
        [queue, LEASED, *keys],
    )
    return dict(rows)
