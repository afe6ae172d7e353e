"""``store`` as in the contract, and queues and processes as in the races."""

from tests.contract.conftest import pytest_collection_modifyitems, store
from tests.races.conftest import make_crew, make_queue

__all__ = ["make_crew", "make_queue", "pytest_collection_modifyitems", "store"]
