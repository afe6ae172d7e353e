"""What ``vtrr_queue.enqueue`` makes of its arguments; no Celery is needed for that."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import override_settings

from tests import services
from tests.beat.tenants import PATH, set_tenants
from vtrr_django import get_queue
from vtrr_django.contrib.beat.enqueue import enqueue
from vtrr_django.exceptions import StoreUnavailable, UnknownQueueError, ValidationError
from vtrr_django.queue import BATCH, Queue
from vtrr_django.testing import run_jobs

pytestmark = pytest.mark.django_db(transaction=True)

STORES: dict[str, dict[str, Any]] = {
    "sqlite": {},
    "redis": {"ENGINE": "redis", "URL": services.SERVICES["redis"].url("redis")},
}
SEEN: list[Any] = []


@dataclass
class Report:
    """A message."""

    month: int
    title: str = "none"


@pytest.fixture(
    params=["sqlite", pytest.param("redis", marks=pytest.mark.service("redis"))],
)
def queue(request: pytest.FixtureRequest) -> Iterator[Queue]:
    name = f"e{uuid.uuid4().hex[:8]}"
    SEEN.clear()
    with override_settings(VTRR={"QUEUES": {name: STORES[request.param], "idle": {}}}):
        queue = get_queue(name)
        queue.task(job)
        queue.handler(report)
        yield queue
        queue.purge()


def job(self: Any, number: int = 0, *, flag: bool = False) -> None:
    SEEN.append((self.request.vtrr_job.partition_key, number, flag))


def report(message: Report) -> None:
    SEEN.append(message)


TASK = f"{__name__}.job"
MESSAGE = "Report"


def said(queue: Queue, **more: Any) -> dict[str, Any]:
    return {"queue": queue.name, "task": TASK, **more}


# -- one ----------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{"args": "swordfish"}, {"kwargs": "swordfish"}])
def test_arguments_that_do_not_fit_are_not_told(queue: Queue, given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        enqueue(said(queue, partition_key="acme", **given), "m1")
    assert "swordfish" not in str(caught.value)


def test_one_job(queue: Queue) -> None:
    more = {"args": [7], "kwargs": {"flag": True}, "weight": 3, "priority": 5}
    [job_id] = enqueue(said(queue, partition_key="acme", **more), "m1")
    [leased] = queue.lease()
    assert (leased.id, leased.task_name) == (job_id, TASK)
    assert (leased.partition_key, leased.weight, leased.priority) == ("acme", 3, 5)
    assert (leased.args, leased.kwargs) == ([7], {"flag": True})
    assert leased.msg_id == "m1/acme"


def test_it_runs(queue: Queue) -> None:
    enqueue(said(queue, partition_key="acme"), "m1")
    run_jobs(queue)
    assert SEEN == [("acme", 0, False)]


def test_delay(queue: Queue) -> None:
    enqueue(said(queue, partition_key="acme", delay=60), "m1")
    assert (queue.stats()["ready"], queue.stats()["scheduled"]) == (0, 1)


def test_a_message(queue: Queue) -> None:
    enqueue({"queue": queue.name, "task": MESSAGE, "kwargs": {"month": 4}}, "m1")
    [leased] = queue.lease()
    assert leased.partition_key == ""
    queue.release(leased)
    run_jobs(queue)
    (message,) = SEEN
    assert message == Report(4)


def test_delivered_again(queue: Queue) -> None:
    given = said(queue, partition_key="acme")
    first = enqueue(given, "m1")
    assert enqueue(given, "m1") == first
    run_jobs(queue)
    assert enqueue(given, "m1") == first, "nor when the job is done"
    assert queue.stats()["ready"] == 0
    assert enqueue(given, "m2") != first
    assert enqueue(given, None) != enqueue(given, None)


def test_long_names(queue: Queue) -> None:
    """Together longer than a msg_id may be, and alike where that is cut off."""
    keys = ["k" * 254 + end for end in "ab"]
    ids = [enqueue(said(queue, partition_key=key), "m" * 36) for key in keys * 2]
    assert ids[:2] == ids[2:]
    assert ids[0] != ids[1]


# -- one for each tenant ------------------------------------------------------------------


def test_once_per_tenant(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"tenant-{number}" for number in range(3000)]
    assert len(keys) > 2 * BATCH
    set_tenants(monkeypatch, lambda: iter([*keys, "tenant-7"]))
    given = said(queue, partitions=PATH, args=[1])
    ids = enqueue(given, "m1")
    assert len(set(ids)) == 3000
    assert queue.stats()["ready"] == 3000
    assert {one.partition_key for one in queue.partitions(limit=5000)} == set(keys)
    assert enqueue(given, "m1") == ids
    assert queue.stats()["ready"] == 3000


def test_half_done_and_delivered_again(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is lost after some batches; meanwhile a tenant has come."""
    keys = [f"tenant-{number}" for number in range(3 * BATCH)]
    set_tenants(monkeypatch, lambda: keys)
    store, calls = queue.engine.enqueue, iter([True, True, False])

    def unsteady(*args: Any) -> list[str]:
        if not next(calls):
            raise StoreUnavailable("gone")
        return store(*args)

    monkeypatch.setattr(queue.engine, "enqueue", unsteady)
    with pytest.raises(StoreUnavailable):
        enqueue(said(queue, partitions=PATH), "m1")
    assert queue.stats()["ready"] == 2 * BATCH
    monkeypatch.setattr(queue.engine, "enqueue", store)
    keys.append("new")
    enqueue(said(queue, partitions=PATH), "m1")
    assert queue.stats()["ready"] == 3 * BATCH + 1
    assert all(one.ready == 1 for one in queue.partitions(limit=5000))


def test_no_tenant(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    set_tenants(monkeypatch, list)
    assert enqueue(said(queue, partitions=PATH), "m1") == []


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (5, r"tenants\(\)\[1200\], 5 \(int\): expected a string.*str\(value\)"),
        ("", r"tenants\(\)\[1200\], '': expected"),
        ("a\nb", r"tenants\(\)\[1200\], 'a\\nb': expected no control"),
        ("x" * 256, r"tenants\(\)\[1200\], 'xxx.*256 characters"),
        (None, r"tenants\(\)\[1200\], None: expected"),
    ],
)
def test_one_bad_key_and_nothing_is_written(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, bad: Any, words: str
) -> None:
    set_tenants(monkeypatch, lambda: [*map(str, range(1200)), bad, "good"])
    with pytest.raises(ValidationError, match=words):
        enqueue(said(queue, partitions=PATH), "m1")
    assert queue.stats()["ready"] == 0


@pytest.mark.parametrize("found", ["acme", b"acme", None, 3])
def test_no_keys_at_all(queue: Queue, monkeypatch: pytest.MonkeyPatch, found: Any) -> None:
    set_tenants(monkeypatch, lambda: found)
    with pytest.raises(ValidationError, match=r"^partitions: expected .*tenants\(\) to return"):
        enqueue(said(queue, partitions=PATH), "m1")


def test_what_it_raises_is_seen(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise LookupError("no tenants today")

    set_tenants(monkeypatch, broken)
    with pytest.raises(LookupError, match="no tenants today"):
        enqueue(said(queue, partitions=PATH), "m1")


async def later() -> list[str]:
    return ["acme"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("os.getcwd", "in an installed app, got 'os.getcwd'; move it"),
        ("tenants", "in an installed app"),
        ("tests.app.tasks.nobody", "got 'tests.app.tasks.nobody': "),
        ("tests.app.nowhere.tenants", "No module"),
        ("tests.app.tasks.LONGEST", "to be a function"),
        (PATH, "without async"),
        ("", "expected its name, got ''"),
        (7, r"expected its name, got 7 \(int\)"),
    ],
)
def test_no_callable(queue: Queue, monkeypatch: pytest.MonkeyPatch, path: Any, words: str) -> None:
    set_tenants(monkeypatch, later)
    with pytest.raises(ValidationError, match=rf"^partitions: .*{words}"):
        enqueue(said(queue, partitions=path), "m1")


# -- what is refused ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"partitons": PATH}, r"^partitons: expected one of queue, .*did you mean 'partitions'\?"),
        ({"msg_id": "x"}, "^msg_id: expected one of"),
        ({"task": None}, "^task: expected its name, got None"),
        ({"task": TASK[:-1]}, f"^task: expected a task or message of .*did you mean '{TASK}'"),
        ({"queue": 5}, "^queue: expected its name"),
        ({"partitions": PATH}, "^partitions: expected it or partition_key, got both"),
        ({"partition_key": ""}, "^partition_key: expected a string of 1 to 255"),
        ({"partition_key": 5}, "^partition_key: .*pass str"),
        ({"args": "abc"}, "^args: expected a list"),
        ({"kwargs": [1]}, "^kwargs: expected a mapping"),
        ({"args": [1, 2]}, "^args: expected arguments for"),
        ({"kwargs": {"nothing": 1}}, "^args: expected arguments for"),
        ({"weight": 0}, "^weight: expected"),
        ({"priority": 101}, "^priority: expected"),
        ({"delay": -1}, "^delay: expected"),
        ({"task": MESSAGE, "args": [1]}, "^args: expected none, for a message's fields"),
        ({"task": MESSAGE, "kwargs": {}}, "Report.month"),
        ({"task": MESSAGE, "kwargs": {"month": 1, "yaer": 2}}, "Report.yaer"),
    ],
)
def test_refused(queue: Queue, change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        enqueue({**said(queue, partition_key="acme"), **change}, "m1")
    assert queue.stats()["ready"] == queue.stats()["scheduled"] == 0


def test_something_is_missing(queue: Queue) -> None:
    with pytest.raises(ValidationError, match=r"^queue: expected its name, got none"):
        enqueue({}, "m1")
    with pytest.raises(ValidationError, match=r"^task: expected its name, got none"):
        enqueue({"queue": queue.name}, "m1")
    with pytest.raises(ValidationError, match=r"^partition_key: expected the tenant, got none"):
        enqueue(said(queue), "m1")
    with pytest.raises(ValidationError, match=r"queue 'idle' \(it has none\)"):
        enqueue({"queue": "idle", "task": TASK}, "m1")
    with pytest.raises(UnknownQueueError, match="did you mean"):
        enqueue({"queue": queue.name + "x", "task": TASK}, "m1")
