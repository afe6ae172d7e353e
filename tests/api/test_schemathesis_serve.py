"""All checks of schemathesis, on ``vtrr_serve``: its own answers, and claims that wait."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.making_up import STRESS, configured, expect_no_problem
from tests.api.signing import SECRET
from tests.api.test_serve import Serve, serve

__all__ = ["serve"]

QUEUE = {"RECLAIM_INTERVAL": 0.1}
VTRR = {"SECRET": SECRET, "QUEUES": {"default": QUEUE}, "LONG_POLLS": 1}


class Waited:
    """Counts claims that have waited in vain."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, case: Any, response: Any) -> None:
        if response.status_code != 200 or case.method != "POST" or not isinstance(case.body, dict):
            return
        claim = case.body.get("claim") or case.body
        answer = json.loads(response.content)
        if claim.get("wait") and answer.get("jobs") == []:
            assert "retry_after" not in answer
            self.count += 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("auth", [True, False] if STRESS else [True])
def test_all_checks(serve: Serve, auth: bool) -> None:
    server = serve("--threads", "2", vtrr=VTRR, apps="tests.api.brief.Brief")
    waited = Waited()
    expect_no_problem(server.address, configured("default", auth=auth, small=True), waited)
    assert bool(waited.count) == auth
