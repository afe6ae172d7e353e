"""What people may see of a job's arguments: ``VTRR["REDACT"]`` decides."""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from vtrr_django.conf import get_settings

logger = logging.getLogger("vtrr_django.redact")

HIDDEN: Final = "(hidden: VTRR['REDACT'] failed for this job; the log says how)"


def arguments_for_people(task_name: str, payload: str) -> str:
    """Return a job's arguments as indented JSON, without what ``REDACT`` hides.

    ``REDACT`` is called as ``redact(task_name, args, kwargs)`` with copies, and returns the
    ``(args, kwargs)`` that may be seen, which JSON must be able to carry. Should it raise or
    return something else, nothing is shown.

    Args:
        task_name: the job's task.
        payload: the JSON text ``{"args": [...], "kwargs": {...}}``.
    """
    redact = get_settings().redact
    if redact is None:
        try:
            return _indented(json.loads(payload))
        except ValueError:
            return payload
    try:
        body = json.loads(payload)
        args, kwargs = redact(task_name, body["args"], body["kwargs"])
        return _indented({"args": list(args), "kwargs": dict(kwargs)})
    except Exception as error:  # noqa: BLE001 - the project's code; nothing may get past it
        # Neither its text nor its traceback: they may quote what is to be hidden.
        logger.error(
            "VTRR['REDACT'] raised %s for a job of task %s; its arguments are hidden",
            type(error).__name__,
            task_name,
        )
        return HIDDEN


def _indented(body: Any) -> str:
    return json.dumps(body, ensure_ascii=False, indent=2)
