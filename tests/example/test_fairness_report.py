from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from example_project import fairness_report as report
from example_project.fairness_report import Run, Waits


def run(arrival: float, seconds: float, *, start: float = 0.0, tenant: str = "a") -> Run:
    return Run(tenant=tenant, arrival=arrival, start=start, end=start + seconds)


def test_one_worker_takes_jobs_as_they_arrived() -> None:
    runs = [run(0, 10), run(1, 5), run(2, 1), run(100, 1)]

    assert report.fifo_starts(runs, 1) == [0, 10, 15, 100]


def test_the_next_job_goes_to_the_worker_that_is_free_first() -> None:
    runs = [run(0, 10), run(0, 2), run(0, 2), run(0, 1), run(0, 1)]

    assert report.fifo_starts(runs, 2) == [0, 0, 2, 4, 5]


def test_the_order_of_the_list_does_not_matter_only_that_of_arrival() -> None:
    runs = [run(2, 1), run(0, 10), run(1, 5)]

    assert report.fifo_starts(runs, 1) == [15, 0, 10]


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 20)).map(lambda pair: run(*pair)), min_size=1
    ),
    st.integers(1, 5),
)
def test_fifo_never_starts_a_job_early_out_of_order_or_on_a_busy_worker(
    runs: list[Run], workers: int
) -> None:
    starts = report.fifo_starts(runs, workers)
    order = sorted(range(len(runs)), key=lambda place: runs[place].arrival)

    assert all(start >= run.arrival for start, run in zip(starts, runs, strict=True))
    assert [starts[place] for place in order] == sorted(starts)
    ends = [start + run.end - run.start for start, run in zip(starts, runs, strict=True)]
    for moment in starts:
        busy = sum(start <= moment < end for start, end in zip(starts, ends, strict=True))
        assert busy <= workers


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 50), (95, 95), (99, 99), (100, 100), (0.5, 1), (0, 1)]
)
def test_percentiles_of_1_to_100(percent: float, expected: int) -> None:
    assert report.percentile(range(100, 0, -1), percent) == expected


def test_percentiles_of_few_values() -> None:
    assert report.percentile([3.0], 50) == 3.0
    assert [report.percentile([1, 2, 3], p) for p in (33, 50, 95)] == [1, 2, 3]


def test_the_comparison_adds_up() -> None:
    runs = [
        run(0, 4, start=0, tenant="big"),
        run(0, 4, start=4, tenant="big"),
        run(0, 4, start=10, tenant="big"),
        run(1, 2, start=8, tenant="small"),
    ]

    big, small = report.compare(runs, 1)

    assert (big.tenant, big.jobs) == ("big", 3)
    assert big.fair == Waits(p50=4, p95=10, longest=10)
    assert big.fifo == Waits(p50=4, p95=8, longest=8)
    assert (small.tenant, small.jobs) == ("small", 1)
    assert small.fair == Waits(p50=7, p95=7, longest=7)
    assert small.fifo == Waits(p50=11, p95=11, longest=11)


def test_who_begins_while_a_tenant_waits_overtakes_it() -> None:
    runs = [
        run(0, 1, start=0, tenant="big"),
        run(0, 1, start=2, tenant="big"),
        run(0, 1, start=3, tenant="big"),
        run(0, 1, start=9, tenant="big"),
        run(1, 1, start=2.5, tenant="small"),
        run(1, 1, start=4, tenant="small"),
    ]

    assert report.overtaken(runs, "small") == 2
    assert report.overtaken(runs, "big") == 2
    assert report.most_overtaken(2, 1) == 6


def test_the_table_shows_every_figure_in_its_column() -> None:
    runs = [run(0, 3, tenant="big"), run(1, 2, start=1.5, tenant="a longer name")]

    lines = report.table(report.compare(runs, 1)).splitlines()

    assert lines[3].split() == ["a", "longer", "name", "1", "|", *["0.50"] * 3, "|", *["2.00"] * 3]
    assert lines[4].split() == ["big", "1", "|", *["0.00"] * 3, "|", *["0.00"] * 3]
    assert len({line.rindex("|") for line in lines[3:]}) == 1


def test_the_longest_bar_is_full_and_the_shortest_is_still_there() -> None:
    assert report.bar(1.0) == "█" * report.BAR_WIDTH
    assert report.bar(0.5) == "█" * (report.BAR_WIDTH // 2)
    assert report.bar(0.0) == "▏"
    assert report.bar(1.0, unicode=False) == "#" * report.BAR_WIDTH
    assert report.bar(0.0, unicode=False) == "#"


@given(st.floats(0, 1))
def test_a_bar_is_as_long_as_its_part(part: float) -> None:
    drawn = report.bar(part)
    length = sum(1 if c == "█" else report.EIGHTHS.index(c) / 8 for c in drawn)

    assert math.isclose(length, part * report.BAR_WIDTH, abs_tol=0.13)


def test_the_picture_puts_all_tenants_on_one_scale() -> None:
    runs = [
        run(0, 10, start=0, tenant="big"),
        run(0, 10, start=10, tenant="big"),
        run(1, 1, start=3.5, tenant="small"),
    ]

    rows = report.picture(report.compare(runs, 1), unicode=False).splitlines()

    width = {name: row.count("#") for name, row in zip("ABCDEF", rows, strict=True)}
    assert width["F"] == report.BAR_WIDTH  # small, FIFO: 19 s, the longest
    assert width["E"] == round(2.5 / 19 * report.BAR_WIDTH)
    assert width["B"] == width["C"] == round(10 / 19 * report.BAR_WIDTH)
    assert rows[5].endswith("19.00 s")


def test_without_any_wait_there_is_still_a_picture() -> None:
    assert "0.00 s" in report.picture(report.compare([run(0, 1)], 1))


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("utf-8", True), ("ascii", False), ("latin-1", False), (None, False), ("no such", False)],
)
def test_bars_need_an_encoding_that_has_them(encoding: str | None, expected: bool) -> None:
    assert report.can_show_bars(encoding) is expected
