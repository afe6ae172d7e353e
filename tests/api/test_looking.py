"""How queues stand, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.asking import Api
from tests.api.conftest import MakeQueue
from tests.api.everywhere import every_store, same_everywhere
from tests.contract.stores import Store
from tests.races.waiting import until
from vtrr_django.api import upkeep
from vtrr_django.domain.transport import time_from_text
from vtrr_django.queue import Queue

SECRET = "top-secret-argument"


def test_stats_are_those_of_the_queue(api: Api, queue: Queue) -> None:
    api.publish({"args": [SECRET]}, {"partition_key": "p", "delay": 100}, {"args": [SECRET]})
    done, failed = api.claim(2)
    api.ack(done, runtime=1.5)
    api.post("fail", {"id": failed["id"], "token": failed["token"], "reason": "no"})
    found = api.get("stats")
    assert found.status == 200
    counts = {name: found.body[name] for name in ("ready", "claimed", "scheduled")}
    assert counts == {"ready": 0, "claimed": 0, "scheduled": 1}
    assert (found.body["failed"], found.body["completed"]) == (1, 1)
    [run] = found.body["recent_runs"]
    assert (run["id"], run["runtime"]) == (done["id"], 1.5)
    [failure] = found.body["recent_failures"]
    assert (failure["id"], failure["reason"]) == (failed["id"], "no")
    assert time_from_text(failure["failed_at"])
    assert found.body.keys() == queue.stats().keys()


def test_the_list_of_queues(api: Api, queue: Queue, settings: Any) -> None:
    api.publish({}, {}, {"delay": 50})
    [job] = api.claim(worker_id="somebody")
    api.ack(job)

    def counted() -> dict[str, Any]:
        queue.archive()
        found = api.send("GET", "/queues")
        assert found.status == 200
        [told] = found.body["queues"]
        return told if told["completed"] else {}

    queue.measure()
    told = until(counted, "the completed job in the history")
    assert told == {
        "queue": queue.name,
        "engine": queue.config.engine,
        "celery_queue": None,
        "paused": False,
        "ready": 1,
        "claimed": 0,
        "scheduled": 1,
        "partitions_waiting": 1,
        "oldest_wait_seconds": told["oldest_wait_seconds"],
        "failed": 0,
        "completed": 1,
        "workers": 1,
        "trouble": None,
    }
    assert told["oldest_wait_seconds"] > 0


def test_a_queue_that_does_not_answer_says_so_and_the_others_are_told(
    api: Api, store: Store, settings: Any
) -> None:
    away = {"ENGINE": "redis", "URL": "redis://127.0.0.1:1/0"}
    settings.VTRR = {"QUEUES": {**settings.VTRR["QUEUES"], "away": away}}
    found = api.send("GET", "/queues")
    assert found.status == 200
    mine, other = found.body["queues"]
    assert (mine["ready"], mine["trouble"]) == (0, None)
    assert other["ready"] is other["paused"] is None
    assert other["failed"] == 0
    assert other["trouble"]
    found = api.send("GET", "/away/stats")
    assert found.status == 503
    assert found.headers["Retry-After"] == "1"


def test_partitions(api: Api, queue: Queue) -> None:
    api.publish(*({"partition_key": "big"} for _ in range(3)), {"partition_key": "small"}, {})
    queue.set_partition("big", share=2.5, limit=7)
    queue.pause("small")
    found = api.get("partitions").body["partitions"]
    by_key = {one["partition_key"]: one for one in found}
    assert list(by_key) == ["big", "", "small"]
    assert (by_key["big"]["ready"], by_key["big"]["share"], by_key["big"]["limit"]) == (3, 2.5, 7)
    assert by_key["small"]["paused"] is True
    assert [one["ready"] for one in api.get("partitions", limit=1).body["partitions"]] == [3]
    for key in ("big", "", "small"):
        [one] = api.get("partitions", partition_key=key).body["partitions"]
        assert one["partition_key"] == key
    assert api.get("partitions", partition_key="none").body == {"partitions": []}


def test_minutes(api: Api, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not after a request, should this take long: the first in a minute notes how a queue stands.
    monkeypatch.setattr(upkeep, "FIRST_MEASURE", 3600.0)
    api.publish({"partition_key": "a"}, {"partition_key": "a"}, {"partition_key": "b"})
    [job] = api.claim()
    api.ack(job)
    queue.measure()
    found = api.get("minutes").body["minutes"]
    assert len(found) == 61
    assert sum(one["leases"] for one in found) == sum(one["completed"] for one in found) == 1
    [looked] = [one for one in found if one["ready"] is not None]
    assert (looked["ready"], looked["leased"], looked["scheduled"]) == (2, 0, 0)
    assert looked["waiting"] == {"a": 1, "b": 1}
    assert time_from_text(looked["at"])


def test_arguments_are_not_told(api: Api, make_queue: MakeQueue) -> None:
    api.publish({"args": [SECRET], "kwargs": {"k": SECRET}}, *[{"args": [SECRET]}] * 3)
    jobs = api.claim(2)
    api.ack(jobs[0])
    api.post("fail", {"id": jobs[1]["id"], "token": jobs[1]["token"], "reason": "no"})
    told = [api.get(path).body for path in ("stats", "partitions", "minutes")]
    told.append(api.send("GET", "/queues").body)
    told.append(api.send("GET", "/metrics").body)
    told.append(api.send("GET", "/health").body)
    assert SECRET not in str(told)


@pytest.mark.parametrize("path", ["stats", "partitions", "minutes"])
def test_queues_that_there_are_not(api: Api, path: str) -> None:
    for name in ("nothere", "q%2F", "a%20b", "x" * 65, "%00", "q%0A", "%F0%9F%98%80"):
        found = api.send("GET", f"/{name}/{path}")
        assert found.status == 404


def test_metrics_and_health(api: Api, queue: Queue) -> None:
    api.publish({})
    found = api.send("GET", "/metrics")
    assert found.status == 200
    assert f'vtrr_jobs_ready{{queue="{queue.name}"}} 1.0' in found.body.decode()
    found = api.send("GET", "/health")
    assert found.status == 200
    assert [one["queue"] for one in found.body["queues"]] == [queue.name]


def test_metrics_without_prometheus_client(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtrr_django.api.operations.METRICS", "vtrr_django.contrib.nothere.metrics")
    found = api.send("GET", "/metrics")
    assert found.status == 404
    assert "vtrr-django[metrics]" in found.body["error"]


def without(told: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name not in names}


@every_store
def test_all_stores_tell_the_same(settings: Any) -> None:
    moments = ("enqueued_at", "lease_expires_at", "ready_at", "failed_at", "completed_at")

    def scenario(api: Api) -> dict[str, Any]:
        api.publish(*({"id": f"a{n}", "partition_key": "a", "weight": 2} for n in range(4)))
        api.publish(*({"id": f"b{n}", "partition_key": "b"} for n in range(3)), {"delay": 1000})
        told: dict[str, Any] = {"pause": api.post("pause", {"partition_key": "b"}).told}
        jobs = api.claim(3)
        told["claim"] = [without(job, "token", *moments) for job in jobs]
        told["ack"] = [api.ack(jobs[0], runtime=1).told for _ in range(2)]
        fail = {"id": jobs[1]["id"], "token": jobs[1]["token"], "reason": "r", "error_class": "E"}
        told["fail"] = [api.post("fail", fail).told for _ in range(2)]
        told["retry"] = api.change(jobs[2], "retry", delay=500).told
        partitions = api.get("partitions").body["partitions"]
        told["partitions"] = [without(one, "oldest_ready_at") for one in partitions]
        stats = api.get("stats").body
        for name in ("recent_failures", "recent_runs"):
            told[name] = [without(one, "runtime", *moments) for one in stats.pop(name)]
        told["stats"] = without(stats, "oldest_ready_at", "oldest_wait_seconds", "engine")
        told["requeue"] = api.post("requeue", {"ids": ["a1", "nothere"]}).told
        told["resume"] = api.post("resume", {"partition_key": "b"}).told
        told["then"] = [job["id"] for job in api.claim(2)]
        return told

    told = same_everywhere(settings, scenario)
    assert told["requeue"] == [200, {"ids": ["a1"]}]
    assert told["then"] == ["b0", "b1"]
