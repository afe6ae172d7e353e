"""Whatever is sent is answered with what is wrong with it, and the same on every store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.asking import Api
from tests.api.everywhere import every_store, same_everywhere

DEEP_31 = "[" * 31 + "]" * 31
BIG = 2**20 + 1


def job(args: str = "[]", **more: Any) -> bytes:
    """Return a job whose ``args`` are a text that need not be JSON."""
    told = json.dumps({"task": "t", **more})
    return f'{told[:-1]}, "args": {args}}}'.encode()


BODIES: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", 400),
    "white space": (b" \n", 400),
    "no JSON": (b"{", 400),
    "no object": (b"[]", 400),
    "null": (b"null", 400),
    "two objects": (b"{}{}", 400),
    "not finite": (b'{"x":1e999}', 400),
    "not finite, below": (job("[-1e999]"), 400),
    "NaN": (job("[NaN]"), 400),
    "Infinity": (job("[-Infinity]"), 400),
    "40 kB of [": (b"[" * 40_000, 400),
    "40 kB of [ in a job": (job("[" * 40_000), 400),
    "40 kB of {": (b'{"a":' * 8_000, 400),
    "nested 100,000 deep": (job("[" * 100_000 + "]" * 100_000), 400),
    "nested 31 deep": (job(f"[{DEEP_31}]"), 400),
    "5,000 digits": (job(f"[{'9' * 5000}]"), 400),
    "1,000,000 digits": (job(f"[{'9' * 1_000_000}]"), 400),
    "UTF-16": ('{"task": "t"}'.encode("utf-16"), 400),
    "UTF-16 without mark": ('{"task": "t"}'.encode("utf-16-be"), 400),
    "byte order mark": (b"\xef\xbb\xbf" + job(), 400),
    "Latin-1": ('{"task": "é"}'.encode("latin-1"), 400),
    "NUL byte": (b'{"task": "\x00"}', 400),
    "NUL": (job(r'["\u0000"]'), 400),
    "NUL in a key": (job(r'[{"a\u0000": 1}]'), 400),
    "lone surrogate": (job(r'["\ud800"]'), 400),
    "lone surrogate in a key": (job(r'[{"\udfff": 1}]'), 400),
    "lone surrogate as a field": (rb'{"task": "t", "\ud800": 1}', 400),
    "encoded surrogate": (b'{"task": "\xed\xa0\x80"}', 400),
    "a key twice": (b'{"task": "t", "task": "u"}', 400),
    "a key twice, below": (job('[{"a": 1, "a": 2}]'), 400),
    "too big": (job(f'["{"x" * BIG}"]'), 400),
    "too big in bytes": (job(f'["{"é" * (BIG // 2)}"]'), 400),
    "too many, too small": (job("[" + "1," * BIG + "1]"), 400),
}
"""Bodies for a publish, and their status."""

NAMES: dict[str, Any] = {
    "number": 1,
    "true": True,
    "list": ["a"],
    "object": {},
    "empty": "",
    "NUL": "a\x00b",
    "control": "a\x1fb",
    "C1 control": "a\x85b",
    "surrogate": "a\ud800b",
    "too long": "x" * 256,
    "huge": "x" * 1_000_000,
}

NUMBERS: dict[str, Any] = {
    "text": "1",
    "true": True,
    "list": [],
    "object": {},
    "negative": -1,
    "huge": 10**30,
    "huge float": 1e300,
    "4,000 digits": int("9" * 4000),
}


def _wrong(path: str, name: str, values: dict[str, Any], **others: Any) -> Iterator[Any]:
    for what, value in values.items():
        yield f"{path} {name} {what}", path, {**others, name: value}


LEASE = {"id": "x", "token": "x"}
OUTCOME = {"kind": "ack", **LEASE}

FIELDS: list[tuple[str, str, dict[str, Any]]] = [
    *_wrong("jobs", "task", NAMES),
    *_wrong("jobs", "partition_key", {k: v for k, v in NAMES.items() if v != ""}, task="t"),
    *_wrong("jobs", "msg_id", NAMES, task="t"),
    *_wrong("jobs", "id", NAMES | {"space": "a b", "accent": "é", "65": "x" * 65}, task="t"),
    *_wrong("jobs", "parent_id", NAMES, task="t"),
    *_wrong("jobs", "weight", NUMBERS | {"zero": 0, "half": 0.5, "most": 1_000_001}, task="t"),
    *_wrong("jobs", "priority", NUMBERS | {"negative": -101, "half": 0.5}, task="t"),
    *_wrong("jobs", "delay", NUMBERS | {"eleven years": 350_000_000}, task="t"),
    *_wrong(
        "jobs",
        "scheduled_at",
        NAMES
        | {
            "naive": "2030-01-01T00:00:00",
            "a date": "2030-01-01",
            "year 0": "0000-01-01T00:00:00Z",
            "year 1": "0001-01-01T00:00:00+23:59",
            "year 9999": "9999-12-31T23:59:59-23:59",
            "year 2200": "2200-01-01T00:00:00Z",
            "month 13": "2030-13-01T00:00:00Z",
            "far away": "2030-01-01T00:00:00+99:99",
        },
        task="t",
    ),
    *_wrong("jobs", "args", {"text": "a", "object": {}, "number": 1, "false": False}, task="t"),
    *_wrong("jobs", "kwargs", {"text": "a", "list": [], "number": 0, "false": False}, task="t"),
    *_wrong("jobs", "nothing", {"that there is": 1, "null": None}, task="t"),
    *_wrong("jobs", "jobs", {"text": "a", "object": {}, "empty": [], "501": [{"task": "t"}] * 501}),
    *_wrong("jobs", "jobs", {"null": [None], "text": ["a"], "list": [[]]}),
    *_wrong("claim", "worker_id", NAMES),
    *_wrong("claim", "limit", NUMBERS | {"zero": 0, "101": 101, "half": 0.5}, worker_id="w"),
    *_wrong("claim", "visibility_timeout", NUMBERS | {"86,401": 86_401, "0": 0}, worker_id="w"),
    *_wrong("claim", "wait", NUMBERS | {"21": 21}, worker_id="w"),
    *_wrong("finish", "outcomes", {"text": "a", "101": [OUTCOME] * 101, "null": [None]}),
    *_wrong("finish", "claim", {"text": "a", "list": [], "empty": {}}, outcomes=[]),
    *_wrong("renew", "leases", {"text": "a", "empty": [], "1,001": [LEASE] * 1001}),
    *_wrong("renew", "visibility_timeout", NUMBERS | {"86,401": 86_401}, leases=[LEASE]),
    *_wrong("renew", "worker_id", NAMES, leases=[LEASE]),
    *_wrong("fail", "id", NAMES, token="x"),
    *_wrong("fail", "token", NAMES | {"NUL": 1, "control": 1, "C1 control": 1, "too long": 1},
            id="x"),
    *_wrong("fail", "runtime", NUMBERS, **LEASE),
    *_wrong("fail", "reason", {"number": 1, "list": [], "surrogate": "\ud800"}, **LEASE),
    *_wrong("jobs/x", "delay", NUMBERS, action="snooze", token="x"),
    *_wrong("jobs/x", "action", {"other": "delete", "list": [], "none": None}, token="x"),
    *_wrong("pause", "partition_key", {k: v for k, v in NAMES.items() if v != ""}),
    *_wrong("resume", "partition_key", {k: v for k, v in NAMES.items() if v != ""}),
    *_wrong("requeue", "ids", {"text": "a", "empty": [], "1,001": ["a"] * 1001, "space": ["a b"]}),
    *_wrong("requeue", "limit", NUMBERS | {"zero": 0, "1,001": 1001}),
]  # fmt: skip
"""What was asked, its path and its body."""

QUERIES = [
    *(
        f"partitions?limit={value}"
        for value in (
            "0",
            "1001",
            "x",
            "",
            "1.5",
            "9" * 5000,
            "-1",
            "+5",
            "0x10",
            "%00",
            "\uff11\uff10",
        )
    ),
    *(f"partitions?partition_key={value}" for value in ("%00", "x" * 256, "a%0Ab", "%ED%A0%80%00")),
    *("partitions?limit=1&limit=2", "partitions?nothing=1", "stats?x=1", "minutes?limit=1"),
    "jobs/x?token=",
    "jobs/x",
    *("jobs/x?token=x&runtime=-1", "jobs/x?token=x&runtime=1e99", "jobs/x?token=x&runtime=nan"),
    *(
        "jobs/a%20b?token=x",
        "jobs/a%00b?token=x",
        "jobs/a%0Ab%0D?token=x",
        f"jobs/{'x' * 65}?token=x",
    ),
    *(f"jobs/x?token={'x' * 2049}", "jobs/x?token=%ED%A0%80&token=x"),
]
"""Of a GET, or of a DELETE for ``jobs/``."""


@every_store
def test_bodies(settings: Any) -> None:
    def scenario(api: Api) -> dict[str, Any]:
        found = {
            what: api.send("POST", f"/{api.name}/jobs", raw) for what, (raw, _) in BODIES.items()
        }
        for what, answer in found.items():
            assert answer.status == BODIES[what][1], (what, answer)
            check(answer.body)
        assert api.get("stats").body["ready"] == 0
        return {what: answer.told for what, answer in found.items()}

    same_everywhere(settings, scenario)


@every_store
def test_fields(settings: Any) -> None:
    def scenario(api: Api) -> dict[str, Any]:
        told = {}
        for what, path, body in FIELDS:
            method = "PATCH" if path == "jobs/x" else "POST"
            answer = api.ask(method, path, body)
            assert answer.status == 400, (what, answer)
            assert answer.body["path"], what
            check(answer.body)
            told[what] = answer.told
        stats = api.get("stats").body
        assert stats["ready"] == stats["scheduled"] == stats["failed"] == 0
        return told

    same_everywhere(settings, scenario)


@every_store
def test_queries(settings: Any) -> None:
    def scenario(api: Api) -> dict[str, Any]:
        told = {}
        for query in QUERIES:
            method = "DELETE" if query.startswith("jobs/") else "GET"
            answer = api.send(method, f"/{api.name}/{query}")
            assert answer.status == 400, (query, answer)
            check(answer.body)
            told[query] = answer.told
        return told

    same_everywhere(settings, scenario)


@every_store
def test_what_is_odd_but_good(settings: Any) -> None:
    """Every store takes, and gives back, what just about may be."""

    def scenario(api: Api) -> dict[str, Any]:
        ids = api.publish(
            {"id": "!" * 64, "partition_key": "\U0001f600" * 255, "msg_id": "m" * 255},
            {"id": "a", "args": [10**4299, -(10**4299), 5e-324, 1.7976931348623157e308, -0.0]},
            {"id": "b", "kwargs": {"\u2028": "\ufffe\uffff\x01", "": [{}, [], "\U0010ffff"]}},
            {"id": "c", "args": json.loads("[" * 30 + "]" * 30)},
            {"id": "d", "weight": 1_000_000, "priority": 100},
            {"id": "e", "scheduled_at": "1970-01-01T00:00:00.000001+00:00"},
            {"id": "f", "scheduled_at": "2199-12-31T23:59:59Z"},
            {"id": "g", "delay": 315_576_000},
            task="\u00e9" * 255,
        )
        told: dict[str, Any] = {"ids": ids}
        jobs = api.claim(10, worker_id="\u00e9" * 255)
        moments = ("token", "enqueued_at", "lease_expires_at", "ready_at")
        told["jobs"] = [{k: v for k, v in job.items() if k not in moments} for job in jobs]
        told["ends"] = [api.ack(job).told for job in jobs]
        scheduled = api.get("stats").body["scheduled"]
        return told | {"scheduled": scheduled}

    told = same_everywhere(settings, scenario, MAX_PAYLOAD_BYTES=100_000)
    assert sorted(job["id"] for job in told["jobs"]) == ["!" * 64, "a", "b", "c", "d", "e"]
    assert [status for status, _ in told["ends"]] == [200] * 6
    assert told["scheduled"] == 2


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "stats", 405),
        ("GET", "jobs", 405),
        ("PUT", "jobs", 405),
        ("GET", "jobs/x", 405),
        ("POST", "jobs/x", 405),
        ("OPTIONS", "jobs", 405),
        ("TRACE", "claim", 405),
        ("HEAD", "stats", 200),
        ("GET", "nothing", 404),
        ("POST", "jobs/", 404),
    ],
)
def test_methods_and_paths(api: Api, method: str, path: str, status: int) -> None:
    found = api.send(method, f"/{api.name}/{path}")
    assert found.status == status
    if status == 405:
        assert set(found.headers["Allow"].split(", ")) <= {"GET", "HEAD", "POST", "DELETE", "PATCH"}


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
@pytest.mark.parametrize("kind", ["", "text/plain", "application/json; charset=utf-16", "é", "a/b"])
def test_content_types(api: Api, kind: str) -> None:
    found = api.send("POST", f"/{api.name}/jobs", job(), kind=kind)
    assert found.status == 415


def check(body: Any) -> None:
    """Check that a body is a sentence that says what to change."""
    assert isinstance(body["error"], str)
    assert "expected" in body["error"]
    assert len(body["error"]) < 1000
    assert body.keys() <= {"error", "path"}
    assert len(body.get("path", "")) < 500
