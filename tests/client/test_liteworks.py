"""``Liteworks``: on a queue of this project, and behind HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from django.test import override_settings

from tests.client.fakes import SECRET, FakeApi, no_thread, silent
from vtrr_django import ConfigurationError, StoreUnavailable, ValidationError, get_queue
from vtrr_django.client import Liteworks, RemoteQueue

VTRR = {"MAX_PAYLOAD_BYTES": 500, "QUEUES": {"declared": {"LEASE_SECONDS": 7}}}


@dataclass
class Parcel:
    to: str


def test_settings_win_over_the_arguments_where_they_declare_the_queue() -> None:
    with override_settings(VTRR=VTRR):
        works = Liteworks("declared", visibility_timeout=99, completed_retention=5)
        assert works.queue is get_queue("declared")
        assert works.queue.config.lease_seconds == 7
        assert works.queue.config.completed_retention == 1000


def test_without_vtrr_settings_declare_a_default_queue() -> None:
    with override_settings(VTRR={}):
        assert Liteworks().queue is get_queue("default")


def test_the_arguments_count_for_a_queue_that_settings_do_not_declare() -> None:
    with override_settings(VTRR=VTRR):
        config = Liteworks("other", visibility_timeout=45, completed_retention=None).queue.config
    assert (config.lease_seconds, config.completed_retention) == (45, None)
    assert (config.engine, config.database, config.max_payload_bytes) == ("orm", "default", 500)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["declared", "other"])
def test_a_local_queue_publishes_and_runs(name: str) -> None:
    with override_settings(VTRR=VTRR):
        works, sent = Liteworks(name), []

        @works.handler
        def send(parcel: Parcel) -> None:
            sent.append(parcel.to)

        @works.task
        def note(self: Any, what: str) -> None:
            sent.append(what)

        @works.task(max_retries=1)
        def note_more(self: Any, what: str) -> None:
            sent.append(what)

        first = works.publish(Parcel("a"), msg_id="a")
        assert works.publish_many([(Parcel("b"), {"msg_id": "a"}), Parcel("c")])[0] == first
        asyncio.run(works.apublish(Parcel("d")))
        asyncio.run(works.apublish_many(Parcel("e") for _ in range(1) if works.stats()))
        note.enqueue("f", partition_key="acme")
        note_more.enqueue("g", partition_key="acme")
        with pytest.raises(ValidationError, match=r"^messages\[1\].weight: "):
            works.publish_many([Parcel("x"), (Parcel("y"), {"weight": 0})])
        for wrong in (Parcel(7), "no message"):  # type: ignore[arg-type]
            with pytest.raises(ValidationError, match=r"^messages\[1\](\.\w+)?: expected a "):
                works.publish_many([Parcel("x"), wrong])
        assert works.worker().run_burst().succeeded == 6
        assert sorted(sent) == ["a", "c", "d", "e", "f", "g"]
        assert works.stats()["completed"] == asyncio.run(works.astats())["completed"] == 6
        get_queue_again = Liteworks(name).queue
        assert get_queue_again.stats()["completed"] == 6


def test_with_a_base_url_it_is_a_remote_queue(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = Liteworks(
        "mails",
        "http://jobs.test",
        SECRET,
        visibility_timeout=12,
        timeout=3,
        patience=0,
        retry=None,
        http_options={"transport": httpx.MockTransport(api.handle)},
    )
    assert isinstance(works.queue, RemoteQueue)
    assert (works.queue.config.lease_seconds, works.queue.config.retry) == (12, None)
    assert repr(works) == "<Liteworks on <RemoteQueue 'mails' at http://jobs.test>>"
    sent = []

    @works.handler
    def send(parcel: Parcel) -> None:
        sent.append(parcel.to)
        if parcel.to == "d":
            raise ValueError

    works.publish(Parcel("a"))
    works.publish_many([Parcel("b")])

    async def publish_without_a_thread() -> None:
        await works.apublish(Parcel("c"))
        await works.apublish_many([(Parcel("d"), {"msg_id": "d"})], partition_key="acme")
        assert (await works.astats())["ready"] == 4

    with monkeypatch.context() as patched:
        patched.setattr("asgiref.sync.SyncToAsync.__call__", no_thread)
        asyncio.run(publish_without_a_thread())
    summary = works.worker(poll_interval=0.01).run_burst()
    assert (summary.succeeded, summary.failed) == (3, 1)
    assert sent == ["a", "b", "c", "d"]
    assert works.stats()["queue"] == "mails"
    assert {one.read_timeout for one in api.seen} == {3}
    api.faults.append(silent)
    with pytest.raises(StoreUnavailable):
        works.stats()


@pytest.mark.parametrize(
    "option", [{"timeout": 3}, {"patience": 0}, {"retry": None}, {"http_options": None}]
)
def test_what_is_about_requests_needs_a_base_url(option: dict[str, Any]) -> None:
    [name] = option
    with pytest.raises(ConfigurationError, match=f"^{name}: expected it with a base_url"):
        Liteworks(**option)


@pytest.mark.parametrize("base_url", [None, "https://jobs.test"])
@pytest.mark.parametrize("name", ["colour", "name", "path"])
def test_an_argument_that_there_is_not_is_refused(base_url: str | None, name: str) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        Liteworks(base_url=base_url, **{name: 1})


@pytest.mark.parametrize("base_url", [None, "https://jobs.test"])
@pytest.mark.parametrize("wrong", [{"queue": "no name"}, {"visibility_timeout": 0}])
def test_wrong_arguments_are_refused(base_url: str | None, wrong: dict[str, Any]) -> None:
    with override_settings(VTRR=VTRR), pytest.raises(ConfigurationError, match="expected"):
        Liteworks(**{"queue": "other", "base_url": base_url, **wrong})
