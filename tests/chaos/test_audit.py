"""The audit finds what it is for: a good story, and each way to spoil it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos.audit import Audit
from tests.races.journal import Entry

Story = list[tuple[Any, ...]]


def _leased(token: str, at: float, job_id: str = "j1", key: str = "a") -> tuple[Any, ...]:
    return ("leased", "w", [[job_id, token, at, key]])


def _good() -> Story:
    """One job is retried, times out, is acked; another is cancelled, a third is undone."""
    return [
        ("publishing", ["m1", "m2"]),
        ("published", [["m1", "j1", None], ["m2", "j2", None]]),
        ("publishing", ["m3"]),
        ("undone", ["m3"]),
        ("publishing", ["m4"]),
        ("published", [["m4", "j4", "known"]]),
        ("leasing",),
        _leased("t1", 1.0),
        ("ending", "retry", "j1", "t1"),
        ("ended", "retry", "j1", "t1", True),
        ("cancelling", ["j2"]),
        ("cancelled", ["j2"], ["j2"]),
        ("leasing",),
        _leased("t2", 2.0),
        ("leasing",),
        _leased("t3", 3.0),
        ("renewing", ["t2", "t3"]),
        ("renewed", [["t2", False], ["t3", True]]),
        ("ending", "ack", "j1", "t2"),
        ("ended", "ack", "j1", "t2", False),
        ("ending", "ack", "j1", "t3"),
        ("ended", "ack", "j1", "t3", True),
        ("leasing",),
        _leased("t4", 4.0, "j4"),
        ("ending", "fail", "j4", "t4"),
        ("ended", "fail", "j4", "t4", True),
    ]


def _rows() -> dict[str, dict[str, Any]]:
    common = {"worker_id": "w", "reason": "", "timeouts": 0, "delivery_count": 0}
    return {
        "j1": common | {"id": "j1", "parent_id": "m1", "timeouts": 1, "delivery_count": 1},
        "j4": common | {"id": "j4", "parent_id": "m4"},
    }


def _problems(
    story: Story, rows: dict[str, dict[str, Any]], live: dict[str, Any], limit: int = 1
) -> list[str]:
    history = {
        "completed": [row for row in rows.values() if row["id"] != "j4"],
        "failed": [row for row in rows.values() if row["id"] == "j4"],
    }
    stats = {"ready": 0, "claimed": len(live), "scheduled": 0, "completed": 1, "failed": 1}
    audit = Audit(Entry(1, what, tuple(words)) for what, *words in story)
    return audit.problems(history, live, stats, {"a": limit})


def test_a_good_story() -> None:
    assert _problems(_good(), _rows(), {}) == []


Spoil = Callable[[Story, dict[str, dict[str, Any]], dict[str, Any]], object]

SPOILT: dict[str, Spoil] = {
    "job j1 of m1 is lost": lambda story, rows, live: rows.pop("j1"),
    "the job of msg_id known is lost": lambda story, rows, live: rows.pop("j4"),
    "job j1 is still there": lambda story, rows, live: live.update(j1={}),
    "stats say claimed=1": lambda story, rows, live: live.update(j1={}),
    "job j1 ended 2 times": lambda story, rows, live: rows.update(again=rows["j1"]),
    "of m3 was never published": lambda story, rows, live: rows["j1"].update(parent_id="m3"),
    "job j2 was cancelled and ended": lambda story, rows, live: rows.update(
        j2=rows["j1"] | {"id": "j2", "parent_id": "m2"}
    ),
    "m1 was published once and became 2 jobs": lambda story, rows, live: rows.update(
        j5=rows["j1"] | {"id": "j5"}
    ),
    "msg_id known became jobs": lambda story, rows, live: story.append(
        ("published", [["m4", "j1", "known"]])
    ),
    "was retried 1 times": lambda story, rows, live: rows["j1"].update(delivery_count=2),
    "ran out of 1 leases": lambda story, rows, live: rows["j1"].update(timeouts=0),
    "was acked by": lambda story, rows, live: rows["j1"].update(worker_id="other"),
    "has ended by ack, and nobody did it": lambda story, rows, live: story.__delitem__(
        slice(-6, -4)
    ),
    "token t1 was given out twice": lambda story, rows, live: story.insert(7, _leased("t1", 1.0)),
    "was leased after its ack": lambda story, rows, live: story.append(_leased("t5", 5.0)),
    "then again by ['fail']": lambda story, rows, live: story.extend(
        [("ending", "fail", "j1", "t3"), ("ended", "fail", "j1", "t3", True)]
    ),
    "then again by ['renew']": lambda story, rows, live: story.extend(
        [("renewing", ["t3"]), ("renewed", [["t3", True]])]
    ),
    "was leased to two at once": lambda story, rows, live: story.__setitem__(
        17, ("renewed", [["t2", True], ["t3", True]])
    ),
    "partition 'a' had 2 jobs in flight": lambda story, rows, live: story.insert(14, story.pop(-3)),
}


@pytest.mark.parametrize("problem", SPOILT)
def test_a_spoilt_one(problem: str) -> None:
    story, rows, live = _good(), _rows(), {}
    SPOILT[problem](story, rows, live)
    assert any(problem in found for found in _problems(story, rows, live))


def test_what_was_cut_off_may_have_happened_or_not() -> None:
    cut_off = [
        ("publishing", ["m6"]),
        ("leasing",),
        ("cancelling", ["j5"]),
        ("ending", "retry", "j1", "t2"),
    ]
    story = _good()
    story[1:1] = [("publishing", ["m5"]), ("published", [["m5", "j5", None]])]
    story[-10:-10] = cut_off
    rows = _rows()
    assert _problems(story, rows, {}) == []
    rows["j1"] |= {"timeouts": 2, "delivery_count": 2}
    rows["j5"] = rows["j4"] | {"id": "j5", "parent_id": "m5"}
    found = _problems(story, rows, {})
    assert found == ["stats say completed=1, expected 2", *found[1:]]
    assert found[1:] == ["job j5 has ended by ack, and nobody did it"]
