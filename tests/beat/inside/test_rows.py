"""What ``vtrr_schedule`` makes of the table of periodic tasks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    PeriodicTasks,
)
from django_celery_beat.schedulers import ModelEntry

from tests.beat.inside.conftest import last_update, queues, table
from vtrr_django.contrib.beat import marker, rows
from vtrr_django.contrib.beat.plan import wanted_rows

pytestmark = pytest.mark.django_db

Schedule = Callable[..., str]

UPLOADS = {"CELERY_QUEUE": "c-uploads"}
RECLAIM = "vtrr_queue.reclaim.uploads"
UPKEEP = "vtrr_queue.upkeep"


@pytest.fixture(autouse=True)
def _empty(db: None) -> None:
    """Without the rows that migrating the test database has made."""
    PeriodicTask.objects.all().delete()
    IntervalSchedule.objects.all().delete()
    PeriodicTasks.objects.all().delete()


def row(name: str = RECLAIM) -> PeriodicTask:
    return PeriodicTask.objects.get(name=name)


def edit(which: str = RECLAIM, /, **values: Any) -> None:
    """Edit as the admin does: all fields are saved, lines end in CR LF."""
    found = row(which)
    for field, value in values.items():
        setattr(found, field, value)
    found.description = found.description.replace("\n", "\r\n")
    found.full_clean()
    found.save()


def every(number: int, period: str = "seconds") -> IntervalSchedule:
    return IntervalSchedule.objects.create(every=number, period=period)


# -- making them --------------------------------------------------------------------------


def test_rows_are_made(schedule: Schedule) -> None:
    with queues(uploads=UPLOADS, mails={}, other={"CELERY_QUEUE": "c", "RECLAIM_QUEUE": "r"}):
        said = schedule()
    own, other, upkeep = said.splitlines()
    assert own.startswith(f"Periodic task {RECLAIM}: created, every 10 seconds, Celery queue c-up")
    assert own.endswith("c-uploads, priority 9, expires after 10 s.")
    assert "reclaim.other: created, every 10 seconds, Celery queue r, priority 9" in other
    assert upkeep == f"Periodic task {UPKEEP}: created, every 60 seconds, expires after 60 s."
    made = row()
    assert (made.task, made.queue, made.priority, made.enabled) == (RECLAIM, "c-uploads", 9, True)
    assert (made.args, made.kwargs, made.headers) == ("[]", "{}", "{}")
    assert "queue uploads" in made.description
    entry = ModelEntry(made)  # what beat makes of it
    assert entry.schedule.run_every.total_seconds() == 10.0
    assert entry.options["expires"] == 10
    assert row(UPKEEP).queue is None
    made.full_clean()


@pytest.mark.parametrize(
    ("seconds", "number", "period", "expires"),
    [
        (0.1, 100_000, "microseconds", 1),
        (0.5, 500_000, "microseconds", 1),
        (2.5, 2_500_000, "microseconds", 3),
        (10.0, 10, "seconds", 10),
        (7200.25, 7200, "seconds", 7201),  # microseconds of more than 2,147 s fit no column
        (315_360_000, 315_360_000, "seconds", 315_360_000),
    ],
)
def test_intervals(
    schedule: Schedule, seconds: float, number: int, period: str, expires: int
) -> None:
    with queues(uploads={**UPLOADS, "RECLAIM_INTERVAL": seconds}):
        schedule()
        assert "unchanged" in schedule()
    made = row()
    assert (made.interval.every, made.interval.period) == (number, period)
    assert made.expire_seconds == expires


def test_an_interval_that_is_there_is_used(schedule: Schedule) -> None:
    """They are not unique: of several, one."""
    first = every(10)
    every(10)
    with queues(uploads=UPLOADS):
        schedule()
    assert row().interval == first
    assert IntervalSchedule.objects.filter(every=10).count() == 2


def test_no_upkeep_without_queues_for_it(schedule: Schedule) -> None:
    with queues(uploads=UPLOADS):
        schedule()
    assert [one["name"] for one in table()] == [RECLAIM]


# -- once more ----------------------------------------------------------------------------


def test_once_more_changes_nothing(schedule: Schedule) -> None:
    with queues(uploads=UPLOADS, mails={}):
        schedule()
        before, told = table(), last_update()
        assert told is not None
        said = schedule()
    assert table() == before
    assert last_update() == told
    assert said.splitlines() == [f"Periodic task {name}: unchanged." for name in (RECLAIM, UPKEEP)]


def test_a_changed_setting_arrives_and_beat_is_told(schedule: Schedule) -> None:
    with queues(uploads=UPLOADS):
        schedule()
    PeriodicTask.objects.update(total_run_count=7)
    before, told = row(), last_update()
    with queues(uploads={"CELERY_QUEUE": "c2", "RECLAIM_INTERVAL": 0.5}):
        said = schedule()
        after, now = row(), last_update()
        assert schedule() == f"Periodic task {RECLAIM}: unchanged.\n"
    assert "updated, every 500000 microseconds, Celery queue c2, expires after 1 s." in said
    assert (after.pk, after.total_run_count) == (before.pk, 7)
    assert after.schedule.run_every.total_seconds() == 0.5
    assert after.queue == "c2"
    assert now > told
    with queues(uploads=UPLOADS):
        schedule()
    assert (row().queue, str(row().interval)) == ("c-uploads", "every 10 seconds")


def test_what_beat_writes_meanwhile_is_kept(schedule: Schedule, monkeypatch: Any) -> None:
    with queues(uploads=UPLOADS):
        schedule()
    sync_write = rows._write

    def late(*args: Any) -> None:
        PeriodicTask.objects.update(total_run_count=99, enabled=False)
        sync_write(*args)

    monkeypatch.setattr(rows, "_write", late)
    with queues(uploads={"CELERY_QUEUE": "c2"}):
        schedule()
    assert (row().queue, row().total_run_count, row().enabled) == ("c2", 99, False)


# -- what an operator edits ---------------------------------------------------------------

CHANGED = {"CELERY_QUEUE": "c2", "RECLAIM_INTERVAL": 20}


@pytest.mark.parametrize(
    ("edits", "kept"),
    [
        ({"queue": "mine"}, "queue"),
        ({"queue": None}, "queue"),
        ({"priority": 3}, "priority"),
        ({"priority": None}, "priority"),
        ({"expire_seconds": 5}, "expire seconds"),
        ({"expire_seconds": None}, "expire seconds"),
        ({"enabled": False}, "disabled"),
        ({"one_off": True}, None),
        ({"headers": '{"a": 1}'}, None),
    ],
)
def test_edits_survive(schedule: Schedule, edits: dict[str, Any], kept: str | None) -> None:
    with queues(uploads=UPLOADS):
        schedule()
        edit(**edits)
        before = table()
        said = schedule()
    assert table() == before
    assert said == f"Periodic task {RECLAIM}: unchanged" + (
        f"; kept as edited by hand: {kept}.\n" if kept else ".\n"
    )
    with queues(uploads=CHANGED):
        schedule()
        after = table()
        schedule()
    assert table() == after
    for field, value in edits.items():
        assert after[0][field] == value
    # The rest follows.
    assert row().schedule.run_every.total_seconds() == 20
    if "queue" not in edits:
        assert row().queue == "c2"


def test_an_edited_interval_survives(schedule: Schedule) -> None:
    with queues(uploads=UPLOADS):
        schedule()
    edit(interval=every(300))
    with queues(uploads=CHANGED):
        assert (
            "updated, Celery queue c2, expires after 20 s; kept as edited by hand: schedule."
            in (schedule())
        )
    assert row().schedule.run_every.total_seconds() == 300
    assert row().queue == "c2"


@pytest.mark.parametrize("kind", ["crontab", "clocked"])
def test_another_kind_of_schedule_survives(schedule: Schedule, kind: str) -> None:
    from django.utils import timezone

    other = {
        "crontab": lambda: CrontabSchedule.objects.create(minute="*/5"),
        "clocked": lambda: ClockedSchedule.objects.create(clocked_time=timezone.now()),
    }[kind]()
    with queues(uploads=UPLOADS):
        schedule()
    edit(interval=None, one_off=kind == "clocked", **{kind: other})
    with queues(uploads=CHANGED):
        assert "kept as edited by hand: schedule" in schedule()
    assert row().interval is None
    assert getattr(row(), kind) == other
    assert row().queue == "c2"


def test_an_interval_that_was_edited_itself(schedule: Schedule) -> None:
    with queues(uploads=UPLOADS):
        schedule()
    IntervalSchedule.objects.update(every=77)
    with queues(uploads=CHANGED):
        schedule()
    assert row().interval.every == 77


def test_an_edit_taken_back(schedule: Schedule) -> None:
    with queues(uploads=UPLOADS):
        schedule()
        edit(queue="mine")
        schedule()
        edit(queue="c-uploads")
    with queues(uploads=CHANGED):
        schedule()
    assert row().queue == "c2"


def test_name_and_text_survive(schedule: Schedule) -> None:
    with queues(uploads=UPLOADS):
        schedule()
    own = "What Ann should know.\n" + row().description + "\nAnd Bob.  "
    edit(name="Nightly", description=own)
    own = row("Nightly").description
    with queues(uploads=CHANGED):
        schedule()
        assert "Periodic task Nightly: unchanged." in schedule()
    assert [one["name"] for one in table()] == ["Nightly"]
    after = row("Nightly").description
    assert after.startswith("What Ann should know.\r\n")
    assert after.endswith("\r\nAnd Bob.  ")
    assert after.replace("20", "10").replace("c2", "c-uploads") == own


def test_what_was_deleted_is_made_again(schedule: Schedule) -> None:
    with queues(uploads=UPLOADS):
        schedule()
        edit(queue="mine")
        row().delete()
        schedule()
    assert row().queue == "c-uploads"


# -- what goes ----------------------------------------------------------------------------


def test_stale_rows_go(schedule: Schedule) -> None:
    with queues(uploads=UPLOADS, gone={"CELERY_QUEUE": "g"}, worker={}):
        schedule()
    edit("vtrr_queue.reclaim.gone", name="Renamed", queue="mine")
    told = last_update()
    with queues(uploads={}):
        said = schedule()
    assert [one["name"] for one in table()] == [UPKEEP]
    assert "Periodic task Renamed: removed." in said
    assert f"Periodic task {RECLAIM}: removed." in said
    now = last_update()
    assert now > told


def test_a_copy_stays_while_its_queue_does(schedule: Schedule) -> None:
    with queues(uploads=UPLOADS):
        schedule()
        ours = row()
        ours.pk, ours.name, ours.queue = None, "at night", "slow"
        ours.save(force_insert=True)
        copy = table()[1]
    with queues(uploads=CHANGED):
        schedule()
    assert row().queue == "c2"
    assert table()[1] == copy
    with queues(mails={}):
        schedule()
    assert [one["name"] for one in table()] == [UPKEEP]


def test_dry_run(schedule: Schedule) -> None:
    with queues(uploads=UPLOADS):
        assert f"Periodic task {RECLAIM}: would be created, every 10" in schedule("--dry-run")
        assert table() == []
        schedule()
    before, told = table(), last_update()
    with queues(uploads=CHANGED, mails={}):
        said = schedule("--dry-run")
    assert f"{RECLAIM}: would be updated, every 20 seconds, Celery queue c2" in said
    assert f"{UPKEEP}: would be created" in said
    with queues(mails={}):
        assert f"{RECLAIM}: would be removed" in schedule("--dry-run")
    assert (table(), last_update()) == (before, told)
    assert IntervalSchedule.objects.count() == 1


def test_remove(schedule: Schedule) -> None:
    stranger = PeriodicTask.objects.create(name="mine", task=RECLAIM, interval=every(5))
    with queues(uploads=UPLOADS, mails={}):
        schedule()
        assert "would be removed" in schedule("--remove", "--dry-run")
        assert len(table()) == 3
        schedule("--remove")
    assert [one["id"] for one in table()] == [stranger.pk]


# -- what is not ours ---------------------------------------------------------------------


def test_rows_of_others_are_left_alone(schedule: Schedule) -> None:
    """Also those that call our tasks, have our names, or were copied from ours."""
    with queues(uploads=UPLOADS):
        schedule()
    ours = row()
    five = every(5)
    PeriodicTask.objects.create(name="own reclaim", task=RECLAIM, interval=five)
    PeriodicTask.objects.create(name="stale", task="vtrr_queue.reclaim.gone", interval=five)
    PeriodicTask.objects.create(name="vtrr_queue.reclaim.new", task="else", interval=five)
    PeriodicTask.objects.create(name="copy", task=RECLAIM, interval=five, queue="x",
                                description=ours.description)  # fmt: skip
    PeriodicTask.objects.create(name="made from ours", task="vtrr_queue.enqueue", interval=five,
                                description=ours.description)  # fmt: skip
    PeriodicTask.objects.create(name="spoilt", task=RECLAIM, interval=five,
                                description="[vtrr_django: {\"task\": oops}]")  # fmt: skip
    strangers = [one for one in table() if one["id"] != ours.pk]
    with queues(uploads=CHANGED, new={"CELERY_QUEUE": "n"}, mails={}):
        said = schedule()
        schedule()
    by_id = {one["id"]: one for one in table()}
    assert [by_id[one["id"]] for one in strangers] == strangers
    assert row().queue == "c2"
    assert row(UPKEEP)
    assert "Periodic task vtrr_queue.reclaim.new: left alone, for it is not ours" in said


def test_a_row_whose_line_was_taken_out_is_an_operators(schedule: Schedule) -> None:
    with queues(uploads=UPLOADS):
        schedule()
        edit(description="mine now")
        before = table()
        assert "left alone" in schedule()
    with queues(mails={}):
        schedule()
    assert before[0] in table()


def test_a_row_that_calls_another_task_now_is_an_operators(schedule: Schedule) -> None:
    with queues(uploads=UPLOADS):
        schedule()
        edit(name="reports", task="myapp.reports")
        before = table()
        schedule()
    with queues(mails={}):
        schedule()
    assert before[0] in table()


# -- two at once --------------------------------------------------------------------------


def test_two_processes_at_once(schedule: Schedule) -> None:
    """Both have looked before either writes."""
    with queues(uploads=UPLOADS):
        first = list(rows._steps("default", wanted_rows()))
        second = list(rows._steps("default", wanted_rows()))
        for _, act in [*first, *second]:
            assert act is not None
            act()
    assert [one["name"] for one in table()] == [RECLAIM]


def test_another_error_is_no_race(schedule: Schedule, monkeypatch: Any) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise IntegrityError("another one")

    monkeypatch.setattr(PeriodicTask, "save", broken)
    with queues(uploads=UPLOADS), pytest.raises(Exception, match="another one"):
        schedule()


# -- the line -----------------------------------------------------------------------------


def test_the_line() -> None:
    values = {"schedule": "10 seconds", "queue": 'a"]b', "priority": None}
    text = f"before\r\n{marker.line('a.task', values)}\r\nafter"
    assert marker.read(text) == {"task": "a.task", **values}
    new = marker.replace(text, "a.task", {"schedule": r"\1 \g<0>"})
    assert marker.read(new) == {"task": "a.task", "schedule": r"\1 \g<0>"}
    assert (new[:8], new[-7:]) == ("before\r\n", "\r\nafter")


@pytest.mark.parametrize(
    "text", ["", "[vtrr_django: {]", "[vtrr_django: {}]", "[vtrr_django: []]", 'x: {"task": 1}]']
)
def test_no_line(text: str) -> None:
    assert marker.read(text) is None
    assert marker.read(f"[vtrr_django: {json.dumps({'task': 1})}]") is None
