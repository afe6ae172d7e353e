"""``store`` as in the contract: the public surface is tried on every store too."""

from tests.contract.conftest import pytest_collection_modifyitems, store

__all__ = ["pytest_collection_modifyitems", "store"]
