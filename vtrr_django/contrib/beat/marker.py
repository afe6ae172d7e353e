"""The line in a row's description that says it is ours, and what we wrote into it.

Descriptions are shown and edited in the admin, which may put carriage returns into them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

BEGIN: Final = "[vtrr_django: "
"""What every such line begins with."""

_LINE = re.compile(re.escape(BEGIN) + r"(\{.*\})\](?=[ \t\r]*$)", re.MULTILINE)


def line(task: str, written: Mapping[str, Any]) -> str:
    """Return the line of a row.

    Args:
        task: the Celery task it is for.
        written: what we wrote into it, by field.
    """
    return f"{BEGIN}{json.dumps({'task': task, **written})}]"


def read(description: str) -> dict[str, Any] | None:
    """Return what the line says, ``task`` among it; None: there is none, or it was spoilt."""
    found = _LINE.search(description)
    if found is None:
        return None
    try:
        said = json.loads(found[1])
    except ValueError:
        return None
    return said if isinstance(said.get("task"), str) else None


def replace(description: str, task: str, written: Mapping[str, Any]) -> str:
    """Return the description with a new line, and the text around it as it was."""
    return _LINE.sub(lambda found: line(task, written), description, count=1)
