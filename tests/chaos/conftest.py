"""The fixtures of the race tests, and a seed."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable

import pytest

from tests.races.conftest import (
    make_crew,
    make_queue,
    pytest_collection_modifyitems,
    redis_to_harm,
    size,
    store,
)

__all__ = [
    "make_crew",
    "make_queue",
    "pytest_collection_modifyitems",
    "redis_to_harm",
    "size",
    "store",
]


@pytest.fixture
def seed(capsys: pytest.CaptureFixture[str]) -> str:
    """What decides everything that is left to chance, but not which process is faster.

    Environment:
        VTRR_CHAOS_SEED: the seed of another run.
    """
    chosen = os.environ.get("VTRR_CHAOS_SEED") or f"{random.SystemRandom().getrandbits(32):08x}"
    with capsys.disabled():
        sys.stdout.write(f"\nVTRR_CHAOS_SEED={chosen} ")
    return chosen


@pytest.fixture
def seconds(size: Callable[[int, int], int]) -> float:
    """How long chaos reigns.

    Environment:
        VTRR_CHAOS_SECONDS: if not 2, or 60 with VTRR_STRESS.
    """
    return float(os.environ.get("VTRR_CHAOS_SECONDS") or size(2, 60))
