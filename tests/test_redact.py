"""``VTRR["REDACT"]``: what it hides stays hidden, whatever goes wrong in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vtrr_django.redact import HIDDEN, arguments_for_people

CANARY = "swordfish"
PAYLOAD = json.dumps({"args": [1], "kwargs": {"password": CANARY, "name": "Köln"}})


def raises(task_name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    raise LookupError(kwargs["password"])


def gives(answer: Any) -> Any:
    return lambda task_name, args, kwargs: answer


@pytest.mark.parametrize(
    "redact",
    [
        raises,
        gives(None),
        gives(CANARY),
        gives(([1],)),
        gives(([1], {}, CANARY)),
        gives((1, {})),
        gives(([1], CANARY)),
        gives(([object()], {"password": CANARY})),
        lambda kwargs: kwargs,
    ],
)
def test_nothing_is_shown_where_it_fails(
    settings: Any, redact: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.VTRR = {"QUEUES": {"default": {}}, "REDACT": redact}
    assert arguments_for_people("app.tasks.job", PAYLOAD) == HIDDEN
    assert "a job of task app.tasks.job; its arguments are hidden" in caplog.text
    assert CANARY not in caplog.text


@pytest.mark.parametrize("payload", ["no JSON", "{}", "[]", '{"args": []}'])
def test_a_payload_it_cannot_be_asked_about_is_hidden(settings: Any, payload: str) -> None:
    settings.VTRR = {"QUEUES": {"default": {}}, "REDACT": lambda task, args, kwargs: (args, kwargs)}
    assert arguments_for_people("app.tasks.job", payload) == HIDDEN


def test_it_may_change_what_it_is_given(settings: Any) -> None:
    def redact(task_name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        kwargs["password"] = "***"
        return args, kwargs

    settings.VTRR = {"QUEUES": {"default": {}}, "REDACT": redact}
    shown = json.loads(arguments_for_people("app.tasks.job", PAYLOAD))
    assert shown == {"args": [1], "kwargs": {"password": "***", "name": "Köln"}}


def test_without_it_all_is_shown_as_people_read_it(settings: Any) -> None:
    settings.VTRR = {"QUEUES": {"default": {}}}
    assert '"name": "Köln"' in arguments_for_people("app.tasks.job", PAYLOAD)
    assert arguments_for_people("app.tasks.job", "no JSON") == "no JSON"
