"""The rows of the partitions table: what is due to whom, sorting, words for numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.admin.conftest import declare
from vtrr_django.admin import markup
from vtrr_django.admin.tenants import Row, matching, ordered, rows_of
from vtrr_django.domain.histogram import Histogram
from vtrr_django.domain.job import PartitionStats
from vtrr_django.figures.reading import REST, Tenant

NOW = datetime(2026, 11, 30, 17, tzinfo=UTC)


def stats(key: str, **more: Any) -> PartitionStats:
    return PartitionStats(partition_key=key, **more)


def by_key(rows: list[Row]) -> dict[str, Row]:
    return {row.key: row for row in rows}


def test_due_is_what_a_share_is_among_those_that_were_active(settings: Any) -> None:
    queue = declare(settings, "sqlite", SHARES={"gone": 4}, PARTITION_LIMIT=9)
    found = [stats("a", share=3), stats("b", share=1), stats("idle", share=100)]
    past = {
        "a": Tenant(worker_seconds=60, leases=1),
        "b": Tenant(worker_seconds=20, leases=1),
        "gone": Tenant(worker_seconds=10, leases=1),
        "snoozed": Tenant(leases=1),
        REST: Tenant(worker_seconds=10, leases=1),
    }

    rows = by_key(rows_of(queue, found, past, NOW))

    assert {key: row.used for key, row in rows.items()} == {
        "a": 0.6,
        "b": 0.2,
        "gone": 0.1,
        "idle": None,
        "snoozed": None,
    }
    assert {key: row.due for key, row in rows.items() if row.due} == {
        "a": 3 / 8,
        "b": 1 / 8,
        "gone": 4 / 8,
    }
    assert rows["gone"].stats.limit == 9
    assert rows["gone"].state == "idle"


def test_the_projects_code_is_not_asked_for_the_share_of_each(settings: Any) -> None:
    def ask(key: str) -> float:
        raise AssertionError("it may need a query for each of a thousand partitions")

    queue = declare(settings, "sqlite", SHARES=ask)

    [row] = rows_of(queue, [], {"gone": Tenant(worker_seconds=1)}, NOW)

    assert (row.stats.share, row.due) == (1, 1)


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"ready": 2, "leased": 1, "limit": 1}, "at its limit"),
        ({"ready": 2, "leased": 1, "limit": 2}, "waiting"),
        ({"ready": 2, "leased": 1}, "waiting"),
        ({"leased": 1, "scheduled": 1}, "running"),
        ({"scheduled": 1}, "scheduled"),
        ({"ready": 1, "paused": True}, "paused"),
        ({}, "idle"),
    ],
)
def test_a_state_says_why_a_partition_waits(fields: dict[str, Any], state: str) -> None:
    assert Row(stats=stats("a", **fields), past=Tenant(), now=NOW).state == state


def test_the_unknown_comes_last_whichever_way_one_sorts() -> None:
    def at(key: str, ago: int | None) -> Row:
        since = None if ago is None else NOW - timedelta(seconds=ago)
        return Row(stats=stats(key, oldest_ready_at=since), past=Tenant(), now=NOW)

    rows = [at("a", 5), at("b", None), at("d", 9), at("c", 9)]

    assert [row.key for row in ordered(rows, "oldest")] == ["a", "c", "d", "b"]
    assert [row.key for row in ordered(rows, "-oldest")] == ["c", "d", "a", "b"]


@pytest.mark.parametrize(
    ("sort", "keys"),
    [("-p95", ["slow", "fast"]), ("-seconds", ["slow", "fast"]), ("-lag", ["fast", "slow"])],
)
def test_figures_of_the_hour_can_be_sorted_by(sort: str, keys: list[str]) -> None:
    slow, fast = Histogram(), Histogram()
    slow.add(60)
    fast.add(0.1)
    rows = [
        Row(stats=stats("fast", lag=2), past=Tenant(waits=fast), now=NOW),
        Row(stats=stats("slow", lag=1), past=Tenant(waits=slow, worker_seconds=5), now=NOW),
    ]

    assert [row.key for row in ordered(rows, sort)] == keys


def test_a_whole_key_comes_before_those_that_begin_so() -> None:
    rows = [Row(stats=stats(key), past=Tenant(), now=NOW) for key in ("ab", "a", "b")]

    assert [row.key for row in matching(rows, "a")] == ["a", "ab"]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        *((None, "–"), (0, "0.0 s"), (0.0004, "1 ms"), (0.05, "50 ms"), (0.123, "0.1 s")),
        *((9.96, "10.0 s"), (12.4, "12 s"), (119, "119 s"), (180, "3 min")),
        *((7500, "2 h 5 min"), (350_000, "4 d 1 h")),
    ],
)
def test_durations_are_short(seconds: float | None, told: str) -> None:
    assert markup.duration(seconds) == told


def test_numbers_are_grouped_and_parts_are_percents() -> None:
    assert markup.number(1234567) == "1,234,567"
    assert markup.number(0.25) == "0.25"
    assert markup.number(0.1234567) == "0.1234567"
    assert markup.number(0.1 + 0.2) == "0.3"
    assert markup.number(1e6) == "1,000,000"
    assert markup.number(None) == "–"
    assert [markup.percent(one) for one in (None, 0.0, 0.004, 0.5, 1.0)] == [
        *("–", "0 %", "< 1 %", "50 %", "100 %")
    ]
    assert markup.count(1, "job") == "1 job"
    assert markup.count(0, "job") == "0 jobs"


def test_moments_are_those_of_the_readers_clock(settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"

    assert markup.stamp(NOW) == "2026-11-30 18:00:00"
    assert markup.clock(NOW) == "18:00"
    assert "(in 60 s)" in markup.when(NOW + timedelta(minutes=1), NOW)
    assert "(3 min ago)" in markup.when(NOW - timedelta(minutes=3), NOW)
    assert markup.when(None) == markup.NOTHING
    assert ">3 min ago<" in markup.relative(NOW - timedelta(minutes=3), NOW)


def test_without_time_zones_the_history_is_of_the_projects_zone(settings: Any) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = "Europe/Berlin"

    assert markup.aware(datetime(2026, 11, 30, 18)) == NOW  # noqa: DTZ001
    assert markup.aware(NOW) is NOW
    assert markup.aware(None) is None


def test_names_stand_for_themselves() -> None:
    assert markup.name("") == markup.NOTHING
    assert markup.name("<b>") == '<bdi dir="auto">&lt;b&gt;</bdi>'
    long = "a" * 60 + "z" * 60
    assert f'title="{long}"' in markup.name(long)
    assert len(markup.cut(long)) == markup.LONGEST_NAME
    assert markup.cut(long).endswith("zz")
    assert '""' in markup.key_name("")
    assert markup.spoken("") == '\u2068""\u2069'
