"""What stands between the client and the API: its limits, and its pages instead of answers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from tests.client.fakes import SECRET, FakeApi, Fault, says
from tests.client.proxies import LARGEST, page, proxy_before
from vtrr_django import ConfigurationError, StoreUnavailable
from vtrr_django.client.remote import RemoteQueue
from vtrr_django.domain.job import Outcome, OutcomeKind

HTML = {"content_type": "text/html"}


@dataclass
class Scan:
    image: str


@pytest.fixture
def queue(api: FakeApi) -> Iterator[RemoteQueue]:
    """A queue behind a proxy that lets pass what nginx does by default."""
    with (
        proxy_before(api) as url,
        RemoteQueue(base_url=url, secret=SECRET, patience=0) as queue,
    ):
        yield queue


def test_bulks_pass_a_proxy_that_nobody_has_configured(api: FakeApi, queue: RemoteQueue) -> None:
    scans = [Scan("x" * size) for size in [3_000] * 700 + [600_000] * 3 + [1_040_000]]
    ids = queue.publish_many(scans, partition_key="acme")
    assert list(api.jobs) == ids
    assert len(api.seen) < 10

    async def publish_more() -> list[str]:
        return await queue.apublish_many(scans[-5:])

    assert len(asyncio.run(publish_more())) == 5


def test_ends_pass_it_too(api: FakeApi, queue: RemoteQueue) -> None:
    ids = queue.publish_many([Scan("x")] * 100)
    ends = [
        Outcome(kind=OutcomeKind.FAIL, job_id=job.id, token=job.token, traceback="é" * 16_000)
        for job in queue.lease(100)
    ]
    assert queue.finish(ends) == [True] * 100
    assert [one["id"] for one in api.outcomes] == ids


def test_a_job_that_it_does_not_let_pass_is_told_with_the_setting(queue: RemoteQueue) -> None:
    for publish in (queue.publish, lambda scan: asyncio.run(queue.apublish(scan))):
        with pytest.raises(ConfigurationError, match=r"nginx: client_max_body_size 16m") as caught:
            publish(Scan("x" * LARGEST))
        assert "1,048," in str(caught.value)
        assert "base_url" not in str(caught.value)


@pytest.mark.parametrize(
    ("title", "cure"),
    [
        ("429 Too Many Requests", "how often"),
        ("500 Internal Server Error", "its log"),
        ("502 Bad Gateway", "does the server behind it run"),
        ("503 Service Temporarily Unavailable", "does the server behind it run"),
        ("504 Gateway Time-out", "proxy_read_timeout"),
        ("522 Connection timed out", "status 522 of a proxy"),
    ],
)
def test_a_page_that_says_later_is_told_with_what_may_be_wrong(
    api: FakeApi, title: str, cure: str
) -> None:
    api.faults.append(says(int(title[:3]), page(title), **HTML))
    with pytest.raises(StoreUnavailable, match=cure) as caught:
        api.queue(patience=0).stats()
    assert f"status {title[:3]} of a proxy" in str(caught.value)


def test_what_the_api_says_itself_is_told_as_it_is(api: FakeApi) -> None:
    api.faults.append(says(503, {"error": "the store does not answer"}))
    with pytest.raises(StoreUnavailable, match=r"moment: the store does not answer$"):
        api.queue(patience=0).stats()


@pytest.mark.parametrize(
    ("fault", "cure"),
    [
        (says(400, page("400 The plain HTTP request was sent to HTTPS port")), "https://"),
        (says(400, page("Bad Request (400)")), "ALLOWED_HOSTS"),
        (says(401, page("401 Authorization Required")), "let what is before it"),
        (says(403, page("403 Forbidden")), "let what is before it"),
        (says(404, page("404 Not Found")), "status 404 .*: give as base_url where vtrr_serve"),
    ],
)
def test_a_page_that_says_no_is_told_with_the_cure(api: FakeApi, fault: Fault, cure: str) -> None:
    api.faults.append(fault)
    with pytest.raises(ConfigurationError, match=cure):
        api.queue().stats()


@pytest.mark.parametrize(
    ("location", "cure"),
    [
        ("https://jobs.test/site/default/stats", "give https://jobs.test/site as base_url"),
        ("//other.test/default/stats", "give http://other.test as base_url"),
        ("/elsewhere/default/stats", "give http://jobs.test/elsewhere as base_url"),
        ("/login/?next=/site/default/stats", "is served"),
        ("/site/default/stats/", "is served"),
        ("/site/default/stats", "is served"),
        ("https://[", "is served"),
    ],
)
def test_a_redirect_is_told_with_the_base_url_that_it_means_if_any(
    location: str, cure: str
) -> None:
    api = FakeApi(prefix="/site")
    api.faults.append(says(301, page("301 Moved Permanently"), location=location))
    with pytest.raises(ConfigurationError) as caught:
        api.queue().stats()
    assert f"a redirect to {location}:" in str(caught.value)
    assert str(caught.value).endswith(cure)


@pytest.mark.parametrize(
    ("error", "cure"),
    [
        (ssl.SSLCertVerificationError("self-signed certificate"), "trust whoever signs for it"),
        (ssl.SSLError("wrong version number"), "let base_url begin with http://"),
        (OSError("refused"), "refused$"),
    ],
)
def test_trouble_with_tls_is_told_with_the_cure(api: FakeApi, error: Exception, cure: str) -> None:
    def fail(answer: object) -> httpx.Response:
        raise httpx.ConnectError(str(error)) from error

    api.faults.append(fail)
    with pytest.raises(StoreUnavailable, match=cure):
        api.queue(patience=0).stats()
