"""``store``: the Redis engine on the server of ``tests.settings``, emptied after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.redis_store import RedisStore
from tests.races.conftest import size

__all__ = ["size"]


@pytest.fixture
def store(transactional_db: None) -> Iterator[RedisStore]:
    made = RedisStore("redis")
    yield made
    made.close()
