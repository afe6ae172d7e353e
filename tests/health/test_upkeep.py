"""Reclaims, beat and the thresholds of settings."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.contract.stores import Store
from tests.health.conftest import age, findings, status
from tests.health.test_workers import put
from tests.races.conftest import MakeQueue
from tests.races.roles import Note
from tests.races.waiting import until
from vtrr_django import ConfigurationError
from vtrr_django.conf import parse
from vtrr_django.health.reclaiming import MISSED
from vtrr_django.queue import Queue

LONG_AGO = 3600.0


def looked(queue: Queue, ago: float) -> None:
    """Have somebody have looked for leases that ran out."""
    queue.reclaim()
    queue.measure()
    age(queue, ago)


# -- reclaim -----------------------------------------------------------------------------------


def test_reclaims_that_come(make_queue: MakeQueue) -> None:
    queue = make_queue()
    put(queue)
    looked(queue, 50)
    found = findings(queue)["reclaim"]
    assert found.status == "ok"
    # And what the test took since.
    assert re.fullmatch(r"somebody looked for leases that ran out 5\d s ago", found.sentence)


def test_reclaims_that_stop(store: Store, make_queue: MakeQueue) -> None:
    queue = make_queue()
    put(queue)
    queue.lease()
    looked(queue, 190)
    found = findings(queue)["reclaim"]
    assert found.status == "critical"
    assert "3 min ago, though jobs have been leased for 3 min; start" in found.sentence
    looked(queue, 0)
    assert status(queue, "reclaim") == "ok"


def test_once_a_minute_is_often_enough(make_queue: MakeQueue) -> None:
    """So often come cron, as the README has it, and beat's upkeep; now and then one is late."""
    queue = make_queue()
    put(queue)
    queue.lease()
    looked(queue, 130)
    assert status(queue, "reclaim") == "ok"


@pytest.mark.parametrize("config", [{"RECLAIM_INTERVAL": 100}, {"HEALTH_MAX_WAIT": 300}])
def test_they_may_come_as_seldom_as_settings_say(
    make_queue: MakeQueue, config: dict[str, Any]
) -> None:
    queue = make_queue(**config)
    put(queue)
    queue.lease()
    looked(queue, 299)
    assert status(queue, "reclaim") == "ok"
    age(queue, 10)
    assert status(queue, "reclaim") == "critical"


def test_jobs_that_are_ready_wait_for_a_worker(make_queue: MakeQueue, patience: None) -> None:
    """Only triggers that Celery has lost does a reclaim send again."""
    queue = make_queue(RECLAIM_INTERVAL=0.1)
    put(queue)
    until(lambda: queue.depth().oldest_wait_seconds > 0.1 * MISSED, "the job to wait for long")
    assert findings(queue)["reclaim"].sentence.endswith("; nothing waits for that")
    assert status(queue, "workers") == "critical"


def test_jobs_that_celery_has_no_trigger_for(make_queue: MakeQueue, patience: None) -> None:
    queue = make_queue(RECLAIM_INTERVAL=0.1, CELERY_QUEUE="c")
    put(queue)
    until(lambda: status(queue, "reclaim") == "critical", "the reclaim to be missed")
    assert "though jobs have been ready for " in findings(queue)["reclaim"].sentence
    queue.pause("acme")
    assert findings(queue)["reclaim"].sentence.endswith("; nothing waits for that")


def test_they_may_wait_for_as_long_as_settings_say(make_queue: MakeQueue, patience: None) -> None:
    queue = make_queue(HEALTH_MAX_WAIT=600, RECLAIM_INTERVAL=0.1, CELERY_QUEUE="c")
    put(queue)
    until(lambda: queue.depth().oldest_wait_seconds > 0.1 * MISSED, "the job to wait for long")
    assert status(queue, "reclaim") == "ok"


def test_nobody_looks_where_there_is_nothing_to_find(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.publish(Note(), scheduled_at=timezone.now() + timedelta(days=1))
    looked(queue, LONG_AGO)
    found = findings(queue)["reclaim"]
    assert found.status == "ok"
    assert found.sentence.endswith("1 h 0 min ago; nothing waits for that")


def test_what_has_just_come_is_given_time(make_queue: MakeQueue) -> None:
    queue = make_queue()
    looked(queue, LONG_AGO)
    put(queue)
    assert status(queue, "reclaim") == "ok"
    queue.lease()
    queue.measure()
    assert status(queue, "reclaim") == "ok"


def test_nobody_has_ever_looked(make_queue: MakeQueue, patience: None) -> None:
    queue = make_queue(RECLAIM_INTERVAL=0.1, CELERY_QUEUE="c")
    put(queue)
    until(lambda: status(queue, "reclaim") == "critical", "the reclaim to be missed")
    assert findings(queue)["reclaim"].sentence.startswith("nobody has ever looked for leases")


def test_jobs_that_are_due_and_nobody_makes_ready(
    store: Store, make_queue: MakeQueue, patience: None
) -> None:
    queue = make_queue(RECLAIM_INTERVAL=0.1)
    looked(queue, LONG_AGO)
    queue.publish(Note(), scheduled_at=timezone.now() + timedelta(seconds=60))
    store.advance(queue.name, 61)
    until(lambda: status(queue, "reclaim") == "critical", "the reclaim to be missed")
    assert queue.depth().ready == 0
    assert status(queue, "workers") == "ok"
    queue.pause("resting")
    assert status(queue, "reclaim") == "critical"
    queue.pause("")
    assert findings(queue)["reclaim"].sentence.endswith("; nothing waits for that")


# -- beat ------------------------------------------------------------------------------------------


def test_without_rows_only_queues_of_celery_have_a_beat(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.measure(beat=True)
    assert "beat" not in findings(queue)
    assert findings(make_queue(CELERY_QUEUE="c"))["beat"].sentence.startswith("beat was never seen")


def test_a_beat_that_is_seen_no_more(make_queue: MakeQueue) -> None:
    queue = make_queue(CELERY_QUEUE="c")
    queue.measure(beat=True)
    age(queue, 50)
    sentence = findings(queue)["beat"].sentence
    assert re.fullmatch(r"beat's last reclaim ran 5\d s ago", sentence)
    age(queue, 150)
    found = findings(queue)["beat"]
    assert found.status == "warning"
    assert found.sentence == (
        "beat's last reclaim ran 3 min ago; see that celery beat runs, and a worker of its "
        "Celery queue"
    )


def test_one_that_was_given_up_is_not_missed_for_ever(make_queue: MakeQueue) -> None:
    queue = make_queue(CELERY_QUEUE="c")
    queue.measure(beat=True)
    age(queue, 23 * 3600)
    assert status(queue, "beat") == "warning"
    age(queue, 300 * 86_400)
    found = findings(queue)["beat"]
    assert found.status == "ok"
    assert found.sentence == (
        "beat's last reclaim ran 300 d 23 h ago; it is expected no more, workers and "
        "vtrr_reclaim do its work"
    )


# -- thresholds ------------------------------------------------------------------------------------


def test_there_are_none_by_default(make_queue: MakeQueue) -> None:
    assert not {"backlog", "age"} & set(findings(make_queue()))


def test_more_jobs_than_settings_allow(make_queue: MakeQueue) -> None:
    queue = make_queue(HEALTH_MAX_READY=2)
    put(queue, "a", "b")
    assert status(queue, "backlog") == "ok"
    put(queue, "c")
    found = findings(queue)["backlog"]
    assert found.status == "critical"
    assert found.sentence == "3 jobs are ready; HEALTH_MAX_READY is 2"


def test_jobs_that_wait_for_longer_than_settings_allow(
    make_queue: MakeQueue, settings: Any
) -> None:
    queue = make_queue(HEALTH_MAX_WAIT=600)
    put(queue, "a")
    assert status(queue, "age") == "ok"
    settings.VTRR = {"QUEUES": {queue.name: {**settings.VTRR["QUEUES"][queue.name]}}}
    settings.VTRR["QUEUES"][queue.name]["HEALTH_MAX_WAIT"] = 1
    until(lambda: status(queue, "age") == "critical", "the job to be too old")
    queue.pause("a")  # by somebody who knows what that does
    assert status(queue, "age") == "ok"


@pytest.mark.parametrize("value", [None, 0, 10_000])
def test_the_most_jobs(value: int | None) -> None:
    config = parse({"QUEUES": {"q": {"HEALTH_MAX_READY": value}}}).queues["q"]
    assert config.health_max_ready == value


@pytest.mark.parametrize("value", [None, 1, 0.5 + 1, 3600])
def test_the_longest_wait(value: float | None) -> None:
    config = parse({"QUEUES": {"q": {"HEALTH_MAX_WAIT": value}}}).queues["q"]
    assert config.health_max_wait == value


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("HEALTH_MAX_READY", -1, "a whole number >= 0 or None"),
        ("HEALTH_MAX_READY", 1.5, "a whole number >= 0 or None"),
        ("HEALTH_MAX_READY", True, "a whole number >= 0 or None"),
        ("HEALTH_MAX_WAIT", 0, "a number of seconds from 1 to 315,360,000 or None"),
        ("HEALTH_MAX_WAIT", "60", "a number of seconds from 1 to 315,360,000 or None"),
    ],
)
def test_thresholds_that_are_refused(key: str, value: Any, expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse({"QUEUES": {"q": {key: value}}})
    assert str(caught.value) == f"VTRR['QUEUES']['q'][{key!r}]: expected {expected}, got {value!r}"
