"""Requests: signed, tried again where that is safe, and their errors."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections import deque
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.client.fakes import SECRET, FakeApi, Fault, lost, says, silent, unsent
from tests.clock import Clock
from vtrr_django import exceptions
from vtrr_django.client import transport
from vtrr_django.client.remote import RemoteQueue
from vtrr_django.client.talk import Call
from vtrr_django.client.transport import Transport
from vtrr_django.domain import signature

STATS = Call(method="GET", path="/default/stats")


def call(api: FakeApi, **options: Any) -> dict[str, Any]:
    return way_to(api).call(replace(STATS, **options))


def way_to(api: FakeApi, base_url: str = "http://jobs.test", **more: Any) -> Transport:
    options = {"transport": httpx.MockTransport(api.handle)}
    return Transport(base_url, api.secret, http_options=options, **more)


class WallClock(Clock):
    """Signatures are of the real time."""

    def time(self) -> float:
        return time.time()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = WallClock()
    monkeypatch.setattr(transport, "time", clock)
    return clock


# -- signing ---------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "/vtrr", "/a%20b/j%C3%B6bs/x%2Fy"])
@pytest.mark.parametrize("slash", ["", "/"])
def test_the_whole_path_is_signed_as_the_server_decodes_it(prefix: str, slash: str) -> None:
    answer = way_to(_Below(prefix), f"http://jobs.test{prefix}{slash}").call(STATS)
    assert answer["queue"] == "default"


class _Below(FakeApi):
    def __init__(self, prefix: str) -> None:
        super().__init__(prefix=prefix)

    def answer(self, request: httpx.Request) -> httpx.Response:
        assert self._lets_in(request)
        assert request.url.raw_path.decode() == f"{self.prefix}/default/stats"
        return httpx.Response(200, json={"queue": "default"})


def test_every_try_is_signed_anew(api: FakeApi) -> None:
    api.faults.extend([lost, lost])
    call(api)
    told = [(one.headers[signature.NONCE], one.headers[signature.SIGNATURE]) for one in api.seen]
    assert len(set(told)) == len(told) == 3


def test_without_a_secret_nothing_is_signed() -> None:
    api = FakeApi(secret=None)
    assert call(api)["queue"] == "default"


def test_a_wrong_secret_is_named_as_one_of_the_reasons(api: FakeApi) -> None:
    wrong = Transport(
        "http://jobs.test", "guess", http_options={"transport": httpx.MockTransport(api.handle)}
    )
    with pytest.raises(exceptions.ConfigurationError, match=r"secret= has to be .* clocks"):
        wrong.call(STATS)
    assert len(api.seen) == 1


def test_a_server_with_a_secret_asks_for_one(api: FakeApi) -> None:
    api.faults.append(says(401, {"error": "unauthorized"}))
    none = Transport(
        "http://jobs.test", http_options={"transport": httpx.MockTransport(api.handle)}
    )
    with pytest.raises(exceptions.ConfigurationError, match="give secret="):
        none.call(STATS)


def test_the_secret_shows_nowhere(api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    queue = api.queue()
    shown = [repr(queue), str(queue), repr(queue._transport), repr(queue.config)]
    for fault in (says(401, {"error": "unauthorized"}), says(400, {"error": "no"}), silent):
        api.faults.append(fault)
        with pytest.raises(exceptions.VTRRError) as caught:
            queue.lease()
        shown.append("".join(traceback.format_exception(caught.value)))
    shown += [str(one.headers) + one.path for one in api.seen] + [caplog.text]
    assert not any(SECRET in text for text in shown)


@pytest.mark.parametrize("secret", ["", b"bytes", 7, "\udc80"])
def test_a_secret_that_is_none_is_refused_and_not_shown(secret: Any) -> None:
    with pytest.raises(exceptions.ConfigurationError, match="secret: expected") as caught:
        Transport("http://jobs.test", secret)
    assert "bytes" not in str(caught.value).replace("got a bytes", "")


# -- addresses -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "base_url",
    [
        *("", "jobs.test", "ftp://jobs.test", "http://", "http:///x", "http://jobs.test:99999"),
        *("http://jobs.test/?a=b", "http://jobs.test/#x", "http://[::1", "http://jobs.test/%ff"),
        *(None, 7, b"http://jobs.test"),
    ],
)
def test_a_base_url_that_is_none_is_refused(base_url: Any) -> None:
    with pytest.raises(exceptions.ConfigurationError, match="base_url: expected"):
        Transport(base_url)


def test_a_password_in_the_base_url_is_refused_and_not_shown() -> None:
    with pytest.raises(exceptions.ConfigurationError, match="secret=") as caught:
        Transport(f"http://vtrr:{SECRET.replace(' ', '')}@jobs.test")
    assert "opensesame" not in str(caught.value)


# -- tries -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [unsent, silent, lost, *(says(status, {"error": "x"}) for status in (500, 502, 503, 504, 429))],
)
def test_what_may_be_done_twice_is_tried_again_as_long_as_is_said(
    clock: Clock, fault: Fault
) -> None:
    api = FakeApi(faults=deque([fault] * 8))
    assert call(api)["queue"] == "default"
    assert len(api.seen) == 9
    assert clock.now < 1000 + transport.PATIENCE

    for patience in (transport.PATIENCE, 7.0, 0.0):
        api.faults.extend([fault] * 1000)
        began, tries = clock.now, len(api.seen)
        with pytest.raises(exceptions.StoreUnavailable, match=r"http://jobs\.test"):
            way_to(api, patience=patience).call(STATS)
        # The last try is at the end of that time, not before.
        assert clock.now - began == pytest.approx(patience)
        assert len(api.seen) - tries > patience / transport.LONGEST_PAUSE
        api.faults.clear()


@pytest.mark.parametrize("fault", [silent, lost, says(503, {"error": "x"}), says(502, b"")])
def test_what_may_not_be_done_twice_is_tried_once(api: FakeApi, fault: Fault) -> None:
    api.faults.append(fault)
    with pytest.raises(exceptions.StoreUnavailable):
        call(api, repeatable=False)
    assert len(api.seen) == 1


def test_what_has_not_been_sent_is_tried_again_whatever_it_is(api: FakeApi) -> None:
    api.faults.append(unsent)
    assert call(api, repeatable=False)["queue"] == "default"


def test_pauses_grow_and_leave_the_server_alone_as_long_as_it_wants(
    clock: Clock,
) -> None:
    api, pauses = FakeApi(), clock.pauses
    api.faults.extend([unsent] * 3 + [says(503, {"error": "x"}, retry_after="2")])
    call(api)
    longest = [transport.FIRST_PAUSE * 2**number for number in range(4)]
    assert all(most / 2 <= pause <= most for pause, most in zip(pauses[:3], longest, strict=False))
    assert 2 <= pauses[3] - longest[3] / 2 <= 2 + longest[3] / 2

    api.faults.append(says(503, {"error": "x"}, retry_after="86400"))
    call(api)
    assert pauses[-1] <= 2 * transport.LONGEST_PAUSE


# -- errors ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        (
            says(400, {"error": "jobs[3].weight: expected 1, got 2", "path": "jobs[3].weight"}),
            exceptions.ValidationError,
            r"^jobs\[3\].weight: expected 1, got 2$",
        ),
        (says(400, {"error": "expected JSON"}), exceptions.ValidationError, "expected JSON"),
        (says(413, {"error": "too large"}), exceptions.ValidationError, "too large"),
        (says(409, {"error": "other job"}), exceptions.DuplicateJobError, "other job"),
        (says(404, {"error": "no queue x"}), exceptions.UnknownQueueError, "no queue x"),
        (says(403, {"error": "forbidden"}), exceptions.ConfigurationError, "403: forbidden"),
        (says(415, {"error": "no JSON"}), exceptions.ConfigurationError, "415: no JSON"),
        (says(404, b"<h1>Not found</h1>"), exceptions.ConfigurationError, "base_url where"),
        (says(404, {"detail": "x"}), exceptions.ConfigurationError, "base_url where"),
        (says(200, b"<html>"), exceptions.ConfigurationError, "base_url where"),
        (says(200, [1]), exceptions.ConfigurationError, "base_url where"),
        (says(200, b"[" * 100_000), exceptions.ConfigurationError, "base_url where"),
        (
            says(301, b"", location="https://elsewhere.test/"),
            exceptions.ConfigurationError,
            r"redirect to https://elsewhere\.test/",
        ),
        (
            says(307, {"error": "moved"}, location="https://elsewhere.test/"),
            exceptions.ConfigurationError,
            "307: moved",
        ),
    ],
)
def test_errors_are_those_of_a_local_queue_and_say_the_cure(
    api: FakeApi, fault: Fault, kind: type[Exception], message: str
) -> None:
    api.faults.append(fault)
    with pytest.raises(kind, match=message) as caught:
        call(api)
    assert type(caught.value) is kind
    assert len(api.seen) == 1


def test_the_path_of_what_was_refused_is_kept(api: FakeApi) -> None:
    api.faults.append(says(400, {"error": "weight: expected 1", "path": "weight"}))
    with pytest.raises(exceptions.ValidationError) as caught:
        call(api)
    assert (caught.value.path, caught.value.problem) == ("weight", "expected 1")


@pytest.mark.parametrize("timeout", [0, -1, "10", float("inf"), None])
def test_a_timeout_that_is_none_is_refused(timeout: Any) -> None:
    with pytest.raises(exceptions.ConfigurationError, match="timeout: expected"):
        Transport("http://jobs.test", timeout=timeout)


@pytest.mark.parametrize("patience", [-1, "10", float("inf"), None])
def test_a_patience_that_is_none_is_refused(patience: Any) -> None:
    with pytest.raises(exceptions.ConfigurationError, match="patience: expected"):
        RemoteQueue(base_url="http://jobs.test", patience=patience)


# -- in event loops --------------------------------------------------------------------


def test_async_requests_are_tried_again_too(api: FakeApi) -> None:
    queue = api.queue()
    api.faults.extend([lost, unsent, says(503, {"error": "x"})])
    assert asyncio.run(queue.astats())["queue"] == "default"
    api.faults.extend([lost] * 1000)
    with pytest.raises(exceptions.StoreUnavailable):
        asyncio.run(api.queue(patience=0.05).astats())
    assert 5 < len(api.seen) < 500


def test_redirects_are_not_followed_whatever_the_options_say(api: FakeApi) -> None:
    api.faults.append(says(302, b"", location="http://jobs.test/default/stats"))
    options = {"transport": httpx.MockTransport(api.handle), "follow_redirects": True}
    queue = RemoteQueue(base_url="http://jobs.test", secret=SECRET, http_options=options)
    with pytest.raises(exceptions.ConfigurationError, match="redirect"):
        queue.stats()
    assert len(api.seen) == 1
