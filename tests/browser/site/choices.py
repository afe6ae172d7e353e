"""What the site and the tests both have to know."""

from __future__ import annotations

from typing import Any

BATCH = 20
"""Dead letters that the site takes in one request."""


def redact(task_name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Hide passwords; ``VTRR["REDACT"]``."""
    return args, {key: "***" if key == "password" else value for key, value in kwargs.items()}
