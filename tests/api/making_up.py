"""Requests made up from the OpenAPI document, and answers held against it, by schemathesis."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

from tests import services
from tests.api.signing import SECRET
from vtrr_django.api.shapes import JOB_ID

schemathesis = services.need_package("schemathesis")

STRESS = os.environ.get("VTRR_STRESS", "") not in {"", "0"}
EXAMPLES = 40 if STRESS else 10
REFUSALS = (400, 401, 403, 404, 405, 409, 411, 413, 414, 415, 431)

Seen = Callable[[Any, Any], None]
"""Gets a case and its response."""


def configured(queue: str, *, auth: bool, small: bool = False) -> Any:
    """Return how to ask about a queue.

    Args:
        queue: its name.
        auth: whether with the secret, or as a stranger.
        small: leave out the phase that goes through all borders of all fields, which is long.
    """
    phases: dict[str, Any] = {"stateful": {"max-steps": 6}}
    if small:
        phases |= {"coverage": {"enabled": False}}
    config = {
        "workers": 1,
        "seed": random.randrange(2**32) if STRESS else 1,
        "parameters": {"path.queue": queue},
        "generation": {
            "max-examples": EXAMPLES,
            "database": "none",
            # With made-up signatures all would be refused.
            "with-security-parameters": False,
        },
        # Besides the usual ones: a request whose body is missing does not say its length.
        "checks": {"negative_data_rejection": {"expected-statuses": list(REFUSALS)}},
        "phases": phases,
        # It says 503 of a queue whose jobs nobody runs, as monitors want it.
        "operations": [
            {
                "include-name": "GET /health",
                "checks": {"not_a_server_error": {"expected-statuses": ["2xx", "4xx", "503"]}},
            }
        ],
    }
    if auth:
        config["auth"] = {"basic": {"username": "vtrr", "password": SECRET}}
    return schemathesis.Config.from_dict(config)


def expect_no_problem(url: str, config: Any, seen: Seen | None = None) -> None:
    """Ask all there is to ask; fail if something is wrong with an answer."""
    found = list(_problems(url, config, seen))
    told = "\n\n".join(one[:2000] for one in found[:5])
    assert not found, f"{len(found)} problems with seed {config.seed}\n{told}"


def _problems(url: str, config: Any, seen: Seen | None) -> Iterator[str]:
    from schemathesis.engine import events, from_schema

    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", config=config)
    for event in from_schema(schema).execute():
        if isinstance(event, (events.NonFatalError, events.FatalError)):
            yield str(getattr(event, "info", None) or getattr(event, "exception", event))
        elif isinstance(event, events.ScenarioFinished):
            for case_id, checks in event.recorder.checks.items():
                case = event.recorder.cases[case_id].value
                response = event.recorder.find_response(case_id=case_id)
                if seen is not None and response is not None:
                    seen(case, response)
                for check in checks:
                    info = check.failure_info
                    if info is not None and not _is_false_alarm(check.name, case):
                        told = response and (response.status_code, response.content[:500])
                        yield f"{check.name}: {info.failure}\n{info.code_sample}\n{told}"


def _is_false_alarm(check: str, case: Any) -> bool:
    """Return whether what was refused was not good at all.

    In a series of requests, schemathesis 4.32 now and then takes an id for good that its pattern
    does not allow, such as "T\\x9c".
    """
    told = str(case.path_parameters.get("id", "x"))
    ids = {told, unquote(told)}  # as it is in the address, or before
    return check == "positive_data_acceptance" and not all(
        re.fullmatch(JOB_ID["pattern"], one) for one in ids
    )
