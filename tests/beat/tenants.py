"""What periodic tasks call for the keys of all tenants.

``PATH`` is an app's, as ``partitions`` demands: tests put a callable there.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

PATH = "tests.app.tasks.tenants"


def set_tenants(patch: pytest.MonkeyPatch, found: Any) -> None:
    patch.setattr(importlib.import_module("tests.app.tasks"), "tenants", found)
