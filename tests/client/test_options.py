"""``http_options``: what is wrong with them is said, at once where that can be known."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

import httpx
import pytest

from tests.client.fakes import SECRET, FakeApi
from vtrr_django import ConfigurationError
from vtrr_django.client import RemoteQueue


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"colour": 1}, "got 'colour'; they are auth, "),
        ({"verfy": False}, "did you mean 'verify'"),
        ({"timeout": 3}, "give it as timeout="),
        ({"base_url": "http://jobs.test"}, "give it as base_url="),
        ({"params": {"tenant": "acme"}}, "no signature would fit"),
        ({7: 1}, "got '7'"),
        ([("verify", False)], "expected a mapping, got"),
        ("verify", "expected a mapping, got"),
        ({"headers": 7}, "headers that httpx.Headers knows"),
        ({"headers": {"x-key": 7}}, "headers that httpx.Headers knows"),
    ],
)
def test_options_that_httpx_does_not_know_are_refused_at_once(options: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^http_options: .*{told}"):
        RemoteQueue(base_url="http://jobs.test", http_options=options)


@pytest.mark.parametrize("value", ["hidden\n", " hidden", "hid\r\nden", "hid\0den", "hiddén"])
def test_a_header_that_no_request_can_carry_is_refused_and_not_shown(value: str) -> None:
    for headers in ({"x-key": value}, [("x-key", value)]):
        with pytest.raises(ConfigurationError, match=r"^http_options: expected") as caught:
            RemoteQueue(base_url="http://jobs.test", http_options={"headers": headers})
        assert "hid" not in "".join(traceback.format_exception(caught.value)).replace(__file__, "")


def test_headers_are_added_to_those_that_are_sent_anyway(api: FakeApi) -> None:
    options = {
        "transport": httpx.MockTransport(api.handle),
        "headers": {"X-Key": "k", "Accept": "*/*"},
    }
    queue = RemoteQueue(base_url="http://jobs.test", secret=SECRET, http_options=options)
    queue.stats()
    headers = api.seen[0].headers
    assert (headers["x-key"], headers["accept"]) == ("k", "*/*")
    assert headers["user-agent"].startswith("vtrr-django/")


@pytest.mark.filterwarnings("ignore:.*verify=.*deprecated:DeprecationWarning")
@pytest.mark.parametrize("options", [{"proxy": "nonsense"}, {"verify": "/no/such/authorities.pem"}])
def test_what_httpx_can_make_no_client_of_is_told_as_such(options: dict[str, Any]) -> None:
    queue = RemoteQueue(base_url="http://127.0.0.1:9", http_options=options)
    for call in (queue.stats, lambda: asyncio.run(queue.astats()), queue.worker().run):
        with pytest.raises(ConfigurationError, match=r"^http_options: expected what httpx can"):
            call()
