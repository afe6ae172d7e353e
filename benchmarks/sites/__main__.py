"""A measured process: answers calls, one JSON line each, until standard input ends."""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from typing import Any

import django
from django.conf import settings


def main() -> None:
    """Set Django up, then answer."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a command prints must not look like an answer
    django.setup()
    site = importlib.import_module(f"benchmarks.sites.{settings.SITE}")
    for line in sys.stdin:
        function, arguments = json.loads(line)
        answer: dict[str, Any]
        try:
            answer = {"result": getattr(site, function)(**arguments)}
        except Exception as error:  # noqa: BLE001 - the caller is told
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


main()
