"""Which stores a test is about; each mark says why it is not about all."""

from __future__ import annotations

import pytest

from tests.contract.stores import SQL_STORES, STORES

shared = [name for name, make in STORES.items() if make().shared]
"""Stores that several processes can use."""

_SERIAL = {"sqlite"}


def _only(names: list[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("store", names, indirect=True)


many_writers = _only([name for name in SQL_STORES if name not in _SERIAL])
"""Transactions of two callers write at the same time, so one could wait for the other.

For queues in Redis, callers' transactions are those of the default database.
"""

one_writer = _only(sorted(_SERIAL))
"""A transaction that has written is the only one until it ends: the file has one lock."""

unhindered = _only([name for name in shared if name not in _SERIAL])
"""No verb has to wait for a caller who has enqueued in a transaction that is still open."""

partition_rows = _only([*SQL_STORES])
"""The store keeps its candidates in partition rows, in transactions of their own."""

crossing_rows = _only([name for name in SQL_STORES if name not in _SERIAL])
"""As ``partition_rows``, and the steps of two transactions can cross each other."""

other_levels = _only(["mariadb"])
"""What a statement locks depends on the isolation level that a project has chosen."""
