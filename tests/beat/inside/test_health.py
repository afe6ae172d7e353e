"""What a health check makes of beat's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.beat.inside.conftest import queues
from tests.health.conftest import age, findings
from vtrr_django import get_queue
from vtrr_django.health import Finding
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
