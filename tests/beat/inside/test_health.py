"""What a health check makes of beat's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.beat.inside.conftest import queues
from tests.health.conftest import age, findings
from vtrr_django import StoreUnavailable, get_queue
from vtrr_django.health import Finding, check_health, rows
from vtrr_django.queue import Queue

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def queue() -> Iterator[Queue]:
    with queues(uploads={"CELERY_QUEUE": "c", "RECLAIM_INTERVAL": 10}):
        yield get_queue("uploads")


def beat(queue: Queue) -> Finding:
    return findings(queue)["beat"]


def entry() -> Any:
    from django_celery_beat.models import PeriodicTask

    return PeriodicTask.objects.get(task="vtrr_queue.reclaim.uploads")


def test_a_row_that_never_ran(queue: Queue, schedule: Callable[..., str]) -> None:
    assert beat(queue).status == "ok"
    schedule()
    assert beat(queue).status == "warning"
    assert "enabled in django-celery-beat, but has never run" in beat(queue).sentence
    row = entry()
    row.enabled = False
    row.save()
    assert beat(queue).status == "ok"


def test_a_row_that_runs_no_more(queue: Queue, schedule: Callable[..., str]) -> None:
    from django_celery_beat.models import CrontabSchedule, IntervalSchedule

    queue.measure(beat=True)
    assert beat(queue).status == "ok"
    age(queue, 200)
    assert beat(queue).status == "warning"
    schedule()
    assert beat(queue).status == "warning"
    row = entry()
    row.enabled = False
    row.save()
    assert beat(queue).status == "ok"
    assert "somebody has disabled it" in beat(queue).sentence
    row.enabled = True
    # By an operator: seldom, and at night.
    row.interval = IntervalSchedule.objects.create(every=2, period="minutes")
    row.save()
    assert beat(queue).status == "ok"
    row.interval, row.crontab = None, CrontabSchedule.objects.create(hour="3")
    row.save()
    assert beat(queue).status == "ok"
    age(queue, 4 * 86_400)
    assert beat(queue).status == "warning"


# -- queues that Celery does not run ---------------------------------------------------------


@pytest.fixture
def own() -> Iterator[Queue]:
    with queues(mails={"RECLAIM_INTERVAL": 10}):
        yield get_queue("mails")


def test_upkeep_that_runs_no_more(own: Queue, schedule: Callable[..., str]) -> None:
    from django_celery_beat.models import PeriodicTask

    PeriodicTask.objects.all().delete()  # what "migrate" made
    own.measure(beat=True)
    assert "beat" not in findings(own), "nobody expects it"
    schedule()
    assert beat(own).status == "ok"
    assert beat(own).facts["interval_seconds"] == 60.0
    age(own, 200)
    found = beat(own)
    assert found.status == "warning"
    assert found.sentence == (
        "beat's last upkeep ran 3 min ago; see that celery beat runs, and a worker of the queue "
        "it goes to"
    )
    age(own, 2 * 86_400)
    assert beat(own).status == "warning", "for as long as it is enabled"
    PeriodicTask.objects.filter(task="vtrr_queue.upkeep").update(enabled=False)
    assert "beat" not in findings(own)


def test_upkeep_that_never_ran(own: Queue, schedule: Callable[..., str]) -> None:
    schedule()
    assert beat(own).status == "warning"
    assert "its periodic upkeep is enabled" in beat(own).sentence


# -- the rows cannot be read -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["uploads", "mails"])
def test_rows_that_cannot_be_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What beat is to do is unknown then, and not that it is to do nothing."""

    def fail(alias: str) -> None:
        raise StoreUnavailable(f"database {alias!r} did not answer")

    monkeypatch.setattr("vtrr_django.health.rows.read", fail)
    with queues(uploads={"CELERY_QUEUE": "c"}, mails={}):
        queue = get_queue(name)
        found = beat(queue)
        assert found.status == "warning"
        assert found.sentence == (
            "the periodic tasks of django-celery-beat cannot be read: "
            "database 'default' did not answer"
        )


def test_rows_are_read_once_for_all_queues(
    monkeypatch: pytest.MonkeyPatch, schedule: Callable[..., str]
) -> None:
    asked: list[str] = []
    read = rows.read
    monkeypatch.setattr(rows, "read", lambda alias: asked.append(alias) or read(alias))
    with queues(uploads={"CELERY_QUEUE": "c"}, more={"CELERY_QUEUE": "d"}, mails={}):
        schedule()
        assert check_health().status == "warning"
    assert asked == ["default"]
