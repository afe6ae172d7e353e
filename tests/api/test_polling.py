"""Requests that wait for jobs."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connections, transaction
from django.http import HttpRequest

from tests.api.asking import Api
from tests.clock import Clock
from tests.commands.manage import manage
from tests.races.waiting import PATIENCE, until
from vtrr_django import get_queue
from vtrr_django.api import polling
from vtrr_django.api.polling import Waits, waits
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.queue import Queue

Ask = Callable[[Callable[[], Any]], "Future[Any]"]


@pytest.fixture
def elsewhere() -> Iterator[Ask]:
    """Return what asks in another thread, and leaves no connection open there."""

    def asked(question: Callable[[], Any]) -> Any:
        try:
            return question()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        yield lambda question: pool.submit(asked, question)


@pytest.fixture(autouse=True)
def _some_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let some wait, as in a server of ours."""
    monkeypatch.setattr(waits, "most", 8)


def waiting(count: int) -> None:
    until(lambda: waits.count == count, f"{count} that wait")


def test_who_waits_gets_the_job_that_comes(api: Api, elsewhere: Ask) -> None:
    found = elsewhere(lambda: api.claim(5, wait=20))
    waiting(1)
    [job_id] = api.publish({})
    assert [job["id"] for job in found.result()] == [job_id]
    waiting(0)


def test_who_ends_leases_may_wait_for_more(api: Api, elsewhere: Ask) -> None:
    api.publish({})
    [job] = api.claim()
    outcome = {"kind": "ack", "id": job["id"], "token": job["token"]}
    body = {"outcomes": [outcome], "claim": {"worker_id": "w", "wait": 20}}
    found = elsewhere(lambda: api.post("finish", body))
    waiting(1)
    [job_id] = api.publish({})
    answer = found.result()
    assert answer.body["done"] == [True]
    assert [job["id"] for job in answer.body["jobs"]] == [job_id]


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_the_wait_ends(api: Api) -> None:
    assert api.claim(wait=0.05) == []
    assert waits.count == 0


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_one_too_many_is_answered_at_once(
    api: Api, elsewhere: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "most", 1)
    first = elsewhere(lambda: api.claim(wait=20))
    waiting(1)
    assert api.claim(wait=20) == []
    assert not first.done()
    api.publish({})
    assert len(first.result()) == 1


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_one_too_many_is_told_when_to_come_back(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "most", 0)
    answer = api.post("claim", {"worker_id": "w", "wait": 5})
    assert answer.told == (200, {"jobs": [], "retry_after": 2})
    assert answer.headers["Retry-After"] == "2"
    body = {"outcomes": [], "claim": {"worker_id": "w", "wait": 5}}
    answer = api.post("finish", body)
    assert answer.told == (200, {"done": [], "jobs": [], "retry_after": 2})
    assert answer.headers["Retry-After"] == "2"
    # Who does not want to wait, or finds a job, is told nothing of the kind.
    answer = api.post("claim", {"worker_id": "w"})
    assert answer.told == (200, {"jobs": []})
    assert "Retry-After" not in answer.headers
    api.publish({})
    answer = api.post("claim", {"worker_id": "w", "wait": 5})
    assert list(answer.body) == ["jobs"]
    assert "Retry-After" not in answer.headers


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_what_was_ended_is_told_though_the_store_goes_away_meanwhile(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.publish({})
    [job] = api.claim()

    def lease(self: Queue, *args: Any, **more: Any) -> Any:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(Queue, "lease", lease)
    outcome = {"kind": "ack", "id": job["id"], "token": job["token"]}
    body = {"outcomes": [outcome], "claim": {"worker_id": "w", "wait": 0.1}}
    assert api.post("finish", body).told == (200, {"done": [True], "jobs": []})
    assert api.post("claim", {"worker_id": "w", "wait": 0.1}).status == 503
    assert waits.count == 0


# -- the rules by themselves -------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(polling, "time", clock)
    return clock


def test_pauses_grow_up_to_half_a_second_and_end_with_the_time(clock: Clock) -> None:
    looks: list[float] = []

    def look() -> list[Any]:
        looks.append(clock.now)
        return []

    assert Waits(1).poll(look, 10.0) == ([], None)
    assert sum(clock.pauses) == pytest.approx(10.0)
    assert clock.pauses[:2] == [0.02, 0.03]
    assert max(clock.pauses) == 0.5
    assert len(looks) == len(clock.pauses) + 1
    assert looks[-1] == pytest.approx(1010.0)


def test_it_looks_once_without_a_wait_or_room(clock: Clock) -> None:
    for most, seconds in ((1, 0), (1, -1), (0, 10)):
        come_back = polling.COME_BACK if seconds == 10 else None
        assert Waits(most).poll(list, seconds) == ([], come_back)
    assert Waits(0).poll(lambda: ["a job"], 10) == (["a job"], None)
    assert clock.pauses == []


def test_a_server_that_stops_keeps_nobody_waiting(clock: Clock) -> None:
    made = Waits(1)
    made.end()
    assert made.poll(list, 10) == ([], polling.COME_BACK)
    assert clock.pauses == []


def test_those_who_wait_are_answered_when_the_server_stops() -> None:
    made, looked = Waits(2), threading.Event()

    def look() -> list[Any]:
        looked.set()
        return []

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(made.poll, look, 300)
        assert looked.wait(60)
        until(lambda: made.count == 1, "the wait to begin")
        made.end()
        assert found.result(60) == ([], None)
    assert made.poll(look, 300) == ([], polling.COME_BACK)


def test_what_a_look_raises_ends_the_wait(clock: Clock) -> None:
    made, answers = Waits(1), iter([[]])
    with pytest.raises(StopIteration):
        made.poll(lambda: next(answers), 10)
    assert made.count == 0


@pytest.mark.parametrize("how", ["gone", "reset", "there", "talks", "unknown"])
def test_nothing_is_taken_for_who_has_hung_up(clock: Clock, how: str) -> None:
    ours, theirs = socket.socketpair()
    request = HttpRequest()
    if how != "unknown":
        request.META["gunicorn.socket"] = ours
    if how == "talks":
        theirs.send(b"GET / HTTP/1.1")
    if how == "gone":
        theirs.close()
    if how == "reset":
        ours.close()
    looks: list[int] = []
    polled = Waits(1).poll(lambda: looks.append(1) or [], 10, request)  # type: ignore[func-returns-value]
    assert polled == ([], None)
    assert bool(looks) == (how not in {"gone", "reset"})
    ours.close()
    theirs.close()


def test_who_hangs_up_while_waiting_gets_nothing(clock: Clock) -> None:
    ours, theirs = socket.socketpair()
    request = HttpRequest()
    request.META["gunicorn.socket"] = ours
    looks: list[int] = []

    def look() -> list[Any]:
        looks.append(1)
        if len(looks) == 3:
            theirs.close()
        return []

    assert Waits(1).poll(look, 10, request) == ([], None)
    assert len(looks) == 3
    ours.close()


@pytest.mark.django_db(transaction=True)
def test_a_server_gives_no_job_to_who_has_hung_up(tmp_path: Path, transactional_db: None) -> None:
    vtrr = {"QUEUES": {"default": {}}}
    with manage(tmp_path, "vtrr_serve", "--port", "0", "--threads", "4", vtrr=vtrr) as process:
        until(lambda: "listening" in process.out, lambda: f"the server: {process.err}")
        address = urlsplit(process.out.split()[-1])
        place = (str(address.hostname), int(address.port or 0))

        def claim(wait: float) -> http.client.HTTPConnection:
            connection = http.client.HTTPConnection(*place, timeout=PATIENCE)
            body = json.dumps({"worker_id": "w", "wait": wait})
            told = {"Content-Type": "application/json"}
            connection.request("POST", "/default/claim", body, told)
            return connection

        for _ in range(3):
            claim(20).close()
        [job_id] = get_queue("default").put_all([{"task": "t"}])
        last = claim(20)
        [job] = json.loads(last.getresponse().read())["jobs"]
        assert job["id"] == job_id
        last.close()


@pytest.mark.django_db(transaction=True)
def test_nobody_waits_with_a_transaction_open(clock: Clock) -> None:
    made, looks = Waits(1), []
    with transaction.atomic():
        polled = made.poll(lambda: looks.append(1) or [], 10)  # type: ignore[func-returns-value]
    assert polled == ([], polling.COME_BACK)
    assert (looks, clock.pauses) == ([1], [])


@pytest.mark.parametrize("store", ["sqlite", "postgres", "mariadb"], indirect=True)
def test_no_transaction_is_open_while_somebody_waits(
    api: Api, queue: Queue, elsewhere: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where the project has ATOMIC_REQUESTS."""
    seen: list[bool] = []
    looks = Queue.lease

    def lease(self: Queue, *args: Any, **more: Any) -> Any:
        alias = queue.config.database
        seen.append(connections[alias].in_atomic_block)
        return looks(self, *args, **more)

    monkeypatch.setattr(Queue, "lease", lease)
    for alias in connections:
        monkeypatch.setitem(connections[alias].settings_dict, "ATOMIC_REQUESTS", True)
    found = elsewhere(lambda: api.claim(wait=20))
    waiting(1)
    api.publish({})
    assert len(found.result()) == 1
    assert True not in seen
