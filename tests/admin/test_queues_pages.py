"""What the queue pages show, to whom."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.admin.utils import quote
from django.db import connection
from django.test import Client
from django.urls import reverse

from tests.admin.conftest import declare
from tests.admin.looking import address, look, messages, press
from tests.contract.jobs import end, job, put, take
from tests.races.roles import Note
from tests.races.waiting import until
from vtrr_django import Queue, get_queue
from vtrr_django.admin.links import quoted
from vtrr_django.domain.job import OutcomeKind, QueueStats
from vtrr_django.engines.orm.engine import OrmEngine
from vtrr_django.engines.redis.engine import RedisEngine
from vtrr_django.exceptions import StoreUnavailable
from vtrr_django.health import check_health
from vtrr_django.models import (
    CompletedJob,
    FailedJob,
    Job,
    Partition,
    QueueSample,
    QueueTotals,
    WorkerSighting,
)

VIEW = "view_queuestate"


def seen(queue: Queue, worker_id: str, ago: timedelta) -> None:
    at: Any = datetime.now(UTC) - ago
    WorkerSighting.objects.create(queue=queue.name, worker_id=worker_id, started_at=at, seen_at=at)


def completed(queue: Queue, ended: int, ago: timedelta = timedelta()) -> None:
    at: Any = (datetime.now(UTC) - ago).replace(second=0, microsecond=0)
    QueueSample.objects.create(queue=queue.name, at=at, completed=ended)


def partition(queue: Queue, key: str) -> str:
    return f"{address('partition', queue.name)}?{urlencode({'key': key})}"


def filled(queue: Queue) -> None:
    """Put jobs into every state."""
    put(queue.engine, "acme", "acme", "acme", "globex", "globex", "globex")
    put(queue.engine, "acme", delay=3600)
    first, second, _ = queue.lease(3, worker_id="worker-7")
    assert queue.ack(first, runtime=3.0)
    assert queue.fail(second, "no such file", runtime=1.0)
    queue.archive()


# -- all queues --------------------------------------------------------------------


def test_all_queues_have_a_row_with_their_figures(queue: Queue, root: Client) -> None:
    filled(queue)
    completed(queue, 41)
    completed(queue, 1, timedelta(minutes=59))
    completed(queue, 5000, timedelta(minutes=70))
    seen(queue, "here", timedelta(seconds=10))
    seen(queue, "gone", timedelta(minutes=2))

    page = look(root, address("changelist"))

    assert f"{queue.name} {queue.config.engine} running 3 1 1 1 1 " in page.text
    plot = "Jobs ended per minute, last hour 42 completed and 0 failed; at most 41 in one minute 42"
    assert f"{plot} 1 Pause" in page.text
    assert [svg["class"] for svg in page.find("svg") if svg.get("role") == "img"] == [
        "vtrr-plot vtrr-spark"
    ]


def test_a_queue_nobody_has_used_has_a_row_too(queue: Queue, root: Client) -> None:
    page = look(root, address("changelist"))

    assert f"{queue.name} {queue.config.engine} running 0 0 0 0 0 – " in page.text
    look(root, address("detail", queue.name))


def test_queues_that_settings_do_not_declare_have_no_page(queue: Queue, root: Client) -> None:
    for page, *more in (("detail",), ("partition",), ("jobs", "ready"), ("job", "x"), ("purge",)):
        look(root, address(page, "no-such-queue", *more), status=404)
    look(root, address("jobs", queue.name, "completed"), status=404)


def test_a_store_that_does_not_answer_says_so_in_its_row(settings: Any, root: Client) -> None:
    queue = declare(settings, "sqlite")
    broken = {"ENGINE": "redis", "URL": "redis://127.0.0.1:1/0"}
    absent = {"ENGINE": "orm", "DATABASE": "nowhere"}
    settings.VTRR = {
        "QUEUES": {**settings.VTRR["QUEUES"], "broken": broken, "absent": absent},
    }
    put(queue.engine, "acme")

    page = look(root, address("changelist"))

    assert f"{queue.name} orm no worker 1 0 0" in page.text
    assert "broken redis no answer – – – 0 0" in page.text
    assert "absent orm no answer – – – – –" in page.text
    assert "Redis did not answer" in page.text
    assert "expected DATABASE to be one of" in page.text
    for name in ("broken", "absent"):
        assert "no answer" in look(root, address("detail", name)).text
        for one, *more in (("partition",), ("jobs", "ready"), ("job", "x"), ("purge",)):
            page = look(root, address(one, name, *more))
            assert "did not answer" in page.text or "expected DATABASE" in page.text


def test_settings_that_are_wrong_are_told_not_a_traceback(settings: Any, root: Client) -> None:
    settings.VTRR = {"QUEUES": {"default": {"ENGIN": "orm"}}}

    assert "did you mean 'ENGINE'?" in look(root, address("changelist")).text


def test_who_waits_for_a_worker_is_told(queue: Queue, root: Client) -> None:
    put(queue.engine, "acme")
    seen(queue, "gone", timedelta(minutes=2))

    for page in (look(root, address("changelist")), look(root, address("detail", queue.name))):
        assert "1 ready, and no worker was seen in the last 60 seconds (the last 2 min" in (
            page.text
        )
        assert f"manage.py vtrr_worker --queue {queue.name}" in page.text

    seen(queue, "here", timedelta(seconds=1))
    assert "no worker was seen" not in look(root, address("changelist")).text


def test_leases_of_dead_workers_are_told_of_though_nothing_waits(
    queue: Queue, root: Client
) -> None:
    put(queue.engine, "acme")
    take(queue.engine)

    for page in (look(root, address("changelist")), look(root, address("detail", queue.name))):
        assert "1 leased, and no worker was seen in the last 60 seconds" in page.text
        assert "What dead workers held comes back" in page.text

    seen(queue, "here", timedelta(seconds=1))
    assert "no worker was seen" not in look(root, address("detail", queue.name)).text


def test_workers_that_are_alive_and_take_nothing_are_told_of(settings: Any, root: Client) -> None:
    queue = declare(settings, "sqlite")
    put(queue.engine, "acme")
    seen(queue, "idle", timedelta(seconds=90))
    WorkerSighting.objects.update(seen_at=datetime.now(UTC))
    told = "Workers are alive, but without a job for"
    assert told not in look(root, address("detail", queue.name)).text, "it waits only now"

    Job.objects.update(scheduled_at=datetime.now(UTC) - timedelta(seconds=90))
    assert told in look(root, address("detail", queue.name)).text
    seen(get_queue("another"), "idle", timedelta())
    WorkerSighting.objects.filter(queue="another").update(holding=1)
    settings.VTRR = {"QUEUES": {queue.name: {}, "another": {}}}
    assert told not in look(root, address("detail", queue.name)).text, "it is busy elsewhere"
    WorkerSighting.objects.filter(queue="another").delete()
    queue.pause("acme")
    assert told not in look(root, address("detail", queue.name)).text


def both(root: Client, queue: Queue) -> list[str]:
    """Return what the page of all queues says, and that of this one."""
    return [look(root, address("changelist")).text, look(root, address("detail", queue.name)).text]


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_workers_without_the_task_of_their_jobs_are_told_of(queue: Queue, root: Client) -> None:
    told = "Workers are given jobs whose task they do not have, and put them back."
    queue.publish(Note(), partition_key="acme")
    queue.measure("old")
    assert not [text for text in both(root, queue) if told in text]
    assert queue.worker(worker_id="old").run_burst().snoozed == 1
    queue.measure("old")

    for text in both(root, queue):
        assert text.count("task they do not have") == 1, text
        assert told in text
    assert check_health([queue]).status == "critical"

    [row] = QueueTotals.objects.using(queue.config.database).filter(queue=queue.name)
    row.unknown_at = row.unknown_at - timedelta(minutes=2)
    row.save(using=queue.config.database)
    assert not [text for text in both(root, queue) if told in text], "it is long ago"


def test_partitions_that_hold_all_jobs_back_are_told_of(queue: Queue, root: Client) -> None:
    told = "All jobs that are ready are of partitions that are paused or at their limit"
    queue.set_partition("limited", limit=1)
    put(queue.engine, "limited", "limited", "resting")
    assert len(queue.lease(1)) == 1
    queue.measure("here")
    page = look(root, address("detail", queue.name))
    assert told not in page.text
    queue.pause("resting")

    for text in both(root, queue):
        assert told in text
        assert "Start one" not in text

    put(queue.engine, "acme")
    for text in both(root, queue):
        assert told not in text


@pytest.mark.parametrize("settings_say", [{}, {"PARTITION_LIMIT": 9, "RESERVE": 1}])
def test_no_worker_is_asked_for_jobs_that_partitions_hold_back(
    queue: Queue, root: Client, settings: Any, settings_say: dict[str, Any]
) -> None:
    [(name, declared)] = settings.VTRR["QUEUES"].items()
    settings.VTRR = {"QUEUES": {name: declared | settings_say}}
    held = "All jobs that are ready are of partitions that are paused or at their limit"
    put(queue.engine, "resting", "asleep")
    for text in both(root, queue):
        assert "2 ready, and no worker was seen" in text
        assert "Start one" in text
        assert held not in text
    queue.pause("resting")
    for text in both(root, queue):
        assert "Start one" in text
        assert held not in text
    queue.pause("asleep")

    for text in both(root, queue):
        assert held in text
        assert "no worker was seen" not in text
        assert "Start one" not in text

    put(queue.engine, "resting", delay=36_000)
    for text in both(root, queue):
        assert "1 scheduled, and no worker was seen" in text
        assert "Start one" not in text
    queue.resume("asleep")
    for text in both(root, queue):
        assert "2 ready, 1 scheduled, and no worker was seen" in text
        assert "Start one" in text


@pytest.mark.parametrize("limited_by", ["partition", "PARTITION_LIMIT", "RESERVE"])
def test_what_waits_at_a_limit_needs_a_worker_only_for_the_leases(
    queue: Queue, root: Client, settings: Any, limited_by: str
) -> None:
    limits = {"RESERVE": {"MAX_CONCURRENCY": 3, "RESERVE": 2}, "PARTITION_LIMIT": {limited_by: 1}}
    [(name, declared)] = settings.VTRR["QUEUES"].items()
    settings.VTRR = {"QUEUES": {name: declared | limits.get(limited_by, {})}}
    if limited_by == "partition":
        queue.set_partition("acme", limit=1)
    put(queue.engine, "acme", "acme")
    assert len(queue.lease(2)) == 1

    for text in both(root, queue):
        assert "1 leased, and no worker was seen" in text
        assert "All jobs that are ready are of partitions that are paused or at their" in text


def test_partitions_beyond_those_looked_at_are_asked_about(
    queue: Queue, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vtrr_django.admin.queue_pages.MOST", 2)
    put(queue.engine, *["a"] * 3, *["b"] * 2, "c")
    for key in "ab":
        queue.pause(key)
    assert all("Start one" in text for text in both(root, queue))
    queue.pause("c")

    for text in both(root, queue):
        assert "All jobs that are ready are of partitions that are paused" in text
        assert "Start one" not in text


def test_a_store_that_goes_away_in_the_midst_is_told_of(
    queue: Queue, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(queue.engine, "acme")

    def away(*args: Any) -> Any:
        raise StoreUnavailable("it went away")

    monkeypatch.setattr(type(queue.engine), "dues", away)
    page = look(root, address("changelist"))

    assert f"{queue.name} {queue.config.engine} no answer" in page.text
    assert "it went away" in page.text


def test_the_state_of_a_queue_says_what_keeps_it_from_running(queue: Queue, root: Client) -> None:
    def is_told(state: str) -> bool:
        listed, own = both(root, queue)
        engine = queue.config.engine
        return f"{queue.name} {engine} {state} " in listed and f" {state} engine {engine}" in own

    assert is_told("running")
    put(queue.engine, "acme", delay=3600)
    assert is_told("running"), "it is not due"
    put(queue.engine, "acme")
    assert is_told("no worker")
    queue.pause("acme")
    assert is_told("held back")
    queue.pause()
    assert is_told("paused")
    queue.resume()
    queue.resume("acme")
    seen(queue, "here", timedelta(seconds=1))
    assert is_told("running")


def test_partitions_that_are_paused_while_others_run_are_named(queue: Queue, root: Client) -> None:
    def told() -> str:
        # Keys are elements of their own.
        return messages(look(root, address("detail", queue.name))).replace(" ,", ",")

    put(queue.engine, *["acme"] * 3, *"abcdef")
    queue.pause("idle")
    queue.measure("here")
    assert "until somebody resumes" not in told()
    queue.pause("acme")
    once = "Paused: partition acme, with 3 ready jobs, which wait until somebody resumes it."
    assert once in told()
    for key in "abcd":
        queue.pause(key)
    often = "Paused: 5 partitions, with 7 ready jobs, which wait until somebody resumes them: "
    assert f"{often}acme, a, b and 2 more." in told()


def test_jobs_of_a_partition_the_store_has_no_row_of_may_run(settings: Any, root: Client) -> None:
    """Whoever enqueued them died just after, and no worker has looked since."""
    queue = declare(settings, "sqlite")
    put(queue.engine, "resting", "stranded")
    queue.pause("resting")
    Partition.objects.filter(partition_key="stranded").delete()

    for text in both(root, queue):
        assert "Start one" in text


def test_no_worker_is_asked_for_before_one_is_needed(queue: Queue, root: Client) -> None:
    put(queue.engine, "acme", delay=36_000)

    assert check_health([queue]).status == "ok"
    for text in both(root, queue):
        assert "1 scheduled, and no worker was seen in the last 60 seconds" in text
        assert "When they fall due they need one: manage.py vtrr_worker" in text
        assert "Start one" not in text

    put(queue.engine, "acme")
    for text in both(root, queue):
        assert "1 ready, 1 scheduled, and no worker was seen" in text
        assert "Start one: manage.py vtrr_worker" in text


def test_a_worker_is_asked_for_where_a_scheduled_job_is_due(queue: Queue, root: Client) -> None:
    put(queue.engine, "acme", delay=0.01)

    def asked() -> bool:
        return all("Start one" in text for text in both(root, queue))

    until(asked, "the job to be due")


def test_no_worker_is_missed_where_jobs_may_wait(settings: Any, root: Client) -> None:
    queue = declare(settings, "sqlite", HEALTH_MAX_WAIT=600)
    put(queue.engine, "acme")

    assert check_health([queue]).status == "ok"
    for text in both(root, queue):
        assert "no worker was seen" not in text


def test_a_store_that_hangs_is_waited_for_once(
    settings: Any, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def hang(self: RedisEngine) -> None:
        asked.append(self.name)
        raise StoreUnavailable("Redis did not answer")

    place = {"ENGINE": "redis", "URL": "redis://127.0.0.1:1/0"}
    elsewhere = {**place, "URL": "redis://127.0.0.1:1/1"}
    settings.VTRR = {"QUEUES": {"a": place, "b": place, "c": elsewhere}}
    monkeypatch.setattr(RedisEngine, "depth", hang)

    page = look(root, address("changelist"))
    assert page.text.count("Redis did not answer") == 3
    assert asked == ["a", "c"]


def test_the_address_of_a_queue_that_cannot_be_is_not_found(root: Client) -> None:
    assert root.get("/admin/vtrr_django/queuestate/default_2F/change/").status_code == 404


def test_who_may_not_view_queues_is_not_told_which_there_are(
    settings: Any, staff: Callable[..., Client]
) -> None:
    queue = declare(settings, "sqlite")
    client = staff("see_payloads")
    for name in (queue.name, "no-such-queue"):
        path = f"/admin/vtrr_django/queuestate/{name}/change/"
        assert client.get(path).status_code == 403


def test_a_paused_queue_says_why_its_jobs_wait(queue: Queue, root: Client) -> None:
    put(queue.engine, "acme")
    queue.pause()

    for page in (look(root, address("changelist")), look(root, address("detail", queue.name))):
        assert "Paused: its jobs wait until somebody resumes it." in page.text
        assert "no worker was seen" not in page.text


# -- one queue ---------------------------------------------------------------------


def test_a_queue_shows_its_partitions_workers_and_plots(queue: Queue, root: Client) -> None:
    filled(queue)
    queue.set_partition("acme", share=3, limit=2)
    queue.pause("globex")
    for worker in ("worker-7", "worker-8"):
        queue.measure(worker)

    page = look(root, address("detail", queue.name))

    assert "ready 3 scheduled 1 leased 1 failed 1 completed 1 oldest wait" in page.text
    assert "workers alive 2 seen in the last 60 s" in page.text
    assert "paused Resume" in page.text
    assert "worker-8 alive" in page.text
    assert len([svg for svg in page.find("svg") if svg.get("role") == "img"]) == 4
    assert len(page.find("details")) == 4
    assert "2 partitions" in page.text


def test_partitions_link_to_their_jobs_whatever_their_keys(queue: Queue, root: Client) -> None:
    keys = ["a/b?c&d=%", "🚀", "", " spaces ", "%2F..", "x" * 255]
    for key in keys:
        put(queue.engine, key)

    page = look(root, address("detail", queue.name))

    for key in keys:
        path = partition(queue, key)
        assert path in page.links.values()
        links = look(root, path).links
        [jobs] = [url for url in links.values() if "/jobs/ready/" in url]
        shown = look(root, jobs)
        [known] = queue.jobs("ready", partition_key=key).jobs
        assert known.id in shown.links
        assert len([label for label in shown.links if len(label) == 36]) == 1


def test_a_key_that_cannot_be_one_is_not_found(queue: Queue, root: Client) -> None:
    for key in ("\n", "x" * 256, "\0"):
        look(root, partition(queue, key), status=404)


def test_partitions_are_found_by_how_they_begin(queue: Queue, root: Client) -> None:
    put(queue.engine, "acme", "acme", "acme 2", "globex")

    page = look(root, address("detail", queue.name) + "?q=acme")

    assert "2 partitions" in page.text
    assert "globex" not in page.text
    assert "No partition's key begins so." in (
        look(root, address("detail", queue.name) + "?q=nobody").text
    )


@pytest.mark.parametrize("sort", ["key", "-key", "-leased", "share", "oldest", "-p95", "x", "-"])
def test_partitions_can_be_sorted(queue: Queue, root: Client, sort: str) -> None:
    put(queue.engine, "acme", "acme")
    put(queue.engine, "globex")

    page = look(root, f"{address('detail', queue.name)}?{urlencode({'o': sort})}")

    sorted_by = [th["aria-sort"] for th in page.find("th") if th.get("aria-sort", "none") != "none"]
    assert len(sorted_by) == 1
    keys = [label for label in page.links if label in ("acme", "globex")]
    assert keys == (["globex", "acme"] if sort in ("-key", "oldest") else ["acme", "globex"])


def test_partitions_come_in_pages_of_fifty(queue: Queue, root: Client) -> None:
    put(queue.engine, *(f"tenant-{n:03}" for n in range(120)))

    path = address("detail", queue.name)
    first, last = look(root, path + "?o=key"), look(root, path + "?o=key&p=3")

    assert "tenant-049" in first.links
    assert "tenant-050" not in first.links
    assert first.links["3"] == f"{path}?o=key&p=3#partitions"
    assert "tenant-119" in last.links
    assert "tenant-099" not in last.links
    assert "tenant-000" in look(root, path + "?o=key&p=none").links


def test_beyond_the_most_that_are_looked_at_a_whole_key_is_found(
    queue: Queue, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vtrr_django.admin.queue_pages.MOST", 2)
    put(queue.engine, "a", "a", "a", "b", "b", "c")

    path = address("detail", queue.name)
    page = look(root, path)

    assert "There are more than 2 partitions" in page.text
    assert "c" not in page.links
    assert "c" in look(root, path + "?q=c").links
    assert "No partition's key begins so." in look(root, path + "?q=%0a").text


def test_what_has_ended_is_one_link_away_for_those_who_may_see_it(
    queue: Queue, root: Client, staff: Callable[..., Client]
) -> None:
    filled(queue)

    ended = {f"/admin/vtrr_django/{one}job/" for one in ("failed", "completed")}
    for path in (address("detail", queue.name), partition(queue, "acme")):
        asked = {
            link["href"].partition("?")[0]
            for link in look(root, path).find("a")
            if f"?queue={queue.name}" in link["href"]
        }
        assert asked == ended
        viewed = {link["href"].partition("?")[0] for link in look(staff(VIEW), path).find("a")}
        assert not viewed & ended
    page = look(root, address("detail", queue.name))
    failures = look(root, page.links["Recent failures"])
    assert FailedJob.objects.values_list("id", flat=True)[0] in failures.text
    assert CompletedJob.objects.values_list("id", flat=True)[0] in (
        look(root, page.links["Recent runs"]).text
    )


def test_numbers_in_forms_are_plain_whatever_the_language(settings: Any, root: Client) -> None:
    settings.LANGUAGE_CODE, settings.USE_THOUSAND_SEPARATOR = "de", True
    queue = declare(settings, "sqlite")
    queue.set_partition("acme", share=1234.5, limit=12345)

    fields = {
        name: form.fields[name]
        for form in look(root, partition(queue, "acme")).forms
        for name in ("share", "limit")
        if name in form.fields
    }

    assert fields == {"share": "1234.5", "limit": "12345"}
    for key, jobs in (("acme", 1000), (None, 1001)):
        put(queue.engine, *["acme"] * 1000, *["globex"] * (jobs - 1000))
        ask = address("purge", queue.name)
        told = press(root, ask if key is None else f"{ask}?key={key}", f"Purge {jobs:,} jobs")
        assert f"{jobs:,} waiting jobs purged." in told.text
        assert queue.depth().ready == 0


@pytest.mark.django_db(transaction=True)
def test_a_page_is_no_transaction(
    settings: Any, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one, a store that does not answer would break the page that is to say so."""
    queue = declare(settings, "sqlite")
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    seen: list[bool] = []
    monkeypatch.setattr(
        OrmEngine, "depth", lambda self: seen.append(connection.in_atomic_block) or QueueStats()
    )
    monkeypatch.setattr(OrmEngine, "depths", lambda engines: [one.depth() for one in engines])

    for path in (
        address("changelist"),
        address("detail", queue.name),
        address("purge", queue.name),
    ):
        look(root, path)
    root.post(address("do", queue.name, "pause"))

    assert seen == [False] * 4


# -- jobs --------------------------------------------------------------------------


def test_jobs_are_browsed_page_by_page(queue: Queue, root: Client) -> None:
    ids = put(queue.engine, *["acme"] * 70)
    put(queue.engine, *["globex"] * 3)

    first = look(root, f"{address('jobs', queue.name, 'ready')}?partition=acme")
    second = look(root, first.links["Next page"])

    shown = [label for label in [*first.links, *second.links] if label in ids]
    assert shown == ids
    assert "Next page" not in second.links
    assert look(root, second.links["First page"]).links.keys() >= set(ids[:50])


@pytest.mark.parametrize("state", ["ready", "scheduled", "leased"])
def test_jobs_of_each_state_are_listed(queue: Queue, root: Client, state: str) -> None:
    filled(queue)
    [*known] = queue.jobs(state).jobs

    page = look(root, address("jobs", queue.name, state))

    assert [label for label in page.links if len(label) == 36] == [one.id for one in known]
    assert ("worker-7" in page.text) == (state == "leased")
    other = look(root, f"{address('jobs', queue.name, state)}?partition=nobody")
    assert f"No {state} jobs." in other.text


def test_a_cursor_that_is_none_is_told(queue: Queue, root: Client) -> None:
    page = look(root, f"{address('jobs', queue.name, 'ready')}?after=nonsense")

    assert "after" in page.text
    assert "First page" in page.links


def test_a_live_job_shows_everything(queue: Queue, root: Client) -> None:
    parent, child = put(queue.engine, "acme", "acme")
    payload = json.dumps({"args": ["a <b>"], "kwargs": {"n": 1}})
    made = job("acme", parent_id=parent, payload=payload, priority=7, weight=3, msg_id="m-1")
    queue.engine.enqueue([made], {})

    page = look(root, address("job", queue.name, made.id))

    assert f"Id {made.id} Task tests.task Partition acme Enqueued" in page.text
    assert "Priority 7 Weight 3 Retries used 0 Timeouts 0 msg_id m-1" in page.text
    assert page.links[parent] == address("job", queue.name, parent)
    assert '"args": [ "a <b>" ]' in page.text

    leased = {one.id: one for one in take(queue.engine, 3, worker_id="worker-7")}
    page = look(root, address("job", queue.name, child))
    assert child in leased
    assert "Worker worker-7 Leased" in page.text
    assert "Lease ends" in page.text
    assert "Cancel" not in page.buttons


def test_an_ended_job_is_shown_from_the_history(queue: Queue, root: Client) -> None:
    [parent] = put(queue.engine, "acme")
    [leased] = take(queue.engine)
    end(queue.engine, leased)
    made = job("acme", parent_id=parent)
    queue.engine.enqueue([made], {})
    [leased] = take(queue.engine)
    end(queue.engine, leased, OutcomeKind.FAIL, reason="no such file", error_class="app.NoFile")
    queue.archive()

    page = look(root, address("job", queue.name, made.id))

    assert "failed" in page.text
    assert "Error app.NoFile" in page.text
    assert "no such file" in page.text
    assert page.links[parent] == address("job", queue.name, parent)
    page = look(root, page.links[parent])
    assert "completed" in page.text
    assert page.links[made.id] == address("job", queue.name, made.id)


def test_a_job_that_is_nowhere_is_said_to_be_gone(queue: Queue, root: Client) -> None:
    page = look(root, address("job", queue.name, "no-such-job"), status=404)

    assert "has no job no-such-job" in page.text
    look(root, address("job", queue.name, quote("a b")), status=404)


@pytest.mark.parametrize("job_id", [".", "..", "a/b?c#d", "%2F", "a_2Eb", '"><img', "'&'"])
def test_job_ids_may_be_any_printable_text(queue: Queue, root: Client, job_id: str) -> None:
    queue.engine.enqueue([job("acme", id=job_id, given_id=True)], {})

    page = look(root, look(root, address("jobs", queue.name, "ready")).links[job_id])

    assert f"Id {job_id} Task" in page.text
    assert "/./" not in address("job", queue.name, quoted(job_id))


# -- who sees what -----------------------------------------------------------------


def paths(queue: Queue) -> list[str]:
    """Return the address of every page there is to look at."""
    [*ready] = queue.jobs("ready").jobs
    name = queue.name
    ended = [
        *FailedJob.objects.filter(queue=name).values_list("id", flat=True),
        *CompletedJob.objects.filter(queue=name).values_list("id", flat=True),
    ]
    return [
        address("changelist"),
        address("detail", name),
        *(partition(queue, one.partition_key) for one in queue.partitions()),
        *(address("jobs", name, state) for state in ("ready", "scheduled", "leased")),
        *(address("job", name, quoted(one)) for one in [*(j.id for j in ready), *ended]),
        address("history", quote(name)),
    ]


def test_only_who_may_view_sees_the_pages(queue: Queue, staff: Callable[..., Client]) -> None:
    filled(queue)
    viewer, other, nobody = staff(VIEW), staff("steer_queues"), staff(VIEW, is_staff=False)

    for path in paths(queue):
        look(viewer, path)
        assert other.get(path).status_code == 403
        for client in (nobody, Client()):
            response = client.get(path)
            assert response.status_code == 302
            assert response.headers["Location"].startswith(reverse("admin:login"))


def test_who_may_only_view_finds_nothing_to_press(
    queue: Queue, staff: Callable[..., Client]
) -> None:
    filled(queue)
    queue.set_partition("acme", share=2)
    viewer = staff(VIEW)

    for path in paths(queue):
        page = look(viewer, path)
        posting = [form for form in page.forms if form.method == "post"]
        assert [form.action for form in posting if form.buttons] == [reverse("admin:logout")]
        assert not [url for url in page.links.values() if "purge" in url]


def test_arguments_and_reasons_need_their_permission(
    queue: Queue, staff: Callable[..., Client]
) -> None:
    for reason in (OutcomeKind.ACK, OutcomeKind.FAIL):
        queue.engine.enqueue([job("acme", payload='{"args": ["CANARY"], "kwargs": {}}')], {})
        [leased] = take(queue.engine)
        more = {"reason": "CANARY", "traceback": "CANARY"} if reason is OutcomeKind.FAIL else {}
        end(queue.engine, leased, reason, **more)
    queue.engine.enqueue([job("acme", payload='{"args": ["CANARY"], "kwargs": {}}')], {})
    queue.archive()
    viewer, trusted = staff(VIEW, "purge_queues"), staff(VIEW, "see_payloads")

    shown = [path for path in paths(queue) if "CANARY" in look(trusted, path).text]

    assert len(shown) == 3
    assert not [path for path in paths(queue) if "CANARY" in viewer.get(path).content.decode()]
    assert "Hidden: seeing arguments" in look(viewer, shown[0]).text


def test_arguments_are_redacted(settings: Any, root: Client) -> None:
    queue = declare(settings, "sqlite")
    settings.VTRR = {**settings.VTRR, "REDACT": lambda task, args, kwargs: (["***"], kwargs)}
    made = job("acme", payload='{"args": ["CANARY"], "kwargs": {"n": 5}}')
    queue.engine.enqueue([made], {})

    page = look(root, address("job", queue.name, made.id))

    assert "***" in page.text
    assert "CANARY" not in page.text


def test_the_index_of_the_admin_leads_to_the_queues(queue: Queue, root: Client) -> None:
    page = look(root, reverse("admin:index"))

    assert page.links["Queues"] == address("changelist")
    assert not [url for url in page.links.values() if url.endswith("queuestate/add/")]


def test_a_site_of_a_projects_own_has_the_pages_too(queue: Queue, root: Client) -> None:
    filled(queue)

    page = look(root, "/own/vtrr_django/queuestate/")
    assert page.links[queue.name] == f"/own/vtrr_django/queuestate/{queue.name}/"
    page = look(root, page.links[queue.name])
    assert all(url.startswith(("/own/", "#", "?")) for url in page.links.values() if url != "/"), (
        page.links
    )
    assert all(f.action.startswith(("/own/", "#")) for f in page.forms)
