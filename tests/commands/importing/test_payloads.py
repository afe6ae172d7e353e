"""What the file says of a job: payloads, partitions, times, numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.commands.importing.calling import (
    apply,
    drain,
    is_empty,
    refusal,
    sqlite_only,
)
from tests.commands.importing.files import File, envelope
from tests.contract.stores import Store
from vtrr_django import Queue
from vtrr_django.models import FailedJob

# -- what jobs are ---------------------------------------------------------------------

FIELDS = {"to": "x"}


@pytest.mark.parametrize(
    ("payload", "arguments"),
    [
        ({"type": "SendEmail", "data": FIELDS}, []),
        ({"type": "myapp.messages.SendEmail", "payload": FIELDS}, []),
        ({"message_type": "myapp.messages:SendEmail", "kwargs": FIELDS}, []),
        ({"__type__": "SendEmail", **FIELDS}, []),
        ({"__type__": "SendEmail", "message": FIELDS}, []),
        ({"type": "Mail", "data": FIELDS}, ["--map=Mail=SendEmail"]),
        ({"type": "Mail", "data": FIELDS}, ["--map=Mail=tests.commands.importing.files.SendEmail"]),
        ({"type": "SendEmail", "data": FIELDS, "v": 1}, ["--type-key=type", "--data-key=data"]),
        ({"type": "SendEmail", **FIELDS}, ["--type-key=type"]),
        ({"t": "SendEmail", "d": FIELDS}, ["--type-key=t", "--data-key=d"]),
        ({"d": FIELDS}, ["--data-key=d", "--task=SendEmail"]),
        ({"type": "SendEmail", "d": FIELDS}, ["--data-key=d"]),
        (FIELDS, ["--task=SendEmail"]),
        (FIELDS, ["--task=tests.commands.importing.files.SendEmail"]),
        ({"type": "SendEmail", "data": FIELDS}, ["--task=SendEmail"]),
    ],
    ids=str,
)
@sqlite_only
def test_envelopes(queue: Queue, file: File, payload: Any, arguments: list[str]) -> None:
    file.jobs({"payload": json.dumps(payload)}, {"payload": json.dumps(payload).encode()})
    apply(file, *arguments)
    assert [(job.task_name, job.kwargs) for job in drain(queue)] == [("SendEmail", FIELDS)] * 2


@dataclass
class Picture:
    type: str
    data: dict[str, Any]


def show(message: Picture) -> None: ...


@sqlite_only
def test_a_message_whose_fields_look_like_an_envelope(queue: Queue, file: File) -> None:
    queue.handler(show)
    fields = {"type": "png", "data": {"size": 3}}
    file.jobs({"payload": json.dumps(fields)})
    apply(file, "--task=Picture")
    assert [job.kwargs for job in drain(queue)] == [fields]


@sqlite_only
def test_a_task_takes_the_fields_as_keywords(queue: Queue, file: File) -> None:
    def deliver(self: Any, to: str, copies: int = 1) -> None: ...

    task = queue.task(deliver)
    file.jobs({"payload": envelope("a", type_name="deliver")})
    apply(file)
    assert [(job.task_name, job.kwargs) for job in drain(queue)] == [(task.name, {"to": "a"})]
    file.jobs({"payload": envelope("a", type_name="deliver", other=1)})
    assert "payload: expected arguments for" in refusal(file)


@pytest.mark.parametrize(
    ("payload", "arguments", "told"),
    [
        ({"type": "SendMail", "data": FIELDS}, [], "did you mean 'SendEmail'?; declare a handler"),
        ({"type": "SendMail", "data": FIELDS}, [], "with --map SendMail=NAME"),
        (FIELDS, [], "expected a message type, got the keys 'to'; name the key that holds it"),
        ({"type": "SendEmail", "data": FIELDS, "v": 1}, [], "with --type-key"),
        ({"type": "SendEmail", **FIELDS}, [], "with --type-key"),
        (FIELDS, ["--type-key=type"], "expected a message type under 'type', got the keys 'to'"),
        (FIELDS, ["--data-key=d", "--task=SendEmail"], "expected an object under 'd'"),
        ({"type": "Other", "data": FIELDS}, ["--task=SendEmail"], "leave --task out"),
        ({"type": "SendEmail", "data": {}}, [], "SendEmail.to: expected a string, got nothing"),
        (
            {"type": "SendEmail", "data": {"to": 1}},
            [],
            "SendEmail.to: expected a string, got a whole number",
        ),
        ([1], [], "expected a JSON object, got a list"),
        ({}, [], "got no keys"),
    ],
    ids=str,
)
@sqlite_only
def test_payloads_that_are_not_understood(
    store: Store, queue: Queue, file: File, payload: Any, arguments: list[str], told: str
) -> None:
    [_, bad] = file.jobs({}, {"payload": json.dumps(payload)})
    said = refusal(file, *arguments)
    assert told in said
    assert f"jobs row 2 (id {bad[:40]!r})" in said
    assert "nothing was written" in said
    assert is_empty(store, queue)


@dataclass
class Tick:
    number: int = 0


def tick(message: Tick) -> None: ...


@sqlite_only
def test_none_of_the_fields_is_known(queue: Queue, file: File) -> None:
    queue.handler(tick)
    file.jobs({"payload": json.dumps({"type": "Tick", "body": {"nr": 1}})})
    assert "expected fields of Tick (number), got none of them" in refusal(file)


@sqlite_only
def test_unknown_fields_are_told(
    queue: Queue, file: File, capsys: pytest.CaptureFixture[str]
) -> None:
    file.jobs(*[{"payload": envelope(old=1)}] * 3)
    apply(file)
    err = capsys.readouterr().err
    assert "SendEmail.old is no field of SendEmail, and is ignored when it runs: 3 rows" in err
    assert [job.kwargs["old"] for job in drain(queue)] == [1] * 3


@pytest.mark.parametrize("option", ["--task=SendMail", "--map=Mail=SendMail"])
@sqlite_only
def test_options_that_name_no_task_are_refused(queue: Queue, file: File, option: str) -> None:
    file.jobs({})
    assert "did you mean 'SendEmail'?" in refusal(file, option)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--map=Mail"], "--map: expected TYPE=NAME, got 'Mail'"),
        (["--map=A=SendEmail", "--task=SendEmail"], "got both"),
        (["--partition=a", "--partition-field=b"], "not allowed with"),
        (["--partition=" + "x" * 256], "--partition: expected"),
    ],
)
@sqlite_only
def test_options_that_contradict(queue: Queue, file: File, arguments: list[str], told: str) -> None:
    assert told in refusal(file, *arguments)


@sqlite_only
def test_a_process_that_knows_no_handler(
    queue: Queue, file: File, capsys: pytest.CaptureFixture[str]
) -> None:
    queue._runnables.clear()
    file.jobs({})
    assert "this process knows none" in refusal(file)
    apply(file, "--map=SendEmail=Elsewhere")
    assert "This process knows no task or message 'Elsewhere'" in capsys.readouterr().err
    assert [job.task_name for job in queue.lease()] == ["Elsewhere"]


@sqlite_only
def test_a_process_that_knows_no_handler_and_is_told_the_task(queue: Queue, file: File) -> None:
    queue._runnables.clear()
    file.jobs({"payload": envelope(type_name="app.Elsewhere")})
    apply(file, "--task=Elsewhere")
    assert [job.task_name for job in queue.lease()] == ["Elsewhere"]


@dataclass
class Even:
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise LookupError("odd")


def halve(message: Even) -> None: ...


@sqlite_only
def test_a_message_that_its_class_refuses(queue: Queue, file: File) -> None:
    queue.handler(halve)
    file.jobs({"payload": json.dumps({"type": "Even", "data": {"number": 3}})})
    assert "expected the fields of an Even, got an error: LookupError('odd')" in refusal(file)


@sqlite_only
def test_a_name_that_two_tasks_have(queue: Queue, file: File) -> None:
    def send(self: Any, to: str) -> None: ...

    one = queue.task(send)
    send.__qualname__ = "other.send"
    two = queue.task(send)
    assert one.name != two.name
    file.jobs({"payload": envelope("a", type_name="send")})
    assert "say which it is with --map send=NAME" in refusal(file)
    apply(file, f"--map=send={two.name}")
    assert [job.task_name for job in drain(queue)] == [two.name]


@sqlite_only
def test_types_that_are_gone_are_fine_for_completed_jobs_only(queue: Queue, file: File) -> None:
    gone = {"payload": envelope(type_name="Gone")}
    file.add("completed_jobs", gone)
    assert "1 completed job" in apply(file)
    file.add("failed_jobs", gone)
    assert "failed_jobs row 1" in refusal(file)


# -- whose they are --------------------------------------------------------------------


def test_partitions(queue: Queue, file: File) -> None:
    file.jobs(*({"payload": envelope(tenant=tenant)} for tenant in ("a", "b", "", "a")))
    file.add("failed_jobs", {"payload": envelope(tenant="c")})
    apply(file, "--partition-field=tenant")
    assert sorted(job.partition_key for job in drain(queue)) == ["", "a", "a", "b"]
    [letter] = FailedJob.objects.using(queue.config.database).filter(queue=queue.name)
    assert letter.partition_key == "c"


@sqlite_only
def test_one_partition_for_all(queue: Queue, file: File) -> None:
    file.jobs({}, {})
    apply(file, "--partition=Ünï key")
    assert {job.partition_key for job in drain(queue)} == {"Ünï key"}


@sqlite_only
def test_a_partition_from_deep_inside(queue: Queue, file: File) -> None:
    file.jobs({"payload": envelope(user={"id": 17})})
    apply(file, "--partition-field=user.id")
    assert [job.partition_key for job in drain(queue)] == ["17"]


@pytest.mark.parametrize("value", [None, True, 1.5, [], "x" * 256, "a\x01"], ids=str)
@sqlite_only
def test_partitions_that_cannot_be(store: Store, queue: Queue, file: File, value: Any) -> None:
    file.jobs({"payload": envelope(user=value)})
    assert "payload.user: expected" in refusal(file, "--partition-field=user")
    assert is_empty(store, queue)


# -- times and numbers -----------------------------------------------------------------

DUE = datetime(2199, 1, 2, 3, 4, 5, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        "2199-01-02T03:04:05.500000+00:00",
        "2199-01-02T05:04:05.5+02:00",
        "2199-01-02 03:04:05.500",
        "2199-01-02T03:04:05.500Z",
        b"2199-01-02T03:04:05.500Z",
        DUE.timestamp(),
        str(DUE.timestamp()),
        int(DUE.timestamp() * 1000),
        DUE.timestamp() * 1000,
    ],
    ids=str,
)
@sqlite_only
def test_times(queue: Queue, file: File, value: Any) -> None:
    [job_id] = file.jobs({"scheduled_at": value})
    apply(file)
    info = queue.job(job_id)
    assert info is not None
    assert info.ready_at == DUE


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("scheduled_at", None),
        ("scheduled_at", "soon"),
        ("scheduled_at", ""),
        ("scheduled_at", float("inf")),
        ("scheduled_at", "nan"),
        ("scheduled_at", -1),
        ("scheduled_at", 1e18),
        ("scheduled_at", 2**62),
        ("scheduled_at", "0001-01-01T00:00:00+14:00"),
        ("scheduled_at", b"\xff"),
        ("delivery_count", -1),
        ("delivery_count", 2**31),
        ("delivery_count", 1.5),
        ("delivery_count", "one"),
        ("msg_id", "x" * 256),
        ("msg_id", "a\x00b"),
        ("msg_id", b"\xff"),
        ("id", None),
        ("id", ""),
        ("id", b"\xff\xfe"),
    ],
    ids=str,
)
@sqlite_only
def test_columns_that_are_not_understood(
    store: Store, queue: Queue, file: File, column: str, value: Any
) -> None:
    file.jobs({column: value})
    assert f"{column}: expected" in refusal(file)
    assert is_empty(store, queue)


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("failed_jobs", "failed_at"),
        ("completed_jobs", "completed_at"),
        ("failed_jobs", "claimed_at"),
    ],
)
@sqlite_only
def test_history_that_is_not_understood(
    store: Store, queue: Queue, file: File, table: str, column: str
) -> None:
    file.jobs({})
    file.add(table, {column: "?"})
    assert f"{table} row 1" in refusal(file)
    assert is_empty(store, queue)
    assert "1 waiting job, 0 dead letters, 0 completed jobs" in apply(file, "--skip-unreadable")


@sqlite_only
def test_reasons_and_workers_may_be_anything(store: Store, queue: Queue, file: File) -> None:
    file.add("failed_jobs", {"reason": "a\x00" + "y" * 5000}, {"reason": None})
    file.add("completed_jobs", {"worker_id": b"\xff" * 300})
    apply(file)
    first, second = store.history(queue.name)["failed"]
    assert (len(first["reason"]), len(first["traceback"])) == (1000, 5002)
    assert (second["reason"], second["traceback"]) == ("", "")
    [done] = store.history(queue.name)["completed"]
    assert len(done["worker_id"]) == 255
